// `profgpu run --trace`: a recording from the options to the last line.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "analyse/report/report.h"
#include "cli/run_options.h"
#include "watch/live/host_recording.h"
#include "watch/live/recording_folder.h"
#include "watch/live/recording_summary.h"
#include "watch/live/run_session.h"

namespace profgpu {

/// A recording under way: its folder exists, and files in it are ours.
class RunRecording {
 public:
  /// `folder`: as typed; empty: a new one in the current folder.
  static Result<std::unique_ptr<RunRecording>> begin(const TraceOptions& options, const std::string& folder,
                                                     const std::vector<std::string>& command);
  [[nodiscard]] const RecordingFolder& folder() const { return folder_; }
  /// For the command; with notes on what another tool prevents.
  [[nodiscard]] const CommandEnvironment& environment() const { return environment_; }
  /// Writes the first session file and watches what is started from now on.
  Status start(const OpenDevices& open);
  /// The command could not be started: removes everything of ours.
  void cancel();
  /// Ends our files and reads what the processes recorded.
  Status finish(const RunSession& session);

  // Known after finish().

  [[nodiscard]] const std::vector<RecordedProcess>& processes() const { return summary_.processes; }
  /// Sums over the processes.
  [[nodiscard]] RecordedProcess total() const;
  /// No process recorded any event.
  [[nodiscard]] bool is_empty() const;
  /// No kernel was recorded since there is no GPU, which problems() reports.
  [[nodiscard]] bool has_no_device() const;
  /// Whether it can show how threads ran, even if it is_empty().
  [[nodiscard]] bool has_threads() const { return host_statistics_.samples > 1; }
  [[nodiscard]] std::vector<std::string> problems() const;
  /// The command failed before anything was recorded.
  [[nodiscard]] bool failed_early() const { return is_empty() && !failure_.empty(); }
  /// For the summary document.
  [[nodiscard]] Record document() const;

 private:
  /// `session`: null at the start.
  [[nodiscard]] Status write_session(const RunSession* session) const;

  std::vector<std::string> command_;
  TraceOptions options_;
  RecordingParts parts_;
  RecordingFolder folder_;
  bool started_by_launcher_ = false;   ///< one of several profgpu processes
  bool runs_mpi_ = false;
  std::string failure_;                ///< how the command failed, once it has ended: "python3 ended with exit 2"
  CommandEnvironment environment_;
  std::vector<DeviceInfo> devices_;
  bool found_no_device_ = false;       ///< although it looked for them
  std::unique_ptr<HostRecording> host_;
  HostRecording::Statistics host_statistics_;
  RecordingSummary summary_;
  int64_t begun_unix_ns_ = 0, begun_host_ns_ = 0;
  std::optional<HostClock> begun_clock_;
};

}  // namespace profgpu
