// What `profgpu run` is to do; and the command line that starts a PyTorch program on one GPU, several, or several
// nodes.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/command.h"
#include "cli/device_options.h"
#include "cli/terminal.h"
#include "watch/live/recording_folder.h"

namespace profgpu {

struct LaunchOptions {
  std::string mode;           ///< empty: the command runs as typed
  int gpus = 0;               ///< of a node; 0: as many as there are
  int nodes = 0;              ///< 0: not given
  int node_rank = -1;         ///< -1: not given
  std::string master_address; ///< empty: not given
  int master_port = 29500;    ///< torchrun's own default
};

/// Whether a word can run: a program in PATH, a Python script, or the path of a script with `#!` or of a binary.
bool names_program(const std::string& word);

/// `words`: the script or program and its arguments. Without a mode they run as typed, a script with Python. `devices`:
/// how many there are. The error is a usage error.
Result<std::vector<std::string>> launch_command(LaunchOptions options, const std::vector<std::string>& words,
                                                size_t devices);

struct TraceOptions {
  bool wanted = false;
  bool perf_events = true;
  std::string window;         ///< the flags that choose what is recorded, as typed; empty: all of the run
  RecordingRequest request;   ///< without its folder and run
};

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
