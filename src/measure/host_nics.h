// The network cards of this host that collectives between hosts use.
#pragma once

#include <cstdint>
#include <string>

namespace profgpu {

/// Active ports of the highest rate in /sys/class/infiniband: InfiniBand, RoCE and others with verbs. count 0: none, or
/// NCCL is told to use others.
struct HostNics {
  int64_t count = 0;
  double gbps = 0;                 ///< all together, in one direction, 10⁹ bytes a second

  /// As one word, for other ranks.
  [[nodiscard]] std::string word() const;
  static HostNics of_word(std::string_view word);
};
HostNics host_nics();

}  // namespace profgpu
