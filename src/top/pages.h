// The pages of the screen between title and keys: one device, links, users, help. Each adds at most `rows` lines.
#pragma once

#include "top/frame.h"
#include "top/model.h"

namespace profgpu {

void add_device_page(Frame& frame, const TopModel& model, int width, int rows);
void add_topology_page(Frame& frame, const TopModel& model, int width, int rows);
void add_users_page(Frame& frame, const TopModel& model, int width, int rows);
void add_help_page(Frame& frame, int width, int rows);

/// One line: what is so, then what to do, the latter cut first.
Line advice_line(const LiveView& view, const DeviceAdvice& advice, int width);

}  // namespace profgpu
