#include "analyse/run/flight_calls.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
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

// PyTorch counts groups from 0. Old versions have no names, but the process's own numbers.
bool is_first(const FlightCalls::Group& group) { return group.name == "0" || group.name == "local 0"; }

// Whether a rank has no other group of that description, as users' own groups often have none.
bool only_of_its_kind(int rank, const FlightDump& dump, const FlightGroup& group) {
  return std::ranges::count_if(dump.groups, [&](const FlightGroup& g) {
           const bool own = g.ranks.empty() || std::ranges::count(g.ranks, rank) > 0;
           return own && g.description == group.description;
         }) == 1;
}

}  // namespace

bool FlightCalls::earlier(const Call& a, const Call& b) {
  constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
  return a.call->created_ns.value_or(kNever) < b.call->created_ns.value_or(kNever);
}

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
  // Every group of the dumps, also those without a call: they tell who is in the job.
  for (const auto& [rank, r] : ranks_)
    for (const FlightGroup& g : r.dump->groups) group_of(g);
  for (auto& [rank, r] : ranks_) add_calls(r);
  add_members();
  std::set<int> all;
  for (const auto& [rank, r] : ranks_) all.insert(rank);
  for (const Group& g : groups_) all.insert(g.ranks.begin(), g.ranks.end());
  all_.assign(all.begin(), all.end());
  set_status();
  add_overwritten();
  for (auto& [rank, r] : ranks_) r.number();
}

void FlightCalls::add_calls(Rank& r) {
  std::map<std::tuple<size_t, int, int, bool>, size_t> open;
  for (const FlightCall& c : r.dump->calls) {
    const size_t group = group_of(r.dump->groups[c.group]);
    size_t nth = 0;
    if (c.p2p && c.pending()) nth = open[{group, c.from, c.to, c.sends}]++;
    groups_[group].has_p2p |= c.p2p;
    r.calls.push_back({group, &c, nth});
  }
  std::ranges::stable_sort(r.calls, before);
}

void FlightCalls::Rank::number() {
  for (size_t i = 0; i < calls.size(); ++i) {
    const Call& c = calls[i];
    if (c.call->p2p) continue;
    by_number.try_emplace({c.group, c.call->sequence}, i);
    const auto [at, fresh] = newest.try_emplace(c.group, c.call->sequence);
    if (!fresh) at->second = std::max(at->second, c.call->sequence);
  }
}

// Groups whose members no dump states have those that called in them; the first group of a process has all ranks.
void FlightCalls::add_members() {
  std::vector<std::set<int>> members(groups_.size());
  for (const auto& [rank, r] : ranks_)
    for (const Call& c : r.calls) members[c.group].insert(rank);
  for (size_t g = 0; g < groups_.size(); ++g) {
    Group& group = groups_[g];
    if (group.ranks.empty() && is_first(group))
      for (const auto& [rank, r] : ranks_) members[g].insert(rank);
    members[g].insert(group.ranks.begin(), group.ranks.end());
    group.ranks.assign(members[g].begin(), members[g].end());
  }
}

// A full buffer drops its oldest call, open or not. The status still counts it, and another rank may have it.
void FlightCalls::add_overwritten() {
  std::vector<std::map<int64_t, const FlightCall*>> known(groups_.size());
  for (const auto& [rank, r] : ranks_)
    for (const Call& c : r.calls)
      if (!c.call->p2p) known[c.group].try_emplace(c.call->sequence, c.call);
  for (auto& [rank, r] : ranks_) {
    std::set<std::pair<size_t, int64_t>> kept;
    for (const Call& c : r.calls)
      if (!c.call->p2p) kept.emplace(c.group, c.call->sequence);
    std::vector<Call> calls;
    for (const auto& [group, last] : r.last) {
      const auto end = known[group].upper_bound(last.first);
      for (auto at = known[group].upper_bound(last.second); at != end; ++at)
        if (!kept.contains({group, at->first})) calls.push_back({group, at->second, 0});
    }
    std::ranges::stable_sort(calls, earlier);
    int64_t record = std::numeric_limits<int64_t>::min();
    for (Call& c : calls) {
      FlightCall& copy = overwritten_.emplace_back(*c.call);
      copy.record = record++, copy.state = FlightState::kScheduled, copy.frames.clear();
      c.call = &copy;
    }
    r.calls.insert(r.calls.begin(), calls.begin(), calls.end());
  }
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
      if (id < 0 && known != numbers.end() && known->second.size() == 1 && !g.description.empty() &&
          only_of_its_kind(rank, *r.dump, g))
        id = *known->second.begin();
      // Of two groups of one rank with one number the one that is not stated is another's.
      if (g.local_id < 0 && std::ranges::count(r.dump->groups, id, &FlightGroup::local_id) > 0) continue;
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
