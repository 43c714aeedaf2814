// TrackWriter: turns events in time order into one track of the page: density of all, columns of the kept ones.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "analyse/report/page.h"
#include "trace/intervals.h"

namespace profgpu {

/// A track from afar, in equal bins: the category that takes most of each bin's time, and the share that any event
/// covers. In nested events time belongs to the innermost. One pass; an event costs at most the bins in which it is the
/// innermost.
class DensityBins {
 public:
  static constexpr size_t kCategories = 64;

  /// Bins start at 0. Later parts of events than bins * bin_ns are left out.
  DensityBins(int64_t bin_ns, size_t bins) : bin_ns_(bin_ns) {
    out_.bin_ns = bin_ns;
    out_.category.assign(bins, 0);
    out_.busy.assign(bins, 0);
  }

  /// Starts never decrease.
  void add(int64_t start_ns, int64_t end_ns, uint8_t category);
  PageDensity finish();

 private:
  struct Open {
    int64_t end_ns;
    uint8_t category;
  };
  void close_until(int64_t time_ns);
  void cover(int64_t end_ns, uint8_t category);
  void write_bin();

  int64_t bin_ns_;
  PageDensity out_;
  std::vector<Open> open_;
  int64_t reached_ns_ = 0;                          // time is assigned up to here
  size_t bin_ = 0;                                  // whose sums follow
  int64_t covered_ns_ = 0;
  std::array<int64_t, kCategories> by_category_ns_{};
};

/// Common to all tracks of a page.
struct PageScale {
  int64_t bin_ns = 1;
  size_t bins = 0;
  Intervals kept;
};

class TrackWriter {
 public:
  /// A page's tracks are written one after the other. `nested`: events may overlap, and get depths.
  TrackWriter(PageData& page, const PageScale& scale, PageTrack track, bool nested = false);

  struct Event {
    int64_t start_ns = 0, end_ns = 0;   ///< on the page's time axis; starts never decrease
    uint8_t category = 0;
  };
  /// Whether it is kept: then the caller must push its name and other columns to track().
  bool add(const Event& event, bool wanted = true);
  [[nodiscard]] PageTrack& track() { return track_; }
  /// Number of the event added next.
  [[nodiscard]] uint32_t number() const { return track_.first + static_cast<uint32_t>(track_.start_ns.size()); }
  /// Adds the track to the page; one without events is left out.
  void finish();

 private:
  // Deeper stacks are a runaway recursion, or an attack.
  static constexpr size_t kMaxDepth = 1000;

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
