#include "analyse/run/flight_calls.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace profgpu {
namespace {

// Of a rank's statuses: by which numbers it knows its groups. Ranks with the same ones were set up alike.
std::vector<int64_t> numbers_of(const FlightDump& dump) {
  std::vector<int64_t> ids;
  for (const FlightStatus& s : dump.status) ids.push_back(s.local_id);
  std::ranges::sort(ids);
  return ids;
}

bool before(const FlightCalls::Call& a, const FlightCalls::Call& b) { return a.call->record < b.call->record; }

}  // namespace

const FlightCalls::Call* FlightCalls::Rank::first_open() const {
  for (const Call& c : calls)
    if (c.call->pending()) return &c;
  return nullptr;
}

FlightCalls::FlightCalls(const std::vector<std::shared_ptr<const FlightDump>>& dumps) {
  int next = 0;
  for (const auto& dump : dumps)
    if (dump->rank) next = std::max(next, *dump->rank + 1);
  for (const auto& dump : dumps) {
    const int rank = dump->rank.value_or(next);
    if (ranks_.contains(rank)) continue;  // a second dump of a rank
    next = std::max(next, rank + 1);
    ranks_[rank].dump = dump.get();
  }
  for (auto& [rank, r] : ranks_) add(*r.dump);
  for (auto& [rank, r] : ranks_) {
    std::map<std::tuple<size_t, int, int, bool>, size_t> open;
    for (const FlightCall& c : r.dump->calls) {
      const size_t group = group_of(r.dump->groups[c.group]);
      size_t nth = 0;
      if (c.p2p && c.pending()) nth = open[{group, c.from, c.to, c.sends}]++;
      groups_[group].has_p2p |= c.p2p;
      r.calls.push_back({group, &c, nth});
    }
    std::ranges::stable_sort(r.calls, before);
    for (size_t i = 0; i < r.calls.size(); ++i) {
      const Call& c = r.calls[i];
      if (c.call->p2p) continue;
      r.by_number.try_emplace({c.group, c.call->sequence}, i);
      const auto [newest, fresh] = r.newest.try_emplace(c.group, c.call->sequence);
      if (!fresh) newest->second = std::max(newest->second, c.call->sequence);
    }
  }
  // Groups whose members no dump states have those that called in them.
  for (const auto& [rank, r] : ranks_)
    for (const Call& c : r.calls) {
      std::vector<int>& members = groups_[c.group].ranks;
      if (!std::ranges::binary_search(members, rank)) members.insert(std::ranges::lower_bound(members, rank), rank);
    }
  std::set<int> all;
  for (const auto& [rank, r] : ranks_) all.insert(rank);
  for (const Group& g : groups_) all.insert(g.ranks.begin(), g.ranks.end());
  all_.assign(all.begin(), all.end());
  set_status();
}

// Every group of the dump, also those without a call: they tell who is in the job.
void FlightCalls::add(const FlightDump& dump) {
  for (const FlightGroup& g : dump.groups) group_of(g);
}

size_t FlightCalls::group_of(const FlightGroup& group) {
  std::vector<int> ranks = group.ranks;
  std::ranges::sort(ranks);
  const auto [at, fresh] = group_place_.try_emplace({group.name, ranks}, groups_.size());
  if (fresh)
    groups_.push_back({group.name, group.description, ranks, false});
  else if (groups_[at->second].description.empty())
    groups_[at->second].description = group.description;
  return at->second;
}

// A rank's own numbers of its groups stand beside its calls only. Ranks that number their groups alike have the same
// number for groups of the same description.
void FlightCalls::set_status() {
  std::map<std::vector<int64_t>, std::map<std::string, std::set<int64_t>>> by_setup;
  for (const auto& [rank, r] : ranks_)
    for (const FlightGroup& g : r.dump->groups)
      if (g.local_id >= 0) by_setup[numbers_of(*r.dump)][g.description].insert(g.local_id);
  for (auto& [rank, r] : ranks_) {
    const auto& numbers = by_setup[numbers_of(*r.dump)];
    for (const FlightGroup& g : r.dump->groups) {
      int64_t id = g.local_id;
      const auto known = numbers.find(g.description);
      if (id < 0 && known != numbers.end() && known->second.size() == 1 && !g.description.empty())
        id = *known->second.begin();
      const auto status = std::ranges::find(r.dump->status, id, &FlightStatus::local_id);
      const size_t group = group_of(g);
      if (id < 0 || status == r.dump->status.end() || groups_[group].has_p2p) continue;
      if (status->last_enqueued && status->last_completed)
        r.last[group] = {*status->last_enqueued, *status->last_completed};
    }
  }
}

int FlightCalls::rank_in(size_t group, int place) const {
  const std::vector<int>& ranks = groups_[group].ranks;
  const auto i = static_cast<size_t>(std::max(place, 0));
  return i < ranks.size() ? ranks[i] : place;
}

std::vector<int> FlightCalls::members(const Call& call) const {
  if (!call.call->p2p) return groups_[call.group].ranks;
  if (call.call->from < 0) return {};
  return {rank_in(call.group, call.call->from), rank_in(call.group, call.call->to)};
}

const FlightCalls::Call* FlightCalls::same(int rank, const Call& call) const {
  const auto at = ranks_.find(rank);
  if (at == ranks_.end()) return nullptr;
  const Rank& r = at->second;
  if (!call.call->p2p) {
    const auto found = r.by_number.find({call.group, call.call->sequence});
    return found != r.by_number.end() ? &r.calls[found->second] : nullptr;
  }
  const bool own = std::ranges::any_of(r.calls, [&](const Call& c) { return c.call == call.call; });
  for (const Call& c : r.calls) {
    const bool peers =
        c.group == call.group && c.call->p2p && c.call->from == call.call->from && c.call->to == call.call->to;
    if (own ? c.call == call.call
            : peers && c.call->pending() && c.call->sends != call.call->sends && c.nth == call.nth)
      return &c;
  }
  return nullptr;
}

FlightPlace FlightCalls::place(int rank, const Call& call) const {
  const auto at = ranks_.find(rank);
  if (at == ranks_.end()) return FlightPlace::kNoDump;
  if (const Call* own = same(rank, call)) return own->call->pending() ? FlightPlace::kOpen : FlightPlace::kDone;
  if (call.call->p2p) return FlightPlace::kAbsent;
  const Rank& r = at->second;
  const int64_t sequence = call.call->sequence;
  const auto newest = r.newest.find(call.group);
  if (newest != r.newest.end() && newest->second > sequence) return FlightPlace::kDone;  // no longer in the buffer
  const auto last = r.last.find(call.group);
  if (last != r.last.end() && last->second.second >= sequence) return FlightPlace::kDone;
  return FlightPlace::kAbsent;
}

std::string FlightCalls::text(const Call& call) const {
  const Group& group = groups_[call.group];
  const std::string of =
      group.description.empty() ? "group " + group.name : fmt::format("{} ({})", group.description, group.name);
  if (!call.call->p2p) return fmt::format("{} #{} of {}", call.call->name, call.call->sequence, of);
  if (call.call->from < 0) return fmt::format("{} of {}", call.call->name, of);
  return fmt::format("send from rank {} to rank {} of {}", rank_in(call.group, call.call->from),
                     rank_in(call.group, call.call->to), of);
}

}  // namespace profgpu
