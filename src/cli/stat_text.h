// The screen of `profgpu stat`: one line a device.
#pragma once

#include "cli/stat_view.h"
#include "present/line.h"

namespace profgpu {

struct StatStyle {
  bool header = true, processes = true;
  bool fan = false, power = true, codec = false;            ///< columns; fan also where a device has one
  bool command = true, user = true, pid = true;             ///< of each process
  bool table = false;                                       ///< a table of processes below
};

/// `width` 0: as wide as it gets.
Lines stat_lines(const StatView& view, const StatStyle& style, int width);

}  // namespace profgpu
