// What `profgpu run` says in the end: profgpu.run.v1, and the same for a person.
#pragma once

#include <string>
#include <vector>

#include "analyse/report/report.h"
#include "cli/device_options.h"
#include "cli/run_options.h"
#include "watch/live/run_session.h"

namespace profgpu {

struct RunReport {
  Record document;  ///< profgpu.run.v1
  std::vector<DeviceTelemetry> devices;
  std::vector<Finding> findings;
  std::string summary_path;  ///< the document's file; empty: none
};

/// Adds to the session's devices what the sampler knows of their troubles. `recording`: null without --trace.
RunReport run_report(const RunOptions& options, const OpenDevices& open, RunSession& session,
                     const std::vector<std::string>& notes, const RunRecording* recording);

/// The document for a person, with escape sequences where `colour`.
std::string run_text(const RunReport& report, int width, bool colour);

}  // namespace profgpu
