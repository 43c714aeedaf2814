#include "top/advice.h"

#include <fmt/format.h>

#include <algorithm>

#include "collect/system_checks.h"

namespace profgpu {
namespace {

constexpr int64_t kSpan_ns = 60'000'000'000;

// What `doctor` says of a device, but for what changes from second to second and for what somebody may have wanted.
void add_checks(const LiveDevice& device, std::vector<Advice>& out) {
  Reading reading;
  for (size_t m = 0; m < kMetricCount; ++m)
    if (device.values[m]) reading.add(static_cast<Metric>(m), *device.values[m], device.read_ns[m]);
  for (const SystemCheck& check : device_checks({device.info.get(), device.trouble, &reading, nullptr})) {
    const std::optional<Severity> severity = severity_of(check.verdict);
    if (!severity || check.id == "clocks" || check.id == "temperature" || check.id == "power_limit") continue;
    out.push_back({*severity, check.detail, check.hint});
  }
}

void add_xid(const LiveDevice& device, std::vector<Advice>& out) {
  const auto code = device.value(Metric::kXidLast);
  if (!code || device.value(Metric::kXidErrors).value_or(1) <= 0) return;
  const XidMeaning meaning = xid_meaning(static_cast<int>(*code));
  out.push_back({meaning.severity, fmt::format("Xid {:.0f}: {}", *code, meaning.what), std::string(meaning.advice)});
}

DeviceNow now_of(const LiveDevice& device, const DeviceHistory& history) {
  DeviceNow now{.label = device.info->label(),
                .values = {},
                .busy_pct = history.mean(Track::kUtilization, kSpan_ns),
                .held_by_heat_pct = history.mean(Track::kHeldByHeat, kSpan_ns),
                .held_by_power_pct = history.mean(Track::kHeldByPower, kSpan_ns),
                .largest = {},
                .user = {}};
  for (size_t m = 0; m < kMetricCount; ++m) now.values[m] = device.value(static_cast<Metric>(m));
  const auto largest = std::max_element(
      device.processes.begin(), device.processes.end(), [](const LiveProcess& a, const LiveProcess& b) {
        return a.sample.memory_bytes.value_or(0) < b.sample.memory_bytes.value_or(0);
      });
  if (largest != device.processes.end()) now.largest = largest->sample, now.user = largest->host.user;
  return now;
}

// A device that does not answer says so where its figures would be: what cannot be seen there comes first.
int order(const LiveView& view, const DeviceAdvice& advice) {
  if (view.devices[advice.device].state != DeviceState::kOk) return 1;
  return advice.severity == Severity::kCritical ? 0 : advice.severity == Severity::kWarning ? 2 : 3;
}

}  // namespace

std::vector<DeviceAdvice> advice_on(const LiveView& view, const Histories& histories) {
  std::vector<DeviceAdvice> all;
  for (size_t i = 0; i < view.devices.size(); ++i) {
    const LiveDevice& device = view.devices[i];
    std::vector<Advice> said;
    add_checks(device, said);
    if (device.state == DeviceState::kOk) {
      add_xid(device, said);
      const DeviceNow now = now_of(device, histories.device(i));
      for (const Rule* rule : rules())
        if (auto advice = rule->now != nullptr ? rule->now(*rule, now) : std::nullopt) said.push_back(*std::move(advice));
    }
    for (Advice& advice : said) all.push_back({std::move(advice), i});
  }
  std::stable_sort(all.begin(), all.end(), [&](const DeviceAdvice& a, const DeviceAdvice& b) {
    return order(view, a) < order(view, b);
  });
  return all;
}

}  // namespace profgpu
