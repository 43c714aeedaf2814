// The chain of work, on whichever rank, that set how long a step of the job took: from the end of the rank that ended
// it last back through what it had waited for.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "job/job_lanes.h"
#include "report/report.h"

namespace profgpu {

/// Time of one rank on the path, on the first rank's clock. Own time of several kinds between two collectives is given
/// kind by kind, each in one piece.
struct PathSegment {
  int rank = 0;
  LaneTime kind = LaneTime::kCompute;   ///< kCommunication: the transfer, from when the last rank had come
  int64_t start_ns = 0, end_ns = 0;
  std::string call;                     ///< of a transfer or a launch: the collective's name; else empty
  [[nodiscard]] int64_t length_ns() const { return end_ns - start_ns; }
};

/// Of one step. Segments are in order of time, touch each other, and add up to the step's duration.
struct StepPath {
  int64_t step = 0;              ///< its number
  int64_t start_ns = 0, duration_ns = 0;   ///< JobStep::time
  std::vector<PathSegment> segments;
};

/// Of lanes.job_steps[place].
StepPath critical_path(std::span<const RankDigest> ranks, const JobLanes& lanes, size_t place);

/// What all measured steps' paths consist of, and the longest step's.
struct CriticalPath {
  struct Share {
    int rank = 0;
    int64_t ns = 0;
  };
  int64_t steps = 0, duration_ns = 0;              ///< of all
  std::array<int64_t, kLaneTimes> by_kind{};       ///< these, and those by rank, add up to duration_ns
  std::vector<Share> by_rank;                      ///< longest first; those on a path
  StepPath longest;
  std::vector<int> ranks_without;                  ///< as JobLanes has them
};

/// O(points and calls).
CriticalPath critical_path(std::span<const RankDigest> ranks, const JobLanes& lanes);

/// The `critical_path` of `cluster`; null without steps. Of the longest step's segments the kMostSegments longest.
Value critical_path_value(const CriticalPath& path);
constexpr size_t kMostSegments = 200;

}  // namespace profgpu
