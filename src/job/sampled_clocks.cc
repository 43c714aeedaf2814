#include "job/sampled_clocks.h"

#include <algorithm>
#include <map>

namespace profgpu {
namespace {

constexpr uint32_t kHeldBack =
    static_cast<uint32_t>(ClockReason::kSwPowerCap) | static_cast<uint32_t>(ClockReason::kHwSlowdown) |
    static_cast<uint32_t>(ClockReason::kSyncBoost) | static_cast<uint32_t>(ClockReason::kSwThermal) |
    static_cast<uint32_t>(ClockReason::kHwThermal) | static_cast<uint32_t>(ClockReason::kHwPowerBrake);

const SampleSeries* find(const SampleLog& log, uint32_t device, Metric metric) {
  for (const SampleSeries& s : log.series)
    if (s.device == device && s.metric == metric && !s.time_ns.empty()) return &s;
  return nullptr;
}

// Place in the log of the device with a rank's number.
std::optional<uint32_t> device_of(const RankDigest& rank, const SampleLog& log) {
  std::optional<uint32_t> found;
  for (uint32_t i = 0; i < log.devices.size(); ++i) {
    const DeviceInfo& d = log.devices[i];
    if (!d.mig_profile.empty() || static_cast<int64_t>(d.index) != rank.device) continue;
    if (found) return std::nullopt;
    found = i;
  }
  return found;
}

bool in_measured_step(const RankDigest& rank, int64_t time_ns) {
  const auto after = std::upper_bound(rank.steps.begin(), rank.steps.end(), time_ns,
                                      [](int64_t t, const DigestStep& s) { return t < s.start_ns; });
  if (after == rank.steps.begin()) return false;
  const DigestStep& step = *std::prev(after);
  return step.measured && time_ns < step.interval().end;
}

uint32_t reasons_at(const SampleSeries* reasons, int64_t time_ns) {
  if (reasons == nullptr) return 0;
  const auto after = std::upper_bound(reasons->time_ns.begin(), reasons->time_ns.end(), time_ns);
  if (after == reasons->time_ns.begin()) return 0;
  return static_cast<uint32_t>(reasons->value[static_cast<size_t>(after - reasons->time_ns.begin()) - 1]);
}

std::optional<SampledClock> clock_of(const RankDigest& rank, const SampleLog& log, uint32_t device) {
  const SampleSeries* clock = find(log, device, Metric::kSmClock);
  const SampleSeries* reasons = find(log, device, Metric::kClockEventReasons);
  if (clock == nullptr) return std::nullopt;
  double sum = 0;
  int64_t count = 0, held = 0;
  std::map<uint32_t, int64_t> held_by;
  for (size_t i = 0; i < clock->time_ns.size(); ++i) {
    if (!in_measured_step(rank, clock->time_ns[i])) continue;
    const uint32_t bits = reasons_at(reasons, clock->time_ns[i]);
    if ((bits & static_cast<uint32_t>(ClockReason::kIdle)) != 0) continue;
    sum += clock->value[i];
    ++count;
    if ((bits & kHeldBack) == 0) continue;
    ++held;
    for (const ClockReasonInfo& r : clock_reasons())
      if ((bits & kHeldBack & static_cast<uint32_t>(r.reason)) != 0) ++held_by[static_cast<uint32_t>(r.reason)];
  }
  if (count == 0) return std::nullopt;
  SampledClock out;
  out.sm_clock_mhz = sum / static_cast<double>(count);
  if (reasons != nullptr) out.held_pct = 100.0 * static_cast<double>(held) / static_cast<double>(count);
  int64_t most = 0;
  for (const ClockReasonInfo& r : clock_reasons())
    if (const auto it = held_by.find(static_cast<uint32_t>(r.reason)); it != held_by.end() && it->second > most)
      most = it->second, out.held_by = r.words;
  return out;
}

}  // namespace

std::vector<std::optional<SampledClock>> sampled_clocks(std::span<const RankDigest> ranks, const SampleLog& samples) {
  std::vector<std::optional<SampledClock>> out(ranks.size());
  if (samples.empty()) return out;
  std::map<int32_t, int> users;
  for (const RankDigest& r : ranks) {
    if (r.host != ranks.front().host) return out;
    ++users[r.device];
  }
  for (size_t i = 0; i < ranks.size(); ++i)
    if (const auto device = device_of(ranks[i], samples); device && users[ranks[i].device] == 1)
      out[i] = clock_of(ranks[i], samples, *device);
  return out;
}

}  // namespace profgpu
