// The lanes of all ranks on one clock, joined by their collectives: what the job's critical path and what-if walk.
//
// Each rank goes along its lane; a collective begins on a rank when the rank is ready and the collective before it on
// its stream has ended, and ends when the last rank has begun it and its transfer is done; a wait goes on when its
// collective has ended.
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
    uint32_t rank = 0, place = 0;   ///< rank's place; RankDigest::steps
  };
  int64_t index = 0;
  Interval time;                    ///< on the first rank's clock
  std::vector<Part> parts;          ///< by rank; not empty
};

/// Times are on the first rank's clock. Calls, points and steps of all ranks are numbered through, rank by rank.
struct JobLanes {
  static constexpr uint32_t kNone = UINT32_MAX;

  struct Rank {
    uint32_t first_call = 0, first_point = 0, first_step = 0;
    bool joined = false;         ///< its clock is known, and a collective joins it to another rank
  };
  struct Call {
    uint32_t rank = 0;
    uint32_t point = kNone;      ///< where its lane arrives at it
    uint32_t group = kNone;      ///< kNone where its lane does not arrive at it
    uint32_t before = kNone, next = kNone;   ///< on its stream
    int64_t start_ns = 0, end_ns = 0;
    int64_t delay_ns = 0;        ///< from when it was ready and the one before it had ended to its start
    bool together = false;       ///< does not end before the last of its group has begun
  };
  /// Calls of one collective, or one call alone.
  struct Group {
    uint32_t first = 0, end = 0; ///< members
    int64_t last_ns = INT64_MIN; ///< start of the last
    bool whole = false;          ///< all ranks of it are in hand
    uint32_t meeting = kNone;    ///< place in the list of meetings; kNone: a message, or a call alone
  };
  struct Point {
    uint32_t of = kNone;         ///< calls, or steps
    LanePoint::What what = LanePoint::What::kRestart;
    int64_t time_ns = 0;
    int64_t own_ns = 0;          ///< the rank's own time since the point before it; what a wait lacks is waiting
    int64_t delay_ns = 0;        ///< to a step's bound, where that falls into a wait
  };
  struct Step {
    int64_t begin_ns = 0, end_ns = 0;
    uint32_t begin_point = kNone, end_point = kNone;
  };
  /// One after another so that what depends on another comes after it: a point of a lane, or the end of a group.
  struct Event {
    uint32_t rank = 0;           ///< kNone: a group
    uint32_t at = 0;             ///< points, or groups
  };

  std::span<const RankDigest> digests;   ///< whose lanes they are; have to stay
  std::vector<Rank> ranks;
  std::vector<Call> calls;
  std::vector<Point> points;
  std::vector<Step> steps;
  std::vector<uint32_t> members;
  std::vector<Group> groups;
  std::vector<Event> order;
  std::vector<JobStep> job_steps;    ///< those that most of the joined ranks measure, by number
  std::vector<int> ranks_without;    ///< not joined

  [[nodiscard]] const CollectiveCall& recorded(uint32_t call) const {
    return digests[calls[call].rank].calls.calls[call - ranks[calls[call].rank].first_call];
  }
  [[nodiscard]] const Step& step(JobStep::Part part) const { return steps[ranks[part.rank].first_step + part.place]; }
  /// The calls of a group.
  [[nodiscard]] std::span<const uint32_t> members_of(const Group& group) const {
    return std::span(members).subspan(group.first, group.end - group.first);
  }
  /// Own time since the point before it, by kind, on the rank's own clock.
  [[nodiscard]] std::span<const LanePart> parts_before(uint32_t rank, uint32_t point) const;
};

/// O(n log n) in calls and steps. Sends and receives are matched here.
JobLanes join_lanes(const JobView& job);

// The order in which the points of all lanes and the ends of collectives follow from one another.

/// Fills JobLanes::order for its joined ranks. What would have to wait for itself (records that contradict each other)
/// is taken to have happened as recorded. O(points and calls).
void put_in_order(JobLanes& lanes);

// The chain of work, on whichever rank, that set how long a step of the job took: from the end of the rank that ended
// it last back through what it had waited for.

/// Time of one rank on the path, on the first rank's clock. Own time of several kinds between two collectives is given
/// kind by kind, each in one piece.
struct PathSegment {
  int rank = 0;
  LaneTime kind = LaneTime::kCompute;   ///< kCommunication: the transfer, from when the last rank had come
  int64_t start_ns = 0, end_ns = 0;
  std::string call;                     ///< of a transfer or a launch: the collective's name; else empty
  [[nodiscard]] int64_t length_ns() const { return end_ns - start_ns; }

  void fields(auto&& v) const {
    v("rank", rank), v("kind", lane_time_name(kind)), v("start_ns", start_ns), v("duration_ns", length_ns());
    v("call", unless_empty(call));
  }
};

/// Of one step. Segments are in order of time, touch each other, and add up to the step's duration.
struct StepPath {
  int64_t step = 0;              ///< its number
  int64_t start_ns = 0, duration_ns = 0;   ///< JobStep::time
  std::vector<PathSegment> segments;

  /// Of the segments the kMost longest, in order of time.
  [[nodiscard]] std::vector<PathSegment> longest_segments() const;
  static constexpr size_t kMost = 200;

  void fields(auto&& v) const {
    v("step", step), v("start_ns", start_ns), v("duration_ns", duration_ns), v("segments", longest_segments());
    v("segments_left_out", segments.size() - std::min(segments.size(), kMost));
  }
};

/// Of lanes.job_steps[place].
StepPath critical_path(const JobLanes& lanes, size_t place);

/// What all measured steps' paths consist of, and the longest step's.
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
  int64_t steps = 0, duration_ns = 0;              ///< of all
  std::vector<Kind> by_kind;                       ///< longest first; these, and those by rank, add up to duration_ns
  std::vector<Share> by_rank;                      ///< longest first; those on a path
  StepPath longest;
  std::vector<int> ranks_without;                  ///< as JobLanes has them

  void fields(auto&& v) const {
    v("steps", steps), v("duration_ns", duration_ns), v("by_kind", by_kind), v("by_rank", by_rank);
    v("longest_step", longest), v("ranks_without", ranks_without);
  }
};

/// O(points and calls).
CriticalPath critical_path(const JobLanes& lanes);

}  // namespace profgpu
