// The table of processes.
#pragma once

#include "top/frame.h"
#include "top/model.h"

namespace profgpu {

/// Adds the heading and at most `rows` processes, among them the chosen one; `rows` 0: all of them, without curves.
void add_processes(Frame& frame, const TopModel& model, int width, int rows);
/// "GPU memory": as the table's heading calls it.
std::string_view column_title(ProcessColumn column);

}  // namespace profgpu
