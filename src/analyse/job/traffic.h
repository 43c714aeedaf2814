// Amount and speed of the job's communication, by size.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "analyse/job/clocks.h"
#include "analyse/job/matched_collectives.h"

namespace profgpu {

/// Collectives of one name, group size and message class: from a power of two bytes up to the next.
struct Traffic {
  std::string name;                    ///< nccl-tests' term
  int64_t group_size = 0;              ///< 0: unknown
  std::optional<bool> spans_hosts;     ///< over the network; nullopt: some hosts are unknown
  int64_t size_from_bytes = -1;        ///< the class; -1: unknown
  int64_t calls = 0;                   ///< collectives with at least two ranks here
  int64_t whole_calls = 0;             ///< with all ranks of the group here
  std::optional<int64_t> message_bytes;   ///< median of whole calls; of all if none is whole
  int64_t wait_ns = 0;                 ///< sum over ranks, from each one's arrival to the last
  int64_t median_wait_ns = 0;          ///< per rank and call
  std::optional<int64_t> transfer_ns;  ///< of whole calls: median from the last arrival to the end
  std::optional<double> algbw_gbps, busbw_gbps;   ///< message_bytes in transfer_ns
  std::optional<double> link_gbps;     ///< peak rate of the device's links to its peers, within a node
  [[nodiscard]] bool wait_is_lower_bound() const { return whole_calls < calls; }
  [[nodiscard]] std::optional<double> link_pct() const;   ///< busbw of link

  void fields(auto&& v) const {
    v("name", name), v("group_size", only_if(group_size != 0, group_size)), v("spans_hosts", spans_hosts);
    v("size_from_bytes", only_if(size_from_bytes != -1, size_from_bytes)), v("calls", calls),
        v("whole_calls", whole_calls);
    v("message_bytes", message_bytes), v("wait_ns", wait_ns), v("median_wait_ns", median_wait_ns);
    v("wait_is_lower_bound", wait_is_lower_bound()), v("transfer_ns", transfer_ns), v("algbw_gbps", algbw_gbps);
    v("busbw_gbps", busbw_gbps), v("link_gbps", link_gbps), v("link_pct", link_pct());
  }
};

/// By name, group size, hosts, size. Medians of even counts are the mean of the middle two. O(n log n) in calls.
std::vector<Traffic> traffic(const JobView& job);

/// Peak rate of one device's links to its peers in a node, per direction, in 1e9 bytes a second; nullopt: unknown
/// device.
std::optional<double> link_rate_gbps(std::string_view device_name);

/// Messages from one rank to another over one group, if both ranks have traces here.
struct Pair {
  int from = 0, to = 0;                ///< ranks
  std::string process_group;
  std::optional<bool> spans_hosts;     ///< nullopt: a host is not known
  int64_t calls = 0;                   ///< sends matched with their receives
  int64_t bytes = 0;                   ///< sum over calls of known size
  std::optional<int64_t> message_bytes;   ///< median
  int64_t receiver_wait_ns = 0;        ///< from the receive's start to the send's, where that is later
  int64_t sender_wait_ns = 0;          ///< likewise
  int64_t transfer_ns = 0;             ///< sum of the times from the later start to the receive's end
  std::optional<double> bandwidth_gbps;   ///< median of bytes over transfer

  void fields(auto&& v) const {
    v("from", from), v("to", to), v("process_group", process_group), v("spans_hosts", spans_hosts), v("calls", calls);
    v("total_bytes", only_if(message_bytes.has_value(), bytes)), v("message_bytes", message_bytes);
    v("receiver_wait_ns", receiver_wait_ns), v("sender_wait_ns", sender_wait_ns), v("transfer_ns", transfer_ns);
    v("bandwidth_gbps", bandwidth_gbps);
  }
};

/// By sender, receiver, group. A send and a receive are one message if group, sender, receiver and their position among
/// those of their size in the step agree, because each rank counts its own numbers. Left out are those that the clocks
/// rule out, and kernels named SendRecv without a range that says send or receive, which may be any exchange.
std::vector<Pair> pairs(std::span<const RankDigest> ranks, std::span<const RankClock> clocks);

struct Message {
  RankCall send, receive;
};
/// The messages that pairs() sums up; without clocks, all by their order.
std::vector<Message> messages(std::span<const RankDigest> ranks, std::span<const RankClock> clocks);

}  // namespace profgpu
