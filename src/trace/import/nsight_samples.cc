#include "trace/import/nsight_samples.h"

#include <algorithm>
#include <map>
#include <unordered_map>

#include "base/text.h"

namespace profgpu {
namespace {

using std::string_view;

constexpr int64_t kLatestSample_ns = INT64_MAX / 4;
constexpr size_t kMaxCounters = 200'000'000;

/// A metric by the beginning of its name, in lower case. Names have changed: "SM Active [Throughput %]", "SMs Active".
struct SampledMetric {
  string_view name;
  Metric metric;
  bool part = false;   ///< one of those whose sum the metric is
};
constexpr SampledMetric kSampled[] = {{"gr active", Metric::kGraphicsActive},
                                      {"sm active", Metric::kSmActive},
                                      {"sms active", Metric::kSmActive},
                                      {"tensor active", Metric::kTensorActive},
                                      {"compute warps in flight [throughput", Metric::kSmOccupancy},
                                      {"dram throughput", Metric::kDramActive},
                                      {"dram read", Metric::kDramActive, true},
                                      {"dram write", Metric::kDramActive, true},
                                      {"gpc clock frequency", Metric::kSmClock},
                                      {"gpu power", Metric::kPowerInstant},
                                      {"gpu temperature", Metric::kTemperature}};

/// What a pair of typeId and metricId means.
struct Meaning {
  const SampledMetric* known = nullptr;   // null: a counter
  StringId name;
  uint32_t device = 0;                    // place among the devices
};

const SampledMetric* sampled_metric(string_view name) {
  const std::string text = lower_case(name);
  for (const SampledMetric& m : kSampled)
    if (text.starts_with(m.name)) return &m;
  return nullptr;
}

// Frequencies come in Hz, whatever the name says.
double in_our_unit(Metric metric, double value) {
  constexpr double kHighestMhz = 100'000;
  return metric == Metric::kSmClock && value > kHighestMhz ? value / 1e6 : value;
}

/// The metrics of an export, by type and metric.
class MetricTable {
 public:
  MetricTable(SqliteSource& source, const std::vector<NsightDevice>& devices, Shard& shard) {
    SqliteScan scan(source, "TARGET_INFO_GPU_METRICS", {"typeId", "metricId", "metricName"});
    while (scan.next()) {
      const int64_t type = scan.integer(0, 0);
      Meaning meaning;
      std::string name(scan.text(2));
      replace_invalid_utf8(name);
      meaning.known = sampled_metric(name);
      meaning.name = shard.strings.intern(name);
      // The lowest byte of a type is the GPU's number for metrics.
      for (uint32_t d = 0; d < devices.size(); ++d)
        if (devices[d].metrics_id == (type & 0xFF)) meaning.device = d;
      by_id_.emplace(std::pair(type, scan.integer(1, -1)), meaning);
    }
  }
  [[nodiscard]] const Meaning* find(int64_t type, int64_t metric) {
    const std::pair key(type, metric);
    if (last_ != by_id_.end() && last_->first == key) return &last_->second;
    last_ = by_id_.find(key);
    return last_ != by_id_.end() ? &last_->second : nullptr;
  }

 private:
  std::map<std::pair<int64_t, int64_t>, Meaning> by_id_;
  std::map<std::pair<int64_t, int64_t>, Meaning>::iterator last_ = by_id_.end();
};

DeviceInfo info_of(const NsightDevice& device, const std::string& host) {
  DeviceInfo info;
  info.index = static_cast<uint32_t>(device.index);
  info.vendor = "NVIDIA";
  info.name = device.properties.name;
  info.uuid = device.uuid;
  info.pci_bus_id = device.bus.size() == 12 ? "0000" + device.bus : device.bus;   // its domain has eight digits
  info.host = host;
  if (device.properties.memory_bytes > 0)
    info.constants.emplace_back(Metric::kMemoryTotal, static_cast<double>(device.properties.memory_bytes));
  return info;
}

// Rows of one time become one, as the sum of parts or the last of them.
void settle_series(SampleSeries& series, bool sum) {
  std::vector<size_t> order(series.time_ns.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return series.time_ns[a] < series.time_ns[b]; });
  std::vector<int64_t> times;
  std::vector<double> values;
  for (const size_t i : order) {
    if (!times.empty() && times.back() == series.time_ns[i]) {
      values.back() = sum ? values.back() + series.value[i] : series.value[i];
    } else {
      times.push_back(series.time_ns[i]);
      values.push_back(series.value[i]);
    }
  }
  series.time_ns = std::move(times);
  series.value = std::move(values);
}

}  // namespace

SampleLog nsight_samples(SqliteSource& source, const std::vector<NsightDevice>& devices, const std::string& host,
                         int64_t start_ns, Shard& shard) {
  SampleLog log;
  MetricTable metrics(source, devices, shard);
  std::map<std::pair<uint32_t, Metric>, std::pair<SampleSeries, bool>> series;
  SqliteScan scan(source, "GPU_METRICS", {"timestamp", "typeId", "metricId", "value"});
  while (scan.next()) {
    ++shard.events;
    const auto time = scan.integer(0);
    const auto value = scan.real(3);
    const Meaning* const meaning = metrics.find(scan.integer(1, 0), scan.integer(2, -1));
    if (!time || !value || *time <= -kLatestSample_ns || *time >= kLatestSample_ns) {
      ++shard.issues[TraceIssueKind::kDamaged];
    } else if (meaning == nullptr) {
      ++shard.issues[TraceIssueKind::kUnknownRows];
    } else if (meaning->known != nullptr && start_ns > 0 && !devices.empty()) {
      auto& [of_metric, sum] = series[{meaning->device, meaning->known->metric}];
      of_metric.time_ns.push_back(*time + start_ns);
      of_metric.value.push_back(in_our_unit(meaning->known->metric, *value));
      sum |= meaning->known->part;
      ++log.ticks;
    } else if (shard.counters.size() < kMaxCounters) {
      const int32_t device = devices.empty() ? -1 : devices[meaning->device].properties.id;
      shard.counters.push_back({*time, meaning->name, device, *value});
    }
  }
  if (series.empty()) return {};
  for (const NsightDevice& d : devices) log.devices.push_back(info_of(d, host));
  log.first_ns = INT64_MAX, log.last_ns = INT64_MIN;
  for (auto& [key, found] : series) {
    settle_series(found.first, found.second);
    found.first.device = key.first, found.first.metric = key.second;
    log.first_ns = std::min(log.first_ns, found.first.time_ns.front());
    log.last_ns = std::max(log.last_ns, found.first.time_ns.back());
    log.series.push_back(std::move(found.first));
  }
  return log;
}

namespace {

constexpr int64_t kLongWait_ns = 1'000'000;   // as our own recorder keeps them

/// One thread from its first event to its last.
struct Scheduled {
  int64_t first_ns = 0, since_ns = 0, ran_ns = 0, off_ns = 0, waits = 0;
  bool on = false;
};

}  // namespace

void add_nsight_scheduling(SqliteSource& source, const NsightScope& scope, Shard& shard) {
  std::unordered_map<int64_t, Scheduled> threads;
  const auto thread_of = [&](int64_t id) {
    return ThreadId(shard.thread(std::to_string(nsight_pid(id)), std::to_string(nsight_tid(id))));
  };
  SqliteScan scan(source, "SCHED_EVENTS", {"start", "isSchedIn", "globalTid"}, scope.condition("globalTid"));
  while (scan.next()) {
    ++shard.events;
    const auto time = scan.integer(0), on = scan.integer(1), thread = scan.integer(2);
    if (!time || !on || !thread || *time <= -kLatestSample_ns || *time >= kLatestSample_ns) {
      ++shard.issues[TraceIssueKind::kDamaged];
      continue;
    }
    const auto [at, fresh] = threads.try_emplace(*thread, Scheduled{*time, *time});
    Scheduled& s = at->second;
    const int64_t passed = *time - s.since_ns;
    if (passed < 0) continue;
    if (!fresh && s.on) s.ran_ns += passed;
    if (!fresh && !s.on && *on != 0) {
      s.off_ns += passed;
      ++s.waits;
      if (passed >= kLongWait_ns) shard.thread_waits.push_back({s.since_ns, passed, thread_of(*thread)});
    }
    s.on = *on != 0;
    s.since_ns = *time;
  }
  for (const auto& [id, s] : threads) {
    if (s.since_ns <= s.first_ns) continue;
    ThreadSample sample;
    sample.thread = thread_of(id);
    sample.state = 'R';
    sample.blocked_ns = 0, sample.preempted_ns = 0, sample.waits = 0;
    sample.time_ns = s.first_ns;
    shard.thread_samples.push_back(sample);
    sample.time_ns = s.since_ns;
    sample.user_ns = static_cast<uint64_t>(s.ran_ns);
    sample.blocked_ns = s.off_ns;
    sample.waits = s.waits;
    shard.thread_samples.push_back(sample);
  }
}

}  // namespace profgpu
