// Rows of comma-separated values (RFC 4180).
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace profgpu {

/// One field, quoted where it must be: commas, quotes, control characters, and blanks at its ends, which readers strip.
/// Nothing for an empty text.
void append_csv(std::string& row, std::string_view field);
/// A text of others, for files that are read line by line and shown on terminals: control characters become blanks, and
/// a formula of a spreadsheet becomes text.
void append_csv_text(std::string& row, std::string_view field);
/// Whether a spreadsheet would calculate it.
bool is_formula(std::string_view field);

/// The fields of a line, kept for the next one: no allocation once they are as long as lines are.
class CsvFields {
 public:
  /// Blanks around fields that are not quoted are no part of them. False: a quote stays open. `line` must outlive
  /// fields().
  bool split(std::string_view line);
  [[nodiscard]] const std::vector<std::string_view>& fields() const { return fields_; }

 private:
  std::vector<std::string_view> fields_;
  std::string quoted_;   // what quoted fields say
};

}  // namespace profgpu
