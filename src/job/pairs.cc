#include "job/pairs.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "base/saturated.h"
#include "base/statistics.h"
#include "job/matched_calls.h"

namespace profgpu {
namespace {

/// One end of a message.
struct End {
  std::string_view group, members;
  int from = 0, to = 0;              // ranks
  int64_t elements = -1, step = -1;
  int64_t place = 0;                 // among its like
  bool receives = false;
  uint32_t rank = 0, call = 0;       // place of the rank; its call
  [[nodiscard]] auto pair() const { return std::tie(from, to, group, members); }
  [[nodiscard]] auto like() const { return std::tie(from, to, group, members, elements, step); }
  [[nodiscard]] auto message() const { return std::tie(from, to, group, members, elements, step, place); }
};

using PlaceOf = std::map<std::pair<std::string_view, std::string_view>, std::vector<int>>;

// The other rank's number in the job: groups count their members from 0.
int peer_of(const CollectiveKind& kind, int own, int32_t peer, PlaceOf& members_of) {
  const auto [at, fresh] = members_of.try_emplace({kind.group, kind.members});
  if (fresh) at->second = member_ranks(kind.members);
  const std::vector<int>& members = at->second;
  if (peer < 0 && members.size() == 2) return members[0] == own ? members[1] : members[0];
  if (members.empty()) return peer;
  return peer >= 0 && static_cast<size_t>(peer) < members.size() ? members[static_cast<size_t>(peer)] : -1;
}

// Bare sends and receives have their places from ranges, in groups that nobody names: ranks only if that fits all of them.
bool places_are_ranks(std::span<const RankDigest> ranks) {
  for (const RankDigest& rank : ranks)
    for (const CallSite& site : rank.sites.calls)
      if (site.own >= 0 && site.own != rank.rank) return false;
  return true;
}

std::vector<End> ends(std::span<const RankDigest> ranks) {
  std::vector<End> all;
  const bool bare_too = places_are_ranks(ranks);
  PlaceOf members_of;
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
      const int64_t step = rank.annotated && c.step_place < rank.steps.size() ? rank.steps[c.step_place].index : -1;
      all.push_back({kind.group, kind.members, receives ? peer : rank.rank, receives ? rank.rank : peer,
                     kind.described ? c.elements : -1, step, 0, receives, r, i});
    }
  }
  const auto start = [&](const End& e) { return ranks[e.rank].calls.calls[e.call].start_ns; };
  std::sort(all.begin(), all.end(), [&](const End& a, const End& b) {
    return std::tuple_cat(a.like(), std::make_tuple(a.receives, a.rank, start(a), a.call)) <
           std::tuple_cat(b.like(), std::make_tuple(b.receives, b.rank, start(b), b.call));
  });
  for (size_t i = 1; i < all.size(); ++i)
    if (all[i].like() == all[i - 1].like() && all[i].receives == all[i - 1].receives)
      all[i].place = all[i - 1].place + 1;
  std::stable_sort(all.begin(), all.end(), [](const End& a, const End& b) { return a.message() < b.message(); });
  return all;
}

const CollectiveCall& call_of(std::span<const RankDigest> ranks, const End& e) {
  return ranks[e.rank].calls.calls[e.call];
}

Interval aligned(std::span<const RankDigest> ranks, std::span<const RankClock> clocks, const End& e) {
  const CollectiveCall& c = call_of(ranks, e);
  return {clocks[e.rank].aligned(c.start_ns), clocks[e.rank].aligned(c.end_ns)};
}

// Whether ends[i] and the one after it are a send and its receive, as far as the clocks allow: not if the receiver had
// all before the sender began.
bool is_message(std::span<const RankDigest> ranks, std::span<const RankClock> clocks, const std::vector<End>& ends,
                size_t i) {
  if (ends[i].receives || i + 1 == ends.size() || ends[i + 1].message() != ends[i].message()) return false;
  if (clocks.empty()) return true;
  const RankClock &from = clocks[ends[i].rank], &to = clocks[ends[i + 1].rank];
  if (!from.known() || !to.known()) return false;
  const int64_t errors = saturated_add(from.error_ns.value_or(0), to.error_ns.value_or(0));
  return aligned(ranks, clocks, ends[i + 1]).end >= saturated_sub(aligned(ranks, clocks, ends[i]).start, errors);
}

class Meter {
 public:
  Meter(std::span<const RankDigest> ranks, std::span<const RankClock> clocks) : ranks_(ranks), clocks_(clocks) {}

  void add(const End& send, const End& receive) {
    const Interval sent = aligned(ranks_, clocks_, send), got = aligned(ranks_, clocks_, receive);
    const int64_t transfer = saturated_sub(got.end, std::max(sent.start, got.start));
    const int64_t bytes = std::max(call_of(ranks_, send).message_bytes, call_of(ranks_, receive).message_bytes);
    ++pair.calls;
    pair.receiver_wait_ns = saturated_add(pair.receiver_wait_ns, waited(got, sent.start));
    pair.sender_wait_ns = saturated_add(pair.sender_wait_ns, waited(sent, got.start));
    pair.transfer_ns = saturated_add(pair.transfer_ns, std::max<int64_t>(transfer, 0));
    if (bytes < 0) return;
    pair.bytes = saturated_add(pair.bytes, bytes);
    bytes_.push_back(bytes);
    if (transfer > 0) gbps_.push_back(static_cast<double>(bytes) / static_cast<double>(transfer));
  }

  Pair finish(const End& end) {
    pair.from = end.from;
    pair.to = end.to;
    pair.process_group = end.group;
    if (!bytes_.empty()) pair.message_bytes = upper_median(bytes_);
    if (!gbps_.empty()) pair.bandwidth_gbps = upper_median(gbps_);
    return std::move(pair);
  }
  Pair pair;

 private:
  static int64_t waited(Interval own, int64_t other_start) {
    return std::max<int64_t>(0, saturated_sub(std::min(other_start, own.end), own.start));
  }

  std::span<const RankDigest> ranks_;
  std::span<const RankClock> clocks_;
  std::vector<int64_t> bytes_;
  std::vector<double> gbps_;
};

}  // namespace

std::vector<Pair> pairs(std::span<const RankDigest> ranks, std::span<const RankClock> clocks) {
  const std::vector<End> all = ends(ranks);
  std::vector<Pair> out;
  for (size_t i = 0; i < all.size();) {
    Meter meter(ranks, clocks);
    size_t j = i;
    for (; j < all.size() && all[j].pair() == all[i].pair(); ++j) {
      if (!is_message(ranks, clocks, all, j)) continue;
      meter.add(all[j], all[j + 1]);
      const std::string &from = ranks[all[j].rank].host, &to = ranks[all[j + 1].rank].host;
      if (!from.empty() && !to.empty()) meter.pair.spans_hosts = from != to;
    }
    if (meter.pair.calls > 0) out.push_back(meter.finish(all[i]));
    i = j;
  }
  return out;
}

std::vector<Message> messages(std::span<const RankDigest> ranks, std::span<const RankClock> clocks) {
  const std::vector<End> all = ends(ranks);
  std::vector<Message> out;
  for (size_t i = 0; i < all.size(); ++i)
    if (is_message(ranks, clocks, all, i))
      out.push_back({{all[i].rank, all[i].call}, {all[i + 1].rank, all[i + 1].call}});
  return out;
}

}  // namespace profgpu
