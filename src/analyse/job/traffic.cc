#include "analyse/job/traffic.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <tuple>

#include "analyse/job/matched_collectives.h"
#include "analyse/rank/collectives.h"
#include "base/saturated.h"
#include "base/statistics.h"
#include "base/text.h"

namespace profgpu {
namespace {

struct TrafficClass {
  Traffic row;
  std::vector<int64_t> bytes, whole_bytes, waits, transfers;   // the second and the last: only of whole calls
};

// Two hosts are enough to know; one only if the whole group is here.
std::optional<bool> spans_hosts(const JobView& job, const MatchedCollective& m) {
  const std::string& first = job.ranks[m.calls.front().rank].host;
  bool known = m.whole_group && !first.empty();
  for (const RankCall& c : m.calls) {
    const std::string& host = job.ranks[c.rank].host;
    if (!host.empty() && !first.empty() && host != first) return true;
    known &= !host.empty();
  }
  return known ? std::optional(false) : std::nullopt;
}

void add(const JobView& job, const MatchedCollective& m, int64_t bytes, TrafficClass& c) {
  ++c.row.calls;
  if (bytes >= 0) c.bytes.push_back(bytes);
  for (const RankCall& call : m.calls) {
    const Interval time = job.time(call);
    c.waits.push_back(std::max<int64_t>(0, saturated_sub(std::min(m.last_ns, time.end), time.start)));
    add_saturated(c.row.wait_ns, c.waits.back());
  }
  c.row.link_gbps = link_rate_gbps(job.ranks[m.calls.front().rank].device_name);
  if (!m.whole_group || m.transfer_ns() <= 0) return;
  ++c.row.whole_calls;
  c.transfers.push_back(m.transfer_ns());
  if (bytes > 0) c.whole_bytes.push_back(bytes);
}

int64_t median_ns(std::vector<int64_t> values) {
  constexpr double kMost = 9e18;   // bounds values of a broken clock
  return std::llround(std::min(percentile(std::move(values), 50).value_or(0), kMost));
}

void add_medians(const TrafficClass& c, Traffic& t) {
  t.median_wait_ns = median_ns(c.waits);
  const std::vector<int64_t>& bytes = c.whole_bytes.empty() ? c.bytes : c.whole_bytes;
  if (!bytes.empty()) t.message_bytes = median_ns(bytes);
  if (!c.transfers.empty()) t.transfer_ns = median_ns(c.transfers);
  if (c.whole_bytes.empty() || *t.transfer_ns <= 0) return;
  t.algbw_gbps = static_cast<double>(*t.message_bytes) / static_cast<double>(*t.transfer_ns);
  t.busbw_gbps = *t.algbw_gbps * bus_factor(t.name, t.group_size);
}

/// One end of a message.
struct End {
  std::string_view group, members;
  int from = 0, to = 0;              // ranks
  int64_t elements = -1, step = -1;
  int64_t position = 0;              // among similar ones
  bool receives = false;
  RankCall call;
  [[nodiscard]] auto like() const { return std::tie(from, to, group, members, elements, step); }
  [[nodiscard]] auto message() const { return std::tie(from, to, group, members, elements, step, position); }
};

using MembersOf = std::map<std::pair<std::string_view, std::string_view>, std::vector<int>>;

// The other rank's number in the job: groups count their members from 0.
int peer_of(const CollectiveKind& kind, int own, int32_t peer, MembersOf& members_of) {
  const auto [at, fresh] = members_of.try_emplace({kind.group, kind.members});
  if (fresh) at->second = member_ranks(kind.members);
  const std::vector<int>& members = at->second;
  if (peer < 0 && members.size() == 2) return members[0] == own ? members[1] : members[0];
  if (members.empty()) return peer;
  return peer >= 0 && static_cast<size_t>(peer) < members.size() ? members[static_cast<size_t>(peer)] : -1;
}

// Bare sends and receives have numbers from their ranges, in unnamed groups. They are ranks if that fits all of them.
bool numbers_are_ranks(std::span<const RankDigest> ranks) {
  for (const RankDigest& rank : ranks)
    for (const CallSite& site : rank.sites.calls)
      if (site.own >= 0 && site.own != rank.rank) return false;
  return true;
}

const CollectiveCall& call_of(std::span<const RankDigest> ranks, RankCall c) {
  return ranks[c.rank].calls.calls[c.call];
}

std::vector<End> ends(std::span<const RankDigest> ranks) {
  std::vector<End> all;
  const bool bare_too = numbers_are_ranks(ranks);
  MembersOf members_of;
  for (uint32_t r = 0; r < ranks.size(); ++r) {
    const RankDigest& rank = ranks[r];
    for (uint32_t i = 0; i < rank.calls.calls.size(); ++i) {
      const CollectiveCall& c = rank.calls.calls[i];
      const CollectiveKind& kind = rank.kind(c);
      const std::string name = rank.call_name(c);
      const bool receives = name == "recv";
      if ((!receives && name != "send") || (!kind.described && !bare_too)) continue;
      const int peer = kind.described ? peer_of(kind, rank.rank, c.peer, members_of) : rank.site(c).peer;
      if (peer < 0 || peer == rank.rank) continue;
      all.push_back({kind.group, kind.members, receives ? peer : rank.rank, receives ? rank.rank : peer,
                     kind.described ? c.elements : -1, rank.step_number(c).value_or(-1), 0, receives, {r, i}});
    }
  }
  std::ranges::sort(all, {}, [&](const End& e) {
    return std::tuple_cat(e.like(), std::tuple(e.receives, e.call.rank, call_of(ranks, e.call).start_ns, e.call.call));
  });
  for (size_t i = 1; i < all.size(); ++i)
    if (all[i].like() == all[i - 1].like() && all[i].receives == all[i - 1].receives)
      all[i].position = all[i - 1].position + 1;
  std::ranges::stable_sort(all, {}, &End::message);
  return all;
}

// Whether they are a send and its receive. The clocks rule it out if the receive ended before the send began.
bool is_message(std::span<const RankDigest> ranks, std::span<const RankClock> clocks, const End& send,
                const End& receive) {
  if (send.receives || receive.message() != send.message()) return false;
  if (clocks.empty()) return true;
  const RankClock &from = clocks[send.call.rank], &to = clocks[receive.call.rank];
  if (!from.known() || !to.known()) return false;
  const int64_t errors = saturated_add(from.error_ns.value_or(0), to.error_ns.value_or(0));
  return to.aligned(call_of(ranks, receive.call).end_ns) >=
         saturated_sub(from.aligned(call_of(ranks, send.call).start_ns), errors);
}

struct PairSums {
  Pair row;
  std::vector<int64_t> bytes;
  std::vector<double> gbps;
};

int64_t waited(Interval own, int64_t other_start) {
  return std::max<int64_t>(0, saturated_sub(std::min(other_start, own.end), own.start));
}

void add(std::span<const RankDigest> ranks, std::span<const RankClock> clocks, const Message& m, PairSums& pair) {
  const CollectiveCall &send = call_of(ranks, m.send), &receive = call_of(ranks, m.receive);
  const Interval sent = clocks[m.send.rank].aligned(send), got = clocks[m.receive.rank].aligned(receive);
  const int64_t transfer = saturated_sub(got.end, std::max(sent.start, got.start));
  const int64_t bytes = std::max(send.message_bytes, receive.message_bytes);
  const std::string &from = ranks[m.send.rank].host, &to = ranks[m.receive.rank].host;
  if (!from.empty() && !to.empty()) pair.row.spans_hosts = from != to;
  ++pair.row.calls;
  add_saturated(pair.row.receiver_wait_ns, waited(got, sent.start));
  add_saturated(pair.row.sender_wait_ns, waited(sent, got.start));
  add_saturated(pair.row.transfer_ns, std::max<int64_t>(transfer, 0));
  if (bytes < 0) return;
  add_saturated(pair.row.bytes, bytes);
  pair.bytes.push_back(bytes);
  if (transfer > 0) pair.gbps.push_back(static_cast<double>(bytes) / static_cast<double>(transfer));
}

}  // namespace

std::optional<double> Traffic::link_pct() const {
  return busbw_gbps && link_gbps ? std::optional(100.0 * *busbw_gbps / *link_gbps) : std::nullopt;
}

std::vector<Traffic> traffic(const JobView& job) {
  std::map<std::tuple<std::string, int64_t, std::optional<bool>, int64_t>, TrafficClass> classes;
  for (const MatchedCollective& m : job.collectives) {
    const RankDigest& rank = job.ranks[m.calls.front().rank];
    const CollectiveCall& call = job.call(m.calls.front());
    const auto bytes = static_cast<uint64_t>(std::max<int64_t>(call.message_bytes, 0));
    const int64_t from = call.message_bytes < 0 ? -1 : static_cast<int64_t>(std::bit_floor(bytes));
    add(job, m, call.message_bytes,
        classes[{rank.call_name(call), rank.kind(call).group_size, spans_hosts(job, m), from}]);
  }
  std::vector<Traffic> out;
  for (auto& [key, of_class] : classes) {
    Traffic& t = of_class.row;
    std::tie(t.name, t.group_size, t.spans_hosts, t.size_from_bytes) = key;
    add_medians(of_class, t);
    // The table only has links within a node.
    constexpr int64_t kDevicesPerNode = 8;
    if (t.spans_hosts.value_or(false) || t.group_size > kDevicesPerNode) t.link_gbps.reset();
    out.push_back(std::move(t));
  }
  return out;
}

// Half of the bidirectional figures in the vendors' data sheets: NVLink 2 to 5 for SXM modules, Infinity Fabric for
// Instinct. Without names that may be a PCIe or an SXM board.
std::optional<double> link_rate_gbps(std::string_view name) {
  struct Rate {
    std::string_view part;
    double gbps;
  };
  constexpr Rate kRates[] = {
      {"GB200", 900}, {"B200", 900},           {"B100", 900},
      {"H200", 450},  {"H100 80GB HBM3", 450}, {"H100-SXM", 450}, {"H100 SXM", 450}, {"H800", 200},
      {"A100-SXM", 300}, {"A100 SXM", 300},    {"A800-SXM", 200},
      {"V100-SXM", 150}, {"V100-DGXS", 100},
      {"MI300X", 448},
  };
  const Rate* found = first_where(kRates, [&](const Rate& r) { return contains(name, r.part); });
  return found != nullptr ? std::optional(found->gbps) : std::nullopt;
}

std::vector<Pair> pairs(std::span<const RankDigest> ranks, std::span<const RankClock> clocks) {
  std::map<std::tuple<int, int, std::string_view, std::string_view>, PairSums> sums;   // from, to, group, members
  for (const Message& m : messages(ranks, clocks)) {
    const RankDigest& from = ranks[m.send.rank];
    const CollectiveKind& kind = from.kind(call_of(ranks, m.send));
    add(ranks, clocks, m, sums[{from.rank, ranks[m.receive.rank].rank, kind.group, kind.members}]);
  }
  std::vector<Pair> out;
  for (auto& [key, pair] : sums) {
    std::tie(pair.row.from, pair.row.to, pair.row.process_group, std::ignore) = key;
    if (!pair.bytes.empty()) pair.row.message_bytes = upper_median(pair.bytes);
    if (!pair.gbps.empty()) pair.row.bandwidth_gbps = upper_median(pair.gbps);
    out.push_back(std::move(pair.row));
  }
  return out;
}

std::vector<Message> messages(std::span<const RankDigest> ranks, std::span<const RankClock> clocks) {
  const std::vector<End> all = ends(ranks);
  std::vector<Message> out;
  for (size_t i = 0; i + 1 < all.size(); ++i)
    if (is_message(ranks, clocks, all[i], all[i + 1])) out.push_back({all[i].call, all[i + 1].call});
  return out;
}

}  // namespace profgpu
