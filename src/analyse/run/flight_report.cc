#include "analyse/run/flight_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
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

// What ranks called under one number, by what differs.
std::map<std::string, Variant> variants_of(const std::vector<std::pair<int, const Call*>>& calls,
                                           std::string_view what) {
  std::map<std::string, Variant> variants;
  for (const auto& [rank, c] : calls) {
    const FlightCall& f = *c->call;
    const std::string value = what == "name" ? f.name : what == "type" ? f.dtype : std::to_string(f.elements);
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
  }

 private:
  // Whom a rank waits for. A call that others are done with is held up by the rank's own device.
  void follow(int rank, const Call& open) {
    std::vector<int> absent, behind, unknown;
    bool done = false;
    for (const int q : calls_.members(open)) {
      if (q == rank) continue;
      switch (calls_.place(q, open)) {
        case FlightPlace::kAbsent:
          absent.push_back(q);
          break;
        case FlightPlace::kNoDump:
          unknown.push_back(q);
          break;
        case FlightPlace::kDone:
          done = true;
          break;
        case FlightPlace::kOpen:
          if (is_behind(q, open)) behind.push_back(q);
          break;
      }
    }
    std::vector<int>& waits = waits_for_[rank];
    if (absent.size() > 1 && is_alone(rank, open, absent)) return;
    if (few_without_dump_ && !done) absent.insert(absent.end(), unknown.begin(), unknown.end());
    if (!absent.empty())
      waits = absent;
    else if (!done)
      waits = behind.empty() ? unknown : behind;
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
    if (ends.empty()) return add_circle(circles);
    // Of ranks without a dump nothing is known: they are suspects where no other rank is.
    const bool known = !few_without_dump_ &&
                       std::ranges::any_of(ends, [&](const auto& e) { return calls_.ranks().contains(e.first); });
    for (const auto& [rank, waiting] : ends)
      if (calls_.ranks().contains(rank) || !(known || most_without_dump_))
        add(rank, kind_of(rank), waiting, call_missed_by(rank));
    finish();
  }
  // Others are done with it, or nobody else ever comes to it.
  [[nodiscard]] bool is_held_by_itself(int rank, const Call& open) const {
    const auto members = calls_.members(open);
    const bool done =
        std::ranges::any_of(members, [&](int q) { return q != rank && calls_.place(q, open) == FlightPlace::kDone; });
    return done || is_called_by_it_alone(rank, open);
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
    if (open == first_open_.end()) return "never_called";
    if (is_called_by_it_alone(rank, *open->second)) return "called_alone";
    return is_held_by_itself(rank, *open->second) ? "device_behind" : "stuck_in";
  }
  // The call in which most others wait for it; of a device that is behind its own.
  [[nodiscard]] const Call* call_missed_by(int rank) const {
    if (const auto own = first_open_.find(rank); own != first_open_.end()) return own->second;
    std::map<std::string, size_t> waiting;
    const Call* most = nullptr;
    for (const auto& [r, open] : first_open_) {
      if (std::ranges::count(waits_for_.at(r), rank) == 0) continue;
      const size_t here = ++waiting[calls_.text(*open)], there = most != nullptr ? waiting[calls_.text(*most)] : 0;
      if (here > there || (here == there && FlightCalls::earlier(*open, *most))) most = open;
    }
    return most;
  }
  // Those of a circle whose calls fewest others share: they went another way. If several calls have as few, those
  // that never came to the call that waits longest.
  void add_circle(const std::map<int, int64_t>& circles) {
    std::map<std::string, std::vector<int>> by_call;
    for (const auto& [rank, count] : circles) by_call[calls_.text(*first_open_.at(rank))].push_back(rank);
    if (by_call.size() < 2) return;
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
        add(rank, "order", static_cast<int64_t>(circles.size()) - 1, first_open_.at(rank));
    }
    finish();
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
    if (call != nullptr) s.call = calls_.text(*call);
    const auto own = first_open_.find(rank);
    if (own != first_open_.end()) s.frames = own->second->call->frames;
  }
  // Of ranks in a call that all its members have come to none is more to blame than another: all of them or none.
  void finish() {
    std::map<std::string, size_t> stuck;
    for (const FlightSuspect& s : report_.suspects) stuck[s.call] += s.kind == "stuck_in";
    std::erase_if(report_.suspects, [&](const FlightSuspect& s) { return stuck[s.call] > kMostSuspects; });
    std::ranges::stable_sort(report_.suspects, std::greater(), &FlightSuspect::waiting);
    if (report_.suspects.size() > kMostSuspects && report_.suspects.front().kind == "stuck_in")
      std::erase_if(report_.suspects,
                    [call = report_.suspects.front().call](const FlightSuspect& s) { return s.call != call; });
    if (report_.suspects.size() > kMostSuspects) report_.suspects.resize(kMostSuspects);
  }

  void find_mismatches() {
    std::map<std::pair<size_t, int64_t>, std::vector<std::pair<int, const Call*>>> by_number;
    for (const auto& [rank, r] : calls_.ranks())
      for (const Call& c : r.calls)
        if (!c.call->p2p) by_number[{c.group, c.call->sequence}].emplace_back(rank, &c);
    for (const auto& [number, calls] : by_number) {
      if (calls.size() < 2) continue;
      for (const std::string_view what : {"name", "type", "size"}) {
        if (what == "size" && !has_one_size(calls.front().second->call->name)) continue;
        const auto variants = variants_of(calls, what);
        if (variants.size() < 2 || std::ranges::none_of(variants, [](const auto& v) { return v.second.open; }))
          continue;
        add_mismatch(number, what, variants);
        break;
      }
    }
    std::ranges::stable_sort(found_, [](const Found& a, const Found& b) { return FlightCalls::earlier(*a.call, *b.call); });
    if (found_.size() > kMostMismatches) found_.resize(kMostMismatches);
    for (const Found& f : found_) report_.mismatches.push_back(f.row);
  }
  void add_mismatch(const std::pair<size_t, int64_t>& number, std::string_view what,
                    const std::map<std::string, Variant>& variants) {
    const auto size = [](const auto& v) { return v.second.ranks.size(); };
    const auto most = std::ranges::max_element(variants, {}, size);
    const bool tie = std::ranges::count(variants, size(*most), size) > 1;
    Found found;
    const FlightCalls::Group& group = calls_.groups()[number.first];
    found.row = {group.name, group.description, number.second, std::string(what), shown(what, most->second), "", {}};
    for (const auto& [value, v] : variants) {
      const bool usual = &v == &most->second;
      if (!usual || tie) found.row.ranks.insert(found.row.ranks.end(), v.ranks.begin(), v.ranks.end());
      if (!usual && found.row.other.empty()) found.row.other = shown(what, v), found.call = v.call;
    }
    found.row.majority = !tie;
    std::ranges::sort(found.row.ranks);
    found_.push_back(std::move(found));
  }
  static std::string shown(std::string_view what, const Variant& v) {
    const FlightCall& f = *v.call->call;
    return what == "name" ? f.name : what == "type" ? f.dtype : f.sizes;
  }
  // Before anything else: whoever calls something else leaves everyone waiting.
  bool add_mismatched() {
    if (found_.empty() || report_.waits.empty()) return false;
    const Found& first = found_.front();
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
      w.process_group = group.name, w.description = group.description, w.name = call.call->name;
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

  struct Found {
    FlightMismatch row;
    const Call* call = nullptr;
  };
  const FlightCalls& calls_;
  FlightReport& report_;
  bool few_without_dump_;   // then those ranks could not write one
  bool most_without_dump_;  // then nobody gave them
  std::map<int, const Call*> first_open_;
  std::map<int, std::vector<int>> waits_for_;
  std::vector<Found> found_;
};

}  // namespace

FlightReport flight_report(const std::vector<std::shared_ptr<const FlightDump>>& dumps) {
  FlightReport report;
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
