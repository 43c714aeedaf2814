// LiveView: what is now, from wherever it comes: this machine's devices, a recording, exporters of other machines. The
// screen of `profgpu top` knows no more than this.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "devices/backend.h"
#include "devices/host_process.h"
#include "trace/sample.h"
#include "watch/live/snapshot.h"

namespace profgpu {

/// The newest value of each metric, by Metric. Of what a driver kept since the reading before: the mean over time.
using NewestValues = std::array<std::optional<double>, kMetricCount>;

struct LiveProcess {
  ProcessSample sample;
  HostProcess host;                 ///< what is not known is empty
};

struct LiveDevice {
  std::shared_ptr<const DeviceInfo> info;   ///< never null; the same object as long as nothing of it changes
  size_t host = 0;                  ///< position in LiveView::hosts
  DeviceState state = DeviceState::kOk;
  std::string trouble;              ///< "GPU is lost"; empty if it is well
  int64_t since_ns = 0;             ///< Unix time of the last good answer; 0: none yet
  int64_t time_ns = 0;              ///< Unix time of the newest reading; 0: none yet
  std::array<int64_t, kMetricCount> read_ns = {};   ///< Unix time of the reading that each value is from
  NewestValues values = {};         ///< constants of `info` are not repeated here
  bool has_processes = false;       ///< they are known, even if there are none
  std::vector<LiveProcess> processes;

  /// The newest value, else the constant of that name.
  [[nodiscard]] std::optional<double> value(Metric metric) const {
    const auto& newest = values[static_cast<size_t>(metric)];
    return newest ? newest : info->constant(metric);
  }
  /// Time that it was busy; of a MIG instance, of which drivers do not say it, what its counters of activity say.
  [[nodiscard]] std::optional<double> busy_pct() const {
    for (const Metric m : {Metric::kUtilization, Metric::kGraphicsActive, Metric::kSmActive})
      if (const auto pct = value(m)) return pct;
    return std::nullopt;
  }
};

struct LiveHost {
  std::string name;
  std::string driver;               ///< empty: not known, or not the same for all devices
  std::string trouble;              ///< why nothing new comes: "does not answer since 14:03:22"; empty: it is well
  bool here = false;                ///< the processes are this machine's: they can be sent signals
};

struct LiveView {
  int64_t time_ns = 0;              ///< Unix time at which this was so
  std::vector<LiveHost> hosts;      ///< at least one
  std::vector<LiveDevice> devices;  ///< by host; a position means the same device in all views of a source
  /// Parents of processes on devices that are on no device themselves: torchrun, srun's step, a shell. Of this machine.
  std::vector<HostProcess> parents;
  /// What else is to be said, a line each, most important first: steps and phases of a job that is watched.
  std::vector<std::string> lines;
  bool ended = false;               ///< no more will come
};

/// How two devices reach each other: by position in LiveView::devices, row by column, as `nvidia-smi topo -m` names it.
/// Empty: not known.
using LiveTopology = std::vector<std::vector<std::string>>;

/// Where views come from. What waits (drivers, /proc, the network) is done by threads of the source's own: none of
/// these calls waits, so that keys and drawing go on whatever hangs. They are for one thread.
class LiveSource {
 public:
  virtual ~LiveSource() = default;
  /// Begins. `news` is called, by any thread, whenever there is a new view; it returns at once. Once only.
  virtual void start(std::function<void()> news) = 0;
  /// What is known by now. Before anything is, devices are there without values.
  virtual LiveView view() = 0;
  /// What does not change, where it is known by now.
  virtual LiveTopology topology() { return {}; }
  /// Whether a view now has all that a first view will have.
  [[nodiscard]] virtual bool complete() const = 0;
  /// Ends. True: a thread hangs in a driver, so that the program should leave with std::_Exit.
  virtual bool stop() = 0;
  /// Between views, as far as the source can tell.
  [[nodiscard]] virtual int64_t interval_ns() const = 0;
  virtual void set_interval(int64_t interval_ns) = 0;
};

}  // namespace profgpu
