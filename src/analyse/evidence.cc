#include "analyse/evidence.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "analyse/idle.h"
#include "analyse/kernels.h"

namespace profgpu {
namespace {

constexpr int kHistogramBins = 40;

PageGap shown(const Trace& trace, int32_t device, const Gap& g, int64_t shift_ns) {
  PageGap gap;
  gap.device = device;
  gap.start_ns = g.start_ns + shift_ns;
  gap.duration_ns = g.length();
  gap.cause = idle_cause_name(g.cause);
  if (g.before.valid()) gap.after = trace.name(g.before);   // the gap comes after it
  if (g.after.valid()) gap.before = trace.name(g.after);
  if (g.host.valid()) gap.host = trace.name(g.host);
  return gap;
}

size_t histogram_bin(int64_t ns, int64_t from_ns, int64_t to_ns) {
  if (to_ns <= from_ns) return 0;
  const double place = std::log(static_cast<double>(ns) / static_cast<double>(from_ns)) /
                       std::log(static_cast<double>(to_ns) / static_cast<double>(from_ns));
  return static_cast<size_t>(std::clamp(static_cast<int>(place * kHistogramBins), 0, kHistogramBins - 1));
}

}  // namespace

std::vector<PageGap> longest_gaps(const Facts& facts, int64_t shift_ns, size_t most) {
  std::vector<PageGap> all;
  for (const DeviceIdle& idle : facts.get<Idle>().devices) {
    std::array<std::vector<const Gap*>, kIdleCauses> by_cause;
    for (const Gap& g : idle.gaps) by_cause[static_cast<size_t>(g.cause)].push_back(&g);
    for (std::vector<const Gap*>& gaps : by_cause) {
      const size_t count = std::min(most, gaps.size());
      std::partial_sort(gaps.begin(), gaps.begin() + static_cast<ptrdiff_t>(count), gaps.end(), [](const Gap* a, const Gap* b) {
        return a->length() != b->length() ? a->length() > b->length() : a->start_ns < b->start_ns;
      });
      for (size_t i = 0; i < count; ++i) all.push_back(shown(facts.trace(), idle.device, *gaps[i], shift_ns));
    }
  }
  std::stable_sort(all.begin(), all.end(), [](const PageGap& a, const PageGap& b) { return a.duration_ns > b.duration_ns; });
  return all;
}

std::vector<PageHistogram> kernel_histograms(const Facts& facts, size_t most) {
  const Trace& trace = facts.trace();
  std::vector<PageHistogram> all;
  std::map<std::pair<int32_t, StringId>, size_t> place;
  std::map<int32_t, size_t> of_device;
  for (const KernelRow& row : facts.get<Kernels>().rows) {   // by device, longest first
    if (row.count < 2 || of_device[row.device]++ >= most) continue;
    place[{row.device, row.name}] = all.size();
    // From 1 ns on: equal ratios have no zero.
    const int64_t from_ns = std::max<int64_t>(row.min_ns, 1);
    all.push_back({row.device, std::string(trace.strings[row.name]), from_ns, std::max(row.max_ns, from_ns),
                   std::vector<int64_t>(kHistogramBins)});
  }
  for (uint32_t i = 0; i < trace.activity.size(); ++i) {
    const auto it = place.find({trace.device_of(ActivityId(size_t{i})), trace.activity.name[i]});
    if (it == place.end()) continue;
    PageHistogram& h = all[it->second];
    ++h.counts[histogram_bin(std::max<int64_t>(trace.activity.duration_ns[i], 1), h.from_ns, h.to_ns)];
  }
  return all;
}

}  // namespace profgpu
