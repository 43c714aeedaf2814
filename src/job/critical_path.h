// The chain of work, on whichever rank, that set how long a step of the job took: from the end of the rank that ended
// it last back through what it had waited for.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "job/job_lanes.h"
#include "report/document.h"

namespace profgpu {

/// Time of one rank on the path, on the first rank's clock. Own time of several kinds between two collectives is given
/// kind by kind, each in one piece.
struct PathSegment {
  int rank = 0;
  LaneTime kind = LaneTime::kCompute;   ///< kCommunication: the transfer, from when the last rank had come
  int64_t start_ns = 0, end_ns = 0;
  std::string call;                     ///< of a transfer or a launch: the collective's name; else empty
  [[nodiscard]] int64_t length_ns() const { return end_ns - start_ns; }

  template <class V>
  void fields(V&& v) const {
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

  template <class V>
  void fields(V&& v) const {
    v("step", step), v("start_ns", start_ns), v("duration_ns", duration_ns), v("segments", longest_segments());
    v("segments_left_out", segments.size() - std::min(segments.size(), kMost));
  }
};

/// Of lanes.job_steps[place].
StepPath critical_path(std::span<const RankDigest> ranks, const JobLanes& lanes, size_t place);

/// What all measured steps' paths consist of, and the longest step's.
struct CriticalPath {
  struct Kind {
    LaneTime kind = LaneTime::kCompute;
    int64_t ns = 0;
    double pct = 0;   ///< of duration_ns

    template <class V>
    void fields(V&& v) const {
      v("kind", lane_time_name(kind)), v("total_ns", ns), v("pct", pct);
    }
  };
  struct Share {
    int rank = 0;
    int64_t ns = 0;
    double pct = 0;   ///< of duration_ns

    template <class V>
    void fields(V&& v) const {
      v("rank", rank), v("total_ns", ns), v("pct", pct);
    }
  };
  int64_t steps = 0, duration_ns = 0;              ///< of all
  std::vector<Kind> by_kind;                       ///< longest first; these, and those by rank, add up to duration_ns
  std::vector<Share> by_rank;                      ///< longest first; those on a path
  StepPath longest;
  std::vector<int> ranks_without;                  ///< as JobLanes has them

  template <class V>
  void fields(V&& v) const {
    v("steps", steps), v("duration_ns", duration_ns), v("by_kind", by_kind), v("by_rank", by_rank);
    v("longest_step", longest), v("ranks_without", ranks_without);
  }
};

/// O(points and calls).
CriticalPath critical_path(std::span<const RankDigest> ranks, const JobLanes& lanes);

}  // namespace profgpu
