// Ctrl-C: leave at once, tidily.
#pragma once

namespace profgpu {

/// From now on SIGINT and SIGTERM end the program with 130 or 143, after clearing a progress line and removing the
/// file named below.
void install_interrupt_handler();

/// A file that is of no use if we are interrupted; null: none. The text must outlive the setting.
void remove_on_interrupt(const char* path);

/// True while standard error shows a line that must be cleared on the way out.
void clear_line_on_interrupt(bool on);

}  // namespace profgpu
