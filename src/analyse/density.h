// DensityBins: a track from afar, in equal bins: the category that takes most of each bin's time and how much of it any
// event covers. Time within nested events is the innermost one's.
//
// One pass; an event costs no more than the bins in which it is the innermost.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "report/page.h"

namespace profgpu {

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
  int64_t reached_ns_ = 0;                          // up to here all time is given away
  size_t bin_ = 0;                                  // the bin that the sums are of
  int64_t covered_ns_ = 0;
  std::array<int64_t, kCategories> by_category_ns_{};
};

}  // namespace profgpu
