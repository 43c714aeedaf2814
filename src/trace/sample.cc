#include "trace/sample.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/statistics.h"

namespace profgpu {

std::string DeviceInfo::label() const {
  return gpu_instance ? fmt::format("{}:{}", index, *gpu_instance) : std::to_string(index);
}

std::string DeviceInfo::label_on_host() const { return host.empty() ? label() : label() + " of " + host; }

std::optional<double> DeviceInfo::constant(Metric metric) const {
  for (const auto& [m, value] : constants)
    if (m == metric) return value;
  return std::nullopt;
}

std::optional<double> SampleSeries::at(int64_t time) const {
  const auto after = std::upper_bound(time_ns.begin(), time_ns.end(), time);
  if (after == time_ns.begin()) return std::nullopt;
  return value[static_cast<size_t>(after - time_ns.begin()) - 1];
}

int64_t median_distance(const std::vector<int64_t>& times) {
  std::vector<int64_t> distances;
  for (size_t i = 1; i < times.size(); ++i) distances.push_back(times[i] - times[i - 1]);
  return distances.empty() ? 0 : upper_median(std::move(distances));
}

bool SampleLog::several_hosts() const {
  return std::any_of(devices.begin(), devices.end(),
                     [&](const DeviceInfo& d) { return d.host != devices.front().host; });
}

std::string SampleLog::label(uint32_t device) const {
  return several_hosts() ? devices[device].label_on_host() : devices[device].label();
}

const SampleSeries* SampleLog::find(uint32_t device, Metric metric) const {
  for (const SampleSeries& s : series)
    if (s.device == device && s.metric == metric && !s.time_ns.empty()) return &s;
  return nullptr;
}

SampleHosts::SampleHosts(const SampleLog& log, std::span<const std::string> ranks)
    : one_host_(!log.several_hosts() &&
                std::all_of(ranks.begin(), ranks.end(), [&](const std::string& r) { return r == ranks.front(); })) {}

namespace {

bool is_quantity(const MetricInfo& info) { return info.kind == MetricKind::kGauge && !info.unit.empty(); }

// Samples of one metric, by time, the last of which holds until `end_ns`.
double mean(const Sample* begin, const Sample* end, int64_t end_ns) {
  const auto n = static_cast<double>(end - begin);
  const auto span = static_cast<double>(end[-1].time_ns - begin->time_ns);
  double sum = 0;
  if (span <= 0) {
    for (const Sample* s = begin; s != end; ++s) sum += s->value;
    return sum / n;
  }
  for (const Sample* s = begin; s + 1 != end; ++s) sum += s->value * static_cast<double>(s[1].time_ns - s->time_ns);
  const double last = end_ns > end[-1].time_ns ? static_cast<double>(end_ns - end[-1].time_ns) : span / (n - 1);
  return (sum + end[-1].value * last) / (span + last);
}

}  // namespace

void SampleRow::take(const Reading& reading) {
  values_.fill(std::nullopt);
  sorted_.assign(reading.samples.begin(), reading.samples.end());
  std::erase_if(sorted_, [](const Sample& s) { return !std::isfinite(s.value); });
  std::stable_sort(sorted_.begin(), sorted_.end(), [](const Sample& a, const Sample& b) {
    return a.metric != b.metric ? a.metric < b.metric : a.time_ns < b.time_ns;
  });
  const Sample* const end = sorted_.data() + sorted_.size();
  for (const Sample* s = sorted_.data(); s != end;) {
    const Sample* next = s + 1;
    while (next != end && next->metric == s->metric) ++next;
    const bool several = next - s > 1 && is_quantity(metric_info(s->metric));
    values_[static_cast<size_t>(s->metric)] = several ? mean(s, next, reading.time_ns) : next[-1].value;
    s = next;
  }
}

bool may_have_own_rows(Metric metric) {
  return metric == Metric::kUtilization || metric == Metric::kMemoryUtilization || metric == Metric::kPower ||
         metric == Metric::kPowerInstant;
}

std::string device_word(const std::vector<DeviceInfo>& devices, uint32_t device) {
  const DeviceInfo& mine = devices[device];
  const std::string label = mine.label();
  bool vendors = false, hosts = false;
  for (const DeviceInfo& d : devices) {
    if (d.label() != label) continue;
    hosts |= d.host != mine.host;
    vendors |= d.vendor != mine.vendor;
  }
  return (hosts && !mine.host.empty() ? mine.host + " " : "") +
         (vendors && !mine.vendor.empty() ? mine.vendor + " " : "") + label;
}

void append_number(std::string& out, double value) {
  char buffer[40];
  constexpr double kExact = 9007199254740992;   // 2^53: whole numbers below are exact
  const bool whole = std::trunc(value) == value && std::abs(value) < kExact;
  const auto end = whole ? std::to_chars(buffer, buffer + sizeof buffer, static_cast<int64_t>(value))
                         : std::to_chars(buffer, buffer + sizeof buffer, value);
  out.append(buffer, end.ptr);
}

}  // namespace profgpu
