#include "cli/stat_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <set>
#include <thread>

#include "base/clock.h"
#include "base/timestamp.h"
#include "collect/selection.h"
#include "live/run_session_processes.h"

namespace profgpu {
namespace {

constexpr std::chrono::milliseconds kProcessorWindow{100};

}  // namespace

std::optional<double> StatDevice::value(Metric metric) const {
  const auto sampled = look.value(metric);
  return sampled ? sampled : info->constant(metric);
}

StatSource::StatSource(const OpenDevices& open, SnapshotOptions options)
    : open_(open),
      snapshots_(open.backend, open.devices, options),
      host_(host_name()),
      driver_(common_driver(open.backend->devices(), open.devices)),
      recorded_(open.backend->name() == "replay") {}

void StatSource::look_up(StatView& view) {
  if (recorded_) return;  // the numbers are another machine's
  std::set<int64_t> pids;
  for (const StatDevice& device : view.devices)
    for (const StatProcess& process : device.processes) pids.insert(process.sample.pid);
  std::map<int64_t, HostProcess> known;
  for (const StatDevice& device : view.devices)
    for (const StatProcess& process : device.processes)
      if (!known.contains(process.sample.pid))
        known[process.sample.pid] =
            host_processes_.look(process.sample.pid, compute_file(device.info->vendor), pids.size() == 1);
  for (StatDevice& device : view.devices)
    for (StatProcess& process : device.processes) process.host = known[process.sample.pid];
}

StatView StatSource::take(bool processor) {
  StatView view;
  view.host = host_;
  view.driver = driver_;
  view.backend = open_.backend.get();
  for (DeviceLook& look : snapshots_.take()) {
    StatDevice device;
    device.info = &open_.backend->devices()[look.device];
    for (const ProcessSample& sample : look.reading.processes) device.processes.push_back({sample, recorded_process(sample)});
    std::stable_sort(device.processes.begin(), device.processes.end(), [](const auto& a, const auto& b) {
      return a.sample.memory_bytes.value_or(0) > b.sample.memory_bytes.value_or(0);
    });
    device.look = std::move(look);
    view.devices.push_back(std::move(device));
  }
  view.time_ns = unix_ns();
  look_up(view);
  const bool any =
      std::any_of(view.devices.begin(), view.devices.end(), [](const auto& d) { return !d.processes.empty(); });
  if (processor && first_ && any && !recorded_) {
    std::this_thread::sleep_for(kProcessorWindow);
    look_up(view);
  }
  first_ = false;
  return view;
}

std::string iso_time(int64_t unix_ns, bool zone) {
  const int64_t below_second = unix_ns % 1'000'000'000;
  const std::string seconds = formatted_time(unix_ns, "%Y-%m-%dT%H:%M:%S");
  if (!zone) return fmt::format("{}.{:06}", seconds, below_second / 1000);
  std::string offset = formatted_time(unix_ns, "%z");
  if (offset.size() == 5) offset.insert(3, ":");
  return fmt::format("{}.{:03}{}", seconds, below_second / 1'000'000, offset);
}

}  // namespace profgpu
