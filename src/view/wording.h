// Names of columns, codes and cells for people, the same in all formats.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "analyse/job/report.h"
#include "view/layout.h"

namespace profgpu {

/// "total_ns" to "total", "span_pct" to "of span", "cpu_self_ns" to "CPU self".
std::string column_title(std::string_view column);
/// Of a table or record inside a section, as a heading.
std::string part_title(std::string_view name);

std::string plural(int64_t n, std::string_view one, std::string_view many);

/// Where a rank's time starts for a reader: traces count from the epoch or from boot.
struct Origin {
  std::optional<int64_t> first_step_ns;
};
Origin origin_of(const RankReport& rank);

/// start_ns, end_ns, time_ns: a point in time, shown relative to the origin.
bool is_instant(std::string_view column);

/// One cell in its column's unit; nested values in a few words.
std::string cell_text(std::string_view column, const Value& value, const Origin& origin);

/// The first `rows` of a table. Texts are `holds`, those and lists at most `most` cells (0: any).
struct ValueGrid {
  size_t rows;
  Origin origin = {};
  Holds holds = Holds::kName;
  int most = 0;
  bool aligned = false;     ///< columns of numbers with their units below each other (see format_fixed)
};
Grid value_grid(const Table& table, const ValueGrid& how);
/// The fields of a record that are not tables or records themselves, a row each.
Grid record_grid(const Record& record, const ValueGrid& how);
/// Whether a column has no text, and is right-aligned.
bool is_numeric_column(const Table& table, size_t column);

void drop_column(Table& table, size_t column);

/// ", rank 3" where a report has several.
std::string rank_suffix(const Report& report, const RankReport& rank);
/// "normalize (image_transforms.py:390)"
std::string location_text(const Place& place);
/// "✓ ", "✗ ", "? ", and "· " of what does not apply
std::string_view check_mark(const Check& check);
Style verdict_style(Verdict verdict);

}  // namespace profgpu
