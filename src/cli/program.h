// The whole program but for main().
#pragma once

#include <string>
#include <vector>

#include "cli/exit_code.h"

namespace profgpu {

/// Runs the command that `words` (without the program's name) ask for and prints its error, if it ends in one.
ExitCode run_program(const std::vector<std::string>& words);

}  // namespace profgpu
