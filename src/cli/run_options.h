// `profgpu run --mode ... SCRIPT`: the command line that starts a PyTorch program on one GPU, several, or several
// nodes.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/command.h"
#include "cli/device_options.h"
#include "cli/run_recording.h"
#include "cli/terminal.h"

namespace profgpu {

struct LaunchOptions {
  std::string mode;           ///< empty: the command is run as it stands
  int gpus = 0;               ///< of a node; 0: as many as there are
  int nodes = 0;              ///< 0: not said
  int node_rank = -1;         ///< -1: not said
  std::string master_address; ///< empty: not said
  int master_port = 29500;    ///< torchrun's own default
};

/// Whether a word can be run as it stands: a program in PATH, or the path of a script with `#!` or of a binary.
bool names_program(const std::string& word);

FlagGroup launch_flags();
/// The error is a usage error.
Result<LaunchOptions> launch_options(const Arguments& arguments);
/// `words`: the script and its arguments. `devices`: how many are there. The error is a usage error.
Result<std::vector<std::string>> launch_command(const LaunchOptions& options, const std::vector<std::string>& words,
                                                size_t devices);

// What `profgpu run` was asked to do.

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
