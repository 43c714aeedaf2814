#include "analyse/run/flight_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <set>

#include "analyse/run/flight_calls.h"

namespace profgpu {
namespace {

constexpr size_t kMostSuspects = 4;  // more names say nothing
constexpr size_t kMostWaits = 1'000;
constexpr size_t kFewOf = 4;  // a quarter of the ranks
constexpr size_t kMostMismatches = 100;

// Collectives whose inputs have one size on all ranks. Others may differ: all_to_all, gather, scatter, lists of
// tensors.
bool has_one_size(std::string_view name) {
  constexpr std::array<std::string_view, 10> kAlike = {"all_reduce",
                                                       "allreduce",
                                                       "allreduce_coalesced",
                                                       "_all_gather_base",
                                                       "_allgather_base",
                                                       "_reduce_scatter_base",
                                                       "broadcast",
                                                       "reduce",
                                                       "all_gather_into_tensor_coalesced",
                                                       "reduce_scatter_tensor_coalesced"};
  return std::ranges::count(kAlike, name) > 0;
}

using Call = FlightCalls::Call;

struct Variant {
  std::vector<int> ranks;
  const Call* call = nullptr;
  bool open = false;
};

// A coalesced call whose parts have left the buffer tells no more than that.
std::string known_name(const FlightCall& call) { return call.name == "coalesced" ? "" : call.name; }

bool tells_nothing(std::string_view kind) { return kind == "no_dump" || kind == "cut_dump"; }

// What ranks called under one number, by what differs.
std::map<std::string, Variant> variants_of(const std::vector<std::pair<int, const Call*>>& calls,
                                           std::string_view what) {
  std::map<std::string, Variant> variants;
  for (const auto& [rank, c] : calls) {
    const FlightCall& f = *c->call;
    const std::string value = what == "type" ? f.dtype : what == "size" ? std::to_string(f.elements) : known_name(f);
    if (value.empty() || (what == "size" && f.elements < 0)) continue;
    Variant& v = variants[value];
    v.ranks.push_back(rank);
    v.open |= f.pending();
    if (v.call == nullptr) v.call = c;
  }
  return variants;
}

class FlightVerdict {
 public:
  FlightVerdict(const FlightCalls& calls, FlightReport& report)
      : calls_(calls),
        report_(report),
        few_without_dump_(kFewOf * report.without_dump.size() <= calls.all_ranks().size()),
        most_without_dump_(report.most_without_dump()) {}

  void find() {
    for (const auto& [rank, r] : calls_.ranks())
      if (const Call* open = r.first_open()) first_open_[rank] = open;
    for (const auto& [rank, open] : first_open_) follow(rank, *open);
    find_mismatches();
    add_waits();
    if (!add_mismatched()) add_suspects();
    report_.nameless = calls_.nameless();
  }

 private:
  struct Found {
    FlightMismatch row;
    const Call* call = nullptr;
    std::vector<const Call*> calls;  // of all ranks that called it
    int order = 0;
  };

  // Whom a rank waits for. A call that others are done with is held up by the rank's own device. Of ranks without a
  // whole dump that is only said where nobody else is waited for.
  void follow(int rank, const Call& open) {
    std::vector<int> absent, behind, unknown, cut;
    for (const int q : calls_.members(open)) {
      if (q == rank) continue;
      switch (calls_.place(q, open)) {
        case FlightPlace::kAbsent:
          absent.push_back(q);
          break;
        case FlightPlace::kNoDump:
          (calls_.ranks().contains(q) ? cut : unknown).push_back(q);
          break;
        case FlightPlace::kDone:
          break;
        case FlightPlace::kOpen:
          if (is_behind(q, open)) behind.push_back(q);
          break;
      }
    }
    std::vector<int>& waits = waits_for_[rank];
    if (absent.size() > 1 && is_alone(rank, open, absent)) return;
    if (!absent.empty()) {
      waits = absent;
    } else if (!is_done_by_others(rank, open)) {
      if (few_without_dump_ && !unknown.empty()) behind.clear();
      waits = !behind.empty() ? behind : !unknown.empty() ? unknown : cut;
    }
  }
  // Of a collective one other is enough; a group of sends and receives ends with all of its peers.
  [[nodiscard]] bool is_done_by_others(int rank, const Call& open) const {
    const auto members = calls_.members(open);
    const auto done = std::ranges::count_if(
        members, [&](int q) { return q != rank && calls_.place(q, open) == FlightPlace::kDone; });
    return done > 0 && (!open.call->p2p || std::cmp_equal(done + 1, members.size()));
  }
  // Called it, but its device is still in something before it, or has not started what others have.
  bool is_behind(int rank, const Call& open) const {
    const Call* own = calls_.same(rank, open);
    const auto first = first_open_.find(rank);
    if (own == nullptr || first == first_open_.end()) return false;
    if (first->second->call != own->call) return first->second->call->record < own->call->record;
    return open.call->state == FlightState::kStarted && own->call->state == FlightState::kScheduled;
  }
  // It alone called something that none of several others, who all wait for nothing, ever did.
  bool is_alone(int rank, const Call& open, const std::vector<int>& absent) const {
    const auto members = calls_.members(open);
    const bool only = absent.size() + 1 == members.size();
    return only && std::ranges::none_of(absent, [&](int q) { return first_open_.contains(q); }) && !waited_for(rank);
  }
  bool waited_for(int rank) const {
    return std::ranges::any_of(first_open_, [&](const auto& w) {
      return w.first != rank && calls_.place(rank, *w.second) == FlightPlace::kAbsent &&
             takes_part(rank, *w.second);
    });
  }

  std::set<int> reached_from(int rank) const {
    std::set<int> seen;
    std::vector<int> next{rank};
    while (!next.empty()) {
      const int r = next.back();
      next.pop_back();
      const auto at = waits_for_.find(r);
      if (at == waits_for_.end()) continue;
      for (const int q : at->second)
        if (seen.insert(q).second) next.push_back(q);
    }
    return seen;
  }

  [[nodiscard]] bool waits_for_nobody(int rank) const {
    const auto at = waits_for_.find(rank);
    return at == waits_for_.end() || at->second.empty();
  }

  void add_suspects() {
    std::map<int, int64_t> ends, circles;
    for (const auto& [rank, open] : first_open_) {
      const std::set<int> reached = reached_from(rank);
      bool ended = false;
      for (const int q : reached)
        if (waits_for_nobody(q)) ++ends[q], ended = true;
      if (!ended && reached.contains(rank)) ++circles[rank];
      if (reached.empty() && is_held_by_itself(rank, *open)) ends.try_emplace(rank, 0);
    }
    for (const auto& [rank, open] : first_open_)
      report_.members_unknown |= waits_for_nobody(rank) && is_among_unknown(rank, kind_of(rank));
    if (ends.empty())
      add_circle(circles);
    else
      add_ends(ends);
    if (report_.members_unknown && report_.suspects.empty()) add_idle();
  }
  void add_ends(const std::map<int, int64_t>& ends) {
    // Of ranks without a dump nothing is known: they are suspects where no other rank is.
    const bool known = !few_without_dump_ &&
                       std::ranges::any_of(ends, [&](const auto& e) { return calls_.ranks().contains(e.first); });
    for (const auto& [rank, waiting] : ends) {
      if (!calls_.ranks().contains(rank) && (known || most_without_dump_)) continue;
      const std::string kind = kind_of(rank);
      if (is_among_unknown(rank, kind))
        report_.members_unknown = true;
      else
        add(rank, kind, waiting, call_missed_by(rank));
    }
    finish();
  }
  // It is not known who waits for whom. Those few that wait in nothing are where others are not.
  void add_idle() {
    std::vector<int> idle;
    for (const auto& [rank, r] : calls_.ranks())
      if (r.dump->problem.empty() && !first_open_.contains(rank)) idle.push_back(rank);
    if (idle.size() > kMostSuspects || kFewOf * idle.size() > calls_.all_ranks().size()) return;
    for (const int rank : idle) add(rank, "not_waiting", std::ssize(first_open_), nullptr);
  }
  // It waits in a group of which nobody knows who is in it: for whom, nobody knows either.
  [[nodiscard]] bool is_among_unknown(int rank, std::string_view kind) const {
    const auto open = first_open_.find(rank);
    return open != first_open_.end() && !calls_.groups()[open->second->group].stated && kind != "device_behind";
  }
  // Others are done with it, or nobody else ever comes to it.
  [[nodiscard]] bool is_held_by_itself(int rank, const Call& open) const {
    return is_done_by_others(rank, open) || is_called_by_it_alone(rank, open);
  }
  // Its device has not come to what the device of another has begun.
  [[nodiscard]] bool is_not_started(int rank, const Call& open) const {
    return open.call->state == FlightState::kScheduled && std::ranges::any_of(calls_.members(open), [&](int q) {
             const Call* other = q != rank ? calls_.same(q, open) : nullptr;
             return other != nullptr && other->call->state == FlightState::kStarted;
           });
  }
  [[nodiscard]] bool is_called_by_it_alone(int rank, const Call& open) const {
    const auto members = calls_.members(open);
    return members.size() > 2 && std::ranges::all_of(members, [&](int q) {
             return q == rank || calls_.place(q, open) == FlightPlace::kAbsent;
           });
  }
  [[nodiscard]] std::string kind_of(int rank) const {
    if (!calls_.ranks().contains(rank)) return "no_dump";
    const auto open = first_open_.find(rank);
    if (open == first_open_.end()) return calls_.ranks().at(rank).dump->problem.empty() ? "never_called" : "cut_dump";
    if (is_called_by_it_alone(rank, *open->second)) return "called_alone";
    if (is_held_by_itself(rank, *open->second)) return "device_behind";
    return is_not_started(rank, *open->second) ? "not_started" : "stuck_in";
  }
  // The call that it should make next: of those in which others wait for it the one with the highest number, since it
  // is most often in that group; clocks differ, and who waits for data waits early. Of a device that is behind its own.
  [[nodiscard]] const Call* call_missed_by(int rank) const {
    if (const auto own = first_open_.find(rank); own != first_open_.end()) return own->second;
    const Call* next = nullptr;
    for (const auto& [r, open] : first_open_) {
      if (std::ranges::count(waits_for_.at(r), rank) == 0) continue;
      const int64_t ahead = next == nullptr ? 1 : open->call->sequence - next->call->sequence;
      if (ahead > 0 || (ahead == 0 && FlightCalls::earlier(*open, *next))) next = open;
    }
    return next;
  }
  // Those of a circle whose calls fewest others share: they went another way. If several calls have as few, those
  // that never came to the call that waits longest.
  void add_circle(const std::map<int, int64_t>& circles) {
    std::map<std::string, std::vector<int>> by_call;
    for (const auto& [rank, count] : circles) by_call[calls_.text(*first_open_.at(rank))].push_back(rank);
    if (by_call.size() < 2) return;
    if (send_to_each_other(circles)) {
      for (const auto& [rank, count] : circles) add(rank, "both_send", 1, first_open_.at(circles.begin()->first));
      return finish();
    }
    size_t fewest = circles.size();
    for (const auto& [text, ranks] : by_call) fewest = std::min(fewest, ranks.size());
    std::vector<int> minority;
    for (const auto& [text, ranks] : by_call)
      if (ranks.size() == fewest) minority.insert(minority.end(), ranks.begin(), ranks.end());
    const Call* longest = minority.size() > fewest ? longest_without(circles) : nullptr;
    if (longest != nullptr) {
      for (const auto& [rank, count] : circles)
        if (calls_.place(rank, *longest) == FlightPlace::kAbsent && takes_part(rank, *longest))
          add(rank, "never_called", static_cast<int64_t>(circles.size()) - 1, longest);
    } else if (minority.size() <= kMostSuspects) {
      for (const int rank : minority)
        add(rank, is_extra(rank, circles) ? "called_alone" : "order", static_cast<int64_t>(circles.size()) - 1,
            first_open_.at(rank));
    }
    finish();
  }
  // Two that are in nothing but sends to each other, and have not come to the receives.
  [[nodiscard]] bool send_to_each_other(const std::map<int, int64_t>& circles) const {
    return circles.size() == 2 && std::ranges::all_of(circles, [&](const auto& c) {
             const Call& open = *first_open_.at(c.first);
             const auto& parts = open.call->parts;
             const int other = c.first == circles.begin()->first ? circles.rbegin()->first : circles.begin()->first;
             return !parts.empty() && std::ranges::all_of(parts, &FlightPart::sends) &&
                    calls_.place(other, open) != FlightPlace::kDone;
           });
  }
  // No other called what it is in, and it has called what the others are in: it did not exchange two calls.
  [[nodiscard]] bool is_extra(int rank, const std::map<int, int64_t>& circles) const {
    return is_called_by_it_alone(rank, *first_open_.at(rank)) && std::ranges::all_of(circles, [&](const auto& c) {
             const Call& open = *first_open_.at(c.first);
             return !takes_part(rank, open) || calls_.place(rank, open) != FlightPlace::kAbsent;
           });
  }
  // Of the calls of a circle the earliest that one of the circle never came to.
  [[nodiscard]] const Call* longest_without(const std::map<int, int64_t>& circles) const {
    const Call* longest = nullptr;
    for (const auto& [rank, count] : circles) {
      const Call* open = first_open_.at(rank);
      const bool lacks = std::ranges::any_of(circles, [&](const auto& c) {
        return takes_part(c.first, *open) && calls_.place(c.first, *open) == FlightPlace::kAbsent;
      });
      if (lacks && (longest == nullptr || FlightCalls::earlier(*open, *longest))) longest = open;
    }
    return longest;
  }
  [[nodiscard]] bool takes_part(int rank, const Call& call) const {
    return std::ranges::count(calls_.members(call), rank) > 0;
  }

  void add(int rank, std::string kind, int64_t waiting, const Call* call) {
    FlightSuspect& s = report_.suspects.emplace_back();
    s.rank = rank, s.kind = std::move(kind), s.waiting = waiting;
    const bool misses = s.kind == "never_called" || tells_nothing(s.kind);
    if (call != nullptr) s.call = misses ? calls_.text_for(rank, *call) : calls_.text(*call);
    const auto own = first_open_.find(rank);
    if (own != first_open_.end()) s.frames = own->second->call->frames;
  }
  [[nodiscard]] bool has_lost_calls(const FlightSuspect& s) const {
    return s.kind == "stuck_in" && first_open_.at(s.rank)->call->name.empty();
  }
  // Of ranks in a call that all its members have come to none is more to blame than another: all of them or none.
  void finish() {
    std::map<std::string, size_t> stuck;
    for (const FlightSuspect& s : report_.suspects) stuck[s.call] += s.kind == "stuck_in";
    std::erase_if(report_.suspects, [&](const FlightSuspect& s) { return stuck[s.call] > kMostSuspects; });
    // What has left a full buffer may not be all that was open before it.
    const auto lost = [&](const FlightSuspect& s) { return has_lost_calls(s); };
    if (!std::ranges::all_of(report_.suspects, lost)) std::erase_if(report_.suspects, lost);
    std::ranges::stable_sort(report_.suspects, std::greater(), [](const FlightSuspect& s) {
      return std::pair(!tells_nothing(s.kind), s.waiting);
    });
    if (report_.suspects.size() > kMostSuspects && report_.suspects.front().kind == "stuck_in")
      std::erase_if(report_.suspects,
                    [call = report_.suspects.front().call](const FlightSuspect& s) { return s.call != call; });
    if (report_.suspects.size() <= kMostSuspects) return;
    report_.more.assign(report_.suspects.begin() + kMostSuspects, report_.suspects.end());
    report_.suspects.resize(kMostSuspects);
  }

  void find_mismatches() {
    std::map<std::pair<size_t, int64_t>, std::vector<std::pair<int, const Call*>>> by_number;
    for (const auto& [rank, r] : calls_.ranks())
      for (const Call& c : r.calls)
        if (!c.call->p2p) by_number[{c.group, c.call->sequence}].emplace_back(rank, &c);
    for (const auto& [number, calls] : by_number) {
      if (calls.size() < 2 || !calls_.groups()[number.first].stated) continue;
      for (const std::string_view what : {"name", "type", "size"}) {
        if (what == "size" && !has_one_size(calls.front().second->call->name)) continue;
        const auto variants = variants_of(calls, what);
        if (variants.size() < 2 || std::ranges::none_of(variants, [](const auto& v) { return v.second.open; }))
          continue;
        add_mismatch(number, what, variants);
        break;
      }
    }
    find_sends();
    sort_mismatches();
    if (found_.size() > kMostMismatches) found_.resize(kMostMismatches);
    for (const Found& f : found_) report_.mismatches.push_back(f.row);
  }
  // The first of each group before what follows from it; there one with a majority shows who is the odd one of those
  // that merely disagree.
  void sort_mismatches() {
    std::map<std::string, int64_t> lowest;
    for (const Found& f : found_) {
      const auto [at, fresh] = lowest.try_emplace(group_key(f), f.row.sequence);
      at->second = std::min(at->second, f.row.sequence);
    }
    const auto first_of_group = [&](const Found& f) { return f.row.sequence == lowest.at(group_key(f)); };
    const auto isolates = [&](const Found& f) {
      return f.row.majority && first_of_group(f) && std::ranges::any_of(found_, [&](const Found& other) {
               return !other.row.majority && std::ranges::all_of(f.row.ranks, [&](int rank) {
                        return std::ranges::count(other.row.ranks, rank) > 0;
                      });
             });
    };
    for (Found& f : found_) f.order = isolates(f) ? 0 : first_of_group(f) ? 1 : 2;
    std::ranges::stable_sort(found_, [](const Found& a, const Found& b) {
      return a.order != b.order ? a.order < b.order : FlightCalls::earlier(*a.call, *b.call);
    });
  }
  // The two ends of a send that both are in: they have to agree.
  void find_sends() {
    for (const auto& [rank, open] : first_open_)
      for (size_t i = 0; i < open->call->parts.size(); ++i) {
        const FlightPart& sent = open->call->parts[i];
        if (!sent.sends) continue;
        const FlightCalls::Counterpart other = calls_.counterpart(*open, i);
        const auto first = first_open_.find(other.rank);
        if (other.part == nullptr || first == first_open_.end() || first->second->call != other.call->call) continue;
        const FlightPart& received = *other.part;
        const bool type = !sent.dtype.empty() && !received.dtype.empty() && sent.dtype != received.dtype;
        const bool size = sent.elements >= 0 && received.elements >= 0 && sent.elements != received.elements;
        if (!type && !size) continue;
        const auto shown = [&](const FlightPart& p) { return size ? p.sizes : p.dtype; };
        const FlightCalls::Group& group = calls_.groups()[open->group];
        Found& found = found_.emplace_back();
        FlightMismatch& row = found.row;
        row.process_group = group.name, row.description = group.description, row.sequence = open->call->sequence;
        row.what = size ? "size" : "type", row.usual = shown(sent), row.other = shown(received);
        row.ranks = {std::min(rank, other.rank), std::max(rank, other.rank)}, row.majority = false;
        row.variants = {{row.usual, {rank}}, {row.other, {other.rank}}};
        row.send = calls_.text(*open);
        found.call = open, found.calls = {open, other.call};
      }
  }
  void add_mismatch(const std::pair<size_t, int64_t>& number, std::string_view what,
                    const std::map<std::string, Variant>& variants) {
    const auto size = [](const auto& v) { return v.second.ranks.size(); };
    const auto most = std::ranges::max_element(variants, {}, size);
    const bool tie = std::ranges::count(variants, size(*most), size) > 1;
    Found found;
    const FlightCalls::Group& group = calls_.groups()[number.first];
    FlightMismatch& row = found.row;
    row.process_group = group.name, row.description = group.description, row.sequence = number.second;
    row.what = what, row.usual = shown(what, most->second), row.majority = !tie;
    for (const auto& [value, v] : variants) {
      const bool usual = &v == &most->second;
      row.variants.push_back({shown(what, v), v.ranks});
      for (const int rank : v.ranks) found.calls.push_back(calls_.same(rank, *v.call));
      if (!usual || tie) row.ranks.insert(row.ranks.end(), v.ranks.begin(), v.ranks.end());
      if (!usual && row.other.empty()) row.other = shown(what, v), found.call = v.call;
    }
    std::ranges::stable_sort(row.variants, std::greater(), [](const FlightVariant& v) { return v.ranks.size(); });
    std::ranges::sort(row.ranks);
    found_.push_back(std::move(found));
  }
  // Nobody hangs in what ranks have only queued behind another call.
  [[nodiscard]] bool is_reached(const Found& found) const {
    return std::ranges::any_of(first_open_, [&](const auto& open) {
      return std::ranges::any_of(found.calls,
                                 [&](const Call* c) { return c != nullptr && c->call == open.second->call; });
    });
  }
  static std::string group_key(const Found& f) { return f.row.process_group + " " + f.row.description + f.row.send; }
  static std::string shown(std::string_view what, const Variant& v) {
    const FlightCall& f = *v.call->call;
    return what == "name" ? f.name : what == "type" ? f.dtype : f.sizes;
  }
  // Before anything else: whoever calls something else leaves everyone waiting.
  bool add_mismatched() {
    if (report_.waits.empty()) return false;
    const auto reached = std::ranges::find_if(found_, [&](const Found& f) { return is_reached(f); });
    if (reached == found_.end()) return false;
    const Found& first = *reached;
    report_.mismatches[static_cast<size_t>(reached - found_.begin())].blamed = true;
    if (!first.row.majority && first.row.ranks.size() > kMostSuspects) return true;
    for (const int rank : first.row.ranks) {
      int64_t waiting = 0;
      for (const auto& [r, open] : first_open_) waiting += r != rank;
      add(rank, "mismatch", waiting, first.call);
    }
    finish();
    return true;
  }

  void add_waits() {
    std::map<std::string, std::vector<int>> by_call;
    for (const auto& [rank, open] : first_open_) by_call[calls_.text(*open)].push_back(rank);
    for (const auto& [text, waiting] : by_call) {
      if (report_.waits.size() >= kMostWaits) break;
      const Call& call = *first_open_.at(waiting.front());
      FlightWait& w = report_.waits.emplace_back();
      const FlightCalls::Group& group = calls_.groups()[call.group];
      w.process_group = group.name, w.description = group.description;
      w.name = call.call->name.empty() ? "collective" : call.call->name;
      w.sequence = call.call->sequence, w.sizes = call.call->sizes, w.dtype = call.call->dtype;
      w.waiting = waiting, w.frames = call.call->frames;
      bool started = false;
      for (const int r : waiting) {
        const FlightCall& own = *first_open_.at(r)->call;
        started |= own.state == FlightState::kStarted;
        if (own.created_ns && (!w.since_ns || *own.created_ns < *w.since_ns)) w.since_ns = own.created_ns;
      }
      w.state = flight_state_name(started ? FlightState::kStarted : FlightState::kScheduled);
      for (const int q : calls_.members(call)) add_place(q, call, w);
    }
    std::ranges::stable_sort(report_.waits, [](const FlightWait& a, const FlightWait& b) {
      return a.since_ns.value_or(INT64_MAX) < b.since_ns.value_or(INT64_MAX);
    });
  }
  void add_place(int rank, const Call& call, FlightWait& w) const {
    if (std::ranges::count(w.waiting, rank) > 0) return;
    const FlightPlace place = calls_.place(rank, call);
    if (place == FlightPlace::kAbsent || place == FlightPlace::kNoDump)
      w.missing.push_back(rank);
    else
      (place == FlightPlace::kDone ? w.completed : w.behind).push_back(rank);
  }

  const FlightCalls& calls_;
  FlightReport& report_;
  bool few_without_dump_;   // then those ranks could not write one
  bool most_without_dump_;  // then nobody gave them
  std::map<int, const Call*> first_open_;
  std::map<int, std::vector<int>> waits_for_;
  std::vector<Found> found_;
};

using Dumps = std::vector<std::shared_ptr<const FlightDump>>;

std::string folder_of(const FlightDump& dump) { return dump.path.substr(0, dump.path.rfind('/') + 1); }

int64_t newest_call(const FlightDump& dump) {
  int64_t newest = 0;
  for (const FlightCall& c : dump.calls) newest = std::max(newest, c.created_ns.value_or(0));
  return newest;
}

struct DumpFolder {
  std::set<int> ranks;
  int64_t newest = 0;
};

bool is_superseded(const std::map<std::string, DumpFolder>& folders, const DumpFolder& folder) {
  return std::ranges::any_of(folders, [&](const auto& other) {
    return other.second.newest > folder.newest && std::ranges::any_of(folder.ranks, [&](int rank) {
             return other.second.ranks.contains(rank);
           });
  });
}

// Of a job's attempts, in a folder each, the last one; of two dumps of a rank in one folder the newer.
Dumps newest_dumps(const Dumps& all) {
  std::map<std::string, DumpFolder> folders;
  for (const auto& dump : all) {
    DumpFolder& folder = folders[folder_of(*dump)];
    if (dump->rank) folder.ranks.insert(*dump->rank);
    folder.newest = std::max(folder.newest, newest_call(*dump));
  }
  Dumps result;
  std::map<int, size_t> place;
  for (const auto& dump : all) {
    if (is_superseded(folders, folders.at(folder_of(*dump)))) continue;
    const auto [at, fresh] = dump->rank ? place.try_emplace(*dump->rank, result.size()) : std::pair(place.end(), true);
    if (fresh)
      result.push_back(dump);
    else if (newest_call(*dump) > newest_call(*result[at->second]))
      result[at->second] = dump;
  }
  return result;
}

}  // namespace

FlightReport flight_report(const std::vector<std::shared_ptr<const FlightDump>>& given) {
  FlightReport report;
  const Dumps dumps = newest_dumps(given);
  report.dumps_left_out = std::ssize(given) - std::ssize(dumps);
  report.dumps = static_cast<int64_t>(dumps.size());
  for (const auto& dump : dumps) {
    report.calls += static_cast<int64_t>(dump->calls.size());
    report.open_calls += std::ranges::count_if(dump->calls, &FlightCall::pending);
    if (report.version.empty()) report.version = dump->version;
    if (report.nccl_version.empty()) report.nccl_version = dump->nccl_version;
  }
  const FlightCalls calls(dumps);
  if (!calls.all_ranks().empty()) report.world_size = calls.all_ranks().back() + 1;
  for (const int rank : calls.all_ranks())
    if (!calls.ranks().contains(rank)) report.without_dump.push_back(rank);
  FlightVerdict(calls, report).find();
  if (report.hangs()) return report;
  for (const auto& [rank, r] : calls.ranks()) {
    if (r.calls.empty()) continue;
    std::string last = calls.text(r.calls.back());
    if (std::ranges::count(report.last_calls, last) == 0) report.last_calls.push_back(std::move(last));
  }
  return report;
}

}  // namespace profgpu
