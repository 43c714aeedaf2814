#include "base/csv.h"

#include <algorithm>

#include "base/decimal.h"
#include "base/text.h"

namespace profgpu {
namespace {

bool must_be_quoted(char c) { return c == ',' || c == '"' || static_cast<unsigned char>(c) < ' ' || c == '\x7f'; }

}  // namespace

void append_csv(std::string& row, std::string_view field) {
  const bool quote = std::any_of(field.begin(), field.end(), must_be_quoted) ||
                     (!field.empty() && (field.front() == ' ' || field.back() == ' '));
  if (quote) row += '"';
  for (const char c : field) {
    if (c == '"') row += '"';
    row += c;
  }
  if (quote) row += '"';
}

void append_csv_text(std::string& row, std::string_view field) {
  std::string plain(is_formula(field) ? "'" : "");
  while (!field.empty()) {
    const Character c = first_character(field);
    if (c.valid && is_control(c.code_point)) plain += ' ';
    else plain += field.substr(0, c.bytes);
    field.remove_prefix(c.bytes);
  }
  append_csv(row, plain);
}

bool is_formula(std::string_view field) {
  return !field.empty() && contains("=+-@\t\r", field.substr(0, 1)) && !real_number(field);
}

bool CsvFields::split(std::string_view line) {
  fields_.clear();
  quoted_.clear();
  quoted_.reserve(line.size());   // so that views into it stay good
  for (;;) {
    const size_t start = line.find_first_not_of(" \t");
    if (start == line.npos || line[start] != '"') {
      const size_t comma = line.find(',');
      fields_.push_back(without_blanks(line.substr(0, comma)));
      if (comma == line.npos) return true;
      line.remove_prefix(comma + 1);
      continue;
    }
    const size_t from = quoted_.size();
    size_t i = start + 1;
    for (; i < line.size(); ++i) {
      if (line[i] == '"' && (i + 1 >= line.size() || line[i + 1] != '"')) break;
      i += line[i] == '"';
      quoted_ += line[i];
    }
    if (i >= line.size()) return false;
    fields_.emplace_back(quoted_.data() + from, quoted_.size() - from);
    const size_t comma = line.find(',', i);
    if (comma == line.npos) return true;
    line.remove_prefix(comma + 1);
  }
}

}  // namespace profgpu
