// What `profgpu stat` shows: devices as they are now, with the processes on them and what the host knows of those.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cli/device_options.h"
#include "devices/host_process.h"
#include "view/layout.h"
#include "watch/live/snapshot.h"

namespace profgpu {

struct StatProcess {
  ProcessSample sample;
  HostProcess host;

  template <class V>
  void fields(V&& v) const;
};

struct StatDevice {
  const DeviceInfo* info = nullptr;
  DeviceLook look;
  std::vector<StatProcess> processes;   ///< most memory first

  /// The newest sample, else the constant of that name.
  [[nodiscard]] std::optional<double> value(Metric metric) const;
};

struct StatView {
  std::string host, driver;             ///< driver: empty if unknown or not the same for all
  const Backend* backend = nullptr;
  int64_t time_ns = 0;                  ///< Unix time
  std::vector<StatDevice> devices;
};

/// profgpu.stat.v1.
std::string stat_json(const StatView& view);
/// The keys and units of `gpustat --json`, so that what reads those reads this.
std::string gpustat_json(const StatView& view);

struct StatStyle {
  bool header = true, processes = true;
  bool fan = false, power = true, codec = false;            ///< columns; fan also where a device has one
  bool command = true, user = true, pid = true;             ///< of each process
  bool table = false;                                       ///< a table of processes below
};

/// `width` 0: as wide as it gets.
Lines stat_lines(const StatView& view, const StatStyle& style, int width);

/// Makes one view after the other. Must not outlive `open`.
class StatSource {
 public:
  StatSource(const OpenDevices& open, SnapshotOptions options);
  /// `processor`: also the processes' use of the processor, for which the first view looks twice, 0.1 s apart.
  StatView take(bool processor);
  [[nodiscard]] bool any_stuck() const { return snapshots_.any_stuck(); }

 private:
  void look_up(StatView& view);

  const OpenDevices& open_;
  Snapshots snapshots_;
  HostProcesses host_processes_;
  std::string host_, driver_;
  bool recorded_;
  bool first_ = true;
};

/// "2026-11-21T07:48:50.123+01:00"; without the zone and with microseconds as Python's isoformat() has it.
std::string iso_time(int64_t unix_ns, bool zone = true);

}  // namespace profgpu
