#include "job/sampled_clocks.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "report/quantity.h"
#include "trace/sample.h"

namespace profgpu {
namespace {

// Place in the log of the device with a rank's number on its host.
std::optional<uint32_t> device_of(const RankDigest& rank, const SampleLog& log, const SampleHosts& hosts) {
  std::optional<uint32_t> found;
  for (uint32_t i = 0; i < log.devices.size(); ++i) {
    const DeviceInfo& d = log.devices[i];
    if (!d.mig_profile.empty() || static_cast<int64_t>(d.index) != rank.device || !hosts.fits(rank.host, d)) continue;
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

std::optional<SampledClock> clock_of(const RankDigest& rank, const SampleLog& log, uint32_t device) {
  const SampleSeries* clock = log.find(device, Metric::kSmClock);
  const SampleSeries* reasons = log.find(device, Metric::kClockEventReasons);
  if (clock == nullptr) return std::nullopt;
  double sum = 0;
  int64_t count = 0, held = 0;
  std::map<uint32_t, int64_t> held_by;
  for (size_t i = 0; i < clock->time_ns.size(); ++i) {
    if (!in_measured_step(rank, clock->time_ns[i])) continue;
    const auto bits = static_cast<uint32_t>(reasons ? reasons->at(clock->time_ns[i]).value_or(0) : 0);
    if ((bits & static_cast<uint32_t>(ClockReason::kIdle)) != 0) continue;
    sum += clock->value[i];
    ++count;
    if ((bits & kHeldBackReasons) == 0) continue;
    ++held;
    for (const ClockReasonInfo& r : clock_reasons())
      if ((bits & kHeldBackReasons & static_cast<uint32_t>(r.reason)) != 0) ++held_by[static_cast<uint32_t>(r.reason)];
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
  std::map<std::pair<std::string_view, int32_t>, int> users;
  std::vector<std::string> names;
  for (const RankDigest& r : ranks) {
    names.push_back(r.host);
    ++users[{r.host, r.device}];
  }
  const SampleHosts hosts(samples, names);
  for (size_t i = 0; i < ranks.size(); ++i)
    if (const auto device = device_of(ranks[i], samples, hosts); device && users[{ranks[i].host, ranks[i].device}] == 1)
      out[i] = clock_of(ranks[i], samples, *device);
  return out;
}

std::vector<std::string> unclear_samples(std::span<const RankDigest> ranks, const SampleLog& samples) {
  if (samples.empty()) return {};
  std::map<std::pair<std::string_view, int32_t>, std::vector<uint32_t>> users;
  std::vector<std::string> names;
  for (uint32_t i = 0; i < ranks.size(); ++i) {
    names.push_back(ranks[i].host);
    users[{ranks[i].host, ranks[i].device}].push_back(i);
  }
  const SampleHosts hosts(samples, names);
  std::vector<std::string> notes;
  for (const auto& [where, places] : users) {
    if (places.size() < 2 || !device_of(ranks[places.front()], samples, hosts)) continue;
    std::vector<int> numbers;
    for (const uint32_t p : places) numbers.push_back(ranks[p].rank);
    notes.push_back(fmt::format("{}{} each call their GPU {}, as with CUDA_VISIBLE_DEVICES of their own: whose samples are whose is "
                                "not known",
                                ranks_text(numbers), where.first.empty() ? "" : " on " + std::string(where.first), where.second));
  }
  return notes;
}

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
