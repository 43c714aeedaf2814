// What the terminal, if there is one, can show.
#pragma once

namespace profgpu {

class Arguments;
struct Flag;

enum class Colour { kAuto, kAlways, kNever };
/// --color, and what it asks for.
Flag colour_flag();
Colour asked_colour(const Arguments& arguments);

/// Columns of standard output: COLUMNS, else the terminal's own, else 100.
int output_width();

/// Whether to colour standard output: as asked, else on a terminal unless NO_COLOR is set or TERM is dumb.
bool output_colour(Colour asked);

/// The same of standard error, where the summary of a run goes.
int message_width();
bool message_colour(Colour asked);

bool stdout_is_terminal();
bool stderr_is_terminal();

}  // namespace profgpu
