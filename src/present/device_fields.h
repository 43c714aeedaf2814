// Fields of a device's record, and figures as the lines about devices show them.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "present/line.h"
#include "report/report.h"

namespace profgpu {

/// Absent where the record does not know it.
std::optional<double> number_in(const Record& r, std::string_view field);
/// Empty where it does not know it.
std::string text_in(const Record& r, std::string_view field);
/// A number of a record inside: counters, constants.
std::optional<double> number_in(const Record& r, std::string_view record, std::string_view field);
/// A cell of the metrics table.
std::optional<double> metric_in(const Record& r, std::string_view metric, std::string_view column);
/// Why it is absent; empty: it is not, or nobody knows.
std::string why_absent(const Record& r, std::string_view metric);

/// "1,755"
std::string whole_number_text(double x);
/// "412 W"
std::string format_watts(double watts);
/// "25.7 kJ"
std::string format_energy(double joules);
/// "NVIDIA H200, driver 580.159"
std::string device_name(const Record& r);
/// "2 driver errors (Xid), the last 79, 1 memory error not corrected"; empty: none
std::string errors_text(const Record& r);

/// One device in one row, for many of them: busy, idle, memory ... The first column is the device's label.
const std::vector<std::string>& device_columns();
/// As many cells; kUnknownText for what the record does not know.
std::vector<std::string> device_cells(const Record& r);

}  // namespace profgpu
