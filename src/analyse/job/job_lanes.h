// The lanes of all ranks on one clock, joined by their collectives: the graph of the job's critical path and what-ifs.
//
// Each rank proceeds along its lane. A collective begins on a rank when the rank has arrived and the previous
// collective on its stream has ended; it ends when the last rank has begun it and its transfer is done. A wait ends
// with its collective.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "analyse/job/matched_collectives.h"
#include "analyse/job/traffic.h"
#include "analyse/report/document.h"

namespace profgpu {

/// A step of the job: from when the last rank began it to when the last rank ended it.
struct JobStep {
  struct Part {
    uint32_t rank = 0, step = 0;    ///< indices of the rank, and in its RankDigest::steps
  };
  int64_t index = 0;
  Interval time;                    ///< on the first rank's clock
  std::vector<Part> parts;          ///< by rank; not empty
};

/// Times are on the first rank's clock. Calls, points and steps of all ranks are numbered consecutively, rank by rank.
struct JobLanes {
  static constexpr uint32_t kNone = UINT32_MAX;

  struct Rank {
    uint32_t first_call = 0, first_point = 0, first_step = 0;
    bool joined = false;         ///< its clock is known, and it shares a collective with another rank
  };
  struct Call {
    uint32_t rank = 0;
    uint32_t point = kNone;      ///< arrival of its lane
    uint32_t group = kNone;      ///< kNone: its lane does not arrive at it
    uint32_t before = kNone, next = kNone;   ///< on its stream
    int64_t start_ns = 0, end_ns = 0;
    int64_t delay_ns = 0;        ///< from the arrival, or the end of the call before it if later, to its start
    bool together = false;       ///< ends after the last call of its group has begun
  };
  /// The calls of one collective, or a single call.
  struct Group {
    uint32_t first = 0, end = 0; ///< members
    int64_t last_ns = INT64_MIN; ///< start of the last
    bool whole = false;          ///< traces of all its ranks are here
    uint32_t collective = kNone; ///< index in the list of matched collectives; kNone: a message, or a single call
  };
  struct Point {
    uint32_t of = kNone;         ///< index into calls, or steps
    LanePoint::What what = LanePoint::What::kRestart;
    int64_t time_ns = 0;
    int64_t own_ns = 0;          ///< the rank's own time since the previous point; the rest, before a wait, is waiting
    int64_t delay_ns = 0;        ///< to a step's bound, if that is within a wait
  };
  struct Step {
    int64_t begin_ns = 0, end_ns = 0;
    uint32_t begin_point = kNone, end_point = kNone;
  };
  /// A point of a lane, or the end of a group, in an order in which each comes after what it depends on.
  struct Event {
    uint32_t rank = 0;           ///< kNone: a group
    uint32_t at = 0;             ///< index into points, or groups
  };

  std::span<const RankDigest> digests;   ///< must outlive this
  std::vector<Rank> ranks;
  std::vector<Call> calls;
  std::vector<Point> points;
  std::vector<Step> steps;
  std::vector<uint32_t> members;
  std::vector<Group> groups;
  std::vector<Event> order;
  std::vector<JobStep> job_steps;    ///< measured by most of the joined ranks, by number
  std::vector<int> ranks_without;    ///< not joined

  [[nodiscard]] const CollectiveCall& recorded(uint32_t call) const {
    return digests[calls[call].rank].calls.calls[call - ranks[calls[call].rank].first_call];
  }
  [[nodiscard]] const Step& step(JobStep::Part part) const { return steps[ranks[part.rank].first_step + part.step]; }
  /// The calls of a group.
  [[nodiscard]] std::span<const uint32_t> members_of(const Group& group) const {
    return std::span(members).subspan(group.first, group.end - group.first);
  }
  /// Own time since the previous point, by kind, on the rank's own clock.
  [[nodiscard]] std::span<const LanePart> parts_before(uint32_t rank, uint32_t point) const;
};

/// O(n log n) in calls and steps. Also matches sends and receives.
JobLanes join_lanes(const JobView& job);

/// Fills JobLanes::order for the joined ranks. Contradictory records, which would wait for themselves, happen as
/// recorded. O(points and calls).
void put_in_order(JobLanes& lanes);

// The critical path: the chain of work, across ranks, that determines the duration of a job's step. It goes back from
// the end of the rank that finishes last, through what it waited for.

/// One rank's time on the path, on the first rank's clock. Own time between two collectives is one segment per kind.
struct PathSegment {
  int rank = 0;
  LaneTime kind = LaneTime::kCompute;   ///< kCommunication: the transfer, after the last rank's arrival
  int64_t start_ns = 0, end_ns = 0;
  std::string call;                     ///< of a transfer or a launch: the collective's name; else empty
  [[nodiscard]] int64_t length_ns() const { return end_ns - start_ns; }

  void fields(auto&& v) const {
    v("rank", rank), v("kind", lane_time_name(kind)), v("start_ns", start_ns), v("duration_ns", length_ns());
    v("call", unless_empty(call));
  }
};

/// Path of one step. Segments are in time order, contiguous, and add up to the step's duration.
struct StepPath {
  int64_t step = 0;              ///< its number
  int64_t start_ns = 0, duration_ns = 0;   ///< JobStep::time
  std::vector<PathSegment> segments;

  /// The kMost longest segments, in time order.
  [[nodiscard]] std::vector<PathSegment> longest_segments() const;
  static constexpr size_t kMost = 200;

  void fields(auto&& v) const {
    v("step", step), v("start_ns", start_ns), v("duration_ns", duration_ns), v("segments", longest_segments());
    v("segments_left_out", segments.size() - std::min(segments.size(), kMost));
  }
};

/// Of lanes.job_steps[step].
StepPath critical_path(const JobLanes& lanes, size_t step);

/// Makeup of all measured steps' paths, and the longest step's path.
struct CriticalPath {
  struct Kind {
    LaneTime kind = LaneTime::kCompute;
    int64_t ns = 0;
    double pct = 0;   ///< of duration_ns

    void fields(auto&& v) const { v("kind", lane_time_name(kind)), v("total_ns", ns), v("pct", pct); }
  };
  struct Share {
    int rank = 0;
    int64_t ns = 0;
    double pct = 0;   ///< of duration_ns

    void fields(auto&& v) const { v("rank", rank), v("total_ns", ns), v("pct", pct); }
  };
  int64_t steps = 0, duration_ns = 0;              ///< of all paths
  std::vector<Kind> by_kind;                       ///< longest first; adds up to duration_ns
  std::vector<Share> by_rank;                      ///< likewise; only ranks on a path
  StepPath longest;
  std::vector<int> ranks_without;                  ///< JobLanes::ranks_without

  void fields(auto&& v) const {
    v("steps", steps), v("duration_ns", duration_ns), v("by_kind", by_kind), v("by_rank", by_rank);
    v("longest_step", longest), v("ranks_without", ranks_without);
  }
};

/// O(points and calls).
CriticalPath critical_path(const JobLanes& lanes);

}  // namespace profgpu
