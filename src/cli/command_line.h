// Command line to Arguments.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "cli/command.h"

namespace profgpu {

/// Parses the words after the command's name. The error is one for exit code 2 and says what was probably meant.
Result<Arguments> parse_arguments(const Command& command, const std::vector<std::string>& words);

/// True if the words ask for help: --help or -h before a `--`.
bool asks_for_help(const std::vector<std::string>& words);

}  // namespace profgpu
