// Samples of devices on a page's time axis, and which rank ran on which of them.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "analyse/kept_events.h"
#include "analyse/slow_down.h"
#include "report/page.h"
#include "trace/sample.h"

namespace profgpu {

/// A log on the page's time axis.
struct PlacedSamples {
  const SampleLog* log = nullptr;
  int64_t shift_ns = 0;        ///< added to the page's times gives Unix time, which the log has
  int64_t span_ns = 0;         ///< the page's
};

/// The device of the log that a rank's trace calls `device`: the one with that index; or the only one, if both have one
/// only, whatever their numbers (CUDA_VISIBLE_DEVICES changes a program's, not the driver's). None where their names
/// differ, or where it is not known to be of the rank's host: see trace/sample.h.
std::optional<uint32_t> sampled_device(const SampleLog& log, const std::vector<PlacedRank>& ranks, const PlacedRank& rank,
                                       int32_t device);

/// Every gauge within the page's time; at most about 4,000 points each, means of equal stretches (of reasons, all that were set).
/// `rank_of`: of the log's devices.
std::vector<PageSeries> sample_series(const PlacedSamples& samples, const std::map<uint32_t, int>& rank_of);

}  // namespace profgpu
