#include "analyse/job/job_lanes.h"

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <numeric>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "analyse/rank/collectives.h"
#include "base/saturated.h"
#include "base/statistics.h"

namespace profgpu {
namespace {

using What = LanePoint::What;
constexpr int64_t kLongestStepNs = int64_t{1} << 50;   // 13 days, the bound of all records

class Joiner {
 public:
  explicit Joiner(const JobView& job) : job_(job), ranks_(job.ranks) { out_.digests = ranks_; }

  JobLanes join() {
    for (uint32_t r = 0; r < ranks_.size(); ++r) add_rank(r);
    for (uint32_t i = 0; i < job_.collectives.size(); ++i) {
      const MatchedCollective& m = job_.collectives[i];
      add_collective(m.calls, m.whole_group, job_.kind(m).ends_together, i);
    }
    for (const Message& m : messages(ranks_, job_.clocks))
      add_collective(std::array{m.send, m.receive}, true, false, JobLanes::kNone);
    for (uint32_t c = 0; c < out_.calls.size(); ++c)
      if (is_free(c)) add_group({&c, 1}, ranks_[out_.calls[c].rank].kind(out_.recorded(c)).group_size == 1);
    for (uint32_t r = 0; r < ranks_.size(); ++r)
      if (!out_.ranks[r].joined) out_.ranks_without.push_back(ranks_[r].rank);
    add_streams();
    put_in_order(out_);
    find_steps();
    return std::move(out_);
  }

 private:
  void add_rank(uint32_t r) {
    const RankDigest& rank = ranks_[r];
    const RankClock& clock = job_.clocks[r];
    const JobLanes::Rank first{static_cast<uint32_t>(out_.calls.size()), static_cast<uint32_t>(out_.points.size()),
                               static_cast<uint32_t>(out_.steps.size()), false};
    out_.ranks.push_back(first);
    for (const CollectiveCall& c : rank.calls.calls) {
      const Interval time = clock.aligned(c);
      out_.calls.push_back({.rank = r, .start_ns = time.start, .end_ns = time.end});
    }
    for (const DigestStep& s : rank.steps) {
      const Interval time = clock.aligned(s.interval());
      out_.steps.push_back({time.start, time.end});
    }
    uint32_t part = 0;
    for (const LanePoint& p : rank.lane.points) {
      JobLanes::Point point{JobLanes::kNone, p.what, clock.aligned(p.time_ns), 0, 0};
      for (; part < p.parts_end; ++part) point.own_ns = saturated_add(point.own_ns, rank.lane.parts[part].ns);
      bind(point, p, first);
      out_.points.push_back(point);
    }
  }

  // Links a point with its call or step.
  void bind(JobLanes::Point& point, const LanePoint& p, const JobLanes::Rank& first) {
    const auto at = static_cast<uint32_t>(out_.points.size());
    if (p.what == What::kRestart) return;
    const bool of_call = p.what == What::kArrive || p.what == What::kWait;
    point.of = (of_call ? first.first_call : first.first_step) + p.of;
    if (p.what == What::kArrive) out_.calls[point.of].point = at;
    if (of_call) return;
    JobLanes::Step& step = out_.steps[point.of];
    const bool begins = p.what == What::kStepBegin;
    (begins ? step.begin_point : step.end_point) = at;
    point.delay_ns = saturated_sub(begins ? step.begin_ns : step.end_ns, point.time_ns);
  }

  // Whether a lane arrives at it, and it has no group yet.
  [[nodiscard]] bool is_free(uint32_t call) const {
    return out_.calls[call].point != JobLanes::kNone && out_.calls[call].group == JobLanes::kNone;
  }

  void add_collective(std::span<const RankCall> all, bool whole, bool ends_together, uint32_t collective) {
    std::vector<uint32_t> members;
    for (const RankCall& c : all)
      if (const uint32_t call = out_.ranks[c.rank].first_call + c.call; is_free(call)) members.push_back(call);
    if (members.size() < 2) return;
    add_group(members, whole && members.size() == all.size(), collective);
    for (const uint32_t c : members) {
      out_.ranks[out_.calls[c].rank].joined = true;
      out_.calls[c].together = ends_together || out_.calls[c].end_ns >= out_.groups.back().last_ns;
    }
  }

  void add_group(std::span<const uint32_t> members, bool whole, uint32_t collective = JobLanes::kNone) {
    JobLanes::Group group{static_cast<uint32_t>(out_.members.size()), 0, INT64_MIN, whole, collective};
    for (const uint32_t c : members) {
      out_.members.push_back(c);
      out_.calls[c].group = static_cast<uint32_t>(out_.groups.size());
      group.last_ns = std::max(group.last_ns, out_.calls[c].start_ns);
    }
    group.end = static_cast<uint32_t>(out_.members.size());
    out_.groups.push_back(group);
  }

  void add_streams() {
    for (uint32_t r = 0; r < ranks_.size(); ++r) {
      std::vector<uint32_t> arrived;
      const uint32_t first = out_.ranks[r].first_call;
      for (uint32_t c = first; c < first + ranks_[r].calls.calls.size(); ++c)
        if (out_.calls[c].point != JobLanes::kNone) arrived.push_back(c);
      std::ranges::sort(arrived, {}, [&](uint32_t c) {
        return std::tuple(out_.recorded(c).queue, out_.calls[c].start_ns, out_.calls[c].end_ns, c);
      });
      for (size_t i = 0; i < arrived.size(); ++i) follow(arrived[i], i > 0 ? arrived[i - 1] : JobLanes::kNone);
    }
  }

  // `before`: its rank's previous call, by stream and time.
  void follow(uint32_t call, uint32_t before) {
    JobLanes::Call& c = out_.calls[call];
    int64_t held = out_.points[c.point].time_ns;
    if (before != JobLanes::kNone && out_.recorded(before).queue == out_.recorded(call).queue &&
        out_.calls[before].end_ns <= c.start_ns) {
      c.before = before;
      out_.calls[before].next = call;
      held = std::max(held, out_.calls[before].end_ns);
    }
    c.delay_ns = saturated_sub(c.start_ns, held);
  }

  struct Numbered {
    int64_t number, begin_ns;
    JobStep::Part part;
    [[nodiscard]] auto order() const { return std::tuple(number, begin_ns, part.rank, part.step); }
  };

  // The next of the steps belongs to the job's step. Where numbers begin anew, equal ones of other times do not.
  [[nodiscard]] static bool belongs(const Numbered& next, const JobStep& step, bool anew) {
    if (next.number != step.index) return false;
    const auto of_rank = [&](const JobStep::Part& p) { return p.rank == next.part.rank; };
    return !anew || (next.begin_ns < step.time.end && std::ranges::none_of(step.parts, of_rank));
  }

  void find_steps() {
    std::vector<Numbered> all;
    size_t joined = 0;
    bool anew = false;
    for (uint32_t r = 0; r < ranks_.size(); ++r) {
      if (!out_.ranks[r].joined) continue;
      ++joined;
      for (uint32_t s = 0; s < ranks_[r].steps.size(); ++s) {
        all.push_back({ranks_[r].steps[s].index, out_.step({r, s}).begin_ns, {r, s}});
        anew |= ranks_[r].steps[s].turn > 0;
      }
    }
    std::ranges::sort(all, {}, &Numbered::order);
    for (size_t i = 0, j = 0; i < all.size(); i = j) {
      JobStep step{all[i].number, {INT64_MIN, INT64_MIN}, {}};
      size_t measured = 0;
      for (; j < all.size() && (j == i || belongs(all[j], step, anew)); ++j) {
        const JobStep::Part part = all[j].part;
        step.parts.push_back(part);
        measured += ranks_[part.rank].steps[part.step].measured;
        const JobLanes::Step& bounds = out_.step(part);
        step.time = {std::max(step.time.start, bounds.begin_ns), std::max(step.time.end, bounds.end_ns)};
      }
      std::ranges::sort(step.parts, {}, &JobStep::Part::rank);
      const int64_t duration = saturated_sub(step.time.end, step.time.start);
      if (2 * measured > joined && duration > 0 && duration < kLongestStepNs) out_.job_steps.push_back(std::move(step));
    }
  }

  const JobView& job_;
  std::span<const RankDigest> ranks_;
  JobLanes out_;
};

class Order {
 public:
  explicit Order(JobLanes& lanes)
      : lanes_(lanes),
        missing_(lanes.groups.size()),
        ended_(lanes.groups.size()),
        waiting_(lanes.ranks.size(), JobLanes::kNone) {
    for (const JobLanes::Call& c : lanes.calls) {
      if (c.group == JobLanes::kNone || !lanes.ranks[c.rank].joined) continue;
      missing_[c.group] += c.before != JobLanes::kNone ? 2 : 1;   // its arrival, and the end of the call before it
    }
    at_.reserve(lanes.ranks.size());
    for (size_t r = 0; r < lanes.ranks.size(); ++r) {
      at_.push_back(lanes.ranks[r].first_point);
      const size_t end = r + 1 < lanes.ranks.size() ? lanes.ranks[r + 1].first_point : lanes.points.size();
      end_.push_back(lanes.ranks[r].joined ? static_cast<uint32_t>(end) : at_.back());
    }
    lanes_.order.reserve(lanes.points.size() + lanes.groups.size());
  }

  void run() {
    for (uint32_t r = 0; r < lanes_.ranks.size(); ++r) runnable_.push_back(r);
    while (true) {
      for (; next_ < runnable_.size(); ++next_) go_on(runnable_[next_]);
      runnable_.clear();
      next_ = 0;
      bool stuck = false;
      for (uint32_t r = 0; r < waiting_.size(); ++r) {
        if (waiting_[r] == JobLanes::kNone) continue;
        stuck = true;
        if (!ended_[waiting_[r]]) end_group(waiting_[r]);
        end_groups();
      }
      if (!stuck) return;
    }
  }

 private:
  void go_on(uint32_t rank) {
    while (at_[rank] < end_[rank]) {
      const JobLanes::Point& p = lanes_.points[at_[rank]];
      const uint32_t group =
          p.what == What::kWait || p.what == What::kArrive ? lanes_.calls[p.of].group : JobLanes::kNone;
      if (p.what == What::kWait && group != JobLanes::kNone && !ended_[group]) {
        waiting_[rank] = group;
        waiters_[group].push_back(rank);
        return;
      }
      lanes_.order.push_back({rank, at_[rank]++});
      if (p.what == What::kArrive) one_less(group);
      end_groups();
    }
  }

  void one_less(uint32_t group) {
    if (!ended_[group] && --missing_[group] == 0) complete_.push_back(group);
  }

  void end_groups() {
    while (!complete_.empty()) {
      const uint32_t group = complete_.back();
      complete_.pop_back();
      if (!ended_[group]) end_group(group);
    }
  }

  void end_group(uint32_t group) {
    ended_[group] = true;
    lanes_.order.push_back({JobLanes::kNone, group});
    for (const uint32_t m : lanes_.members_of(lanes_.groups[group]))
      if (const uint32_t next = lanes_.calls[m].next; next != JobLanes::kNone) one_less(lanes_.calls[next].group);
    const auto waiters = waiters_.find(group);
    if (waiters == waiters_.end()) return;
    for (const uint32_t rank : waiters->second) {
      waiting_[rank] = JobLanes::kNone;
      runnable_.push_back(rank);
    }
    waiters_.erase(waiters);
  }

  JobLanes& lanes_;
  std::vector<uint32_t> missing_;
  std::vector<bool> ended_;
  std::vector<uint32_t> waiting_;     // by rank: the group that it waits for
  std::unordered_map<uint32_t, std::vector<uint32_t>> waiters_;
  std::vector<uint32_t> at_, end_;    // by rank: its remaining points
  std::vector<uint32_t> runnable_, complete_;
  size_t next_ = 0;
};

/// From the end of a step back to its start.
class PathWalk {
 public:
  PathWalk(const JobLanes& lanes, const JobStep& step)
      : lanes_(lanes), from_(step.time.start), at_(step.time.end) {
    const auto last = *std::ranges::find(step.parts, at_, [&](JobStep::Part p) { return lanes.step(p).end_ns; });
    rank_ = last.rank;
    point_ = lanes.step(last).end_point;
  }

  std::vector<PathSegment> walk() {
    // Each turn goes back in time; the bound ends loops between contradictory records.
    for (size_t turns = lanes_.points.size(); turns > 0 && at_ > from_ && point_ != JobLanes::kNone; --turns)
      pass_point();
    back_to(from_, lane_time(IdleCause::kUnknown));
    std::ranges::reverse(segments_);
    return std::move(segments_);
  }

 private:
  void pass_point() {
    const JobLanes::Point& p = lanes_.points[point_];
    // The host reached the step's bound while the device waited.
    back_to(p.time_ns, lane_time(IdleCause::kHostBound));
    if (p.what == What::kRestart || point_ == lanes_.ranks[rank_].first_point) {
      point_ = JobLanes::kNone;
      return;
    }
    const int64_t ready = saturated_add(lanes_.points[point_ - 1].time_ns, p.own_ns);
    if (p.what == What::kWait && ready < p.time_ns && lanes_.calls[p.of].group != JobLanes::kNone) {
      pass_call(p.of);
      return;
    }
    const std::span<const LanePart> parts = lanes_.parts_before(rank_, point_);
    for (auto part = parts.rbegin(); part != parts.rend(); ++part) back_to(saturated_sub(at_, part->ns), part->kind);
    --point_;
    back_to(lanes_.points[point_].time_ns, lane_time(IdleCause::kUnknown));   // the clocks' error
  }

  // From the end of a call back to the arrival of its last rank.
  void pass_call(uint32_t call) {
    for (size_t turns = lanes_.calls.size(); turns > 0; --turns) {
      const JobLanes::Group& group = lanes_.groups[lanes_.calls[call].group];
      uint32_t last = call;
      if (lanes_.calls[call].together)
        last = *std::ranges::find(lanes_.members_of(group), group.last_ns,
                                  [&](uint32_t m) { return lanes_.calls[m].start_ns; });
      back_to(lanes_.calls[last].start_ns, LaneTime::kCommunication, call);
      const JobLanes::Call& c = lanes_.calls[last];
      rank_ = c.rank;
      call = last;
      const int64_t ready = lanes_.points[c.point].time_ns;
      if (c.before == JobLanes::kNone || lanes_.calls[c.before].end_ns <= ready || at_ <= from_) {
        back_to(ready, lane_time(IdleCause::kLaunchLatency), call);
        point_ = c.point;
        return;
      }
      back_to(lanes_.calls[c.before].end_ns, lane_time(IdleCause::kLaunchLatency), call);
      call = c.before;
    }
    point_ = JobLanes::kNone;
  }

  void back_to(int64_t time, LaneTime kind, uint32_t call = JobLanes::kNone) {
    time = std::max(time, from_);
    if (time >= at_) return;
    PathSegment* next = segments_.empty() ? nullptr : &segments_.back();
    const int rank = lanes_.digests[rank_].rank;
    if (next != nullptr && next->rank == rank && next->kind == kind && call == call_) next->start_ns = time;
    else segments_.push_back({rank, kind, time, at_, name(call)});
    call_ = call;
    at_ = time;
  }

  [[nodiscard]] std::string name(uint32_t call) const {
    if (call == JobLanes::kNone) return "";
    return lanes_.digests[lanes_.calls[call].rank].call_name(lanes_.recorded(call));
  }

  const JobLanes& lanes_;
  int64_t from_, at_;
  uint32_t rank_ = 0, point_ = JobLanes::kNone, call_ = JobLanes::kNone;
  std::vector<PathSegment> segments_;
};

}  // namespace

JobLanes join_lanes(const JobView& job) { return Joiner(job).join(); }

std::span<const LanePart> JobLanes::parts_before(uint32_t rank, uint32_t point) const {
  const Lane& lane = digests[rank].lane;
  const uint32_t at = point - ranks[rank].first_point;
  const uint32_t begin = at > 0 ? lane.points[at - 1].parts_end : 0;
  return {lane.parts.data() + begin, lane.points[at].parts_end - begin};
}

void put_in_order(JobLanes& lanes) { Order(lanes).run(); }

StepPath critical_path(const JobLanes& lanes, size_t step) {
  const JobStep& of = lanes.job_steps[step];
  return {of.index, of.time.start, of.time.length(), PathWalk(lanes, of).walk()};
}

CriticalPath critical_path(const JobLanes& lanes) {
  CriticalPath path;
  std::map<int, int64_t> by_rank;
  std::array<int64_t, kLaneTimes> by_kind{};
  for (size_t i = 0; i < lanes.job_steps.size(); ++i) {
    StepPath step = critical_path(lanes, i);
    path.duration_ns = saturated_add(path.duration_ns, step.duration_ns);
    for (const PathSegment& s : step.segments)
      for (int64_t* sum : {&by_kind[static_cast<size_t>(s.kind)], &by_rank[s.rank]})
        *sum = saturated_add(*sum, s.length_ns());
    if (step.duration_ns > path.longest.duration_ns) path.longest = std::move(step);
  }
  path.steps = static_cast<int64_t>(lanes.job_steps.size());
  path.ranks_without = lanes.ranks_without;
  for (const auto& [rank, ns] : by_rank) path.by_rank.push_back({rank, ns, percent_of(ns, path.duration_ns)});
  for (size_t i = 0; i < by_kind.size(); ++i)
    if (by_kind[i] > 0)
      path.by_kind.push_back({static_cast<LaneTime>(i), by_kind[i], percent_of(by_kind[i], path.duration_ns)});
  std::ranges::stable_sort(path.by_rank, std::greater(), &CriticalPath::Share::ns);
  std::ranges::stable_sort(path.by_kind, std::greater(), &CriticalPath::Kind::ns);
  return path;
}

std::vector<PathSegment> StepPath::longest_segments() const {
  std::vector<size_t> kept(segments.size());
  std::iota(kept.begin(), kept.end(), 0);
  std::ranges::stable_sort(kept, std::greater(), [&](size_t i) { return segments[i].length_ns(); });
  kept.resize(std::min(kept.size(), kMost));
  std::ranges::sort(kept);
  std::vector<PathSegment> out;
  for (const size_t i : kept) out.push_back(segments[i]);
  return out;
}

}  // namespace profgpu
