#include "top/advice.h"

#include <fmt/format.h>

#include <algorithm>

#include "diagnose/rule.h"
#include "report/quantity.h"

namespace profgpu {
namespace {

constexpr int64_t kSpan_ns = 60'000'000'000;
constexpr double kIdle_pct = 5;                         // the limit of every summary of ours
constexpr double kHeldMemory_bytes = 256.0 * (1 << 20); // a bare context of CUDA is about as large

/// What is to be said of one device.
class DeviceAdvice {
 public:
  DeviceAdvice(const LiveView& view, size_t device, const DeviceHistory& history, std::vector<Advice>& out)
      : device_(view.devices[device]), position_(device), history_(history), out_(out) {}

  void examine() const {
    add_checks();
    if (device_.state != DeviceState::kOk) return;
    add_xid();
    add_held(Track::kHeldByHeat, "thermal-throttle", Health::kWarning);
    add_power();
    add_memory();
    add_idle();
  }

 private:
  void add(Health verdict, std::string what, std::string fix) const {
    out_.push_back({position_, verdict, std::move(what), std::move(fix)});
  }
  void add_checks() const;
  void add_xid() const;
  void add_held(Track track, std::string_view rule, Health verdict, const std::string& fix = {}) const;
  void add_power() const;
  void add_memory() const;
  void add_idle() const;
  [[nodiscard]] const LiveProcess* largest() const;

  const LiveDevice& device_;
  size_t position_;
  const DeviceHistory& history_;
  std::vector<Advice>& out_;
};

// What `doctor` says of a device, but for what changes from second to second and for what somebody may have wanted.
void DeviceAdvice::add_checks() const {
  Reading reading;
  for (size_t m = 0; m < kMetricCount; ++m)
    if (device_.values[m]) reading.add(static_cast<Metric>(m), *device_.values[m], device_.read_ns[m]);
  for (const SystemCheck& check : device_checks({device_.info.get(), device_.trouble, &reading, nullptr})) {
    if (check.verdict != Health::kWarning && check.verdict != Health::kProblem) continue;
    if (check.id == "clocks" || check.id == "power_limit") continue;
    add(check.verdict, check.detail, check.hint);
  }
}

void DeviceAdvice::add_xid() const {
  const auto code = device_.value(Metric::kXidLast);
  if (!code || device_.value(Metric::kXidErrors).value_or(1) <= 0) return;
  const XidMeaning* meaning = find_xid(static_cast<int>(*code));
  add(meaning ? meaning->verdict : Health::kWarning,
      fmt::format("Xid {:.0f}: {}", *code, meaning ? meaning->what : "an error of the device or driver"),
      std::string(meaning ? meaning->advice : "see NVIDIA's list of Xid errors"));
}

void DeviceAdvice::add_held(Track track, std::string_view id, Health verdict, const std::string& fix) const {
  const Rule* rule = find_rule(id);
  const auto pct = history_.mean(track, kSpan_ns);
  if (!rule || !pct || !rule->beyond(*pct, rule->threshold)) return;
  add(verdict, fmt::format("{}, {:.0f} % of the last minute", rule->summary, *pct),
      fix.empty() ? std::string(rule->advice.front()) : fix);
}

// At its usual limit a device under full load is held back by it: no fault.
void DeviceAdvice::add_power() const {
  const auto limit = device_.value(Metric::kPowerLimit), usual = device_.value(Metric::kPowerLimitDefault);
  if (limit && usual && *limit < *usual - 1)
    return add_held(Track::kHeldByPower, "power-cap", Health::kWarning,
                    fmt::format("the limit is {:.0f} W, the device's own {:.0f} W: nvidia-smi -i {} -pl {:.0f}", *limit, *usual,
                                device_.info->label(), *usual));
  add_held(Track::kHeldByPower, "power-cap", Health::kUnknown, "usual under full load at the default limit; bf16 or fp8 needs less");
}

const LiveProcess* DeviceAdvice::largest() const {
  const auto it = std::max_element(device_.processes.begin(), device_.processes.end(), [](const auto& a, const auto& b) {
    return a.sample.memory_bytes.value_or(0) < b.sample.memory_bytes.value_or(0);
  });
  return it == device_.processes.end() ? nullptr : &*it;
}

void DeviceAdvice::add_memory() const {
  const Rule* rule = find_rule("memory-near-capacity");
  const auto used = device_.value(Metric::kMemoryUsed), total = device_.value(Metric::kMemoryTotal);
  if (!rule || !used || !total || *total <= 0 || !rule->beyond(100 * *used / *total, rule->threshold)) return;
  std::string what = fmt::format("memory is {:.0f} % full", 100 * *used / *total);
  if (const LiveProcess* p = largest(); p && p->sample.memory_bytes)
    what += fmt::format(", {} of it by process {}", format_bytes(static_cast<double>(*p->sample.memory_bytes)), p->sample.pid);
  add(Health::kWarning, std::move(what), std::string(rule->advice.size() > 1 ? rule->advice[1] : ""));
}

void DeviceAdvice::add_idle() const {
  const auto busy = history_.mean(Track::kUtilization, kSpan_ns);
  const LiveProcess* p = largest();
  if (!busy || *busy >= kIdle_pct || !p || static_cast<double>(p->sample.memory_bytes.value_or(0)) < kHeldMemory_bytes) return;
  const std::string user = p->host.user.empty() ? "" : " of " + p->host.user;
  add(Health::kWarning,
      fmt::format("idle for the last minute, while process {}{} holds {}", p->sample.pid, user,
                  format_bytes(static_cast<double>(*p->sample.memory_bytes))),
      fmt::format("`profgpu attach {}` shows what it waits for; k ends it", p->sample.pid));
}

// A device that does not answer says so where its figures would be: what cannot be seen there comes first.
int order(const LiveView& view, const Advice& advice) {
  if (view.devices[advice.device].state != DeviceState::kOk) return 1;
  return advice.verdict == Health::kProblem ? 0 : advice.verdict == Health::kWarning ? 2 : 3;
}

}  // namespace

std::vector<Advice> advice_on(const LiveView& view, const Histories& histories) {
  std::vector<Advice> all;
  for (size_t i = 0; i < view.devices.size(); ++i) DeviceAdvice(view, i, histories.device(i), all).examine();
  std::stable_sort(all.begin(), all.end(),
                   [&](const Advice& a, const Advice& b) { return order(view, a) < order(view, b); });
  return all;
}

}  // namespace profgpu
