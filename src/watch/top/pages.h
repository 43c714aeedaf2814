// The parts of the screen between title and keys: devices, processes, and the pages of one device, links, users and
// help.
#pragma once

#include "watch/top/chart.h"
#include "watch/top/frame.h"
#include "watch/top/model.h"

namespace profgpu {

/// Adds the devices' heading and at most `rows` lines of devices. Where not all fit, those around the chosen one.
/// `rows` 0: one line each, as many as there are, with no curves.
void add_devices(Frame& frame, const TopModel& model, int width, int rows);
/// Lines that the devices can make use of, at most.
int useful_device_rows(const TopModel& model);

/// In a trough as long as the whole, and a blank.
void add_bar(Line& line, const std::optional<double>& share, int cells, Look look);

/// "61.2/79.6 GiB"
std::string gib_pair(const std::optional<double>& used, const std::optional<double>& all);
std::string memory_pair(const LiveDevice& device);
/// "GPU is lost, since 14:03:22 (12 s)"
std::string trouble_text(const LiveDevice& device, int64_t now_ns);
/// "–" where it is not known, else the number without decimals and its unit.
std::string rounded(const std::optional<double>& x, std::string_view unit);
/// Bytes a second as "12.3 GB/s".
std::string speed_text(const std::optional<double>& bytes_per_second);

/// Adds the heading and at most `rows` processes, among them the chosen one; `rows` 0: all of them, without curves.
void add_processes(Frame& frame, const TopModel& model, int width, int rows);
/// "GPU memory": as the table's heading calls it.
std::string_view column_title(ProcessColumn column);

// Pages. Each adds at most `rows` lines.
void add_device_page(Frame& frame, const TopModel& model, int width, int rows);
void add_topology_page(Frame& frame, const TopModel& model, int width, int rows);
void add_users_page(Frame& frame, const TopModel& model, int width, int rows);
void add_help_page(Frame& frame, int width, int rows);

/// One line: what is so, then what to do, the latter cut first.
Line advice_line(const LiveView& view, const DeviceAdvice& advice, int width);

}  // namespace profgpu
