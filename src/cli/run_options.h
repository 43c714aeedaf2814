// What `profgpu run` was asked to do.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "cli/command.h"
#include "cli/device_options.h"
#include "cli/output.h"
#include "cli/run_launch.h"
#include "cli/run_recording.h"

namespace profgpu {

struct RunOptions {
  std::vector<std::string> command;
  DeviceOptions devices;
  int64_t warmup_ns = 0;
  int repeats = 1, warmup_runs = 0;
  bool json = false, quiet = false;
  std::string samples;  ///< file; empty: none
  std::string folder;   ///< for summary.json and samples.jsonl; empty: none
  Colour colour = Colour::kAuto;
  LaunchOptions launch;
  TraceOptions trace;
};

std::vector<FlagGroup> run_flags();
/// The error is a usage error.
Result<RunOptions> run_options(const Arguments& arguments);

}  // namespace profgpu
