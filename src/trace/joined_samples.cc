#include <algorithm>
#include <map>

#include "trace/sample_file.h"
#include "trace/sample_log_builder.h"

namespace profgpu {
namespace {

std::string identity(const DeviceInfo& d) { return d.uuid.empty() ? d.vendor + " " + d.label() : d.uuid; }

// Times are in order within a log, but logs may overlap.
void append(SampleSeries& to, SampleSeries& from) {
  to.time_ns.insert(to.time_ns.end(), from.time_ns.begin(), from.time_ns.end());
  to.value.insert(to.value.end(), from.value.begin(), from.value.end());
}

}  // namespace

SampleLog joined_samples(std::vector<SampleLog> logs) {
  if (logs.empty()) return {};
  if (logs.size() == 1) return std::move(logs.front());
  SampleLog joined;
  std::map<std::string, uint32_t> device_of;
  std::map<std::pair<uint32_t, Metric>, SampleSeries> series;
  for (SampleLog& log : logs) {
    std::vector<uint32_t> position;
    for (DeviceInfo& d : log.devices) {
      const auto [it, added] = device_of.try_emplace(identity(d), static_cast<uint32_t>(joined.devices.size()));
      if (added) joined.devices.push_back(std::move(d));
      else if (!d.constants.empty()) joined.devices[it->second].constants = std::move(d.constants);
      position.push_back(it->second);
    }
    for (SampleSeries& s : log.series) {
      SampleSeries& to = series[{position[s.device], s.metric}];
      to.device = position[s.device], to.metric = s.metric;
      append(to, s);
    }
    for (auto& p : log.processes) joined.processes.push_back({p.time_ns, position[p.device], std::move(p.process)});
    for (auto& t : log.process_ticks) joined.process_ticks.push_back({t.time_ns, position[t.device]});
    joined.marks.insert(joined.marks.end(), log.marks.begin(), log.marks.end());
    joined.first_ns = joined.ticks == 0 ? log.first_ns : std::min(joined.first_ns, log.first_ns);
    joined.last_ns = joined.ticks == 0 ? log.last_ns : std::max(joined.last_ns, log.last_ns);
    joined.ticks += log.ticks;
  }
  for (auto& [key, s] : series) joined.series.push_back(std::move(s));
  sort_samples(joined);
  return joined;
}

}  // namespace profgpu
