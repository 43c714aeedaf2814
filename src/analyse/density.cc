#include "analyse/density.h"

#include <algorithm>

namespace profgpu {

void DensityBins::write_bin() {
  if (covered_ns_ == 0) return;
  const auto most = std::max_element(by_category_ns_.begin(), by_category_ns_.end());
  out_.category[bin_] = static_cast<uint8_t>(most - by_category_ns_.begin());
  const double share = static_cast<double>(covered_ns_) / static_cast<double>(bin_ns_);
  out_.busy[bin_] = static_cast<uint8_t>(std::max(1.0, share * 255 + 0.5));
  covered_ns_ = 0;
  by_category_ns_.fill(0);
}

// From where time is given away up to `end_ns`.
void DensityBins::cover(int64_t end_ns, uint8_t category) {
  while (reached_ns_ < end_ns) {
    const auto bin = static_cast<size_t>(reached_ns_ / bin_ns_);
    if (bin >= out_.busy.size()) {
      reached_ns_ = end_ns;
      return;
    }
    if (bin != bin_) {
      write_bin();
      bin_ = bin;
    }
    const int64_t until = std::min(end_ns, static_cast<int64_t>(bin + 1) * bin_ns_);
    covered_ns_ += until - reached_ns_;
    by_category_ns_[category] += until - reached_ns_;
    reached_ns_ = until;
  }
}

void DensityBins::close_until(int64_t time_ns) {
  while (!open_.empty() && open_.back().end_ns <= time_ns) {
    cover(open_.back().end_ns, open_.back().category);
    open_.pop_back();
  }
}

void DensityBins::add(int64_t start_ns, int64_t end_ns, uint8_t category) {
  close_until(start_ns);
  if (!open_.empty()) cover(start_ns, open_.back().category);
  reached_ns_ = std::max(reached_ns_, start_ns);
  open_.push_back({end_ns, category});
}

PageDensity DensityBins::finish() {
  close_until(INT64_MAX);
  write_bin();
  return std::move(out_);
}

}  // namespace profgpu
