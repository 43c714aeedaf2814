#include "analyse/rank/profile_targets.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>

#include "analyse/rank/devices.h"
#include "analyse/rank/roofline.h"
#include "analyse/rank/steps.h"
#include "analyse/rank/work.h"
#include "base/statistics.h"
#include "trace/kernel_profile.h"

namespace profgpu {
namespace {

struct FunctionSum {
  int64_t launches = 0, total_ns = 0, known_ns = 0;
  double needed_ns = 0;                      // of known_ns
  std::map<std::string_view, int64_t> names; // time of each
};

/// The busiest device's compute kernels.
template <class Each>
void each_kernel(const Facts& facts, Each&& each) {
  const Devices& devices = facts.get<Devices>();
  if (devices.busiest < 0) return;
  const DeviceTime& device = devices.devices[static_cast<size_t>(devices.busiest)];
  for (ActivityId a = device.begin; a < device.end; ++a)
    if (devices.kind[a.value] == WorkKind::kCompute && facts.trace().activity.kind[a.value] == ActivityKind::kKernel)
      each(a);
}

ProfileTarget target_of(std::string_view function, const FunctionSum& sum) {
  ProfileTarget target{std::string(function), "", sum.launches, sum.total_ns, sum.total_ns, std::nullopt};
  target.name = std::ranges::max_element(sum.names, {}, [](const auto& name) { return name.second; })->first;
  if (sum.known_ns == 0) return target;
  target.gain_ns -= static_cast<int64_t>(sum.needed_ns);
  target.limit_pct = percent_of(static_cast<int64_t>(sum.needed_ns), sum.known_ns);
  return target;
}

// Launches before the first measured step, and from there until each function has run.
void choose_launches(const Facts& facts, ProfileTargets& all) {
  const Steps& steps = facts.get<Steps>();
  const std::vector<const Step*> measured = steps.measured();
  if (measured.empty() || all.targets.empty()) return;
  std::set<std::string, std::less<>> functions;
  for (const ProfileTarget& t : all.targets) functions.insert(t.function);
  const Trace& trace = facts.trace();
  int64_t before = 0, in_steps = 0, from = 0;
  StepFinder step_of(steps, StepFinder::By::kElapsed);
  each_kernel(facts, [&](ActivityId a) {
    const std::string_view function = kernel_function(trace.name(a));
    const int64_t start = trace.activity.start_ns[a.value];
    if (std::ranges::none_of(all.targets, [&](const ProfileTarget& t) { return t.function == function; })) return;
    in_steps += step_of.measured(start);
    if (start < measured.front()->start_ns) {
      ++before;
      return;
    }
    if (functions.empty()) return;
    ++from;
    if (const auto at = functions.find(function); at != functions.end()) functions.erase(at);
  });
  // Steps that ran before the recording launched as many as those in it.
  const int64_t number = steps.marked() ? std::max<int64_t>(measured.front()->index, 0) : 0;
  const int64_t each = in_steps / static_cast<int64_t>(measured.size());
  constexpr int64_t kMaxSkip = 1'000'000'000;
  all.skip = std::max(before, number < kMaxSkip / std::max<int64_t>(each, 1) ? number * each : before);
  all.count = std::max<int64_t>(from, 1);
}

}  // namespace

ProfileTargets ProfileTargets::of(const Facts& facts, size_t most) {
  const Trace& trace = facts.trace();
  const DeviceWork& work = facts.get<DeviceWork>();
  const RunLimits& limits = facts.get<RunLimits>();
  StepFinder step_of(facts.get<Steps>(), StepFinder::By::kElapsed);
  std::map<std::string_view, FunctionSum> sums;
  each_kernel(facts, [&](ActivityId a) {
    if (!step_of.measured(trace.activity.start_ns[a.value])) return;
    const std::string_view name = trace.name(a), function = kernel_function(name);
    const int64_t ns = trace.activity.duration_ns[a.value];
    if (function.empty()) return;   // nothing to choose it by
    FunctionSum& sum = sums[function];
    ++sum.launches;
    sum.total_ns += ns, sum.names[name] += ns;
    const auto part = limits.needed_part(work, a);
    if (part) sum.known_ns += ns, sum.needed_ns += *part * static_cast<double>(ns);
  });
  ProfileTargets all;
  for (const auto& [function, sum] : sums) all.targets.push_back(target_of(function, sum));
  std::ranges::stable_sort(all.targets, std::greater(), &ProfileTarget::gain_ns);
  if (all.targets.size() > most) all.targets.resize(most);
  choose_launches(facts, all);
  return all;
}

}  // namespace profgpu
