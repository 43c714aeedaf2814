// Point-to-point traffic: what one rank sends to another.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "job/clocks.h"

namespace profgpu {

/// All that one rank sends another over one group, as far as both ends are in hand.
struct Pair {
  int from = 0, to = 0;                ///< ranks
  std::string process_group;
  std::optional<bool> spans_hosts;     ///< nullopt: a host is not known
  int64_t calls = 0;                   ///< sends matched with their receives
  int64_t bytes = 0;                   ///< of calls whose size is known, together
  std::optional<int64_t> message_bytes;   ///< median
  int64_t receiver_wait_ns = 0;        ///< from the receive's start to the send's, where that is later
  int64_t sender_wait_ns = 0;          ///< likewise
  int64_t transfer_ns = 0;             ///< together, from the later start to the receive's end
  std::optional<double> bandwidth_gbps;   ///< median of bytes over transfer

  template <class V>
  void fields(V&& v) const {
    v("from", from), v("to", to), v("process_group", process_group), v("spans_hosts", spans_hosts), v("calls", calls);
    v("total_bytes", only_if(message_bytes.has_value(), bytes)), v("message_bytes", message_bytes);
    v("receiver_wait_ns", receiver_wait_ns), v("sender_wait_ns", sender_wait_ns), v("transfer_ns", transfer_ns);
    v("bandwidth_gbps", bandwidth_gbps);
  }
};

/// By sender, receiver, group. A send and a receive are one message if group, sender and receiver agree, and their
/// place among those of their size in the step, since numbers are counted by each rank for itself. Those that the
/// clocks show not to be one are left out, and so are kernels named SendRecv that no range calls a send or a receive: they
/// may be any exchange.
std::vector<Pair> pairs(std::span<const RankDigest> ranks, std::span<const RankClock> clocks);

struct Message {
  RankCall send, receive;
};
/// Those that pairs() adds up; without clocks, all by their order.
std::vector<Message> messages(std::span<const RankDigest> ranks, std::span<const RankClock> clocks);

}  // namespace profgpu
