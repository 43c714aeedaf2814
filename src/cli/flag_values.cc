#include "cli/flag_values.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <string>

#include <fmt/format.h>

#include "analyse/report/quantity.h"
#include "base/decimal.h"

namespace profgpu {

namespace {

bool read_rank(std::string_view text, int& rank) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), rank);
  return error == std::errc() && end == text.data() + text.size() && rank >= 0;
}

std::string range_text(int first, int last) {
  return std::to_string(first) + (first == last ? "" : "-" + std::to_string(last));
}

}  // namespace

Status read_whole(const Arguments& arguments, std::string_view flag, int64_t least, int64_t most, int64_t& value) {
  if (!arguments.has(flag)) return ok();
  const std::string text = arguments.value(flag);
  const auto n = whole_number(text);
  // 1e1 and 2.5 are numbers too, of a kind that nobody means here.
  if (n && text.find_first_not_of("0123456789") == std::string::npos && *n >= least && *n <= most) {
    value = *n;
    return ok();
  }
  std::string limits = least > 0 || most != kAnyNumber ? fmt::format(" from {}", least) : "";
  if (most != kAnyNumber) limits += fmt::format(" to {}", most);
  return Error{fmt::format("{} takes a whole number{}, not \"{}\"", flag, limits, text)};
}

Status read_time(const Arguments& arguments, std::string_view flag, const TimeRange& range, int64_t& value) {
  if (!arguments.has(flag)) return ok();
  const std::string text = arguments.value(flag);
  const auto ns = duration_ns(text);
  if (!ns || *ns < range.least || *ns > range.most)
    return Error{fmt::format("{} takes a time{}, not \"{}\"", flag, range.words, text),
                 range.hint.empty() ? fmt::format("seconds, or a number with a unit: {0} 0.5, {0} 100ms, {0} 5m", flag)
                                    : std::string(range.hint)};
  value = *ns;
  return ok();
}

Status read_time(const Arguments& arguments, std::string_view flag, const TimeRange& range,
                 std::optional<int64_t>& value) {
  int64_t ns = 0;
  if (Status read = read_time(arguments, flag, range, ns); !read || !arguments.has(flag)) return read;
  value = ns;
  return ok();
}

Status read_percent(const Arguments& arguments, std::string_view flag, std::optional<double>& value) {
  if (!arguments.has(flag)) return ok();
  std::string text = arguments.value(flag);
  if (text.ends_with("%")) text.pop_back();
  value = real_number(text);
  if (value && *value >= 0 && *value <= 100) return ok();
  return Error{fmt::format("{} takes 0 to 100, not \"{}\"", flag, arguments.value(flag))};
}

Status read_rotation(const Arguments& arguments, Rotation& rotation) {
  constexpr double kMinFile = 4096;
  if (arguments.has("--rotate")) {
    const auto size = size_bytes(arguments.value("--rotate"));
    if (!size || *size < kMinFile || *size > 1e18)
      return Error{fmt::format("--rotate takes a size from 4KiB, not \"{}\"", arguments.value("--rotate")),
                   "for example --rotate 100MB"};
    rotation.bytes = static_cast<int64_t>(*size);
  }
  return read_whole(arguments, "--keep", 0, 1'000'000, rotation.keep);
}

std::optional<RankRanges> rank_ranges(std::string_view text) {
  RankRanges ranges;
  for (;;) {
    const size_t comma = text.find(',');
    const std::string_view part = text.substr(0, comma);
    const size_t dash = part.find('-');
    auto& [first, last] = ranges.emplace_back();
    if (!read_rank(part.substr(0, dash), first)) return std::nullopt;
    last = first;
    if (dash != std::string_view::npos && (!read_rank(part.substr(dash + 1), last) || last < first))
      return std::nullopt;
    if (comma == std::string_view::npos) return ranges;
    text.remove_prefix(comma + 1);
  }
}

Result<std::vector<int>> chosen_ranks(const RankRanges& ranges, std::span<const int> there) {
  std::vector<int> chosen;
  for (const auto& [first, last] : ranges) {
    const auto begin = std::lower_bound(there.begin(), there.end(), first);
    const auto end = std::upper_bound(there.begin(), there.end(), last);
    if (begin == end)
      return Error{"there is no rank " + range_text(first, last),
                   "those that were read: " + number_ranges({there.begin(), there.end()})};
    chosen.insert(chosen.end(), begin, end);
  }
  std::sort(chosen.begin(), chosen.end());
  chosen.erase(std::unique(chosen.begin(), chosen.end()), chosen.end());
  return chosen;
}

std::optional<double> size_bytes(std::string_view text) {
  const size_t end = text.find_first_not_of("0123456789.");
  const auto number = real_number(text.substr(0, end));
  if (!number) return std::nullopt;
  std::string unit;
  for (const char c : text.substr(std::min(end, text.size())))
    if (c != ' ') unit += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if (unit.empty() || unit == "b") return number;
  const size_t power = std::string_view("kmgt").find(unit[0]);
  if (power == std::string_view::npos) return std::nullopt;
  const std::string rest = unit.substr(1);
  if (!rest.empty() && rest != "ib" && rest != "b") return std::nullopt;
  return *number * std::pow(rest == "b" ? 1000.0 : 1024.0, static_cast<double>(power + 1));
}

}  // namespace profgpu
