#include "analyse/report/quantity.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <span>

#include "analyse/report/text.h"
#include "base/text.h"

namespace profgpu {
namespace {

constexpr double kMinute = 60e9;  // ns
constexpr double kHour = 60 * kMinute;

std::string fixed(double x, int decimals) {
  char buffer[400];  // the longest double has 309 digits before the point
  const auto [end, error] = std::to_chars(buffer, buffer + sizeof buffer, x, std::chars_format::fixed, decimals);
  return error == std::errc() ? with_separators(std::string(buffer, end)) : std::string(kUnknownText);
}

// By multiplication: log10() and pow() would bring 300 KiB of libm's tables into `profgpu top`.
int decimals_for(double magnitude, int digits) {
  if (!(magnitude > 0)) return 0;
  int decimals = digits - 1;   // from 1 up to 10
  for (double limit = 10; decimals > 0 && magnitude >= limit; limit *= 10) --decimals;
  for (double scale = 1; magnitude * scale < 1; scale *= 10) ++decimals;
  return decimals;
}

double power_of_ten(int exponent) {
  double power = 1;
  for (; exponent > 0; --exponent) power *= 10;
  return power;
}

// Rounding may add a digit: 9.996 with three digits is "10.0", not "10.00".
std::string significant(double x, int digits) {
  const double magnitude = std::abs(x);
  const int decimals = decimals_for(magnitude, digits);
  const double scale = power_of_ten(decimals);
  return fixed(x, std::min(decimals, decimals_for(std::round(magnitude * scale) / scale, digits)));
}

struct Step {
  double size;
  std::string_view name;
};

std::string scaled(double x, std::span<const Step> steps, double ratio, int digits) {
  size_t i = 0;
  const double limit = ratio - 0.5;  // rounds to the next unit's 1
  while (i + 1 < steps.size() && std::abs(x) / steps[i].size >= limit) ++i;
  const double in_unit = x / steps[i].size;
  const bool whole = i == 0 && in_unit == std::round(in_unit);
  std::string text = whole ? fixed(in_unit, 0) : significant(in_unit, digits);
  return text.append(" ").append(steps[i].name);
}

std::string two_units(double ns, double large, const char* large_name, double small, const char* small_name) {
  const auto total = static_cast<int64_t>(std::round(ns / small));
  const auto per = static_cast<int64_t>(large / small);
  const std::string rest = std::to_string(total % per);
  return format_count(total / per) + " " + large_name + " " + (rest.size() < 2 ? "0" : "") + rest + " " + small_name;
}

// Blanks that make units of unequal length end in the same column.
std::string_view unit_padding(std::string_view text, Unit unit) {
  if (text == kUnknownText) return unit == Unit::kNanoseconds ? "   " : unit == Unit::kPercent ? "  " : "    ";
  if (unit == Unit::kNanoseconds && text.ends_with(" s")) return " ";
  if (unit == Unit::kBytes && text.ends_with(" B")) return "  ";
  return "";
}

}  // namespace

std::string format_duration(double ns, int digits) {
  if (!std::isfinite(ns)) return std::string(kUnknownText);
  const double length = std::abs(ns);
  const std::string sign = ns < 0 ? "-" : "";
  if (length >= 2 * kHour && length < 1e18) return sign + two_units(length, kHour, "h", kMinute, "min");
  if (length >= 10 * kMinute && length < 1e18) return sign + two_units(length, kMinute, "min", 1e9, "s");
  static constexpr Step kSteps[] = {{1, "ns"}, {1e3, "µs"}, {1e6, "ms"}, {1e9, "s"}};
  return scaled(ns, kSteps, 1000, digits);
}

std::string format_bytes(double bytes) {
  if (!std::isfinite(bytes)) return std::string(kUnknownText);
  static constexpr Step kSteps[] = {{1, "B"},         {1024., "KiB"},           {1048576., "MiB"},
                                    {1073741824., "GiB"}, {1099511627776., "TiB"}, {1125899906842624., "PiB"}};
  return scaled(bytes, kSteps, 1024, 3);
}

std::string format_percent(double pct, int decimals) {
  if (!std::isfinite(pct)) return std::string(kUnknownText);
  const double least = std::pow(10, -decimals);
  if (pct != 0 && std::abs(pct) < least / 2) return (pct < 0 ? ">-" : "<") + fixed(least, decimals) + " %";
  return (pct == 100 ? std::string("100") : fixed(pct, decimals)) + " %";
}

std::string format_gbps(double gbps) {
  return std::isfinite(gbps) ? significant(gbps, 3) + " GB/s" : std::string(kUnknownText);
}

std::string format_measured(double x, std::string_view unit) {
  if (unit == "B") return format_bytes(x);
  return unit == "ns" ? format_duration(x) : format_number(x) + " " + std::string(unit);
}

std::string format_number(double x) {
  if (!std::isfinite(x)) return std::string(kUnknownText);
  const double magnitude = std::abs(x);
  if (magnitude < 1e15 && x == std::round(x)) return fixed(x, 0);
  if (magnitude >= 1e15 || magnitude < 1e-4) {
    char buffer[40];
    const auto [end, error] = std::to_chars(buffer, buffer + sizeof buffer, x, std::chars_format::scientific, 2);
    return error == std::errc() ? std::string(buffer, end) : std::string(kUnknownText);
  }
  return significant(x, 3);
}

std::string number_ranges(std::vector<int> numbers) {
  std::sort(numbers.begin(), numbers.end());
  constexpr int kMaxRanges = 6;
  std::string out;
  int ranges = 0;
  for (size_t i = 0; i < numbers.size();) {
    size_t end = i + 1;
    while (end < numbers.size() && int64_t{numbers[end]} - numbers[end - 1] <= 1) ++end;
    const auto left = static_cast<int64_t>(numbers.size() - i);
    if (ranges++ == kMaxRanges) return out + " and " + format_count(left) + " more";
    out += (out.empty() ? "" : ", ") + std::to_string(numbers[i]);
    if (numbers[end - 1] != numbers[i]) out += "–" + std::to_string(numbers[end - 1]);
    i = end;
  }
  return out;
}

std::string ranks_text(const std::vector<int>& ranks) {
  return (ranks.size() > 1 ? "ranks " : "rank ") + number_ranges(ranks);
}

std::string format_value(const Value& value, Unit unit) {
  if (const bool* b = value.boolean()) return *b ? "yes" : "no";
  if (const std::string* s = value.text()) return *s;
  if (const Table* t = value.table()) return format_count(static_cast<int64_t>(t->rows.size()));
  if (const Record* r = value.record()) return format_count(static_cast<int64_t>(r->fields.size()));
  if (const List* l = value.list()) return format_count(static_cast<int64_t>(l->size()));
  if (value.is_null()) return std::string(kUnknownText);
  switch (unit) {
    case Unit::kNanoseconds: return format_duration(value.number());
    case Unit::kBytes: return format_bytes(value.number());
    case Unit::kPercent: return format_percent(value.number());
    case Unit::kGbps: return format_gbps(value.number());
    case Unit::kNone: break;
  }
  return value.integer() ? format_count(*value.integer()) : format_number(*value.real());
}

std::string format_fixed(const Value& value, Unit unit, int width) {
  std::string text = format_value(value, unit);
  if (!value.text()) text += unit == Unit::kNone ? std::string_view() : unit_padding(text, unit);
  return padded_left(std::move(text), width);
}

}  // namespace profgpu
