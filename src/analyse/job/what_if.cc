#include "analyse/job/what_if.h"

#include <algorithm>
#include <unordered_map>

#include "base/saturated.h"
#include "base/statistics.h"

namespace profgpu {
namespace {

using What = LanePoint::What;
using KindTimes = std::array<int64_t, kLaneTimes>;
constexpr auto kLoading = static_cast<size_t>(lane_time(IdleCause::kDataLoading));
constexpr auto kHostBound = static_cast<size_t>(lane_time(IdleCause::kHostBound));
constexpr auto kSaving = static_cast<size_t>(lane_time(IdleCause::kCheckpoint));
constexpr auto kTransfers = static_cast<size_t>(LaneTime::kCommunication);

/// A kind of time that is no longer spent. The first few are evaluated for every job, all of them on top of late ranks.
struct CauseChange {
  std::string_view change;
  LaneTime kind, also = kind;
};
constexpr CauseChange kCauseChanges[] = {
    {"communication_free", LaneTime::kCommunication},
    {"input_free", lane_time(IdleCause::kDataLoading)},
    {"host_bound_free", lane_time(IdleCause::kHostBound)},
    {"checkpoint_free", lane_time(IdleCause::kCheckpoint)},
    {"synchronization_free", lane_time(IdleCause::kSynchronization)},
    {"allocation_free", lane_time(IdleCause::kMemoryAllocation)},
    {"dependency_free", lane_time(IdleCause::kDependency)},
    {"short_launches_free", lane_time(IdleCause::kLaunchLatency), lane_time(IdleCause::kHostBound)},
    {"copies_free", LaneTime::kCopy}};
constexpr size_t kAlways = 3;

// A step's own time on one rank by kind, from each arrival at a collective to the next.
std::vector<KindTimes> stretches(const JobLanes& lanes, JobStep::Part part) {
  const JobLanes::Step& step = lanes.step(part);
  std::vector<KindTimes> own(1);
  if (step.begin_point == JobLanes::kNone || step.end_point == JobLanes::kNone) return own;
  for (uint32_t i = step.begin_point + 1; i <= step.end_point; ++i) {
    for (const LanePart& p : lanes.parts_before(part.rank, i))
      add_saturated(own.back()[static_cast<size_t>(p.kind)], p.ns);
    if (lanes.points[i].what == What::kArrive) own.emplace_back();
  }
  return own;
}

/// Replacement for one rank's step.
struct Target {
  std::vector<KindTimes> own, instead;   // by stretch; a single one if no other rank has equally many
  int64_t host_ns = 0;
};

/// Steps of ranks that become like the others.
class Targets {
 public:
  Targets(const JobLanes& lanes, const JobChange& change)
      : lanes_(lanes), even_(change.even), changed_(lanes.ranks.size(), change.even) {
    for (const uint32_t r : change.like_others) changed_[r] = true;
    if (change.like_others.empty() && !even_) return;
    for (const JobStep& step : lanes.job_steps) add(step);
  }

  [[nodiscard]] bool changes(uint32_t rank) const { return changed_[rank]; }
  /// Null: the step does not change.
  [[nodiscard]] const Target* find(uint32_t step) const {
    const auto known = of_step_.find(step);
    return known != of_step_.end() ? &known->second : nullptr;
  }

 private:
  void add(const JobStep& step) {
    std::vector<std::vector<KindTimes>> others;
    std::vector<int64_t> host;
    for (const JobStep::Part& p : step.parts) {
      if (changed_[p.rank] && !even_) continue;
      others.push_back(stretches(lanes_, p));
      host.push_back(host_ns(p));
    }
    if (others.empty()) return;
    for (const JobStep::Part& p : step.parts) {
      if (!changed_[p.rank]) continue;
      Target& target = of_step_[lanes_.ranks[p.rank].first_step + p.step];
      target.own = stretches(lanes_, p);
      target.host_ns = std::min(host_ns(p), lower_median(host));
      set(target, others);
    }
  }

  [[nodiscard]] int64_t host_ns(JobStep::Part p) const {
    const std::vector<LaneStep>& steps = lanes_.digests[p.rank].lane.steps;
    return p.step < steps.size() ? steps[p.step].host_ns : 0;
  }

  // The median of ranks with equally many collectives in the step, because stages of a pipeline do different work.
  static void set(Target& target, const std::vector<std::vector<KindTimes>>& others) {
    std::vector<const std::vector<KindTimes>*> alike;
    for (const std::vector<KindTimes>& o : others)
      if (o.size() == target.own.size()) alike.push_back(&o);
    if (alike.empty()) {
      std::vector<std::vector<KindTimes>> whole;
      for (const std::vector<KindTimes>& o : others) whole.push_back({total(o)});
      target.own = {total(target.own)};
      return set(target, whole);
    }
    target.instead = target.own;
    std::vector<int64_t> values(alike.size());
    for (size_t s = 0; s < target.own.size(); ++s) {
      for (size_t kind = 0; kind < kLaneTimes; ++kind) {
        for (size_t i = 0; i < alike.size(); ++i) values[i] = (*alike[i])[s][kind];
        target.instead[s][kind] = lower_median(values);
      }
    }
  }

  static KindTimes total(const std::vector<KindTimes>& stretches) {
    KindTimes sum{};
    for (const KindTimes& s : stretches)
      for (size_t kind = 0; kind < sum.size(); ++kind) sum[kind] = saturated_add(sum[kind], s[kind]);
    return sum;
  }

  const JobLanes& lanes_;
  bool even_;
  std::vector<bool> changed_;
  std::unordered_map<uint32_t, Target> of_step_;
};

// part * instead / whole, where part is of whole.
int64_t scaled(int64_t part, int64_t instead, int64_t whole) {
  const __int128 product = static_cast<__int128>(part) * instead / whole;
  return product > INT64_MAX ? INT64_MAX : static_cast<int64_t>(product);
}

class Player {
 public:
  Player(const JobLanes& lanes, const JobChange& change)
      : lanes_(lanes), change_(change), targets_(lanes, change), some_gone_(std::ranges::count(change.gone, true) > 0),
        now_(lanes.ranks.size()), target_(lanes.ranks.size()), stretch_(lanes.ranks.size()), less_(lanes.ranks.size()) {
    for (const JobLanes::Call& c : lanes.calls) {
      ready_ns_.push_back(c.point != JobLanes::kNone ? lanes.points[c.point].time_ns : c.start_ns);
      end_ns_.push_back(c.end_ns);
    }
    for (const JobLanes::Step& s : lanes.steps) bounds_.push_back({s.begin_ns, s.end_ns});
  }

  std::vector<Interval> play() {
    for (const JobLanes::Event& e : lanes_.order) {
      if (e.rank == JobLanes::kNone) end_group(lanes_.groups[e.at]);
      else pass(e.rank, e.at);
    }
    return std::move(bounds_);
  }

 private:
  void end_group(const JobLanes::Group& group) {
    const bool free = change_.gone[kTransfers] && (group.whole || change_.free_parts);
    const int64_t shorter = change_.shorter_ns.empty() ? 0 : change_.shorter_ns[&group - lanes_.groups.data()];
    starts_.clear();
    int64_t last = INT64_MIN;
    for (const uint32_t m : lanes_.members_of(group)) {
      const JobLanes::Call& c = lanes_.calls[m];
      int64_t from = ready_ns_[m];
      if (c.before != JobLanes::kNone) from = std::max(from, end_ns_[c.before]);
      starts_.push_back(saturated_add(from, c.delay_ns));
      last = std::max(last, starts_.back());
    }
    for (uint32_t m = group.first; m < group.end; ++m) {
      const JobLanes::Call& c = lanes_.calls[lanes_.members[m]];
      int64_t after = saturated_sub(c.end_ns, c.together ? group.last_ns : c.start_ns);
      if (free) after = std::min<int64_t>(after, 0);
      else if (shorter > 0) after = std::max(std::min<int64_t>(after, 0), saturated_sub(after, shorter));
      end_ns_[lanes_.members[m]] = saturated_add(c.together ? last : starts_[m - group.first], after);
    }
  }

  void pass(uint32_t rank, uint32_t at) {
    const JobLanes::Point& p = lanes_.points[at];
    int64_t& now = now_[rank];
    if (!change_.less_ns.empty()) less_[rank] = saturated_add(less_[rank], change_.less_ns[at]);
    if (p.what == What::kRestart || at == lanes_.ranks[rank].first_point) {
      now = p.time_ns;
      return;
    }
    // Clock skew since the last point is charged to no rank.
    const int64_t between = p.what == What::kWait ? p.own_ns : saturated_sub(p.time_ns, lanes_.points[at - 1].time_ns);
    now = saturated_add(now, saturated_add(saturated_sub(between, p.own_ns), own_ns(rank, at)));
    switch (p.what) {
      case What::kArrive:
        ready_ns_[p.of] = now;
        ++stretch_[rank];
        break;
      case What::kWait: now = std::max(now, end_ns_[p.of]); break;
      case What::kStepBegin:
        bounds_[p.of].start = saturated_add(now, p.delay_ns);
        target_[rank] = targets_.changes(rank) ? targets_.find(p.of) : nullptr;
        stretch_[rank] = 0;
        less_[rank] = 0;
        break;
      case What::kStepEnd: end_step(rank, p); break;
      default: break;
    }
  }

  void end_step(uint32_t rank, const JobLanes::Point& p) {
    const int64_t end = saturated_add(now_[rank], p.delay_ns);
    bounds_[p.of].end = std::max(end, saturated_add(bounds_[p.of].start, host_ns(rank, p.of)));
    now_[rank] = saturated_add(now_[rank], saturated_sub(bounds_[p.of].end, end));
    target_[rank] = nullptr;
  }

  // Host work of a step, a lower bound of its duration.
  [[nodiscard]] int64_t host_ns(uint32_t rank, uint32_t step) const {
    const std::vector<LaneStep>& steps = lanes_.digests[rank].lane.steps;
    const uint32_t index = step - lanes_.ranks[rank].first_step;
    if (change_.gone[kHostBound] || index >= steps.size()) return 0;
    const LaneStep& host = steps[index];
    int64_t ns = target_[rank] != nullptr ? target_[rank]->host_ns : host.host_ns;
    if (change_.gone[kLoading]) ns -= host.loading_ns;
    if (change_.gone[kSaving]) ns -= host.saving_ns;
    if (change_.less_on_host) ns = saturated_sub(ns, less_[rank]);
    const JobLanes::Step& recorded = lanes_.steps[step];
    return std::clamp<int64_t>(ns, 0, std::max<int64_t>(saturated_sub(recorded.end_ns, recorded.begin_ns), 0));
  }

  // The rank's own time since the previous point, under the change. Where that scales it, it scales what is less too.
  [[nodiscard]] int64_t own_ns(uint32_t rank, uint32_t at) const {
    const int64_t own = own_by_kind_ns(rank, at), recorded = lanes_.points[at].own_ns;
    const int64_t less = change_.less_ns.empty() || recorded <= 0 ? 0 : change_.less_ns[at];
    return less == 0 ? own : std::max<int64_t>(0, saturated_sub(own, scaled(less, own, recorded)));
  }

  [[nodiscard]] int64_t own_by_kind_ns(uint32_t rank, uint32_t at) const {
    const Target* target = target_[rank];
    if (target == nullptr && !some_gone_) return lanes_.points[at].own_ns;
    const bool whole = target != nullptr && target->own.size() == 1;
    const size_t stretch = target == nullptr ? 0 : std::min(stretch_[rank], target->own.size() - 1);
    const What what = lanes_.points[at].what;
    int64_t sum = 0;
    for (const LanePart& part : lanes_.parts_before(rank, at)) {
      const auto kind = static_cast<size_t>(part.kind);
      if (change_.gone[kind]) continue;
      int64_t ns = part.ns;
      if (target != nullptr && target->own[stretch][kind] > 0)
        ns = scaled(ns, target->instead[stretch][kind], target->own[stretch][kind]);
      sum = saturated_add(sum, ns);
    }
    // Kinds that only the others have there.
    if (target != nullptr && (what == What::kStepEnd || (!whole && what == What::kArrive)))
      for (size_t kind = 0; kind < kLaneTimes; ++kind)
        if (target->own[stretch][kind] == 0 && !change_.gone[kind])
          sum = saturated_add(sum, target->instead[stretch][kind]);
    return sum;
  }

  const JobLanes& lanes_;
  const JobChange& change_;
  Targets targets_;
  bool some_gone_;
  std::vector<int64_t> now_;       // by rank: its lane
  std::vector<const Target*> target_;   // by rank: of the step that it is in
  std::vector<size_t> stretch_;         // by rank: collectives that it arrived at in the step
  std::vector<int64_t> less_;           // by rank: JobChange::less_ns so far in the step
  std::vector<int64_t> ready_ns_, end_ns_;   // by call
  std::vector<Interval> bounds_;   // by step of all ranks
  std::vector<int64_t> starts_;
};

// Sum of the job's steps, each from the last rank's begin to the last rank's end.
int64_t total_ns(const JobLanes& lanes, const std::vector<Interval>& bounds) {
  int64_t sum = 0;
  for (const JobStep& step : lanes.job_steps) {
    Interval time{INT64_MIN, INT64_MIN};
    for (const JobStep::Part& p : step.parts) {
      const Interval& part = bounds[lanes.ranks[p.rank].first_step + p.step];
      time = {std::max(time.start, part.start), std::max(time.end, part.end)};
    }
    sum = saturated_add(sum, saturated_sub(time.end, time.start));
  }
  return sum;
}

class WhatIfEvaluator {
 public:
  explicit WhatIfEvaluator(const JobLanes& lanes) : lanes_(lanes) {
    for (const JobStep& s : lanes.job_steps) recorded_ns_ = saturated_add(recorded_ns_, s.time.length());
    for (const JobLanes::Group& g : lanes.groups) parts_missing_ |= !g.whole;
    from_ns_ = recorded_ns_;
  }

  // Makes this the baseline of savings.
  void begin_from(const JobChange& change) {
    from_ns_ = std::min(recorded_ns_, total_ns(lanes_, replayed(lanes_, change)));
  }

  void evaluate(std::string_view change_name, const JobChange& change, std::vector<int> of_ranks = {}) {
    const auto steps = static_cast<int64_t>(lanes_.job_steps.size());
    WhatIf w;
    w.change = change_name;
    w.ranks = std::move(of_ranks);
    const int64_t saved = saved_ns(change);
    w.saved_ns_per_step = w.most_saved_ns_per_step = saved / steps;
    w.step_ns = from_ns_ / steps - w.saved_ns_per_step;
    w.saved_pct = percent_of(saved, recorded_ns_);
    w.lower_bound = change.gone[kTransfers] && parts_missing_;
    if (w.lower_bound) {
      JobChange parts_too = change;
      parts_too.free_parts = true;
      w.most_saved_ns_per_step = std::max(w.saved_ns_per_step, saved_ns(parts_too) / steps);
    }
    results.push_back(std::move(w));
  }
  std::vector<WhatIf> results;

 private:
  [[nodiscard]] int64_t saved_ns(const JobChange& change) const {
    return std::max<int64_t>(0, saturated_sub(from_ns_, total_ns(lanes_, replayed(lanes_, change))));
  }

  const JobLanes& lanes_;
  int64_t recorded_ns_ = 0, from_ns_ = 0;
  bool parts_missing_ = false;
};

/// Late ranks, and the changes that make them like the others.
class Late {
 public:
  Late(const JobLanes& lanes, LateRanks late)
      : by_turns(late.by_turns), lanes_(lanes), even_stages_(late.even_stages) {
    for (const int rank : late.ranks)
      for (uint32_t r = 0; r < lanes.ranks.size(); ++r) {
        if (lanes.digests[r].rank != rank || !lanes.ranks[r].joined) continue;
        names.push_back(rank);
        indices_.push_back(r);
        links_.push_back(nullptr);
        for (const SlowLink& link : late.links)
          if (std::ranges::count(link.ranks, r) > 0) links_.back() = &link;
      }
    for (uint32_t g = 0; g < lanes.groups.size() && !late.links.empty(); ++g)
      if (lanes.groups[g].collective != JobLanes::kNone) group_of_.emplace(lanes.groups[g].collective, g);
  }

  // Indices in `names`.
  [[nodiscard]] JobChange like_others(size_t begin, size_t end) const {
    JobChange change;
    for (size_t i = begin; i < end; ++i) {
      if (links_[i] == nullptr) change.like_others.push_back(indices_[i]);
      else shorten(*links_[i], change);
    }
    return change;
  }
  [[nodiscard]] JobChange like_others() const {
    JobChange change = like_others(0, names.size());
    change.even = by_turns;
    change.less_ns.assign(even_stages_.begin(), even_stages_.end());
    return change;
  }

  [[nodiscard]] bool any() const { return !names.empty() || by_turns || !even_stages_.empty(); }

  std::vector<int> names;
  bool by_turns;

 private:
  void shorten(const SlowLink& link, JobChange& change) const {
    change.shorter_ns.resize(lanes_.groups.size());
    for (const SlowLink::Transfer& t : link.transfers)
      if (const auto group = group_of_.find(t.collective); group != group_of_.end())
        change.shorter_ns[group->second] = t.beyond_ns;
  }

  const JobLanes& lanes_;
  std::span<const int64_t> even_stages_;
  std::vector<uint32_t> indices_;
  std::vector<const SlowLink*> links_;   // null: the rank itself is late
  std::unordered_map<uint32_t, uint32_t> group_of_;   // by matched collective
};

JobChange without(const CauseChange& cause, JobChange change = {}) {
  change.gone[static_cast<size_t>(cause.kind)] = change.gone[static_cast<size_t>(cause.also)] = true;
  return change;
}

}  // namespace

std::vector<Interval> replayed(const JobLanes& lanes, const JobChange& change) { return Player(lanes, change).play(); }

std::vector<WhatIf> what_if(const JobLanes& lanes, LateRanks late_ranks) {
  if (lanes.job_steps.empty()) return {};
  WhatIfEvaluator evaluator(lanes);
  for (const CauseChange& c : std::span(kCauseChanges).first(kAlways)) evaluator.evaluate(c.change, without(c));
  const Late late(lanes, late_ranks);
  if (late.names.size() > 1) evaluator.evaluate("straggler_median", late.like_others(), late.names);
  for (size_t i = 0; i < std::min(late.names.size(), kMaxApart); ++i)
    evaluator.evaluate("straggler_median", late.like_others(i, i + 1), {late.names[i]});
  if (late.by_turns) evaluator.evaluate("even_ranks", late.like_others());
  if (!late_ranks.even_stages.empty()) evaluator.evaluate("even_stages", late.like_others());
  return std::move(evaluator.results);
}

std::vector<WhatIf> what_if_on_top(const JobLanes& lanes, LateRanks late_ranks) {
  const Late late(lanes, late_ranks);
  if (lanes.job_steps.empty() || !late.any()) return {};
  const JobChange like_others = late.like_others();
  WhatIfEvaluator evaluator(lanes);
  evaluator.begin_from(like_others);
  for (const CauseChange& c : kCauseChanges) evaluator.evaluate(c.change, without(c, like_others));
  return std::move(evaluator.results);
}

std::vector<WhatIf> what_if_less(const JobLanes& lanes, LateRanks late_ranks, std::span<const OwnSavings> savings) {
  if (lanes.job_steps.empty() || savings.empty()) return {};
  const JobChange like_others = Late(lanes, late_ranks).like_others();
  WhatIfEvaluator evaluator(lanes);
  evaluator.begin_from(like_others);
  for (const OwnSavings& s : savings) {
    JobChange change = like_others;
    change.less_ns.resize(lanes.points.size());
    change.less_on_host = s.on_host;
    bool known = true;
    for (uint32_t r = 0; r < s.by_rank.size(); ++r) {
      known &= lanes.ranks[r].joined || s.by_rank[r].empty();
      for (const LaneSaving& saving : s.by_rank[r])
        add_saturated(change.less_ns[lanes.ranks[r].first_point + saving.point], saving.ns);
    }
    if (known) evaluator.evaluate(s.rule, change);
  }
  return std::move(evaluator.results);
}

const WhatIf* find_what_if(std::span<const WhatIf> all, std::string_view change, int rank) {
  for (const WhatIf& w : all) {
    const bool of_all = rank < 0 && w.ranks.empty();
    const bool of_rank = rank >= 0 && w.ranks.size() == 1 && w.ranks.front() == rank;
    if (w.change == change && (of_all || of_rank)) return &w;
  }
  return nullptr;
}

}  // namespace profgpu
