#include "cli/rank_list.h"

#include <algorithm>
#include <charconv>

#include "analyse/report/quantity.h"

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

}  // namespace profgpu
