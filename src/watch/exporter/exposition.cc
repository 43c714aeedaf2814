#include "watch/exporter/exposition.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/decimal.h"
#include "base/text.h"
#include "devices/system_files.h"

namespace profgpu {
namespace {

constexpr std::string_view kTotal = "_total";

std::string escaped(std::string_view text, bool quotes) {
  std::string out;
  for (const char c : text) {
    if (c == '\\' || (quotes && c == '"') || c == '\n') out += '\\';
    out += c == '\n' ? 'n' : c;
  }
  return out;
}

}  // namespace

std::string_view content_type(ExpositionFormat format) {
  return format == ExpositionFormat::kPrometheus ? "text/plain; version=0.0.4; charset=utf-8"
                                                 : "application/openmetrics-text; version=1.0.0; charset=utf-8";
}

void Exposition::family(std::string_view name, SeriesType type, std::string_view help) {
  name_ = name;
  help_ = help;
  type_ = type;
  begun_ = false;
}

void Exposition::begin_sample() {
  if (std::exchange(begun_, true)) {
    page_ += name_;
    return;
  }
  std::string_view family = name_;
  std::string_view type = type_ == SeriesType::kCounter ? "counter" : "gauge";
  const bool open = format_ == ExpositionFormat::kOpenMetrics;
  if (open && type_ == SeriesType::kCounter) {
    if (family.ends_with(kTotal)) family.remove_suffix(kTotal.size());
    else type = "unknown";
  }
  fmt::format_to(std::back_inserter(page_), "# HELP {} {}\n# TYPE {} {}\n{}", family, escaped(help_, open), family, type,
                 name_);
}

void Exposition::sample(std::string_view labels, std::string_view text) {
  begin_sample();
  if (!labels.empty()) page_.append("{").append(labels).append("}");
  page_.append(" ").append(text).append("\n");
}

void Exposition::sample(std::string_view labels, double value) { sample(labels, number_text(value)); }

std::string Exposition::take() {
  if (format_ == ExpositionFormat::kOpenMetrics) page_ += "# EOF\n";
  return std::exchange(page_, {});
}

std::string label(std::string_view name, std::string_view value) {
  std::string text(value);
  replace_invalid_utf8(text);
  return fmt::format("{}=\"{}\"", name, escaped(text, true));
}

std::string number_text(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  constexpr double kWhole = 9007199254740992;  // 2^53
  if (value == std::floor(value) && std::fabs(value) < kWhole) return fmt::format("{}", static_cast<int64_t>(value));
  return fmt::format("{:.15g}", value);  // 7 % is 0.07, not 0.07000000000000001
}

namespace {

// The quality of `name` in a list such as "text/plain;version=0.0.4;q=0.5"; 0: not accepted.
double quality_of(std::string_view list, std::string_view name) {
  double best = 0;
  for (const std::string_view entry : pieces_of(list, ',')) {
    const auto parts = pieces_of(entry, ';');
    if (parts.empty()) continue;
    if (lower_case(without_blanks(parts[0])) != name) continue;
    double q = 1;
    for (const std::string_view p : parts)
      if (const auto part = without_blanks(p); part.starts_with("q=")) q = real_number(part.substr(2)).value_or(0);
    best = std::max(best, q);
  }
  return best;
}

}  // namespace

ExpositionFormat wanted_format(std::string_view accept) {
  const double open = quality_of(accept, "application/openmetrics-text");
  return open > 0 && open >= quality_of(accept, "text/plain") ? ExpositionFormat::kOpenMetrics
                                                          : ExpositionFormat::kPrometheus;
}

bool takes_gzip(std::string_view accept_encoding) { return quality_of(accept_encoding, "gzip") > 0; }

namespace {

constexpr size_t kMaxLabels = 64;

bool is_name_char(char c) { return is_letter(c) || is_digit(c) || c == '_' || c == ':'; }

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

// The text up to the closing quote; the opening one is already taken.
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
    if (key.empty() || sample.labels.size() == kMaxLabels || !take(text, '=') || !take(text, '"')) return false;
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
  if (sample.name.empty() || is_digit(sample.name.front()) || !take_labels(line, sample)) return false;
  skip_blanks(line);
  const auto value = real_number(line.substr(0, line.find_first_of(" \t\r")));   // a timestamp may follow
  sample.value = value.value_or(0);
  return value.has_value();
}

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
  }
  return false;
}

}  // namespace profgpu
