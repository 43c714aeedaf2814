#include "measure/result/collective_curve.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "analyse/report/quantity.h"

namespace profgpu {
namespace {

struct SizeTime {
  double bytes = 0, ns = 0;
};

struct CurveOfSizes {
  CollectiveCurve curve;
  double factor = 0;                     // busbw over algbw
  std::vector<SizeTime> points;
};

// "all_reduce_1024" without its size.
std::string name_without_size(const Figure& f) {
  const std::string size = fmt::format("_{}", *f.size);
  return f.name.ends_with(size) ? f.name.substr(0, f.name.size() - size.size()) : "";
}

// "all-reduce 1.00 KiB, in place, busbw" without size and "busbw".
std::string label_without_size(const Figure& f) {
  const std::string size = " " + format_bytes(static_cast<double>(*f.size));
  std::string label = f.label;
  if (const size_t at = label.find(size); at != std::string::npos) label.erase(at, size.size());
  if (constexpr std::string_view end = ", busbw"; label.ends_with(end)) label.erase(label.size() - end.size());
  return label;
}

std::optional<int64_t> half_size(const CurveOfSizes& p) {
  const double half = p.curve.busbw_gbps / 2;
  const auto busbw = [&](const SizeTime& at) { return p.factor * at.bytes / at.ns; };
  for (size_t i = 1; i < p.points.size(); ++i) {
    const SizeTime &low = p.points[i - 1], &high = p.points[i];
    if (busbw(low) >= half || busbw(high) < half) continue;
    const double each_ns = (high.ns - low.ns) / (high.bytes - low.bytes);
    return std::llround(half * (low.ns - low.bytes * each_ns) / (p.factor - half * each_ns));
  }
  return std::nullopt;
}

}  // namespace

std::string CollectiveCurve::text() const {
  std::string text =
      fmt::format("latency {}, up to {}", format_duration(latency_ns), format_measured(busbw_gbps, "GB/s"));
  if (half_size_bytes)
    text += fmt::format(", half of that from {} on", format_bytes(static_cast<double>(*half_size_bytes)));
  return text;
}

std::vector<CollectiveCurve> collective_curves(const std::vector<Figure>& figures) {
  std::vector<CurveOfSizes> all;
  for (const Figure& f : figures) {
    if (f.benchmark != "collectives" || !f.size || *f.size <= 0 || !f.algbw_gbps || !(*f.algbw_gbps > 0)) continue;
    const std::string name = name_without_size(f);
    const int64_t ranks = f.ranks.value_or(0);
    auto* one = first_where(all, [&](const CurveOfSizes& p) { return p.curve.name == name && p.curve.ranks == ranks; });
    if (!one) one = &all.emplace_back(CurveOfSizes{{name, label_without_size(f), ranks, 0, 0, std::nullopt}, 0, {}});
    const auto bytes = static_cast<double>(*f.size);
    // Small messages are rounded up to whole values of each rank: their time is what was measured.
    one->points.push_back({bytes, f.unit == "ns" ? f.value : bytes / *f.algbw_gbps});
    if (f.unit != "GB/s") continue;
    one->curve.busbw_gbps = std::max(one->curve.busbw_gbps, f.value);
    one->factor = f.value / *f.algbw_gbps;
  }
  std::vector<CollectiveCurve> curves;
  for (CurveOfSizes& p : all) {
    std::ranges::sort(p.points, {}, &SizeTime::bytes);
    if (p.points.size() < 2 || p.factor <= 0 || p.curve.name.empty()) continue;
    p.curve.latency_ns = p.points.front().ns;
    p.curve.half_size_bytes = half_size(p);
    curves.push_back(std::move(p.curve));
  }
  return curves;
}

}  // namespace profgpu
