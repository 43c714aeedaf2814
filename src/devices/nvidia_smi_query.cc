#include "devices/nvidia_smi_query.h"

#include <unistd.h>

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <set>

#include "base/decimal.h"
#include "base/environment.h"
#include "base/text.h"
#include "devices/nvidia_smi_child.h"
#include "devices/pci_address.h"
#include "trace/sample_file_column.h"

namespace profgpu {
namespace {

// Queried besides the metrics; `name` comes last, since only the last field may contain a comma.
constexpr std::string_view kIdentity[] = {
    "timestamp",    "index",        "uuid",             "pci.bus_id",       "driver_version",
    "persistence_mode", "compute_mode", "ecc.mode.current", "mig.mode.current", "vbios_version",
};
constexpr size_t kNeeded = 4;      // without these, rows have no owner
/// nvidia-smi rejects one unknown field at a time; a program that rejects more than this is not nvidia-smi.
constexpr int kMaxRejections = 40;

std::vector<SmiField> all_fields() {
  std::vector<SmiField> fields;
  for (const std::string_view name : kIdentity) fields.push_back({std::string(name)});
  for (const MetricInfo& m : metrics())
    if (!m.smi.empty()) fields.push_back({std::string(m.smi), &m});
  fields.push_back({"name"});
  return fields;
}

std::vector<std::string> query_command(const std::string& program, const std::vector<SmiField>& fields) {
  std::string names;
  for (const SmiField& f : fields) append_listed(names, f.name, ",");
  return {program, "--query-gpu=" + names, "--format=csv,noheader,nounits"};
}

/// The x of: Field "x" is not a valid field to query.
std::string rejected_field(std::string_view text) {
  constexpr std::string_view kBefore = "Field \"", kAfter = "\" is not a valid field to query";
  const size_t from = text.find(kBefore);
  if (from == text.npos) return "";
  const std::string_view rest = text.substr(from + kBefore.size());
  const size_t end = rest.find(kAfter);
  return end == rest.npos ? "" : std::string(rest.substr(0, end));
}

/// Switches to the older name of a field, or drops the field. False if it is needed.
bool drop_field(std::vector<SmiField>& fields, const std::string& rejected) {
  const auto at = std::find_if(fields.begin(), fields.end(), [&](const SmiField& f) { return f.name == rejected; });
  if (at == fields.end() || at - fields.begin() < static_cast<ptrdiff_t>(kNeeded)) return false;
  if (at->metric && !at->metric->smi_alias.empty() && at->name != at->metric->smi_alias)
    at->name = at->metric->smi_alias;
  else fields.erase(at);
  return true;
}

/// The fields that --help-query-gpu lists, each in quotes. An old nvidia-smi that rejects one field rejects a dozen,
/// and each query initializes the driver; this one does not.
std::set<std::string, std::less<>> listed_fields(const std::string& program, int64_t timeout_ns) {
  std::set<std::string, std::less<>> names;
  const auto help = run_smi({program, "--help-query-gpu"}, timeout_ns);
  if (!help) return names;
  for (const std::string_view line : pieces_of(help->text, '\n')) {
    if (!line.starts_with('"')) continue;
    const std::vector<std::string_view> parts = pieces_of(line, '"');
    for (size_t i = 0; i < parts.size(); i += 2) names.emplace(parts[i]);
  }
  return names;
}

void keep_listed(std::vector<SmiField>& fields, const std::string& program, int64_t timeout_ns) {
  const auto listed = listed_fields(program, timeout_ns);
  if (listed.empty()) return;
  for (size_t i = fields.size(); i-- > kNeeded;) {
    SmiField& f = fields[i];
    if (listed.contains(f.name)) continue;
    if (f.metric && listed.contains(f.metric->smi_alias)) f.name = f.metric->smi_alias;
    else fields.erase(fields.begin() + static_cast<ptrdiff_t>(i));
  }
}

Result<SmiOutput> query_until_accepted(const std::string& program, std::vector<SmiField>& fields, int64_t timeout_ns) {
  for (int rejections = 0; rejections < kMaxRejections; ++rejections) {
    auto output = run_smi(query_command(program, fields), timeout_ns);
    if (!output) return output.error();
    const std::string rejected = rejected_field(output->text);
    if (rejected.empty()) return output;
    if (!drop_field(fields, rejected))
      return Error{fmt::format("nvidia-smi does not know the field \"{}\"", rejected)};
    if (rejections == 0) keep_listed(fields, program, timeout_ns);
  }
  return Error{"nvidia-smi rejected every query"};
}

void take_metric(SmiDevice& device, const MetricInfo& metric, std::string_view field, int64_t time_ns) {
  const SmiValue value = smi_value(metric, field);
  device.absent[static_cast<size_t>(metric.metric)] = value.absent;
  device.in_trouble |= value.trouble;
  if (!value.number) return;
  if (metric.kind == MetricKind::kConstant) device.info.constants.emplace_back(metric.metric, *value.number);
  else device.first.push_back({time_ns, metric.metric, *value.number});
}

std::string clean_text(std::string_view text) {
  std::string out(text);
  replace_invalid_utf8(out);
  return out;
}

SmiDevice device_of(const std::vector<SmiField>& fields, const std::vector<std::string_view>& row) {
  SmiDevice device;
  device.absent.fill("nvidia-smi does not report it");
  device.info.vendor = "NVIDIA";
  TimestampReader reader;
  const int64_t time_ns = smi_time(reader, row[0], unix_ns());
  for (size_t i = 1; i < fields.size(); ++i) {
    const std::string& name = fields[i].name;
    if (fields[i].metric) take_metric(device, *fields[i].metric, row[i], time_ns);
    else if (name == "index") device.info.index = static_cast<uint32_t>(whole_number(row[i]).value_or(0));
    else if (name == "uuid") device.info.uuid = row[i].starts_with("GPU-") ? clean_text(row[i]) : "";
    else if (const auto a = pci_address(row[i]); name == "pci.bus_id") device.info.pci_bus_id = a ? a->bus_id() : "";
    else if (name == "driver_version") device.info.driver_version = clean_text(row[i]);
    else if (name == "name") device.info.name = clean_text(row[i]);
    else device.facts.emplace_back(name, clean_text(row[i]));
  }
  device.info.numa_node = numa_node(SystemRoots::from_environment(), device.info.pci_bus_id);
  return device;
}

/// Fields that change and that some device reports: the others would only cost time.
std::vector<SmiField> fields_to_follow(const std::vector<SmiField>& fields, const std::vector<SmiDevice>& devices) {
  std::vector<SmiField> kept;
  for (const SmiField& f : fields) {
    if (!f.metric || f.metric->kind == MetricKind::kConstant) continue;
    const size_t i = static_cast<size_t>(f.metric->metric);
    const bool reported = std::any_of(devices.begin(), devices.end(),
                                      [&](const SmiDevice& d) { return d.absent[i].empty() || d.in_trouble; });
    if (reported) kept.push_back(f);
  }
  return kept;
}

Error failure(const SmiOutput& output) {
  const std::string message = last_line(output.text);
  if (output.text.find("has failed because") != std::string::npos)
    return {"nvidia-smi cannot reach the NVIDIA driver", "load it (modprobe nvidia); dmesg shows why it is missing"};
  if (message.empty()) return {fmt::format("nvidia-smi exited with code {} and no output", output.exit_status)};
  return {"nvidia-smi: " + message};
}

}  // namespace

std::string find_nvidia_smi() {
  if (const std::string named = environment("PROFGPU_NVIDIA_SMI"); !named.empty()) return named;
  const std::string path = environment("PATH");
  for (const std::string_view folder : pieces_of(path, ':')) {
    const std::string file = std::string(folder) + "/nvidia-smi";
    if (::access(file.c_str(), X_OK) == 0) return file;
  }
  return ::access("/usr/bin/nvidia-smi", X_OK) == 0 ? "/usr/bin/nvidia-smi" : "";
}

std::string last_line(std::string_view text) {
  std::string_view last;
  for (const std::string_view line : pieces_of(text, '\n'))
    if (!without_blanks(line).empty()) last = without_blanks(line);
  if (last.ends_with('.')) last.remove_suffix(1);
  return clean_text(last.substr(0, 300));
}

Result<SmiInventory> query_smi(const std::string& program, int64_t timeout_ns) {
  std::vector<SmiField> fields = all_fields();
  const auto output = query_until_accepted(program, fields, timeout_ns);
  if (!output) return output.error();
  SmiInventory inventory;
  inventory.program = program;
  std::vector<std::string_view> row;
  for (const std::string_view line : pieces_of(output->text, '\n')) {
    split_smi_row(line, fields.size(), row);
    if (row.size() == fields.size()) inventory.devices.push_back(device_of(fields, row));
    else if (!without_blanks(line).empty()) inventory.message = last_line(line);
  }
  if (inventory.devices.empty()) return failure(*output);
  inventory.fields = fields_to_follow(fields, inventory.devices);
  return inventory;
}

namespace {

struct Placeholder {
  std::string_view text, reason;
  bool trouble;
};
constexpr Placeholder kPlaceholders[] = {
    {"", "nvidia-smi left it empty", false},
    {"N/A", "not available on this device", false},
    {"[N/A]", "not available on this device", false},
    {"[Not Supported]", "not supported by this device", false},
    {"[Not Found]", "not available on this device", false},
    {"[Requested functionality has been deprecated]", "no longer reported by this driver", false},
    {"[Function Not Found]", "not supported by this driver", false},
    {"[Insufficient Permissions]", "no permission", false},
    {"[GPU requires reset]", "GPU requires reset", true},
    {"[GPU is lost]", "GPU is lost", true},
    {"[Unknown Error]", "unknown error", true},
    {"ERR!", "the driver reported an error", true},
};

}  // namespace

std::string_view smi_absence(std::string_view text, bool& trouble) {
  for (const Placeholder& p : kPlaceholders)
    if (text == p.text) {
      trouble = p.trouble;
      return p.reason;
    }
  return text.size() > 2 && text.front() == '[' && text.back() == ']' ? text.substr(1, text.size() - 2) : "";
}

SmiValue smi_value(const MetricInfo& metric, std::string_view field) {
  const std::string_view text = without_blanks(field);
  bool trouble = false;
  if (const std::string_view reason = smi_absence(text, trouble); !reason.empty()) return {{}, reason, trouble};
  // "76.50 W": nounits is not obeyed for every field.
  const auto number = sample_cell(text, {SampleColumn::Kind::kMetric, &metric, metric.smi_scale}).number;
  if (!number) return {{}, "nvidia-smi printed an impossible value"};
  // Only a temperature margin can be below zero; -1 and the like stand for "unknown".
  if (*number < 0 && metric.unit != "°C") return {{}, "nvidia-smi printed a negative number"};
  return {number, {}};
}

int64_t smi_time(TimestampReader& reader, std::string_view timestamp, int64_t now_ns) {
  constexpr int64_t kMaxOff_ns = 3'000'000'000;
  const auto time = reader.read(timestamp);
  return time && std::abs(now_ns - *time) < kMaxOff_ns ? *time : now_ns;
}

void split_smi_row(std::string_view row, size_t max, std::vector<std::string_view>& fields) {
  fields.clear();
  while (fields.size() + 1 < max) {
    const size_t comma = row.find(',');
    if (comma == row.npos) break;
    fields.push_back(without_blanks(row.substr(0, comma)));
    row.remove_prefix(comma + 1);
  }
  fields.push_back(without_blanks(row));
}

}  // namespace profgpu
