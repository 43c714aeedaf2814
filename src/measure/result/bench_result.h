// What `profgpu bench` found: figures with their spread, what could not be measured, and comparisons of figures.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "analyse/report/document.h"
#include "base/result.h"

namespace profgpu {

/// What a device said while a figure was measured; unknown values are absent.
struct DeviceReadings {
  std::optional<double> sm_clock_mhz, power_w, temperature_c;   ///< means; of the temperature the highest
  std::string held_back_by;        ///< what kept clocks down: "the power limit"; empty: nothing, or unknown
  std::optional<double> pcie_gbps; ///< what the link moves at most in one direction, by its generation and width
};

/// One quantity, the median of several runs.
struct Figure {
  std::string benchmark, name;     ///< "bandwidth", "host_to_device_memcpy_ce": together one quantity
  std::string label;               ///< for people: "host to device, pinned"
  std::optional<int64_t> device, peer;   ///< as CUDA counts; peer: where copies to another device go
  std::optional<int64_t> node;     ///< memory node of the host
  std::optional<int64_t> rank = {}, peer_rank = {};   ///< of a job that a launcher started; peer_rank: where it sends
  std::string link = {};           ///< of a pair, as `profgpu devices` names it: "NV18", "PIX"; empty: unknown
  std::optional<double> link_gbps = {};   ///< what the pair's NVLinks move at most in one direction
  std::string unit;                ///< "GB/s", "TFLOP/s", "TOP/s", "%": higher is better; "ns": lower is
  double value = 0;
  double best = 0;                 ///< of all runs
  double spread_pct = 0;           ///< interquartile range, of the median
  int64_t runs = 0, outliers = 0;  ///< outliers: runs that took over 1.5 times the median; they count
  std::string precision;           ///< of products: "bf16"
  std::optional<int64_t> size = {};       ///< of a message in bytes, of a square matrix, of data in elements
  std::optional<double> in_trace = {};    ///< what the job reached that a product was taken from
  DeviceReadings readings = {};

  [[nodiscard]] bool higher_is_better() const { return unit != "ns"; }
  /// Between devices: "NVLink", "XGMI", "PCIe"; empty: unknown. Others are not compared with each other.
  [[nodiscard]] std::string_view link_class() const;
  /// "GPU 0", "GPU 0→1", "node 1", "rank 3→4"; empty: of the machine.
  [[nodiscard]] std::string place() const;
  /// A value of this quantity: "55.3 GB/s".
  [[nodiscard]] std::string text_of(double of) const;
  [[nodiscard]] bool same_quantity(const Figure& other) const {
    return benchmark == other.benchmark && name == other.name && device == other.device && peer == other.peer &&
           node == other.node && rank == other.rank && peer_rank == other.peer_rank;
  }
  void fields(auto&& v) const {
    v("benchmark", benchmark), v("name", name), v("label", label), v("device", device), v("peer", peer);
    v("node", node), v("rank", rank), v("peer_rank", peer_rank), v("link", unless_empty(link));
    v("link_gbps", link_gbps), v("unit", unit), v("value", value), v("best", best), v("spread_pct", spread_pct);
    v("runs", runs);
    v("outliers", outliers), v("precision", unless_empty(precision)), v("size", size);
    v("in_trace", in_trace);
    v("sm_clock_mhz", readings.sm_clock_mhz), v("power_w", readings.power_w);
    v("temperature_c", readings.temperature_c);
    v("held_back_by", unless_empty(readings.held_back_by)), v("pcie_link_gbps", readings.pcie_gbps);
  }
};

struct NotMeasured {
  std::string benchmark;
  std::string label;               ///< of the figure; empty: the whole benchmark
  std::optional<int64_t> device;
  std::string why, hint;

  void fields(auto&& v) const {
    v("benchmark", benchmark), v("label", unless_empty(label)), v("device", device), v("why", why);
    v("hint", unless_empty(hint));
  }
};

struct MeasuredDevice {
  int64_t index = 0;               ///< as CUDA counts
  std::string name, uuid, pci_bus_id, compute_capability;
  int64_t memory_bytes = 0, multiprocessors = 0;
};

/// A process of a job, with its device.
struct MeasuredRank {
  int64_t rank = 0;
  std::string host;
  int64_t device = 0;              ///< as CUDA counts there
  std::string name, uuid;

  void fields(auto&& v) const {
    v("rank", rank), v("host", host), v("device", device), v("name", name), v("uuid", unless_empty(uuid));
  }
};

struct MachineDescription {
  std::string host, kernel, processor;
  int64_t cores = 0, memory_bytes = 0;
  std::string cuda, driver;        ///< versions; empty: none

  void fields(auto&& v) const {
    v("host", host), v("kernel", kernel), v("processor", processor), v("cores", cores), v("memory_bytes", memory_bytes);
    v("cuda", unless_empty(cuda)), v("driver", unless_empty(driver));
  }
};

struct BenchResult {
  int64_t unix_ns = 0;             ///< when it began
  bool simulated = false;          ///< measured against a stand-in for the driver: no device is behind it
  bool full = false;
  MachineDescription machine;
  std::vector<MeasuredDevice> devices;
  std::vector<MeasuredRank> ranks; ///< of a job that was measured; empty: only this machine
  std::vector<Figure> figures;
  std::vector<NotMeasured> not_measured;
  std::vector<std::string> notes;  ///< what else may have changed the figures
};

/// profgpu.bench.v1. `devices` is also what a file of peaks holds: dense rates of products, and memory bandwidth.
std::string bench_json(const BenchResult& result);
Result<BenchResult> bench_from_json(std::string text, std::string_view path);
Result<BenchResult> read_bench(const std::string& path);

// Comparisons.

/// Beyond this and the spreads of both, a difference is real.
constexpr double kRealChange_pct = 3;
/// Beyond this a device is slow.
constexpr double kSlowDevice_pct = 10;

struct FigureChange {
  const Figure* after;
  double change_pct = 0;           ///< of the value
  int verdict = 0;                 ///< 1 better, -1 worse, 0 no real difference
};
/// Of what both have, in the order of `after`.
std::vector<FigureChange> changes(const BenchResult& before, const BenchResult& after);

struct SlowFigure {
  const Figure* figure;
  double others = 0;               ///< the median of the same quantity on other devices of that name, or pairs
  double behind_pct = 0;           ///< how much worse

  /// "GPU 1: host to device, pinned 20.0 GB/s, the others 55.0 GB/s (64 % worse)"
  [[nodiscard]] std::string text() const;
};
/// Devices, and pairs of them or of ranks, that are slower than the others of their kind; the worst first. Pairs of a
/// slow place are left out.
std::vector<SlowFigure> slow_figures(const BenchResult& result);

/// A GPU, rank or host all of whose pairs are slow: "node7: its 8 pairs with other hosts reach 11.2 GB/s, pairs of
/// other hosts 48.9 GB/s (77 % worse)". One host stands for all its ranks.
std::vector<std::string> slow_places(const BenchResult& result);

/// Of results of several machines: figures by which a machine is slower than the median of the others with devices of
/// the same name, the worst first. "node7: host to device, pinned 20.0 GB/s, the other machines 55.0 GB/s (64 % worse)"
/// An error if no two machines have a figure in common.
Result<std::vector<std::string>> slow_machines(const std::vector<BenchResult>& all);

}  // namespace profgpu
