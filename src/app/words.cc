#include "app/words.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string>

#include "analyse/report/quantity.h"
#include "base/decimal.h"
#include "base/text.h"

namespace profgpu {
namespace {

template <class T>
bool read_count(std::string_view text, T& n) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  return error == std::errc() && end == text.data() + text.size() && n >= 0;
}

std::string range_text(int first, int last) {
  return std::to_string(first) + (first == last ? "" : "-" + std::to_string(last));
}

}  // namespace

std::optional<RankRanges> rank_ranges(std::string_view text) {
  RankRanges ranges;
  for (;;) {
    const size_t comma = text.find(',');
    const std::string_view part = text.substr(0, comma);
    const size_t dash = part.find('-');
    auto& [first, last] = ranges.emplace_back();
    if (!read_count(part.substr(0, dash), first)) return std::nullopt;
    last = first;
    if (dash != std::string_view::npos && (!read_count(part.substr(dash + 1), last) || last < first))
      return std::nullopt;
    if (comma == std::string_view::npos) return ranges;
    text.remove_prefix(comma + 1);
  }
}

Result<std::vector<int>> chosen_ranks(const RankRanges& ranges, std::span<const int> known) {
  std::vector<int> chosen;
  for (const auto& [first, last] : ranges) {
    const auto begin = std::lower_bound(known.begin(), known.end(), first);
    const auto end = std::upper_bound(known.begin(), known.end(), last);
    if (begin == end)
      return Error{"there is no rank " + range_text(first, last),
                   "ranks that were read: " + number_ranges({known.begin(), known.end()})};
    chosen.insert(chosen.end(), begin, end);
  }
  std::sort(chosen.begin(), chosen.end());
  chosen.erase(std::unique(chosen.begin(), chosen.end()), chosen.end());
  return chosen;
}

std::optional<std::pair<int64_t, int64_t>> step_range(std::string_view text, bool single) {
  std::pair<int64_t, int64_t> range{0, INT64_MAX};
  const size_t colon = text.find(':');
  const std::string_view a = text.substr(0, colon), b = colon == text.npos ? "" : text.substr(colon + 1);
  if (colon == text.npos && (!single || a.empty())) return std::nullopt;
  if ((!a.empty() && !read_count(a, range.first)) || (!b.empty() && !read_count(b, range.second))) return std::nullopt;
  if (colon == text.npos && range.first < INT64_MAX) range.second = range.first + 1;
  return range.first < range.second ? std::optional(range) : std::nullopt;
}

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> before(b.size() + 1), above(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) above[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, above[j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) row[j] = std::min(row[j], before[j - 2] + 1);
    }
    std::swap(before, above);
    std::swap(above, row);
  }
  return above[b.size()];
}

std::string nearest(std::string_view word, const std::vector<std::string>& candidates) {
  // A third of the letters may be wrong; beyond that a guess confuses more than it helps.
  constexpr size_t kMaxWord = 64;
  if (word.size() > kMaxWord) return {};
  std::string best;
  size_t best_distance = std::max<size_t>(1, word.size() / 3) + 1;
  for (const std::string& candidate : candidates) {
    if (word.size() >= 3 && candidate.starts_with(word)) return candidate;
    const size_t distance = edit_distance(word, candidate);
    if (distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

std::string did_you_mean(std::string_view word, const std::vector<std::string>& known, std::string_view otherwise) {
  const std::string near = nearest(word, known);
  return near.empty() ? std::string(otherwise) : "did you mean " + near + "?";
}

std::optional<double> size_bytes(std::string_view text) {
  const size_t end = text.find_first_not_of("0123456789.");
  const auto number = real_number(text.substr(0, end));
  if (!number) return std::nullopt;
  std::string unit = lower_case(text.substr(std::min(end, text.size())));
  std::erase(unit, ' ');
  if (unit.empty() || unit == "b") return number;
  const size_t power = std::string_view("kmgt").find(unit[0]);
  if (power == std::string_view::npos) return std::nullopt;
  const std::string rest = unit.substr(1);
  if (!rest.empty() && rest != "ib" && rest != "b") return std::nullopt;
  return *number * std::pow(rest == "b" ? 1000.0 : 1024.0, static_cast<double>(power + 1));
}

std::string shell_line(const std::vector<std::string>& words) {
  constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./:,@%";
  std::string line;
  for (const std::string& word : words) {
    if (!line.empty()) line += ' ';
    if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) {
      line += word;
      continue;
    }
    line += '\'';
    for (const char c : word) line += c == '\'' ? std::string("'\\''") : std::string(1, c);
    line += '\'';
  }
  return line;
}

}  // namespace profgpu
