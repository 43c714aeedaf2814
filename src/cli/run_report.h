// What `profgpu run` reports in the end: profgpu.run.v1, and the same for a person.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "analyse/rank/telemetry.h"
#include "analyse/report/document.h"
#include "cli/device_options.h"
#include "cli/run_options.h"
#include "cli/run_recording.h"
#include "watch/live/run_session.h"

namespace profgpu {

/// How a figure varies from run to run.
struct Spread {
  std::vector<std::optional<double>> values;    ///< of each run
  std::optional<double> mean, std, min, max;    ///< of those that are known; std: n - 1

  template <class V>
  void fields(V&& v) const {
    v("mean", mean), v("std", std), v("min", min), v("max", max), v("values", values);
  }
};

/// Units: percent, watts, joules, MiB, degrees Celsius.
struct DeviceSpread {
  uint32_t device = 0;   ///< its index
  std::string label;
  Spread util_gpu, power, energy, peak_memory, peak_temp;

  template <class V>
  void fields(V&& v) const {
    v("device", device), v("label", label), v("util_gpu", util_gpu), v("power", power), v("energy", energy);
    v("peak_memory", peak_memory), v("peak_temp", peak_temp);
  }
};

struct RunStatistics {
  Spread duration;       ///< seconds
  std::vector<DeviceSpread> devices;

  template <class V>
  void fields(V&& v) const {
    v("duration", duration), v("devices", devices);
  }
};

/// A process on a device.
struct RunProcess {
  ProcessTelemetry telemetry;
  std::string device;    ///< its label
  WatchedProcess known;

  template <class V>
  void fields(V&& v) const {
    v("pid", telemetry.process.pid), v("visible_pid", only_if(known.visible_pid > 0, known.visible_pid));
    v("name", unless_empty(telemetry.process.name)), v("device", device);
    v("memory_peak_bytes", telemetry.memory_peak_bytes), v("utilization_max_pct", telemetry.utilization_max_pct);
    v("of_command", known.of_command), v("unknown", unless_empty(known.unknown));
  }
};

struct RunReport {
  const RunOptions& options;
  const OpenDevices& open;
  const RunSession& session;
  const RunRecording* recording;   ///< null without --trace
  std::vector<std::string> notes = {};
  std::vector<Finding> findings = {};
  std::optional<RunStatistics> statistics = {};   ///< of --repeats
  std::vector<RunProcess> processes = {};
  std::vector<std::string> next = {};
  /// All energy of the run, start and end included, over the steps that were recorded; none: neither is known.
  std::optional<double> energy_per_step_j = {};

  /// The document's file; empty: none.
  [[nodiscard]] std::string summary_path() const;
};

/// Adds the sampler's device errors to the session's devices.
RunReport run_report(const RunOptions& options, const OpenDevices& open, RunSession& session,
                     const RunRecording* recording, std::vector<std::string> notes);

/// profgpu.run.v1, one line.
std::string run_json(const RunReport& report);

/// The same for a person, with escape sequences where `colour`.
std::string run_text(const RunReport& report, int width, bool colour);

}  // namespace profgpu
