#include "analyse/run/flight_calls.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
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

constexpr int64_t kMostApart = 4;  // calls by which one side of a pair may be ahead of the other

bool before(const FlightCalls::Call& a, const FlightCalls::Call& b) { return a.call->record < b.call->record; }

// PyTorch counts groups from 0. Old versions have no names, but the process's own numbers.
bool is_first(const FlightGroup& group) { return group.name == "0" || group.name == "local 0"; }

// A process's own number of a group says nothing of other ranks' groups.
bool has_own_number_only(const FlightGroup& group) {
  return group.ranks.empty() && !is_first(group) && group.name.starts_with("local ");
}

bool has_all_calls(const FlightDump& dump) {
  return !dump.only_pending && !dump.calls.empty() && dump.calls.front().record == 0;
}

// Ranks that a dump can be of, by the groups that it is in; empty: it does not say.
std::vector<int> ranks_of_groups(const FlightDump& dump) {
  std::optional<std::vector<int>> common;
  for (const FlightGroup& g : dump.groups) {
    if (g.ranks.empty()) continue;
    if (!common) common = g.ranks;
    std::erase_if(*common, [&](int rank) { return std::ranges::count(g.ranks, rank) == 0; });
  }
  return common.value_or(std::vector<int>());
}

// Whether the number in a file's name can be a rank: a process's number is in none of the groups.
std::optional<int> named_rank(const FlightDump& dump) {
  const bool states = std::ranges::any_of(dump.groups, [](const FlightGroup& g) { return !g.ranks.empty(); });
  const bool member = dump.rank && std::ranges::any_of(dump.groups, [&](const FlightGroup& g) {
                        return std::ranges::count(g.ranks, *dump.rank) > 0;
                      });
  return states && !member ? std::nullopt : dump.rank;
}

// By the peers that point-to-point calls name, or if only one rank is in all of its groups.
std::optional<int> derived_rank(const FlightDump& dump) {
  for (const FlightCall& c : dump.calls)
    for (const FlightPart& part : c.parts) {
      const std::vector<int>& ranks = dump.groups[c.group].ranks;
      const auto own = static_cast<size_t>(part.sends ? part.from : part.to);
      if (own < ranks.size()) return ranks[own];
    }
  const std::vector<int> ranks = ranks_of_groups(dump);
  return ranks.size() == 1 ? std::optional(ranks.front()) : std::nullopt;
}

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
  add_ranks(dumps);
  // Every group of the dumps, also those without a call: they tell who is in the job. First those with members, as a
  // dump that does not state a group's members is joined with one that does.
  for (const bool stated : {true, false})
    for (const auto& [rank, r] : ranks_)
      for (const FlightGroup& g : r.dump->groups)
        if (g.ranks.empty() != stated) group_of(g, rank);
  for (auto& [rank, r] : ranks_) add_calls(rank, r);
  add_members();
  std::set<int> all;
  for (const auto& [rank, r] : ranks_) all.insert(rank);
  for (const Group& g : groups_) all.insert(g.ranks.begin(), g.ranks.end());
  all_.assign(all.begin(), all.end());
  set_status();
  add_overwritten();
  for (auto& [rank, r] : ranks_) r.number();
  add_shifts();
}

void FlightCalls::add_ranks(const std::vector<std::shared_ptr<const FlightDump>>& dumps) {
  std::vector<const FlightDump*> unnamed, nameless;
  for (const auto& dump : dumps)
    if (const auto rank = named_rank(*dump)) ranks_[*rank].dump = dump.get();
    else unnamed.push_back(dump.get());
  for (const FlightDump* dump : unnamed) {
    const auto rank = derived_rank(*dump);
    if (rank && !ranks_.contains(*rank)) ranks_[*rank].dump = dump;
    else nameless.push_back(dump);
  }
  const auto name_of = [](const FlightDump* d) { return d->path.substr(d->path.rfind('/') + 1); };
  for (const FlightDump* dump : nameless) {
    const std::vector<int> candidates = ranks_of_groups(*dump);
    const auto free = std::ranges::find_if(candidates, [&](int rank) { return !ranks_.contains(rank); });
    const int rank = free != candidates.end() ? *free : ranks_.empty() ? 0 : ranks_.rbegin()->first + 1;
    ranks_[rank].dump = dump;
    const bool alone = std::ranges::count(nameless, name_of(dump), name_of) == 1;
    nameless_[rank] = alone ? name_of(dump) : dump->path;
  }
}

void FlightCalls::add_calls(int rank, Rank& r) {
  std::vector<size_t> groups;
  for (const FlightGroup& g : r.dump->groups) groups.push_back(group_of(g, rank));
  for (const FlightCall& c : r.dump->calls) {
    const size_t group = groups[c.group];
    groups_[group].has_p2p |= c.p2p;
    r.calls.push_back({group, &c, rank});
  }
  std::ranges::stable_sort(r.calls, before);
}

void FlightCalls::Rank::number() {
  for (size_t i = 0; i < calls.size(); ++i) {
    const Call& c = calls[i];
    for (const FlightPart& part : c.call->parts) sides[{c.group, part.from, part.to, part.sends}].push_back(i);
    if (c.call->p2p) continue;
    by_number.try_emplace({c.group, c.call->sequence}, i);
    const auto [at, fresh] = newest.try_emplace(c.group, c.call->sequence);
    if (!fresh) at->second = std::max(at->second, c.call->sequence);
  }
}

// The first group has all ranks; of others that no dump states those that called in them are known.
void FlightCalls::add_members() {
  for (size_t g = 0; g < groups_.size(); ++g) {
    Group& group = groups_[g];
    if (group.first && group.ranks.empty())
      for (const auto& [rank, r] : ranks_) group.ranks.push_back(rank);
    group.stated = group.first || !group.ranks.empty();
    if (!group.stated) add_known_members(g);
  }
}

// Ranks of several groups may have given theirs the same name: then their calls differ.
void FlightCalls::add_known_members(size_t group) {
  std::set<int> members;
  std::map<int64_t, std::string> names;
  bool differ = false;
  for (const auto& [rank, r] : ranks_)
    for (const Call& c : r.calls) {
      if (c.group != group) continue;
      members.insert(rank);
      if (!c.call->p2p) differ |= names.try_emplace(c.call->sequence, c.call->name).first->second != c.call->name;
    }
  if (!differ) groups_[group].ranks.assign(members.begin(), members.end());
}

// A full buffer drops its oldest call, open or not. The status still counts it, and another rank may have it.
void FlightCalls::add_overwritten() {
  std::vector<std::map<int64_t, const FlightCall*>> known(groups_.size());
  for (const auto& [rank, r] : ranks_)
    for (const Call& c : r.calls)
      if (!c.call->p2p) known[c.group].try_emplace(c.call->sequence, c.call);
  for (auto& [rank, r] : ranks_) {
    std::map<size_t, std::set<int64_t>> kept;
    for (const Call& c : r.calls)
      if (!c.call->p2p) kept[c.group].insert(c.call->sequence);
    std::vector<Call> calls;
    for (const auto& [group, last] : r.last) {
      const std::set<int64_t>& own = kept[group];
      const auto begin = known[group].upper_bound(last.second), end = known[group].upper_bound(last.first);
      for (auto at = begin; at != end; ++at)
        if (!own.contains(at->first)) calls.push_back({group, at->second, rank});
      // No rank has it any longer.
      const bool dropped = last.second >= 0 && !own.empty() && *own.begin() > last.second + 1;
      if (dropped && (begin == known[group].end() || begin->first > last.second + 1)) {
        FlightCall& nameless = overwritten_.emplace_back();
        nameless.sequence = last.second + 1;
        calls.push_back({group, &nameless, rank});
      }
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

size_t FlightCalls::group_of(const FlightGroup& group, int rank) {
  std::vector<int> ranks = group.ranks;
  std::ranges::sort(ranks);
  if (ranks.empty() && !has_own_number_only(group)) {
    std::vector<size_t> stated;
    for (size_t g = 0; g < groups_.size(); ++g)
      if (groups_[g].name == group.name && std::ranges::count(groups_[g].ranks, rank) > 0) stated.push_back(g);
    if (stated.size() == 1) return stated.front();
  }
  const int owner = has_own_number_only(group) ? rank : -1;
  const auto [at, fresh] = group_place_.try_emplace({group.name, ranks, owner}, groups_.size());
  if (fresh)
    groups_.push_back({group.name, group.description, ranks, false, false, is_first(group)});
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
      const size_t group = group_of(g, rank);
      if (id < 0 || status == r.dump->status.end() || groups_[group].has_p2p) continue;
      if (status->last_enqueued && status->last_completed)
        r.last[group] = {*status->last_enqueued, *status->last_completed};
    }
  }
}

// Which receive is which send's: counted from a point that both dumps have, if that is possible; else their first open
// ones are the same.
void FlightCalls::add_shifts() {
  for (const auto& [rank, r] : ranks_)
    for (const auto& [side, calls] : r.sides) {
      const auto& [group, from, to, sends] = side;
      const auto peer = rank_in(group, sends ? to : from);
      if (!peer || !ranks_.contains(*peer)) continue;
      const Side key{group, from, to, true};
      if (!shifts_.contains(key)) shifts_[key] = sends ? shift_of(rank, *peer, key) : shift_of(*peer, rank, key);
    }
}

int64_t FlightCalls::shift_of(int sender, int receiver, const Side& sends) const {
  const auto side = [&](int rank, bool sending) {
    const auto& sides = ranks_.at(rank).sides;
    const auto at = sides.find({std::get<0>(sends), std::get<1>(sends), std::get<2>(sends), sending});
    return at != sides.end() ? at->second : std::vector<size_t>();
  };
  const auto first_open = [&](int rank, const std::vector<size_t>& places) {
    const auto& calls = ranks_.at(rank).calls;
    return std::ranges::find_if(places, [&](size_t i) { return calls[i].call->pending(); }) - places.begin();
  };
  const std::vector<size_t> sent = side(sender, true), received = side(receiver, false);
  const int64_t open = first_open(receiver, received) - first_open(sender, sent);
  const auto counted = counted_shift(sender, receiver, sent, received);
  return counted && std::abs(*counted - open) <= kMostApart ? *counted : open;
}

std::optional<int64_t> FlightCalls::counted_shift(int sender, int receiver, const std::vector<size_t>& sends,
                                                  const std::vector<size_t>& receives) const {
  const Rank &s = ranks_.at(sender), &r = ranks_.at(receiver);
  if (has_all_calls(*s.dump) && has_all_calls(*r.dump)) return 0;
  if (s.dump->only_pending || r.dump->only_pending) return {};
  std::optional<std::pair<size_t, size_t>> both;  // the newest collective that both have completed
  for (const auto& [number, i] : s.by_number) {
    const auto at = r.by_number.find(number);
    if (at == r.by_number.end() || s.calls[i].call->pending() || r.calls[at->second].call->pending()) continue;
    if (!both || i > both->first) both = {i, at->second};
  }
  if (!both) return {};
  const auto after = [](const std::vector<size_t>& places, size_t i) {
    return std::ranges::upper_bound(places, i) - places.begin();
  };
  return after(receives, both->second) - after(sends, both->first);
}

FlightCalls::Counterpart FlightCalls::counterpart(const Call& call, size_t part) const {
  const FlightPart& own = call.call->parts[part];
  const auto peer = rank_in(call.group, own.sends ? own.to : own.from);
  if (!peer) return {FlightPlace::kNoDump, -1, nullptr, nullptr};
  const auto at = ranks_.find(*peer);
  if (at == ranks_.end()) return {FlightPlace::kNoDump, *peer, nullptr, nullptr};
  const Rank &mine = ranks_.at(call.rank), &other = at->second;
  const Side side{call.group, own.from, own.to, own.sends}, opposite{call.group, own.from, own.to, !own.sends};
  const std::vector<size_t>& places = mine.sides.at(side);
  int64_t nth =
      std::ranges::find_if(places, [&](size_t i) { return mine.calls[i].call == call.call; }) - places.begin();
  for (size_t i = 0; i < part; ++i) {
    const FlightPart& p = call.call->parts[i];
    nth += p.from == own.from && p.to == own.to && p.sends == own.sends;
  }
  const int64_t shift = shifts_.at({call.group, own.from, own.to, true});
  nth += own.sends ? shift : -shift;
  if (nth < 0) return {FlightPlace::kDone, *peer, nullptr, nullptr};  // it has left the buffer
  const auto there = other.sides.find(opposite);
  if (there == other.sides.end() || nth >= std::ssize(there->second)) {
    const bool known = other.dump->problem.empty();
    return {known ? FlightPlace::kAbsent : FlightPlace::kNoDump, *peer, nullptr, nullptr};
  }
  const size_t place = there->second[static_cast<size_t>(nth)];
  const Call& found = other.calls[place];
  int64_t within = nth - (std::ranges::lower_bound(there->second, place) - there->second.begin());
  const FlightPart* same = nullptr;
  for (const FlightPart& p : found.call->parts)
    if (p.from == own.from && p.to == own.to && p.sends != own.sends && within-- == 0) same = &p;
  return {found.call->pending() ? FlightPlace::kOpen : FlightPlace::kDone, *peer, &found, same};
}

// Of a group whose members are not stated a number within it is no rank of the job.
std::optional<int> FlightCalls::rank_in(size_t group, int place) const {
  const Group& g = groups_[group];
  if (!g.stated || place < 0) return {};
  if (g.first) return place;
  return std::cmp_less(place, g.ranks.size()) ? std::optional(g.ranks[static_cast<size_t>(place)]) : std::nullopt;
}

std::vector<int> FlightCalls::members(const Call& call) const {
  const Group& group = groups_[call.group];
  if (!call.call->p2p && !group.ranks.empty()) return group.ranks;
  std::set<int> ranks{call.rank};
  for (const FlightPart& part : call.call->parts)
    if (const auto peer = rank_in(call.group, part.sends ? part.to : part.from)) ranks.insert(*peer);
  return {ranks.begin(), ranks.end()};
}

const FlightCalls::Call* FlightCalls::same(int rank, const Call& call) const {
  const auto at = ranks_.find(rank);
  if (at == ranks_.end()) return nullptr;
  const Rank& r = at->second;
  if (rank == call.rank) {
    const auto own = std::ranges::find(r.calls, call.call, &Call::call);
    return own != r.calls.end() ? &*own : nullptr;
  }
  if (!call.call->p2p) {
    const auto found = r.by_number.find({call.group, call.call->sequence});
    return found != r.by_number.end() ? &r.calls[found->second] : nullptr;
  }
  for (size_t i = 0; i < call.call->parts.size(); ++i)
    if (const Counterpart other = counterpart(call, i); other.rank == rank && other.call != nullptr) return other.call;
  return nullptr;
}

FlightPlace FlightCalls::place(int rank, const Call& call) const {
  const auto at = ranks_.find(rank);
  if (at == ranks_.end()) return FlightPlace::kNoDump;
  if (call.call->p2p && rank != call.rank) {
    FlightPlace place = FlightPlace::kDone;
    for (size_t i = 0; i < call.call->parts.size(); ++i) {
      const Counterpart other = counterpart(call, i);
      if (other.rank != rank || other.place == FlightPlace::kDone) continue;
      if (place != FlightPlace::kAbsent) place = other.place;
    }
    return place;
  }
  if (const Call* own = same(rank, call)) return own->call->pending() ? FlightPlace::kOpen : FlightPlace::kDone;
  const Rank& r = at->second;
  const int64_t sequence = call.call->sequence;
  const auto newest = r.newest.find(call.group);
  if (newest != r.newest.end() && newest->second > sequence) return FlightPlace::kDone;  // no longer in the buffer
  const auto last = r.last.find(call.group);
  if (last != r.last.end() && last->second.second >= sequence) return FlightPlace::kDone;
  if (last != r.last.end() && last->second.first < sequence) return FlightPlace::kAbsent;
  return r.dump->problem.empty() ? FlightPlace::kAbsent : FlightPlace::kNoDump;
}

std::string FlightCalls::group_text(size_t group) const {
  const Group& g = groups_[group];
  return g.description.empty() ? "group " + g.name : fmt::format("{} ({})", g.description, g.name);
}

std::string FlightCalls::rank_text(size_t group, int place) const {
  const auto rank = rank_in(group, place);
  return rank ? fmt::format("rank {}", *rank) : fmt::format("its rank {}", place);
}

std::string FlightCalls::text(const Call& call) const {
  const std::string of = group_text(call.group);
  const std::string_view name = call.call->name.empty() ? "collective" : std::string_view(call.call->name);
  const std::vector<FlightPart>& parts = call.call->parts;
  if (!call.call->p2p) return fmt::format("{} #{} of {}", name, call.call->sequence, of);
  if (parts.empty()) return fmt::format("{} of {}", name, of);
  if (parts.size() > 1) return fmt::format("coalesced {} #{} of rank {}, {}", name, call.call->sequence, call.rank, of);
  return fmt::format("send from {} to {} of {}", rank_text(call.group, parts.front().from),
                     rank_text(call.group, parts.front().to), of);
}

std::string FlightCalls::text_for(int rank, const Call& call) const {
  for (const FlightPart& part : call.call->parts) {
    const auto peer = rank_in(call.group, part.sends ? part.to : part.from);
    if (rank == call.rank || peer != rank) continue;
    return part.sends ? fmt::format("recv from rank {} of {}", call.rank, group_text(call.group))
                      : fmt::format("send to rank {} of {}", call.rank, group_text(call.group));
  }
  return text(call);
}

}  // namespace profgpu
