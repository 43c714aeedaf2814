// A command under watch: once or several times, with the devices sampled while it runs.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "analyse/telemetry.h"
#include "collect/sampler.h"
#include "live/child_process.h"
#include "live/run_session_processes.h"
#include "live/run_session_samples.h"

namespace profgpu {

struct RunSessionOptions {
  std::vector<std::string> command;
  int64_t interval_ns = 200'000'000;
  int64_t warmup_ns = 0;  ///< of each run, left out of what is said about devices
  int repeats = 1;
  int warmup_runs = 0;               ///< before those, not sampled
  std::shared_ptr<Backend> backend;  ///< null: nothing is sampled
  std::vector<uint32_t> devices;     ///< positions
  SampleOutput* samples = nullptr;
  std::function<void(const std::string&)> warn;  ///< something went wrong that does not end the run; one line
};

struct OneRun {
  CommandEnd end;
  int64_t begun_ns = 0;                  ///< Unix time
  std::vector<DeviceTelemetry> devices;  ///< in the order of RunSessionOptions::devices
};

struct RunSession {
  std::vector<OneRun> runs;  ///< those that count, in order
  std::optional<StartFailure> not_started;
  int failed_warmup_run = 0;             ///< the warm-up run that ended the session; 0: none did
  CommandEnd last;                       ///< of the last run of any kind
  std::vector<DeviceTelemetry> devices;  ///< over all runs that count
  std::map<int64_t, WatchedProcess> processes;
  std::vector<DeviceTrouble> troubles;
  SamplerStatistics sampler;  ///< counts are sums over runs, jitter is the worst run's
  int64_t sample_rows = 0;    ///< in the file of samples
  size_t processes_left = 0;  ///< that the command started and that still run
  bool replay_ended = false;  ///< before the command did
  bool stuck = false;         ///< a driver call has not come back: leave by std::_Exit
};

/// A run that fails, or that somebody interrupts, is the last.
RunSession run_session(CommandRunner& runner, const RunSessionOptions& options);

}  // namespace profgpu
