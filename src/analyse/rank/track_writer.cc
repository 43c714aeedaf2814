#include "analyse/rank/track_writer.h"

#include <algorithm>

namespace profgpu {

void DensityBins::write_bin() {
  if (covered_ns_ == 0) return;
  const auto most = std::ranges::max_element(by_category_ns_);
  out_.category[bin_] = static_cast<uint8_t>(most - by_category_ns_.begin());
  const double share = static_cast<double>(covered_ns_) / static_cast<double>(bin_ns_);
  out_.busy[bin_] = static_cast<uint8_t>(std::max(1.0, share * 255 + 0.5));
  covered_ns_ = 0;
  by_category_ns_.fill(0);
}

// Assigns time up to `end_ns`.
void DensityBins::cover(int64_t end_ns, uint8_t category) {
  while (reached_ns_ < end_ns) {
    const auto bin = static_cast<size_t>(reached_ns_ / bin_ns_);
    if (bin >= out_.busy.size()) return void(reached_ns_ = end_ns);
    if (bin != bin_) write_bin();
    bin_ = bin;
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

TrackWriter::TrackWriter(PageData& page, const PageScale& scale, PageTrack track, bool nested)
    : page_(page), scale_(scale), track_(std::move(track)), density_(scale.bin_ns, scale.bins), nested_(nested) {
  if (!page.tracks.empty()) {
    const PageTrack& last = page.tracks.back();
    track_.first = last.first + static_cast<uint32_t>(last.duration_ns.size());
  }
}

bool TrackWriter::add(const Event& given, bool wanted) {
  ++events_;
  // Only waits and marks can lie before the origin.
  const int64_t start_ns = std::max<int64_t>(given.start_ns, 0);
  const Event event{start_ns, std::max(given.end_ns, start_ns), given.category};
  density_.add(event.start_ns, event.end_ns, event.category);
  while (window_ < scale_.kept.size() && scale_.kept[window_].end < event.start_ns) ++window_;
  if (!wanted || window_ == scale_.kept.size() || scale_.kept[window_].start > event.end_ns) return false;
  if (nested_) {
    while (!open_ends_.empty() && open_ends_.back() <= event.start_ns) open_ends_.pop_back();
    if (open_ends_.size() >= kMaxDepth) return false;
    track_.depth.push_back(static_cast<uint16_t>(open_ends_.size()));
    open_ends_.push_back(event.end_ns);
  }
  track_.start_ns.push_back(event.start_ns);
  track_.duration_ns.push_back(event.end_ns - event.start_ns);
  track_.category.push_back(event.category);
  return true;
}

void TrackWriter::finish() {
  if (events_ == 0) return;
  page_.events += events_;
  page_.events_kept += static_cast<int64_t>(track_.start_ns.size());
  track_.density = density_.finish();
  if (std::ranges::all_of(track_.depth, [](uint16_t d) { return d == 0; })) track_.depth.clear();
  page_.tracks.push_back(std::move(track_));
}

}  // namespace profgpu
