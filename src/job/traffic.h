// What the job's collectives move, and how fast, by size.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "job/meetings.h"

namespace profgpu {

/// Collectives of one name and group size whose messages are of one class: from a power of two bytes up to the next.
struct Traffic {
  std::string name;                    ///< nccl-tests' term
  int64_t group_size = 0;              ///< 0: unknown
  std::optional<bool> spans_hosts;     ///< over the network; nullopt: not all hosts are known
  int64_t size_from_bytes = -1;        ///< the class; -1: sizes unknown
  int64_t calls = 0;                   ///< collectives, of at least two ranks in hand
  int64_t whole_calls = 0;             ///< with all ranks of the group in hand
  std::optional<int64_t> message_bytes;   ///< median of whole calls; of all where none is whole
  int64_t wait_ns = 0;                 ///< of all ranks together, from each one's arrival to the last
  int64_t median_wait_ns = 0;          ///< per rank and call
  std::optional<int64_t> transfer_ns;  ///< of whole calls: median from the last arrival to the end
  std::optional<double> algbw_gbps, busbw_gbps;   ///< message_bytes in transfer_ns
  std::optional<double> link_gbps;     ///< peak rate of the device's links to its peers, within a node
  [[nodiscard]] bool wait_is_lower_bound() const { return whole_calls < calls; }
  [[nodiscard]] std::optional<double> link_pct() const;   ///< busbw of link

  template <class V>
  void fields(V&& v) const {
    v("name", name), v("group_size", only_if(group_size != 0, group_size)), v("spans_hosts", spans_hosts);
    v("size_from_bytes", only_if(size_from_bytes != -1, size_from_bytes)), v("calls", calls), v("whole_calls", whole_calls);
    v("message_bytes", message_bytes), v("wait_ns", wait_ns), v("median_wait_ns", median_wait_ns);
    v("wait_is_lower_bound", wait_is_lower_bound()), v("transfer_ns", transfer_ns), v("algbw_gbps", algbw_gbps);
    v("busbw_gbps", busbw_gbps), v("link_gbps", link_gbps), v("link_pct", link_pct());
  }
};

/// By name, group size, hosts, size. Medians lie between the two values in the middle. O(n log n) in calls.
std::vector<Traffic> traffic(std::span<const RankDigest> ranks, std::span<const RankClock> clocks,
                             std::span<const Meeting> all);

// Rates of the links between devices of one node.

constexpr int kDevicesOfOneNode = 8;

/// Peak rate of one device's links to its peers, per direction, in 1e9 bytes a second; nullopt if the name does not say.
std::optional<double> link_rate_gbps(std::string_view device_name);

}  // namespace profgpu
