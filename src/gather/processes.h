// The processes that read one job together.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace profgpu {

/// All calls are collective: every process makes them, in the same order.
struct Processes {
  int place = 0;   ///< of this one; 0 puts the job together
  int count = 1;
  std::vector<int> hosts{0};   ///< of each process; those of one host share its cores
  uint64_t* taken = nullptr;   ///< how many of their host's units the processes there have taken; null: nobody shares them
  /// What each process gives, in their order; on process 0 alone, elsewhere nothing.
  std::function<std::vector<std::string>(const std::string& mine)> gather =
      [](const std::string& mine) { return std::vector{mine}; };
};

}  // namespace profgpu
