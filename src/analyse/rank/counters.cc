#include "analyse/rank/counters.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "analyse/rank/work.h"
#include "base/text.h"
#include "trace/kernel_profile.h"

namespace profgpu {
namespace {

/// A mean of what is known.
struct Mean {
  double sum = 0;
  int64_t count = 0;

  void add(const std::optional<double>& x) {
    if (x) sum += *x, ++count;
  }
  [[nodiscard]] std::optional<double> value() const {
    return count > 0 ? std::optional(sum / static_cast<double>(count)) : std::nullopt;
  }
};

std::string shape_text(const std::array<int32_t, 3>& shape) {
  return shape[0] == 0 ? "" : fmt::format("{}x{}x{}", shape[0], shape[1], shape[2]);
}

// Nsight Compute's own rule: below 60 % of both peaks, latency is the problem.
Bound measured_bound(const CountersRow& row) {
  constexpr double kSaturated_pct = 60;
  if (!row.sm_pct || !row.memory_pct) return Bound::kUnknown;
  if (std::max(*row.sm_pct, *row.memory_pct) < kSaturated_pct) return Bound::kLatency;
  return *row.sm_pct >= *row.memory_pct ? Bound::kCompute : Bound::kMemory;
}

// Shares of all reasons, the most frequent three.
std::string stall_text(const std::map<std::string, double>& stalls) {
  double all = 0;
  std::vector<std::pair<std::string, double>> order(stalls.begin(), stalls.end());
  for (const auto& [reason, value] : order) all += value;
  std::ranges::stable_sort(order, std::greater(), &std::pair<std::string, double>::second);
  std::string text;
  constexpr size_t kMost = 3;
  for (size_t i = 0; i < std::min(order.size(), kMost) && all > 0; ++i)
    append_listed(text, fmt::format("{} {:.0f} %", order[i].first, 100 * order[i].second / all));
  return text;
}

void add_measured(const KernelProfile& profile, const ProfiledKernel& kernel, CountersRow& row) {
  std::map<std::string, double> stalls;
  constexpr std::pair<std::optional<double> ProfiledLaunch::*, std::optional<double> CountersRow::*> kMeans[] = {
      {&ProfiledLaunch::duration_ns, &CountersRow::duration_ns},
      {&ProfiledLaunch::sm_pct, &CountersRow::sm_pct},
      {&ProfiledLaunch::memory_pct, &CountersRow::memory_pct},
      {&ProfiledLaunch::dram_pct, &CountersRow::dram_pct},
      {&ProfiledLaunch::dram_bytes, &CountersRow::dram_bytes},
      {&ProfiledLaunch::occupancy_pct, &CountersRow::occupancy_pct},
      {&ProfiledLaunch::theoretical_occupancy_pct, &CountersRow::theoretical_occupancy_pct}};
  for (const auto& [from, to] : kMeans) {
    Mean mean;
    for (const size_t i : kernel.profiled) mean.add(profile.launches[i].*from);
    row.*to = mean.value();
  }
  for (const size_t i : kernel.profiled)
    for (const auto& [reason, value] : profile.launches[i].stalls) stalls[reason] += value;
  row.stalls = stall_text(stalls);
  row.bound = measured_bound(row);
}

void add_estimate(const Facts& facts, const ProfiledKernel& kernel, CountersRow& row) {
  const Trace& trace = facts.trace();
  const DeviceWork& work = facts.get<DeviceWork>();
  const RunLimits& limits = facts.get<RunLimits>();
  Mean time, limit, bytes;
  std::map<Bound, int64_t> bounds;
  for (size_t i = 0; i < std::min(kernel.launches.size(), kernel.profiled.size()); ++i) {
    const ActivityId a = kernel.launches[i];
    const auto ns = static_cast<double>(trace.activity.duration_ns[a.value]);
    time.add(ns);
    const WorkRun* run = work.run(a);
    if (run == nullptr || run->device_ns <= 0) continue;
    if (const auto part = limits.needed_part(work, a)) limit.add(100 * *part);
    if (run->work->bytes >= 0)
      bytes.add(static_cast<double>(run->work->bytes) * ns / static_cast<double>(run->device_ns));
    ++bounds[limits.bound[work.run_of[a.value]]];
  }
  row.trace_ns = time.value(), row.limit_pct = limit.value(), row.bytes = bytes.value();
  if (!bounds.empty())
    row.estimated_bound =
        std::ranges::max_element(bounds, {}, [](const auto& bound) { return bound.second; })->first;
}

/// A mean of magnitudes, weighted by time.
struct WeightedError {
  double sum = 0, weight = 0;

  void add(const std::optional<double>& error, double ns) {
    if (error && ns > 0) sum += std::abs(*error) * ns, weight += ns;
  }
  [[nodiscard]] std::optional<double> value() const { return only_if(weight > 0, sum / weight); }
};

}  // namespace

std::optional<double> CountersRow::measured_pct() const {
  if (estimated_bound == Bound::kCompute) return sm_pct;
  if (estimated_bound == Bound::kMemory && (dram_pct || memory_pct)) return dram_pct ? dram_pct : memory_pct;
  return sm_pct && memory_pct ? std::optional(std::max(*sm_pct, *memory_pct)) : std::nullopt;
}

std::optional<double> CountersRow::limit_error_pct() const {
  const std::optional<double> measured = measured_pct();
  return limit_pct && measured ? std::optional(*limit_pct - *measured) : std::nullopt;
}

std::optional<double> CountersRow::bytes_error_pct() const {
  if (!bytes || !dram_bytes || *dram_bytes <= 0) return std::nullopt;
  return 100 * (*bytes - *dram_bytes) / *dram_bytes;
}

std::optional<Counters> Counters::compute(const Facts& facts) {
  const Trace& trace = facts.trace();
  if (!trace.kernel_profile) return std::nullopt;
  const KernelProfile& profile = *trace.kernel_profile;
  Counters all;
  all.launches = static_cast<int64_t>(profile.launches.size());
  WeightedError limit, bytes;
  for (const ProfiledKernel& kernel : match_profile(profile, trace)) {
    const ProfiledLaunch& first = profile.launches[kernel.profiled.front()];
    CountersRow& row = all.rows.emplace_back();
    row.name = kernel.launches.empty() ? first.kernel : trace.name(kernel.launches.front());
    row.grid = shape_text(first.grid), row.block = shape_text(first.block);
    row.launches = static_cast<int64_t>(kernel.profiled.size());
    add_measured(profile, kernel, row);
    if (!profile.joined || kernel.launches.empty()) continue;
    row.matched = kernel.by == ProfiledKernel::By::kName ? "name" : "function";
    row.trace_launches = static_cast<int64_t>(kernel.launches.size());
    all.matched += row.launches;
    add_estimate(facts, kernel, row);
    const double weight = row.trace_ns.value_or(0) * static_cast<double>(row.trace_launches);
    limit.add(row.limit_error_pct(), weight), bytes.add(row.bytes_error_pct(), weight);
  }
  all.limit_error_pct = limit.value(), all.bytes_error_pct = bytes.value();
  const auto time = [](const CountersRow& row) {
    return row.trace_ns ? *row.trace_ns * static_cast<double>(row.trace_launches)
                        : row.duration_ns.value_or(0) * static_cast<double>(row.launches);
  };
  std::ranges::stable_sort(all.rows, [&](const CountersRow& a, const CountersRow& b) {
    return std::pair(b.trace_ns.has_value(), time(b)) < std::pair(a.trace_ns.has_value(), time(a));
  });
  return all;
}

}  // namespace profgpu
