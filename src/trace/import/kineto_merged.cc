#include "trace/import/kineto_merged.h"

#include <algorithm>
#include <array>

#include "base/text.h"
#include "base/text_source.h"
#include "trace/import/input_units.h"
#include "trace/import/kineto_event.h"

namespace profgpu {
namespace {

using std::string_view;

constexpr string_view kPid = "\"pid\"";
constexpr size_t kLongestPid = 256;   // with its key

// Of "TP01-PP00" the number behind `name`; 0: it is not there.
int number_of(string_view label, string_view name) {
  int number = 0;
  const size_t at = label.find(name);
  if (at == label.npos) return 0;
  for (size_t i = at + name.size(); i < label.size() && is_digit(label[i]) && i < at + 8; ++i)
    number = number * 10 + (label[i] - '0');
  return number;
}

std::array<int, 4> place_of(string_view label) {
  return {number_of(label, "PP"), number_of(label, "DP"), number_of(label, "TP"), number_of(label, "EP")};
}

// False: the labels do not number the ranks.
bool numbered_by_label(std::vector<MergedRank>& ranks) {
  std::set<int> numbers;
  for (MergedRank& r : ranks) {
    r.rank = rank_in_name(r.label);
    if (r.rank < 0 || !numbers.insert(r.rank).second) return false;
  }
  return true;
}

}  // namespace

std::set<std::string, std::less<>> labels_in(string_view text) {
  std::set<std::string, std::less<>> labels;
  string_view last;
  for (size_t at = text.find(kPid); at != text.npos; at = text.find(kPid, at + 1)) {
    size_t from = text.find_first_not_of(" \t\r\n", at + kPid.size());
    if (from == text.npos || text[from] != ':') continue;
    from = text.find_first_not_of(" \t\r\n", from + 1);
    if (from == text.npos || !text.substr(from).starts_with("\"[")) continue;
    const size_t end = text.find('"', from + 1);
    if (end == text.npos) break;
    const string_view label = rank_label(text.substr(from + 1, end - from - 1));
    if (!label.empty() && label != last) labels.emplace(last = label);
  }
  return labels;
}

std::vector<MergedRank> merged_kineto_ranks(const std::string& path) {
  auto source = open_text(path);
  if (!source) return {};
  std::set<std::string, std::less<>> labels;
  std::string text(size_t{1} << 20, '\0');
  size_t kept = 0;   // of the last piece, where a pid may have been cut
  while (const size_t got = (*source)->read(text.data() + kept, text.size() - kept)) {
    const string_view piece(text.data(), kept + got);
    labels.merge(labels_in(piece));
    kept = std::min(piece.size(), kLongestPid);
    std::copy(piece.end() - static_cast<ptrdiff_t>(kept), piece.end(), text.begin());
  }
  std::vector<MergedRank> ranks;
  for (const std::string& label : labels) ranks.push_back({.label = label, .ranks = static_cast<int>(labels.size())});
  std::stable_sort(ranks.begin(), ranks.end(),
                   [](const MergedRank& a, const MergedRank& b) { return place_of(a.label) < place_of(b.label); });
  if (!numbered_by_label(ranks))
    for (size_t i = 0; i < ranks.size(); ++i) ranks[i].rank = static_cast<int>(i);
  if (!ranks.empty()) ranks.front().first = true;
  return ranks;
}

}  // namespace profgpu
