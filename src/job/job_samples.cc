#include "job/job_samples.h"

#include <algorithm>

namespace profgpu {
namespace {

constexpr uint32_t kLeftOut = UINT32_MAX;

// Takes out rows of devices that are left out, and numbers the others anew.
template <class Rows>
void keep(Rows& rows, const std::vector<uint32_t>& position) {
  std::erase_if(rows, [&](const auto& r) { return position[r.device] == kLeftOut; });
  for (auto& r : rows) r.device = position[r.device];
}

void leave_out(const std::set<std::string>& hosts, SampleLog& log) {
  std::vector<uint32_t> position;
  uint32_t next = 0;
  for (const DeviceInfo& d : log.devices) position.push_back(hosts.contains(d.host) ? kLeftOut : next++);
  std::erase_if(log.devices, [&](const DeviceInfo& d) { return hosts.contains(d.host); });
  for (DeviceInfo& d : log.devices)
    if (d.parent) d.parent = position[*d.parent];
  keep(log.series, position);
  keep(log.processes, position);
  keep(log.process_ticks, position);
}

// The clock of a host, as one of its ranks has it; null: not known, or the first rank's.
const RankClock* clock_of(const std::string& host, std::span<const std::string> hosts, std::span<const RankClock> clocks) {
  for (size_t r = 0; r < clocks.size() && !host.empty(); ++r)
    if (hosts[r] == host && !clocks[r].apart && clocks[r].method != "none") return &clocks[r];
  return nullptr;
}

void put_on_first_clock(std::span<const std::string> hosts, std::span<const RankClock> clocks, SampleLog& log) {
  std::vector<const RankClock*> of_device;
  for (const DeviceInfo& d : log.devices) of_device.push_back(clock_of(d.host, hosts, clocks));
  const auto move = [&](uint32_t device, int64_t& time_ns) {
    if (of_device[device] != nullptr) time_ns = of_device[device]->aligned(time_ns);
  };
  Interval all{INT64_MAX, INT64_MIN};
  for (SampleSeries& s : log.series)
    for (int64_t& t : s.time_ns) {
      move(s.device, t);
      all = {std::min(all.start, t), std::max(all.end, t)};
    }
  for (auto& p : log.processes) move(p.device, p.time_ns);
  for (auto& t : log.process_ticks) move(t.device, t.time_ns);
  if (all.start <= all.end) log.first_ns = all.start, log.last_ns = all.end;
}

}  // namespace

JobSamples job_samples(SampleLog log, std::span<const std::string> hosts, std::span<const RankClock> clocks) {
  JobSamples out{std::move(log), {}};
  const bool all_known = std::none_of(hosts.begin(), hosts.end(), [](const std::string& h) { return h.empty(); });
  const std::set<std::string_view> of_ranks(hosts.begin(), hosts.end());
  for (const DeviceInfo& d : out.log.devices)
    if (all_known && !d.host.empty() && !of_ranks.contains(d.host)) out.others.insert(d.host);
  if (!out.others.empty()) leave_out(out.others, out.log);
  put_on_first_clock(hosts, clocks, out.log);
  return out;
}

}  // namespace profgpu
