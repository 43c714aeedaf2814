// LiveView: the current state, from any source: this machine's devices, a replay, exporters of other machines. It is
// all that the screen of `profgpu top` knows.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "devices/backend.h"
#include "devices/host_load.h"
#include "devices/host_process.h"
#include "trace/sample.h"
#include "watch/live/snapshot.h"

namespace profgpu {

/// The newest value of each metric, by Metric. Of several samples that a driver kept since the last reading: their mean
/// over time.
using NewestValues = std::array<std::optional<double>, kMetricCount>;

struct LiveProcess {
  ProcessSample sample;
  HostProcess host;                 ///< unknown fields are empty
};

struct LiveDevice {
  std::shared_ptr<const DeviceInfo> info;   ///< never null; the same object as long as its content is the same
  size_t host = 0;                  ///< index in LiveView::hosts
  DeviceState state = DeviceState::kOk;
  std::string trouble;              ///< "GPU is lost"; empty: none
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
  /// Utilization; of a MIG instance, for which drivers report none, its counters of activity.
  [[nodiscard]] std::optional<double> busy_pct() const {
    for (const Metric m : {Metric::kUtilization, Metric::kGraphicsActive, Metric::kSmActive})
      if (const auto pct = value(m)) return pct;
    return std::nullopt;
  }
};

struct LiveHost {
  std::string name;
  std::string driver;               ///< empty: not known, or not the same for all devices
  std::string trouble;              ///< why there is no news: "does not answer since 14:03:22"; empty: none
  bool here = false;                ///< its processes run on this machine: they can be sent signals
  HostLoad load = {};               ///< of this machine only
};

struct LiveView {
  int64_t time_ns = 0;              ///< Unix time of this state
  std::vector<LiveHost> hosts;      ///< at least one
  std::vector<LiveDevice> devices;  ///< by host; an index means the same device in all views of a source
  /// Parents, on no device themselves, of processes on devices: torchrun, srun's step, a shell. Of this machine.
  std::vector<HostProcess> parents;
  /// Further lines, most important first: steps and phases of recorded jobs.
  std::vector<std::string> lines;
  bool ended = false;               ///< no more views will come
};

/// How two devices reach each other, by index in LiveView::devices, row by column, as `nvidia-smi topo -m` names it.
/// Empty: not known.
using LiveTopology = std::vector<std::vector<std::string>>;

/// A source of views. All that waits (drivers, /proc, the network) runs on the source's own threads: none of these
/// calls blocks, so that keys and drawing work whatever hangs. For one thread.
class LiveSource {
 public:
  virtual ~LiveSource() = default;
  /// Once only. Any thread calls `news`, which must return at once, whenever there is a new view.
  virtual void start(std::function<void()> news) = 0;
  /// The current state. At first, devices have no values.
  virtual LiveView view() = 0;
  /// Empty until it is known.
  virtual LiveTopology topology() { return {}; }
  /// Whether a view now would have everything that a first view can have.
  [[nodiscard]] virtual bool complete() const = 0;
  /// True: a thread hangs in a driver; leave the program by std::_Exit.
  virtual bool stop() = 0;
  /// Between views.
  [[nodiscard]] virtual int64_t interval_ns() const = 0;
  virtual void set_interval(int64_t interval_ns) = 0;
};

}  // namespace profgpu
