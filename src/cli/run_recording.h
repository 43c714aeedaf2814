// `profgpu run --trace`: what is recorded, from the options to the last line.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "analyse/report/report.h"
#include "cli/command.h"
#include "cli/device_options.h"
#include "watch/live/host_recording.h"
#include "watch/live/recording_folder.h"
#include "watch/live/recording_summary.h"
#include "watch/live/run_session.h"

namespace profgpu {

struct TraceOptions {
  bool wanted = false;
  std::string options;      ///< PROFGPU_RECORD_OPTIONS
  std::string window;       ///< the flags that choose what is recorded, as typed; empty: all of the run
  bool python_hook = true, preload = false;
  int64_t python_stacks_ns = 20'000'000;   ///< between samples; 0: none
  bool perf_events = true;
  bool torch_on_demand = false;  ///< also without `wanted`
};

FlagGroup trace_flags();
/// The error is a usage error.
Result<TraceOptions> trace_options(const Arguments& arguments);

/// A recording under way: its folder is there, and files in it are ours.
class RunRecording {
 public:
  /// `folder`: as typed; empty: a new one in the current folder.
  static Result<std::unique_ptr<RunRecording>> begin(const TraceOptions& options, const std::string& folder,
                                                     const std::vector<std::string>& command);
  [[nodiscard]] const RecordingFolder& folder() const { return folder_; }
  /// What the command gets; with notes on what another tool keeps us from.
  [[nodiscard]] const CommandEnvironment& environment() const { return environment_; }
  /// Writes the first session file and watches what is started from now on.
  Status start(const OpenDevices& open);
  /// The command could not be started: nothing of ours stays.
  void cancel();
  /// Ends our files, reads what the processes recorded.
  Status finish(const RunSession& session);
  /// No process recorded anything that happened. Known after finish().
  [[nodiscard]] bool is_empty() const;
  /// No kernel was recorded, as there is no device to be seen, which problems() says. Known after finish().
  [[nodiscard]] bool has_no_device() const;
  /// Of an empty one: how its threads ran can be told.
  [[nodiscard]] bool has_threads() const { return host_statistics_.samples > 1; }
  /// Of the summary document.
  [[nodiscard]] Record document() const;

 private:
  [[nodiscard]] Record session_document(const RunSession* session) const;
  [[nodiscard]] std::vector<std::string> problems() const;

  std::vector<std::string> command_;
  TraceOptions options_;
  RecordingParts parts_;
  RecordingFolder folder_;
  std::string run_;                    ///< names this run to the processes of its command
  bool started_by_launcher_ = false;   ///< one of several of us
  CommandEnvironment environment_;
  std::vector<Record> devices_;
  bool none_was_found_ = false;        ///< of the devices that were looked for
  std::unique_ptr<HostRecording> host_;
  HostRecording::Statistics host_statistics_;
  RecordingSummary summary_;
  int64_t begun_unix_ns_ = 0, begun_host_ns_ = 0;
  std::optional<HostClock> begun_clock_;
};

}  // namespace profgpu
