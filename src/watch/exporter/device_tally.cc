#include "watch/exporter/device_tally.h"

#include <algorithm>

namespace profgpu {
namespace {

constexpr double kSecondsPerNs = 1e-9;
// A sample holds no longer than this, or three intervals.
constexpr int64_t kLongestGap_ns = 10'000'000'000;
// Slow-moving metrics are read in turns, the slowest every 40 s at the default interval.
constexpr int64_t kHolds_ns = 120'000'000'000;
constexpr size_t kMaxXidCodes = 256;

// Gauges, and the counters that their integrals stand in for.
constexpr std::pair<Metric, Metric> kIntegrated[] = {{Metric::kPower, Metric::kEnergy},
                                                     {Metric::kPcieTxRate, Metric::kPcieTx},
                                                     {Metric::kPcieRxRate, Metric::kPcieRx}};

}  // namespace

void Integral::add(int64_t time_ns, double value, int64_t longest_ns) {
  if (time_ns <= last_ns) return;
  const int64_t gap_ns = time_ns - last_ns;
  if (last_ns != 0 && gap_ns <= longest_ns) {
    sum += last * static_cast<double>(gap_ns) * kSecondsPerNs;
    seconds += static_cast<double>(gap_ns) * kSecondsPerNs;
  }
  last_ns = time_ns;
  last = value;
}

DeviceTally::DeviceTally(const DeviceInfo& info, int64_t interval_ns)
    : interval_ns_(interval_ns), constants_(info.constants), reasons_(clock_reasons().size()) {}

void DeviceTally::add(const Reading& reading) {
  for (const Sample& s : reading.samples) {
    Newest& n = newest_[static_cast<size_t>(s.metric)];
    integrate(s);
    if (s.time_ns < n.time_ns) continue;
    if (s.time_ns > n.time_ns) n.before = n.value, n.before_ns = n.time_ns;
    n.value = s.value;
    n.time_ns = s.time_ns;
  }
  count_xids(reading);
  if (!reading.has_processes) return;
  has_processes_ = true;
  processes_ = reading.processes;
}

void DeviceTally::integrate(const Sample& s) {
  const int64_t longest_ns = std::max(kLongestGap_ns, 3 * interval_ns_);
  if (s.metric == Metric::kUtilization) busy_.add(s.time_ns, s.value, longest_ns);
  for (const auto& [gauge, counter] : kIntegrated)
    if (s.metric == gauge) integrated_[counter].add(s.time_ns, s.value, longest_ns);
  if (s.metric != Metric::kClockEventReasons) return;
  const auto bits = static_cast<uint32_t>(s.value);
  for (size_t i = 0; i < reasons_.size(); ++i) {
    const bool set = (bits & static_cast<uint32_t>(clock_reasons()[i].reason)) != 0;
    reasons_[i].add(s.time_ns, set ? 1 : 0, longest_ns);
  }
}

// Each row of a replayed log repeats the last code, so only as many events count as the count grew by.
void DeviceTally::count_xids(const Reading& reading) {
  const auto count = std::find_if(reading.samples.begin(), reading.samples.end(),
                                  [](const Sample& s) { return s.metric == Metric::kXidErrors; });
  if (count == reading.samples.end()) return;
  if (!xids_) xids_.emplace();
  std::vector<const Sample*> events;
  for (const Sample& s : reading.samples)
    if (s.metric == Metric::kXidLast && s.time_ns > last_xid_ns_) events.push_back(&s);
  int64_t grown = std::max<int64_t>(
      static_cast<int64_t>(newest_[static_cast<size_t>(Metric::kXidErrors)].value) - xids_counted_, 0);
  xids_counted_ += grown;
  for (auto e = events.rbegin(); e != events.rend(); ++e) {
    last_xid_ns_ = std::max(last_xid_ns_, (*e)->time_ns);
    if (grown == 0) continue;
    const auto code = static_cast<int64_t>((*e)->value);
    ++(*xids_)[xids_->size() < kMaxXidCodes || xids_->contains(code) ? code : -1];
    --grown;
  }
  if (grown > 0) (*xids_)[-1] += grown;
}

bool DeviceTally::fresh(const Newest& newest, int64_t now_ns) const {
  return newest.time_ns != 0 && now_ns - newest.time_ns <= kHolds_ns + 3 * interval_ns_;
}

std::optional<double> DeviceTally::value(Metric metric, int64_t now_ns) const {
  const Newest& n = newest_[static_cast<size_t>(metric)];
  const bool holds = metric_info(metric).kind == MetricKind::kConstant || metric == Metric::kXidLast;
  if (holds ? n.time_ns != 0 : fresh(n, now_ns)) return n.value;
  for (const auto& [m, v] : constants_)
    if (m == metric) return v;
  return std::nullopt;
}

std::optional<double> DeviceTally::integrated(Metric counter) const {
  const auto found = integrated_.find(counter);
  return found == integrated_.end() || found->second.last_ns == 0 ? std::nullopt : std::optional(found->second.sum);
}

std::optional<double> DeviceTally::per_second(Metric counter, int64_t now_ns) const {
  const Newest& n = newest_[static_cast<size_t>(counter)];
  if (!fresh(n, now_ns) || n.before_ns == 0 || n.value < n.before) return std::nullopt;
  return (n.value - n.before) / (static_cast<double>(n.time_ns - n.before_ns) * kSecondsPerNs);
}

DeviceTallies::DeviceTallies(const std::vector<DeviceInfo>& infos, const std::vector<uint32_t>& devices,
                             int64_t interval_ns)
    : devices_(devices) {
  for (const uint32_t d : devices) tallies_.emplace_back(infos[d], interval_ns);
}

void DeviceTallies::add(const Reading& reading) {
  std::lock_guard lock(mutex_);
  const auto at = std::find(devices_.begin(), devices_.end(), reading.device);
  if (at == devices_.end()) return;
  tallies_[static_cast<size_t>(at - devices_.begin())].add(reading);
  ++readings_;
}

std::vector<DeviceTally> DeviceTallies::copy() const {
  std::lock_guard lock(mutex_);
  return tallies_;
}

int64_t DeviceTallies::readings() const {
  std::lock_guard lock(mutex_);
  return readings_;
}

}  // namespace profgpu
