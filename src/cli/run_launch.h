// `profgpu run --mode ... SCRIPT`: the command line that starts a PyTorch program on one GPU, several, or several
// nodes.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "cli/command.h"

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

}  // namespace profgpu
