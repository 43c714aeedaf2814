#include "job/critical_path.h"

#include <algorithm>
#include <map>

#include "analyse/collectives.h"
#include "base/saturated.h"

namespace profgpu {
namespace {

using What = LanePoint::What;

/// From the end of a step back to its start.
class PathWalk {
 public:
  PathWalk(std::span<const RankDigest> ranks, const JobLanes& lanes, const JobStep& step)
      : ranks_(ranks), lanes_(lanes), from_(step.time.start), at_(step.time.end) {
    for (const JobStep::Part& p : step.parts) {
      const JobLanes::Step& bounds = lanes.steps[lanes.ranks[p.rank].first_step + p.place];
      if (bounds.end_ns != step.time.end) continue;
      rank_ = p.rank;
      point_ = bounds.end_point;
      break;
    }
  }

  std::vector<PathSegment> walk() {
    // Each turn goes to something that came before; records that contradict each other could go round.
    for (size_t turns = lanes_.points.size(); turns > 0 && at_ > from_ && point_ != JobLanes::kNone; --turns) pass_point();
    back_to(from_, lane_time(IdleCause::kUnknown));
    std::reverse(segments_.begin(), segments_.end());
    return std::move(segments_);
  }

 private:
  void pass_point() {
    const JobLanes::Point& p = lanes_.points[point_];
    // The host went on to the step's bound while the device waited.
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
    const std::span<const LanePart> parts = parts_before(ranks_, lanes_, rank_, point_);
    for (auto part = parts.rbegin(); part != parts.rend(); ++part) back_to(saturated_sub(at_, part->ns), part->kind);
    --point_;
    back_to(lanes_.points[point_].time_ns, lane_time(IdleCause::kUnknown));   // clocks differ by so much
  }

  // From the end of a call to the point at which the last rank was ready for it.
  void pass_call(uint32_t call) {
    for (size_t turns = lanes_.calls.size(); turns > 0; --turns) {
      const JobLanes::Group& group = lanes_.groups[lanes_.calls[call].group];
      uint32_t last = call;
      if (lanes_.calls[call].together)
        last = *std::find_if(lanes_.members.begin() + group.first, lanes_.members.begin() + group.end,
                             [&](uint32_t m) { return lanes_.calls[m].start_ns == group.last_ns; });
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
    if (next != nullptr && next->rank == ranks_[rank_].rank && next->kind == kind && call == call_) {
      next->start_ns = time;
    } else {
      segments_.push_back({ranks_[rank_].rank, kind, time, at_, name(call)});
    }
    call_ = call;
    at_ = time;
  }

  [[nodiscard]] std::string name(uint32_t call) const {
    if (call == JobLanes::kNone) return "";
    const uint32_t rank = lanes_.calls[call].rank;
    const RankDigest& r = ranks_[rank];
    return r.call_name(r.calls.calls[call - lanes_.ranks[rank].first_call]);
  }

  std::span<const RankDigest> ranks_;
  const JobLanes& lanes_;
  int64_t from_, at_;
  uint32_t rank_ = 0, point_ = JobLanes::kNone, call_ = JobLanes::kNone;
  std::vector<PathSegment> segments_;
};

double pct(int64_t part, int64_t whole) {
  return whole > 0 ? 100.0 * static_cast<double>(part) / static_cast<double>(whole) : 0;
}

Table kinds_table(const std::array<int64_t, kLaneTimes>& by_kind, int64_t whole) {
  std::vector<size_t> order;
  for (size_t i = 0; i < by_kind.size(); ++i)
    if (by_kind[i] > 0) order.push_back(i);
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return by_kind[a] > by_kind[b]; });
  Table table;
  table.columns = {"kind", "total_ns", "pct"};
  for (const size_t i : order)
    table.rows.push_back({lane_time_name(static_cast<LaneTime>(i)), by_kind[i], pct(by_kind[i], whole)});
  return table;
}

// In order of time, the longest of them.
Table segments_table(const std::vector<PathSegment>& segments) {
  std::vector<size_t> kept(segments.size());
  for (size_t i = 0; i < kept.size(); ++i) kept[i] = i;
  std::stable_sort(kept.begin(), kept.end(),
                   [&](size_t a, size_t b) { return segments[a].length_ns() > segments[b].length_ns(); });
  kept.resize(std::min(kept.size(), kMostSegments));
  std::sort(kept.begin(), kept.end());
  Table table;
  table.columns = {"rank", "kind", "start_ns", "duration_ns", "call"};
  for (const size_t i : kept) {
    const PathSegment& s = segments[i];
    table.rows.push_back({s.rank, lane_time_name(s.kind), s.start_ns, s.length_ns(),
                          s.call.empty() ? Value() : Value(s.call)});
  }
  return table;
}

}  // namespace

StepPath critical_path(std::span<const RankDigest> ranks, const JobLanes& lanes, size_t place) {
  const JobStep& step = lanes.job_steps[place];
  return {step.index, step.time.start, step.time.length(), PathWalk(ranks, lanes, step).walk()};
}

CriticalPath critical_path(std::span<const RankDigest> ranks, const JobLanes& lanes) {
  CriticalPath path;
  std::map<int, int64_t> by_rank;
  for (size_t i = 0; i < lanes.job_steps.size(); ++i) {
    StepPath step = critical_path(ranks, lanes, i);
    path.duration_ns = saturated_add(path.duration_ns, step.duration_ns);
    for (const PathSegment& s : step.segments) {
      for (int64_t* sum : {&path.by_kind[static_cast<size_t>(s.kind)], &by_rank[s.rank]})
        *sum = saturated_add(*sum, s.length_ns());
    }
    if (step.duration_ns > path.longest.duration_ns) path.longest = std::move(step);
  }
  path.steps = static_cast<int64_t>(lanes.job_steps.size());
  path.ranks_without = lanes.ranks_without;
  for (const auto& [rank, ns] : by_rank) path.by_rank.push_back({rank, ns});
  std::stable_sort(path.by_rank.begin(), path.by_rank.end(), [](const auto& a, const auto& b) { return a.ns > b.ns; });
  return path;
}

Value critical_path_value(const CriticalPath& path) {
  if (path.steps == 0) return {};
  Table ranks;
  ranks.columns = {"rank", "total_ns", "pct"};
  for (const auto& r : path.by_rank) ranks.rows.push_back({r.rank, r.ns, pct(r.ns, path.duration_ns)});
  List without;
  for (const int r : path.ranks_without) without.push_back(r);
  const std::vector<PathSegment>& segments = path.longest.segments;
  Record longest;
  longest.add("step", path.longest.step)
      .add("start_ns", path.longest.start_ns)
      .add("duration_ns", path.longest.duration_ns)
      .add("segments", segments_table(segments))
      .add("segments_left_out", segments.size() - std::min(segments.size(), kMostSegments));
  Record record;
  record.add("steps", path.steps)
      .add("duration_ns", path.duration_ns)
      .add("by_kind", kinds_table(path.by_kind, path.duration_ns))
      .add("by_rank", ranks)
      .add("longest_step", longest)
      .add("ranks_without", without);
  return record;
}

}  // namespace profgpu
