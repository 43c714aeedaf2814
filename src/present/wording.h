// Names of columns, codes and cells as a person says them. Terminal and Markdown say the same.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "job/report.h"

namespace profgpu {

/// One of our codes as words: "data_loading" to "data loading". Not for names from a trace.
std::string words(std::string_view code);

/// "total_ns" to "total", "span_pct" to "of span", "cpu_self_ns" to "CPU self".
std::string column_title(std::string_view column);

std::string plural(int64_t n, std::string_view one, std::string_view many);

/// Where a rank's clock starts for a reader: traces count from the epoch or from boot.
struct Origin {
  std::optional<int64_t> first_step_ns;
};
Origin origin_of(const RankReport& rank);

/// start_ns, end_ns, time_ns: a point in time, shown from the origin on.
bool is_instant(std::string_view column);

/// One cell in its column's unit; nested values in a few words.
std::string cell_text(std::string_view column, const Value& value, const Origin& origin);
/// The same, made for columns of numbers (see format_fixed).
std::string aligned_cell_text(std::string_view column, const Value& value, const Origin& origin);

/// Whether a column holds no text, so that it is aligned to the right.
bool is_numeric_column(const Table& table, size_t column);

}  // namespace profgpu
