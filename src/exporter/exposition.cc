#include "exporter/exposition.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/utf8.h"

namespace profgpu {
namespace {

constexpr std::string_view kTotal = "_total";

std::string escaped(std::string_view text, bool quotes) {
  const auto plain = [&](char c) { return c != '\n' && c != '\\' && !(quotes && c == '"'); };
  if (std::all_of(text.begin(), text.end(), plain)) return std::string(text);
  std::string out;
  for (const char c : text) {
    if (c == '\n') {
      out += "\\n";
      continue;
    }
    if (c == '\\' || (quotes && c == '"')) out += '\\';
    out += c;
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

void Exposition::begin_family() {
  begun_ = true;
  std::string_view family = name_;
  std::string_view type = type_ == SeriesType::kCounter ? "counter" : "gauge";
  const bool open = format_ == ExpositionFormat::kOpenMetrics;
  if (open && type_ == SeriesType::kCounter) {
    if (family.ends_with(kTotal))
      family.remove_suffix(kTotal.size());
    else
      type = "unknown";
  }
  fmt::format_to(std::back_inserter(page_), "# HELP {} {}\n# TYPE {} {}\n", family, escaped(help_, open), family, type);
}

void Exposition::append_name() {
  if (!begun_) begin_family();
  page_ += name_;
}

void Exposition::sample(std::string_view labels, std::string_view text) {
  append_name();
  if (!labels.empty()) page_.append("{").append(labels).append("}");
  page_.append(" ").append(text).append("\n");
}

void Exposition::sample(std::string_view labels, double value) { sample(labels, number_text(value)); }

void Exposition::sample(std::string_view labels, std::string_view more, double value) {
  append_name();
  page_.append("{").append(labels).append(",").append(more).append("} ").append(number_text(value)).append("\n");
}

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

}  // namespace profgpu
