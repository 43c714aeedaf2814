// Runs a command once or several times and samples the devices meanwhile.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "analyse/rank/telemetry.h"
#include "base/descriptor.h"
#include "base/result.h"
#include "devices/sampler.h"
#include "trace/sample_file.h"
#include "watch/live/child_process.h"

namespace profgpu {

/// The file that a run's samples are written to as they arrive.
class SampleOutput {
 public:
  /// Replaces the file. CSV or JSON lines, by its ending. A pipe must have a reader within a few seconds.
  /// `host`: see SampleWriter.
  static Result<std::unique_ptr<SampleOutput>> open(const std::string& path, const std::vector<DeviceInfo>& devices,
                                                    std::string_view host);

  /// Whole rows only: the first that cannot be written ends the file, and so does a pipe whose reader takes nothing for
  /// a second; problem() says why.
  void add(const Reading& reading);
  void mark(int64_t time_ns, std::string_view name);
  [[nodiscard]] const std::string& path() const { return path_; }
  /// Rows written.
  [[nodiscard]] int64_t rows() const { return rows_; }
  /// Empty: none.
  [[nodiscard]] const std::string& problem() const { return problem_; }

 private:
  SampleOutput(std::string path, Descriptor file, SampleWriter writer)
      : path_(std::move(path)), file_(std::move(file)), writer_(std::move(writer)) {}
  void write(std::string_view row);

  std::string path_, problem_;
  Descriptor file_;
  SampleWriter writer_;
  int64_t size_bytes_ = 0, rows_ = 0;
};

struct RunSessionOptions {
  std::vector<std::string> command;
  int64_t interval_ns = 200'000'000;
  int64_t warmup_ns = 0;  ///< of each run, excluded from device figures
  int repeats = 1;
  int warmup_runs = 0;               ///< before those, not sampled
  std::shared_ptr<Backend> backend;  ///< null: nothing is sampled
  std::vector<uint32_t> devices;     ///< positions
  SampleOutput* samples = nullptr;
  std::function<void(const std::string&)> warn;  ///< about a problem that does not end the run; one line
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
  size_t processes_left = 0;  ///< started by the command and still running
  bool replay_ended = false;  ///< before the command did
  bool stuck = false;         ///< a driver call has not returned: leave by std::_Exit
};

/// A run that fails or is interrupted is the last.
RunSession run_session(CommandRunner& runner, const RunSessionOptions& options);

}  // namespace profgpu
