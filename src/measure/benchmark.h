// Benchmark: one thing to measure of a machine, and Bench, what it measures with.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "measure/clock_lock.h"
#include "measure/cuda_library.h"
#include "measure/device_watch.h"
#include "measure/rank_exchange.h"
#include "measure/repetition.h"
#include "measure/result/bench_result.h"

namespace profgpu {

/// A product that a job runs, and how long.
struct WantedProduct {
  std::string precision;            ///< "bf16"
  int64_t m = 0, n = 0, k = 0, batch = 1;
  int64_t calls = 0, device_ns = 0; ///< all calls together

  [[nodiscard]] bool same_product(const WantedProduct& o) const {
    return precision == o.precision && m == o.m && n == o.n && k == o.k && batch == o.batch;
  }
};

struct BenchOptions {
  std::vector<std::string> names;   ///< of benchmarks; empty: all that need no further option
  bool full = false;
  std::string path;                 ///< a file or folder whose reading is measured; empty: none
  int64_t duration_ns = 600'000'000'000;  ///< of burn
  std::vector<WantedProduct> products;    ///< of a job: matmul measures these
  int64_t patience_ns = 60'000'000'000;   ///< a call that takes longer hangs
  std::optional<LaunchedRank> launched;   ///< one of a job's ranks: collectives are over all of them
  bool lock_clocks = false;         ///< while devices are measured, where this user may
  std::string rendezvous;           ///< a file that these see; empty: the launcher says where rank 0 is
  std::string wanted;               ///< devices, as --device names them; empty: all that CUDA shows
  std::vector<uint32_t> only;       ///< the same by position in the backend; empty: it has none of them
};

class Bench;

struct Benchmark {
  std::string_view name;
  std::string_view summary;         ///< one line
  bool of_devices = true;           ///< needs a GPU
  bool needs_path = false;
  bool only_named = false;          ///< takes too long to be run unasked
  void (*run)(Bench&);
};
/// In the order in which they run.
const std::vector<const Benchmark*>& benchmarks();

/// A device that is measured. Lost: a call failed, and so does every further one.
struct BenchDevice {
  std::unique_ptr<cuda::Device> cuda;
  std::optional<uint32_t> watched;  ///< position in the watch
  bool lost = false;
  std::optional<double> context_bytes = {};   ///< what its context took of its memory; none: unknown
};

class Bench {
 public:
  Bench(BenchOptions options, std::shared_ptr<Backend> backend);

  /// Measures one figure: its time, or `amount` per nanosecond where that is not 0. What it needs beside `figure`'s
  /// names are `run`'s own times; a failure is noted in the figure's place.
  /// What was added; none: it failed.
  std::optional<Figure> measure(Figure figure, double amount, const TimedRun& run) {
    return measure(std::move(figure), amount, run, Clock::kEvents);
  }
  /// kHost: the time for the figure is counted by the host's clock, whatever the devices' driver is.
  enum class Clock { kEvents, kHost };
  std::optional<Figure> measure(Figure figure, double amount, const TimedRun& run, Clock clock);
  /// Says what is under way, where that is no figure.
  void begin(const Figure& figure);
  /// What is under way waits for others, and has a deadline of its own; false: no longer.
  void wait_for_others(bool waits);
  /// How copies of `from` reach `to`: fills in the figure's link.
  void note_link(Figure& figure, const BenchDevice& from, const BenchDevice& to);
  /// What the devices at these positions in the watch have in common.
  [[nodiscard]] GroupLink link_of_group(const std::vector<uint32_t>& all) const { return watch_->link_of_group(all); }
  /// Position of a device in the watch.
  [[nodiscard]] std::optional<uint32_t> watched(const std::string& uuid) const {
    return watch_ ? watch_->find(uuid, "") : std::nullopt;
  }
  /// What computes on the figure's devices beside this program; of several devices together on any of them.
  [[nodiscard]] std::string others_on(const Figure& figure) const;
  /// Adds a figure that was measured otherwise.
  void add(Figure figure);
  void add(MeasuredRank rank);
  /// Adds it, or puts it into the place of what there was of the same quantity: so far.
  void put(Figure figure);
  /// What else people should know. A later note of the same key takes its place; empty: none any more.
  void note(std::string text, const std::string& key = "");
  /// What the device said since then (Unix time).
  [[nodiscard]] DeviceReadings readings(const BenchDevice& device, int64_t from_ns) const;
  [[nodiscard]] DeviceFaults faults(const BenchDevice& device, int64_t from_ns) const;
  /// Notes why there is no such figure. Of a lost device that is known.
  void miss(const Figure& figure, const Error& why, MissKind kind = MissKind::kFailed);
  /// False, and it is noted, where no time is left for the figure.
  bool has_time_for(const Figure& figure);
  /// The devices that still work. Calls are for the one given until the next.
  void each_device(const std::function<void(BenchDevice&)>& of);
  [[nodiscard]] Figure figure(std::string name, std::string label, const cuda::Device* device = nullptr,
                              std::string unit = "ns") const;

  /// Opens the devices, once. Benchmarks of devices run only if it works.
  Status open();
  /// The devices are AMD's.
  [[nodiscard]] bool hip() const { return library_ && library_->hip(); }
  /// Runs `benchmark`. Devices are opened by the first that needs them.
  void run(const Benchmark& benchmark);

  // For the thread that waits.
  void give_up(const Figure& figure, const Error& why, MissKind kind);
  [[nodiscard]] BenchResult result() const;
  /// The figure that is under way, and since when (monotonic).
  struct Now {
    Figure figure;
    int64_t since_ns = 0;
  };
  [[nodiscard]] Now now() const;
  [[nodiscard]] bool any_stuck() const { return watch_ && watch_->any_stuck(); }

  const BenchOptions options;
  std::vector<BenchDevice> devices;
  const std::shared_ptr<ClockLock> clocks = std::make_shared<ClockLock>();   ///< released by the thread that waits

 private:
  Status open_devices();
  void open_device(int index);
  [[nodiscard]] bool is_wanted(const cuda::Device& device, const std::optional<uint32_t>& watched) const;
  void note_others(const BenchDevice& device);
  void note_placement(const cuda::Device& device);
  void note_link_lanes(const BenchDevice& device, const Figure& figure);
  void lock_clocks(const cuda::Device& device);
  void note_pcie_pair(Figure& figure, int64_t from_ns);
  bool found_lost(const Figure& figure, const Error& failure);
  BenchDevice* device_of(const Figure& figure);
  [[nodiscard]] bool out_of_time() const;
  [[nodiscard]] int64_t now_ns() const { return library_ ? library_->now_ns() : monotonic_ns(); }

  std::shared_ptr<cuda::Library> library_;
  std::shared_ptr<Backend> backend_;
  std::unique_ptr<DeviceWatch> watch_;
  std::string benchmark_;           // that runs
  std::map<std::string, std::string> lock_notes_;   // devices, by why their clocks are not locked; empty: they are
  std::optional<Status> opened_;    // devices: none: not tried yet
  int64_t begun_ns_;                // monotonic

  mutable std::mutex mutex_;        // of what follows
  BenchResult result_;
  std::vector<std::pair<std::string, std::string>> notes_;   // by key
  Now now_;
};

struct BenchEnd {
  BenchResult result;
  bool stopped = false;             ///< `stop` said so: the result is what there was by then
};
/// Runs the benchmarks that `options` names on a thread of its own. `stop` gets what is under way ten times a second,
/// and true ends it. A call that does not return is reported, and left in the driver.
BenchEnd run_benchmarks(const BenchOptions& options, std::shared_ptr<Backend> backend,
                        const std::function<bool(const Bench::Now&)>& stop);

}  // namespace profgpu
