#include "exporter/exposition_reader.h"

#include <cctype>

#include "base/decimal.h"

namespace profgpu {
namespace {

constexpr size_t kMostLabels = 64;

bool is_name_char(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == ':'; }

void skip_blanks(std::string_view& text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
}

std::string_view take_name(std::string_view& text) {
  size_t end = 0;
  while (end < text.size() && is_name_char(text[end])) ++end;
  const std::string_view name = text.substr(0, end);
  text.remove_prefix(end);
  return name;
}

bool take(std::string_view& text, char c) {
  skip_blanks(text);
  if (!text.starts_with(c)) return false;
  text.remove_prefix(1);
  return true;
}

// What stands before the closing quote; the opening one is taken.
bool take_quoted(std::string_view& text, std::string& to) {
  to.clear();
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '"') {
      text.remove_prefix(i + 1);
      return true;
    }
    if (text[i] == '\\' && i + 1 < text.size()) {
      ++i;
      to += text[i] == 'n' ? '\n' : text[i];
    } else {
      to += text[i];
    }
  }
  return false;
}

bool take_labels(std::string_view& text, ExpositionSample& sample) {
  if (!take(text, '{')) return true;
  while (!take(text, '}')) {
    const std::string_view key = take_name(text);
    if (key.empty() || sample.labels.size() == kMostLabels || !take(text, '=') || !take(text, '"')) return false;
    auto& [name, value] = sample.labels.emplace_back(key, "");
    if (!take_quoted(text, value)) return false;
    if (!take(text, ',') && !text.starts_with('}')) return false;
    skip_blanks(text);
  }
  return true;
}

bool read_line(std::string_view line, ExpositionSample& sample) {
  sample.labels.clear();
  sample.name = take_name(line);
  if (sample.name.empty() || std::isdigit(static_cast<unsigned char>(sample.name.front())) != 0 || !take_labels(line, sample)) return false;
  skip_blanks(line);
  const auto value = real_number(line.substr(0, line.find_first_of(" \t\r")));   // a time may follow
  sample.value = value.value_or(0);
  return value.has_value();
}

bool says_no_number(std::string_view line) { return line.find("NaN") != line.npos || line.find("Inf") != line.npos; }

}  // namespace

std::string_view ExpositionSample::label(std::string_view key) const {
  for (const auto& [its_name, its_value] : labels)
    if (its_name == key) return its_value;
  return {};
}

bool ExpositionReader::next(ExpositionSample& sample) {
  while (!rest_.empty()) {
    const size_t end = std::min(rest_.find('\n'), rest_.size());
    std::string_view line = rest_.substr(0, end);
    rest_.remove_prefix(std::min(end + 1, rest_.size()));
    skip_blanks(line);
    if (line.empty() || line.front() == '#' || line == "\r") continue;
    if (read_line(line, sample)) return true;
    damaged_ += !says_no_number(line);
  }
  return false;
}

}  // namespace profgpu
