#include "trace/sample_file.h"

#include <algorithm>
#include <map>

#include "base/csv.h"
#include "base/json_quoted.h"
#include "base/text.h"
#include "trace/sample_log_builder.h"

namespace profgpu {
namespace {

void append_field(std::string& line, std::string_view key, std::string_view text) {
  if (text.empty()) return;
  line.append(",\"").append(key).append("\":");
  append_json_quoted(line, text);
}

void append_field(std::string& line, std::string_view key, double value) {
  line.append(",\"").append(key).append("\":");
  append_number(line, value);
}

void append_origin(std::string& line, const ProcessOrigin& o) {
  append_field(line, "user", o.user);
  append_field(line, "container_runtime", o.placement.container_runtime);
  append_field(line, "container", o.placement.container);
  append_field(line, "pod", o.placement.pod);
  append_field(line, "slurm_job", o.placement.slurm_job);
  append_field(line, "slurm_step", o.placement.slurm_step);
  if (o.rank) append_field(line, "rank", static_cast<double>(*o.rank));
  if (o.world_size) append_field(line, "world_size", static_cast<double>(*o.world_size));
}

void append_process(std::string& line, const ProcessSample& p) {
  line += "{\"pid\":";
  append_number(line, static_cast<double>(p.pid));
  append_field(line, "type", std::string_view(&p.type, 1));
  append_field(line, "name", p.name);
  if (p.origin) append_origin(line, *p.origin);
  if (p.memory_bytes) append_field(line, "memory_bytes", static_cast<double>(*p.memory_bytes));
  if (p.utilization_pct) append_field(line, "utilization_pct", *p.utilization_pct);
  if (p.memory_utilization_pct) append_field(line, "memory_utilization_pct", *p.memory_utilization_pct);
  if (p.encoder_pct) append_field(line, "encoder_pct", *p.encoder_pct);
  if (p.decoder_pct) append_field(line, "decoder_pct", *p.decoder_pct);
  line += '}';
}

void introduce(std::string& line, const DeviceInfo& d) {
  append_field(line, "name", d.name);
  append_field(line, "uuid", d.uuid);
  append_field(line, "pci_bus_id", d.pci_bus_id);
  append_field(line, "vendor", d.vendor);
  append_field(line, "driver_version", d.driver_version);
  append_field(line, "mig_profile", d.mig_profile);
  append_field(line, "host", d.host);
  if (d.numa_node) append_field(line, "numa_node", *d.numa_node);
  for (const auto& [metric, value] : d.constants) append_field(line, metric_info(metric).name, value);
}

}  // namespace

Result<SampleFormat> sample_format_of(const std::string& path) {
  for (const std::string_view ending : {".jsonl", ".ndjson", ".json"})
    if (path.ends_with(ending)) return SampleFormat::kJsonLines;
  if (path.ends_with(".csv")) return SampleFormat::kCsv;
  return Error{path + ": its name tells no format of samples", "name it .csv or .jsonl"};
}

SampleWriter::SampleWriter(SampleFormat format, std::vector<DeviceInfo> devices, std::vector<Metric> columns,
                           std::string_view host)
    : format_(format), devices_(std::move(devices)), columns_(std::move(columns)), introduced_(devices_.size()) {
  for (DeviceInfo& d : devices_)
    if (d.host.empty()) d.host = host;
  if (columns_.empty())
    for (const MetricInfo& m : metrics()) columns_.push_back(m.metric);
}

std::string SampleWriter::header() const {
  if (format_ == SampleFormat::kJsonLines) return "";
  std::string line = "time_ns,device,name,uuid,host";
  for (const Metric m : columns_) line.append(",").append(metric_info(m).name);
  return line + "\n";
}

std::string_view SampleWriter::row(const Reading& reading) {
  line_.clear();
  append_row(reading);
  return line_;
}

std::string_view SampleWriter::rows(const Reading& reading) {
  line_.clear();
  std::vector<Sample> own;
  part_ = reading;
  std::erase_if(part_.samples, [&](const Sample& s) {
    const bool is_own = s.time_ns != reading.time_ns && may_have_own_rows(s.metric);
    if (is_own) own.push_back(s);
    return is_own;
  });
  Reading one;
  one.device = reading.device;
  std::stable_sort(own.begin(), own.end(), [](const Sample& a, const Sample& b) { return a.time_ns < b.time_ns; });
  for (size_t i = 0; i < own.size(); ++i) {
    one.time_ns = own[i].time_ns;
    one.samples.push_back(own[i]);
    if (i + 1 < own.size() && own[i + 1].time_ns == one.time_ns) continue;
    append_row(one);
    one.samples.clear();
  }
  if (!part_.samples.empty() || part_.has_processes) append_row(part_);
  return line_;
}

void SampleWriter::append_row(const Reading& reading) {
  if (reading.device >= devices_.size()) return;
  const DeviceInfo& device = devices_[reading.device];
  const std::string word = device_word(devices_, reading.device);
  row_.take(reading);
  const bool json = format_ == SampleFormat::kJsonLines;
  line_ += json ? "{\"time_ns\":" : "";
  line_ += std::to_string(reading.time_ns);
  if (json) {
    line_ += ",\"device\":";
    word.size() < 10 && all_digits(word) ? void(line_ += word) : append_json_quoted(line_, word);
    if (!introduced_[reading.device]) introduce(line_, device);
    introduced_[reading.device] = true;
  } else {
    for (const std::string* text : {&word, &device.name, &device.uuid, &device.host})
      append_csv(line_ += ',', *text, CsvControls::kBlank);
  }
  for (const Metric m : columns_) {
    std::optional<double> value = row_[m];
    if (json) {
      if (value) append_field(line_, metric_info(m).name, *value);
      continue;
    }
    line_ += ',';
    if (!value) value = device.constant(m);
    else if (metric_info(m).kind == MetricKind::kConstant && !device.constant(m))
      devices_[reading.device].constants.emplace_back(m, *value);
    if (value) append_number(line_, *value);
  }
  if (json && reading.has_processes) {
    line_ += ",\"processes\":[";
    for (const ProcessSample& p : reading.processes) {
      if (&p != &reading.processes.front()) line_ += ',';
      append_process(line_, p);
    }
    line_ += ']';
  }
  line_ += json ? "}\n" : "\n";
}

std::string_view SampleWriter::mark(int64_t time_ns, std::string_view name) {
  line_.clear();
  if (format_ == SampleFormat::kCsv) return line_;
  line_ = "{\"time_ns\":" + std::to_string(time_ns) + ",\"mark\":";
  append_json_quoted(line_, name);
  return line_ += "}\n";
}

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
