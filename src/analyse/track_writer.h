// TrackWriter: events in order of time become one track of the page: density of all, columns of those that are kept.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "analyse/density.h"
#include "report/page.h"
#include "trace/intervals.h"

namespace profgpu {

/// What all tracks of a page have in common.
struct PageScale {
  int64_t bin_ns = 1;
  size_t bins = 0;
  Intervals kept;
};

class TrackWriter {
 public:
  /// Tracks of one page are written one after the other. `nested`: events may overlap and get depths.
  TrackWriter(PageData& page, const PageScale& scale, PageTrack track, bool nested = false);

  struct Event {
    int64_t start_ns = 0, end_ns = 0;   ///< on the page's time axis; starts never decrease
    uint8_t category = 0;
  };
  /// Whether it is kept; then its name and whatever else is known of it must be pushed to track().
  bool add(const Event& event, bool wanted = true);
  [[nodiscard]] PageTrack& track() { return track_; }
  /// Number that the event added next would have.
  [[nodiscard]] uint32_t number() const { return track_.first + static_cast<uint32_t>(track_.start_ns.size()); }
  /// Adds the track to the page; one without events is left out.
  void finish();

 private:
  // Stacks beyond this are a runaway recursion, or an attack.
  static constexpr size_t kDeepest = 1000;

  PageData& page_;
  const PageScale& scale_;
  PageTrack track_;
  DensityBins density_;
  bool nested_;
  std::vector<int64_t> open_ends_;
  size_t window_ = 0;
  int64_t events_ = 0;
};

}  // namespace profgpu
