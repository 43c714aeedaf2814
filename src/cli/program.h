// The whole program except main(), and help made from command descriptions.
#pragma once

#include <string>
#include <vector>

#include "cli/command.h"

namespace profgpu {

/// "profgpu analyze [OPTION]... PATH..."
std::string usage_line(const Command& command);
/// The flag's help with its choices.
std::string flag_explanation(const Flag& flag);
/// The commands that `profgpu --help` lists.
std::vector<const Command*> shown_commands();

/// AGENTS.md.
std::string_view agents_text();

/// The flag that every command has.
inline const Flag kHelpFlag{"-h, --help", "print this help"};

/// Runs the command that `typed` (without the program's name) names and prints its error, if it ends in one.
ExitCode run_program(const std::vector<std::string>& typed);

}  // namespace profgpu
