// Help made from command descriptions.
#pragma once

#include <string>

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

}  // namespace profgpu
