// Command line to Arguments.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "cli/command.h"

namespace profgpu {

/// How many of the words are the command's own flags and their values: all, but where it runs another command, whose
/// line begins behind `--` or at the first word that is no flag.
size_t own_words(const Command& command, const std::vector<std::string>& words);

/// Parses the words after the command's name. The error is one for exit code 2 and says what was probably meant.
Result<Arguments> parse_arguments(const Command& command, const std::vector<std::string>& words);

/// True if the words ask for help: --help or -h before a `--`.
bool asks_for_help(const std::vector<std::string>& words);

}  // namespace profgpu
