#include "analyse/track_writer.h"

#include <algorithm>

namespace profgpu {

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
    if (open_ends_.size() >= kDeepest) return false;
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
  if (std::all_of(track_.depth.begin(), track_.depth.end(), [](uint16_t d) { return d == 0; })) track_.depth.clear();
  page_.tracks.push_back(std::move(track_));
}

}  // namespace profgpu
