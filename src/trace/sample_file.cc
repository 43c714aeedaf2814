#include "trace/sample_file.h"

#include <algorithm>
#include <map>

#include "base/csv.h"
#include "base/json_quoted.h"
#include "base/text.h"
#include "trace/sample_file_column.h"
#include "trace/sample_log_builder.h"

namespace profgpu {
namespace {

void append_field(std::string& line, std::string_view key, std::string_view text) {
  if (text.empty()) return;
  line.append(",\"").append(key).append("\":");
  append_json_quoted(line, text);
}

template <class Number>
void append_field(std::string& line, std::string_view key, std::optional<Number> value) {
  if (!value) return;
  line.append(",\"").append(key).append("\":");
  append_number(line, static_cast<double>(*value));
}

void append_process(std::string& line, const ProcessSample& p) {
  line += "{\"pid\":";
  append_number(line, static_cast<double>(p.pid));
  append_field(line, "type", std::string_view(&p.type, 1));
  append_field(line, "name", p.name);
  if (p.origin) {
    for (const auto& [key, text] : kOriginTexts) append_field(line, key, (*p.origin).*text);
    for (const auto& [key, number] : kOriginNumbers) append_field(line, key, (*p.origin).*number);
  }
  append_field(line, "memory_bytes", p.memory_bytes);
  for (const auto& [key, share] : kProcessShares) append_field(line, key, p.*share);
  line += '}';
}

void introduce(std::string& line, const DeviceInfo& d) {
  for (const auto& [key, text] : kDeviceTexts) append_field(line, key, d.*text);
  append_field(line, "numa_node", d.numa_node);
  for (const auto& [metric, value] : d.constants) append_field(line, metric_info(metric).name, std::optional(value));
}

}  // namespace

Result<SampleFormat> sample_format_of(const std::string& path) {
  for (const std::string_view ending : {".jsonl", ".ndjson", ".json"})
    if (path.ends_with(ending)) return SampleFormat::kJsonLines;
  if (path.ends_with(".csv")) return SampleFormat::kCsv;
  return Error{path + ": cannot infer the format of samples from this name", "name it .csv or .jsonl"};
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
      append_csv_text(line_ += ',', *text);
  }
  for (const Metric m : columns_) {
    std::optional<double> value = row_[m];
    if (json) {
      append_field(line_, metric_info(m).name, value);
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

bool same_device(const DeviceInfo& a, const DeviceInfo& b) {
  if (a.uuid != b.uuid) return false;
  if (a.uuid.empty()) return a.host == b.host && a.vendor == b.vendor && a.label() == b.label();
  return a.host == b.host || a.host.empty() || b.host.empty();
}

/// The position of a device among those of all logs so far.
uint32_t join_device(std::vector<DeviceInfo>& devices, DeviceInfo d) {
  const auto same = std::find_if(devices.begin(), devices.end(), [&](const DeviceInfo& k) { return same_device(k, d); });
  const auto position = static_cast<uint32_t>(same - devices.begin());
  if (same == devices.end()) {
    devices.push_back(std::move(d));
    return position;
  }
  if (!d.constants.empty()) same->constants = std::move(d.constants);
  if (same->host.empty()) same->host = std::move(d.host);
  return position;
}

}  // namespace

SampleLog joined_samples(std::vector<SampleLog> logs) {
  if (logs.empty()) return {};
  if (logs.size() == 1) return std::move(logs.front());
  SampleLog joined;
  std::map<std::pair<uint32_t, Metric>, SampleSeries> series;
  for (SampleLog& log : logs) {
    std::vector<uint32_t> position;
    for (DeviceInfo& d : log.devices) position.push_back(join_device(joined.devices, std::move(d)));
    for (SampleSeries& s : log.series) {
      SampleSeries& to = series[{position[s.device], s.metric}];
      to.device = position[s.device], to.metric = s.metric;
      // In order of time within a log, but logs may overlap.
      to.time_ns.insert(to.time_ns.end(), s.time_ns.begin(), s.time_ns.end());
      to.value.insert(to.value.end(), s.value.begin(), s.value.end());
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
