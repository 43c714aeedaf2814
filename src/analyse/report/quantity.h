// Numbers for people: three significant digits, a space, a unit.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "analyse/report/report.h"

namespace profgpu {

/// For unknown values.
constexpr std::string_view kUnknownText = "–";

/// "850 ns", "12.3 µs", "69.8 ms", "1.05 s", "12 min 05 s", "3 h 12 min". `digits`: significant ones below a minute.
std::string format_duration(double ns, int digits = 3);
/// "512 B", "17.2 GiB": powers of 1024.
std::string format_bytes(double bytes);
/// "39.7 %"; values other than zero never read 0: "<0.1 %".
std::string format_percent(double pct, int decimals = 1);
/// "312 GB/s": powers of ten, as usual for link rates.
std::string format_gbps(double gbps);
/// "1.3", "1,234", "0.0123": three significant digits, more only for whole numbers.
std::string format_number(double x);
/// "7 GB/s", "3.2 ms" of nanoseconds.
std::string format_measured(double x, std::string_view unit);

/// "0–3, 7"; after six ranges "and 12 more".
std::string number_ranges(std::vector<int> numbers);
/// "rank 3", "ranks 0–3, 7"
std::string ranks_text(const std::vector<int>& ranks);

/// Any scalar in the unit of its column; kUnknownText for null and for numbers that are not finite. Texts are
/// unchanged; nested values give their size.
std::string format_value(const Value& value, Unit unit);

/// For columns: right-aligned in `width` cells, with units aligned ("  1.05 s ", " 69.8 ms"). Longer texts stay whole.
std::string format_fixed(const Value& value, Unit unit, int width);

}  // namespace profgpu
