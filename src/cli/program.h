// The whole program but for main(), and help made from command descriptions.
#pragma once

#include <string>
#include <vector>

#include "cli/command.h"

namespace profgpu {

/// `profgpu --help`
std::string overview_help();
/// `profgpu COMMAND --help`
std::string command_help(const Command& command);

/// "profgpu analyze [OPTION]... PATH..."
std::string usage_line(const Command& command);
/// "-o, --output FILE"
std::string flag_synopsis(const Flag& flag);
/// The flag's help with its choices.
std::string flag_explanation(const Flag& flag);

/// The flag that every command has.
extern const Flag kHelpFlag;

/// Runs the command that `words` (without the program's name) ask for and prints its error, if it ends in one.
ExitCode run_program(const std::vector<std::string>& words);

}  // namespace profgpu
