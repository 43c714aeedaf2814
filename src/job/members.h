// Members of a process group as traces name them.
#pragma once

#include <string_view>
#include <vector>

namespace profgpu {

/// Ranks of the job in the group's order, of "[0, 1]"; empty if it is no such list (long ones are cut: "[0, 1, ...]").
std::vector<int> member_ranks(std::string_view members);

}  // namespace profgpu
