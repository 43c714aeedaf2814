#include "analyse/rank/clock_scale.h"

#include <algorithm>
#include <cmath>

namespace profgpu {
namespace {

void scale(RooflineRow& row, double ratio, double memory_gbps) {
  if (!row.limit_ns || row.total_ns <= 0) return;
  double least_ns = static_cast<double>(*row.limit_ns);
  if (row.bound == Bound::kCompute) {
    const double moving_ns = memory_gbps > 0 ? static_cast<double>(row.bytes.value_or(0)) / memory_gbps : 0;
    least_ns = std::max(least_ns / ratio, std::min(moving_ns, least_ns));
  }
  row.clock_limit_pct = 100 * least_ns / static_cast<double>(row.total_ns);
}

// Of products' time beyond their limit, what they would need at this clock: at most all of it.
int64_t beyond_by_clock(const Roofline& roofline, double ratio) {
  double ns = 0;
  for (const RooflineRow& row : roofline.ops) {
    if (row.bound != Bound::kCompute || row.recomputed || !row.limit_ns) continue;
    const auto least_ns = static_cast<double>(*row.limit_ns);
    ns += std::clamp(least_ns / ratio - least_ns, 0.0, std::max(static_cast<double>(row.total_ns) - least_ns, 0.0));
  }
  return std::llround(ns);
}

void split_products(Distance& distance, int64_t clock_ns) {
  const auto products =
      std::ranges::find_if(distance.parts, [](const DistancePart& p) { return p.name == "products"; });
  if (products == distance.parts.end() || clock_ns <= 0) return;
  DistancePart clock{std::string(kReducedClock), std::min(clock_ns, products->total_ns), 0};
  clock.wall_pct = percent_of(clock.total_ns, distance.wall_ns);
  products->total_ns -= clock.total_ns;
  products->wall_pct = percent_of(products->total_ns, distance.wall_ns);
  const auto next = products->total_ns > 0 ? products + 1 : distance.parts.erase(products);
  distance.parts.insert(next, std::move(clock));
}

}  // namespace

void at_clock(RankReport& rank, double sm_clock_mhz) {
  if (!rank.limits.device || rank.limits.device->clock_mhz <= 0 || !(sm_clock_mhz > 0)) return;
  rank.limits.clock_mhz = sm_clock_mhz;
  const double ratio = sm_clock_mhz / rank.limits.device->clock_mhz;
  Roofline& roofline = rank.roofline;
  if (roofline.mfu_pct) roofline.clock_mfu_pct = *roofline.mfu_pct / ratio;
  for (std::vector<RooflineRow>* rows : {&roofline.ops, &roofline.kernels})
    for (RooflineRow& row : *rows) scale(row, ratio, rank.limits.device->memory_gbps);
  if (ratio < 1) split_products(rank.distance, beyond_by_clock(roofline, ratio));
}

}  // namespace profgpu
