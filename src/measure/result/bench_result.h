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
  std::string pcie_link = {};      ///< "Gen5 ×4 of ×16"; "Gen5 ×16": all lanes are in use; empty: unknown
};

/// One quantity, the median of several runs.
struct Figure {
  std::string benchmark, name;     ///< "bandwidth", "host_to_device_memcpy_ce": together one quantity
  std::string label;               ///< for people: "host to device, pinned"
  std::optional<int64_t> device, peer;   ///< as CUDA counts; peer: where copies to another device go
  std::optional<int64_t> node;     ///< memory node of the host
  std::optional<bool> near = {};   ///< of a copy to or from a node: it is the device's own; none: unknown
  std::optional<int64_t> rank = {}, peer_rank = {};   ///< of a job that a launcher started; peer_rank: where it sends
  std::optional<int64_t> ranks = {};      ///< of a figure of several devices together: how many
  std::string link = {};           ///< of a pair, as `profgpu devices` names it: "NV18", "PIX"; empty: unknown. Of a
                                   ///< collective what its ranks share: "NV18", "PCIe", "8 NICs"
  std::optional<double> link_gbps = {};   ///< what that moves at most: in one direction, of both directions in both
  std::string unit;                ///< "GB/s", "TFLOP/s", "TOP/s", "%": higher is better; "ns", "B": lower is
  double value = 0;
  double best = 0;                 ///< of all runs
  double spread_pct = 0;           ///< interquartile range, of the median
  int64_t runs = 0, outliers = 0;  ///< outliers: runs that took over 1.5 times the median; they count
  std::string precision;           ///< of products: "bf16"
  std::string cache = {};          ///< "warm", "cold": whether the device's caches had what was used; empty: neither
  std::optional<int64_t> size = {};       ///< of a message in bytes, of a square matrix, of data in elements
  std::optional<double> algbw_gbps = {};  ///< of a collective: bytes over time, as nccl-tests define it
  std::optional<double> in_trace = {};    ///< what the job reached that a product was taken from
  std::string used_by = {};        ///< what else computed on the device meanwhile: such a figure is not judged
  DeviceReadings readings = {};

  [[nodiscard]] bool higher_is_better() const { return unit != "ns" && unit != "B"; }
  /// Between devices: "NVLink", "XGMI", "PCIe"; empty: unknown. Others are not compared with each other.
  [[nodiscard]] std::string_view link_class() const;
  /// How much of its link a rate reaches; none: the link or its rate is unknown.
  [[nodiscard]] std::optional<double> link_share_pct() const;
  /// What that is a share of: "18 NVLinks", "the PCIe link, Gen5 ×4 of ×16", "a host's 8 NICs".
  [[nodiscard]] std::string link_text() const;
  /// "GPU 0", "GPU 0→1", "node 1", "rank 3→4"; empty: of the machine.
  [[nodiscard]] std::string place() const;
  /// A value of this quantity: "55.3 GB/s".
  [[nodiscard]] std::string text_of(double of) const;
  [[nodiscard]] bool same_quantity(const Figure& other) const {
    return benchmark == other.benchmark && name == other.name && device == other.device && peer == other.peer &&
           node == other.node && rank == other.rank && peer_rank == other.peer_rank && ranks == other.ranks;
  }
  /// Of devices or ranks together: collectives, and what goes on beside them.
  [[nodiscard]] bool of_group() const;
  void fields(auto&& v) const {
    v("benchmark", benchmark), v("name", name), v("label", label), v("device", device), v("peer", peer);
    v("node", node), v("near", near), v("rank", rank), v("peer_rank", peer_rank), v("ranks", ranks);
    v("link", unless_empty(link));
    v("link_gbps", link_gbps), v("link_share_pct", link_share_pct());
    v("unit", unit), v("value", value), v("best", best), v("spread_pct", spread_pct);
    v("runs", runs);
    v("outliers", outliers), v("precision", unless_empty(precision)), v("cache", unless_empty(cache));
    v("size", size);
    v("algbw_gbps", algbw_gbps), v("in_trace", in_trace), v("used_by", unless_empty(used_by));
    v("sm_clock_mhz", readings.sm_clock_mhz), v("power_w", readings.power_w);
    v("temperature_c", readings.temperature_c);
    v("held_back_by", unless_empty(readings.held_back_by)), v("pcie_link", unless_empty(readings.pcie_link));
    v("pcie_link_gbps", readings.pcie_gbps);
  }
};

/// kSkipped: it was not tried, as an option or a device is absent that it needs. kWrong: its results were wrong.
/// kLost: the device does not work any more. kHang: a call did not return, and nothing after it was measured.
enum class MissKind : uint8_t { kFailed, kSkipped, kWrong, kLost, kHang };
std::string_view miss_name(MissKind kind);

struct NotMeasured {
  std::string benchmark;
  std::string label;               ///< of the figure; empty: the whole benchmark
  std::optional<int64_t> device;
  std::string why, hint;
  MissKind kind = MissKind::kFailed;

  /// A device, a link or a library is at fault, not what was asked for.
  [[nodiscard]] bool is_fault() const { return kind >= MissKind::kWrong; }
  /// "all-reduce 1.00 MiB, busbw", "GPU 1: bandwidth".
  [[nodiscard]] std::string what() const;
  void fields(auto&& v) const {
    v("benchmark", benchmark), v("label", unless_empty(label)), v("device", device), v("why", why);
    v("hint", unless_empty(hint)), v("kind", miss_name(kind));
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
  std::string governor = {};       ///< of the processors' clocks: "powersave"; empty: unknown

  void fields(auto&& v) const {
    v("host", host), v("kernel", kernel), v("processor", processor), v("cores", cores), v("memory_bytes", memory_bytes);
    v("cuda", unless_empty(cuda)), v("driver", unless_empty(driver)), v("governor", unless_empty(governor));
  }
};

struct BenchResult {
  int64_t unix_ns = 0;             ///< when it began
  bool simulated = false;          ///< measured against a stand-in for the driver: no device is behind it
  bool full = false;
  bool interrupted = false;        ///< it ended before all was measured
  bool selected = false;           ///< of some devices only: by --device, or a variable that hides others
  std::vector<int64_t> clocks_locked;    ///< devices whose clocks were locked meanwhile, as CUDA counts
  std::vector<std::string> benchmarks;   ///< that were to be run; empty: unknown
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

/// A result and an older one. Devices are the same by UUID; where the results have none in common, by number and name.
struct BenchComparison {
  std::vector<FigureChange> figures;     ///< of what both have, in the order of `after`
  std::vector<std::string> lost;         ///< what `before` has and a fault kept `after` from: "GPU 1: it does not …"
  std::vector<std::string> not_judged;   ///< and why: other devices, other processes
  std::vector<const Figure*> lost_figures;   ///< of `before`

  [[nodiscard]] bool any_worse() const;
};
BenchComparison compare_results(const BenchResult& before, const BenchResult& after);

/// A newer result in the place of an older one of the same machine: figures of `before` that `now` has not stay, as do
/// its devices. Those that another process disturbed do not replace others.
BenchResult merged_results(const BenchResult& before, BenchResult now);

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

/// Devices far below the rates that their vendor gives for their kind, as all of a machine's may be: "GPU 0: bf16
/// 200 TFLOP/s, 20 % of the 989 TFLOP/s that are documented for H100 SXM".
std::vector<std::string> devices_below_their_kind(const BenchResult& result);

/// Devices whose figures another process disturbed: "GPU 1 is used by python (pid 4711)".
std::vector<std::string> disturbed_places(const BenchResult& result);

/// Of results of several machines with devices of the same names.
struct MachineComparison {
  /// Where a machine, or a device of it, is slower than the median of the others, the worst first: "node7: host to
  /// device, pinned 20.0 GB/s, the other machines 55.0 GB/s (64 % worse)", "node7: GPU 3: …".
  std::vector<std::string> slow;
  std::vector<std::string> missing;      ///< faults, and what a machine lacks that others have
  std::vector<std::string> not_judged;
};
/// An error if no two machines have a figure in common.
Result<MachineComparison> compare_machines(const std::vector<BenchResult>& all);

}  // namespace profgpu
