#include "job/members.h"

#include <charconv>

namespace profgpu {

std::vector<int> member_ranks(std::string_view members) {
  std::vector<int> ranks;
  const auto skip = [&](std::string_view characters) {
    members.remove_prefix(std::min(members.find_first_not_of(characters), members.size()));
  };
  skip(" ");
  if (!members.starts_with('[')) return {};
  members.remove_prefix(1);
  for (skip(" "); !members.empty() && members.front() != ']'; skip(", ")) {
    int rank = 0;
    const auto [end, error] = std::from_chars(members.data(), members.data() + members.size(), rank);
    if (error != std::errc() || rank < 0) return {};
    members.remove_prefix(static_cast<size_t>(end - members.data()));
    ranks.push_back(rank);
  }
  return members.empty() ? std::vector<int>{} : ranks;
}

}  // namespace profgpu
