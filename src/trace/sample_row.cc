#include "trace/sample_row.h"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace profgpu {
namespace {

bool is_quantity(const MetricInfo& info) { return info.kind == MetricKind::kGauge && !info.unit.empty(); }

// Samples of one metric, by time.
double mean(const Sample* begin, const Sample* end) {
  const auto n = static_cast<double>(end - begin);
  const auto span = static_cast<double>(end[-1].time_ns - begin->time_ns);
  double sum = 0;
  if (span <= 0) {
    for (const Sample* s = begin; s != end; ++s) sum += s->value;
    return sum / n;
  }
  for (const Sample* s = begin; s + 1 != end; ++s) sum += s->value * static_cast<double>(s[1].time_ns - s->time_ns);
  const double last = span / (n - 1);
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
    values_[static_cast<size_t>(s->metric)] = several ? mean(s, next) : next[-1].value;
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
  return (hosts && !mine.host.empty() ? mine.host + " " : "") + (vendors && !mine.vendor.empty() ? mine.vendor + " " : "") + label;
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
