#include "job/critical_path.h"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>

#include "analyse/collectives.h"
#include "base/saturated.h"
#include "base/statistics.h"

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

}  // namespace

StepPath critical_path(std::span<const RankDigest> ranks, const JobLanes& lanes, size_t place) {
  const JobStep& step = lanes.job_steps[place];
  return {step.index, step.time.start, step.time.length(), PathWalk(ranks, lanes, step).walk()};
}

CriticalPath critical_path(std::span<const RankDigest> ranks, const JobLanes& lanes) {
  CriticalPath path;
  std::map<int, int64_t> by_rank;
  std::array<int64_t, kLaneTimes> by_kind{};
  for (size_t i = 0; i < lanes.job_steps.size(); ++i) {
    StepPath step = critical_path(ranks, lanes, i);
    path.duration_ns = saturated_add(path.duration_ns, step.duration_ns);
    for (const PathSegment& s : step.segments) {
      for (int64_t* sum : {&by_kind[static_cast<size_t>(s.kind)], &by_rank[s.rank]})
        *sum = saturated_add(*sum, s.length_ns());
    }
    if (step.duration_ns > path.longest.duration_ns) path.longest = std::move(step);
  }
  path.steps = static_cast<int64_t>(lanes.job_steps.size());
  path.ranks_without = lanes.ranks_without;
  for (const auto& [rank, ns] : by_rank) path.by_rank.push_back({rank, ns, percent_of(ns, path.duration_ns)});
  for (size_t i = 0; i < by_kind.size(); ++i)
    if (by_kind[i] > 0) path.by_kind.push_back({static_cast<LaneTime>(i), by_kind[i], percent_of(by_kind[i], path.duration_ns)});
  const auto longer = [](const auto& a, const auto& b) { return a.ns > b.ns; };
  std::stable_sort(path.by_rank.begin(), path.by_rank.end(), longer);
  std::stable_sort(path.by_kind.begin(), path.by_kind.end(), longer);
  return path;
}

std::vector<PathSegment> StepPath::longest_segments() const {
  std::vector<size_t> kept(segments.size());
  std::iota(kept.begin(), kept.end(), 0);
  std::stable_sort(kept.begin(), kept.end(), [&](size_t a, size_t b) { return segments[a].length_ns() > segments[b].length_ns(); });
  kept.resize(std::min(kept.size(), kMost));
  std::sort(kept.begin(), kept.end());
  std::vector<PathSegment> out;
  for (const size_t i : kept) out.push_back(segments[i]);
  return out;
}

}  // namespace profgpu
