#include <algorithm>
#include <map>

#include "trace/sample_file.h"
#include "trace/sample_log_builder.h"

namespace profgpu {
namespace {

/// Devices by what they are, whatever log they are in.
class JoinedDevices {
 public:
  explicit JoinedDevices(std::vector<DeviceInfo>& devices) : devices_(devices) {}
  /// Position of the device among the joined ones.
  uint32_t add(DeviceInfo d) {
    std::vector<uint32_t>& known = by_identity_[d.uuid.empty() ? d.vendor + " " + d.label() : d.uuid];
    const auto same = std::find_if(known.begin(), known.end(), [&](uint32_t k) {
      const std::string& host = devices_[k].host;
      return host == d.host || (!d.uuid.empty() && (host.empty() || d.host.empty()));
    });
    if (same == known.end()) {
      known.push_back(static_cast<uint32_t>(devices_.size()));
      devices_.push_back(std::move(d));
      return known.back();
    }
    DeviceInfo& to = devices_[*same];
    if (!d.constants.empty()) to.constants = std::move(d.constants);
    if (to.host.empty()) to.host = std::move(d.host);
    return *same;
  }

 private:
  std::vector<DeviceInfo>& devices_;
  std::map<std::string, std::vector<uint32_t>> by_identity_;
};

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
  JoinedDevices devices(joined.devices);
  std::map<std::pair<uint32_t, Metric>, SampleSeries> series;
  for (SampleLog& log : logs) {
    std::vector<uint32_t> position;
    for (DeviceInfo& d : log.devices) position.push_back(devices.add(std::move(d)));
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
