// Parts of a document in answers of few characters: rows with keys that stay the same, page by page.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "analyse/report/report.h"

namespace profgpu {

struct PageOptions {
  int64_t offset = 0, limit = 20;
  int64_t max_chars = 8000;      ///< of the answer's JSON; at least one row is in it
  std::string contains = {};     ///< only rows with that in one of their texts; case does not matter
  std::string key = {};          ///< only this row, in full
};

/// What stands at `path` ("kernels", "snapshot.peak.holders") in a document; null: nothing.
const Value& value_at(const Record& document, std::string_view path);

/// Adds to `answer` what `value` holds: rows with their keys, `total` and, if there are more, `next_offset`; or a
/// record's fields, with a path and a size in the place of what is nested deeper. `name`: the path, begins each key.
void add_page(Record& answer, const Value& value, std::string_view name, const PageOptions& options);

/// Six significant digits: more tell a reader nothing.
Value short_real(double x);

/// On one line.
std::string compact_json(const Record& record);

}  // namespace profgpu
