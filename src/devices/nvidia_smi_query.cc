#include "devices/nvidia_smi_query.h"

#include <unistd.h>

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <set>

#include "base/clock.h"
#include "base/text.h"
#include "devices/nvidia_smi_child.h"
#include "devices/system_files.h"
#include "trace/sample_file_column.h"

namespace profgpu {
namespace {

// Asked for beside the metrics; `name` comes last, since only the last field may hold a comma.
constexpr std::string_view kIdentity[] = {
    "timestamp",    "index",        "uuid",             "pci.bus_id",       "driver_version",
    "persistence_mode", "compute_mode", "ecc.mode.current", "mig.mode.current", "vbios_version",
};
constexpr size_t kNeeded = 4;      // without these rows have no owner
/// nvidia-smi names one unknown field at a time; more refusals than this and it is no nvidia-smi.
constexpr int kMaxRefusals = 40;
/// A clock that is wrong in another way than by our time zone is not believed.
constexpr int64_t kBelievable_ns = 3'000'000'000;

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
std::string refused_field(std::string_view text) {
  constexpr std::string_view kBefore = "Field \"", kAfter = "\" is not a valid field to query";
  const size_t from = text.find(kBefore);
  if (from == text.npos) return "";
  const std::string_view rest = text.substr(from + kBefore.size());
  const size_t end = rest.find(kAfter);
  return end == rest.npos ? "" : std::string(rest.substr(0, end));
}

/// Takes the older name of a field, or leaves it out. False if it cannot do without.
bool give_way(std::vector<SmiField>& fields, const std::string& refused) {
  const auto at = std::find_if(fields.begin(), fields.end(), [&](const SmiField& f) { return f.name == refused; });
  if (at == fields.end() || at - fields.begin() < static_cast<ptrdiff_t>(kNeeded)) return false;
  if (at->metric && !at->metric->smi_alias.empty() && at->name != at->metric->smi_alias)
    at->name = at->metric->smi_alias;
  else fields.erase(at);
  return true;
}

/// The fields that --help-query-gpu lists, each in quotes. An old nvidia-smi that refuses one field refuses a dozen,
/// and each run of a query initialises the driver; this one does not.
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
  bool asked_help = false;
  for (int refusals = 0; refusals < kMaxRefusals; ++refusals) {
    auto output = run_smi(query_command(program, fields), timeout_ns);
    if (!output) return output.error();
    const std::string refused = refused_field(output->text);
    if (refused.empty()) return output;
    if (!give_way(fields, refused)) return Error{fmt::format("nvidia-smi does not know the field \"{}\"", refused)};
    if (!asked_help) keep_listed(fields, program, timeout_ns);
    asked_help = true;
  }
  return Error{"nvidia-smi refuses all that it is asked"};
}

void take_metric(SmiDevice& device, const MetricInfo& metric, std::string_view field, int64_t time_ns) {
  const SmiValue value = smi_metric_value(metric, field);
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

int32_t numa_node(const std::string& pci_bus_id) {
  // The kernel writes four digits of domain where they suffice.
  const std::string folder = SystemRoots::from_environment().sys + "/bus/pci/devices/";
  std::string text = file_line(folder + pci_bus_id.substr(4) + "/numa_node");
  if (text.empty()) text = file_line(folder + pci_bus_id + "/numa_node");
  return text.empty() || text[0] == '-' ? -1 : std::atoi(text.c_str());
}

SmiDevice device_of(const std::vector<SmiField>& fields, const std::vector<std::string_view>& row) {
  SmiDevice device;
  device.absent.fill("nvidia-smi does not report it");
  device.info.vendor = "NVIDIA";
  const int64_t now_ns = unix_ns();
  const auto stamp = TimestampReader().read(row[0]);
  const int64_t time_ns = stamp && std::abs(now_ns - *stamp) < kBelievable_ns ? *stamp : now_ns;
  for (size_t i = 1; i < fields.size(); ++i) {
    const std::string& name = fields[i].name;
    if (fields[i].metric) take_metric(device, *fields[i].metric, row[i], time_ns);
    else if (name == "index") device.info.index = static_cast<uint32_t>(smi_value(row[i]).number.value_or(0));
    else if (name == "uuid") device.info.uuid = row[i].starts_with("GPU-") ? clean_text(row[i]) : "";
    else if (name == "pci.bus_id") device.info.pci_bus_id = smi_pci_bus_id(row[i]);
    else if (name == "driver_version") device.info.driver_version = clean_text(row[i]);
    else if (name == "name") device.info.name = clean_text(row[i]);
    else device.facts.emplace_back(name, clean_text(row[i]));
  }
  if (!device.info.pci_bus_id.empty())
    if (const int32_t node = numa_node(device.info.pci_bus_id); node >= 0) device.info.numa_node = node;
  return device;
}

/// Fields that change and that some device has: the others would only cost time.
std::vector<SmiField> fields_to_follow(const std::vector<SmiField>& fields, const std::vector<SmiDevice>& devices) {
  std::vector<SmiField> kept;
  for (const SmiField& f : fields) {
    if (!f.metric || f.metric->kind == MetricKind::kConstant) continue;
    const size_t i = static_cast<size_t>(f.metric->metric);
    const bool given = std::any_of(devices.begin(), devices.end(),
                                   [&](const SmiDevice& d) { return d.absent[i].empty() || d.in_trouble; });
    if (given) kept.push_back(f);
  }
  return kept;
}

Error refusal(const SmiOutput& output) {
  const std::string said = last_line(output.text);
  if (output.text.find("has failed because") != std::string::npos)
    return {"nvidia-smi cannot reach the NVIDIA driver",
            "load it (modprobe nvidia), and see dmesg for why it is not there"};
  if (said.empty()) return {fmt::format("nvidia-smi ended with exit code {} and said nothing", output.exit_status)};
  return {"nvidia-smi says: " + said};
}

}  // namespace

std::string find_nvidia_smi() {
  if (const char* named = std::getenv("PROFGPU_NVIDIA_SMI"); named && *named) return named;
  const char* path = std::getenv("PATH");
  for (const std::string_view folder : pieces_of(path ? path : "", ':')) {
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

SmiValue smi_metric_value(const MetricInfo& metric, std::string_view field) {
  SmiValue value = smi_value(field);
  if (!value.number) return value;
  *value.number *= metric.smi_scale;
  // Only a margin can be below zero; -1 and the like stand for "unknown".
  if (*value.number < 0 && metric.unit != "°C") return {std::nullopt, "nvidia-smi printed a negative number", false};
  if (metric.unit == "%" && metric.metric != Metric::kFanSpeed && *value.number > 100)
    return {std::nullopt, "nvidia-smi printed more than 100 %", false};
  return value;
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
  if (inventory.devices.empty()) return refusal(*output);
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
    {"[Function Not Found]", "not known to this driver", false},
    {"[Insufficient Permissions]", "no permission", false},
    {"[GPU requires reset]", "GPU requires reset", true},
    {"[GPU is lost]", "GPU is lost", true},
    {"[Unknown Error]", "unknown error", true},
    {"ERR!", "the driver answered with an error", true},
};

/// "100", "100 %", "76.50 W": nounits is not obeyed for every field. nullopt for anything else.
std::optional<double> plain_number(std::string_view text) {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || !std::isfinite(value)) return std::nullopt;
  const std::string_view unit(rest, static_cast<size_t>(end - rest));
  if (unit.empty()) return value;
  const bool is_unit = unit.size() <= 6 && unit.front() == ' ' && unit.find_first_of("0123456789.,:") == unit.npos;
  return is_unit ? std::optional(value) : std::nullopt;
}

std::optional<double> whole_in(std::string_view text, int base) {
  uint64_t value = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (text.empty() || error != std::errc() || rest != text.data() + text.size()) return std::nullopt;
  return static_cast<double>(value);
}

}  // namespace

SmiValue smi_value(std::string_view field) {
  const std::string_view text = without_blanks(field);
  for (const Placeholder& p : kPlaceholders)
    if (text == p.text) return {std::nullopt, p.reason, p.trouble};
  if (text.size() > 2 && text.front() == '[' && text.back() == ']')
    return {std::nullopt, text.substr(1, text.size() - 2), false};
  if (const auto number = plain_number(text)) return {number, {}, false};
  if (const auto number = state_number(text)) return {number, {}, false};
  if (text.size() <= 3 && text.starts_with("P"))
    if (const auto number = whole_in(text.substr(1), 10)) return {number, {}, false};
  return {std::nullopt, "nvidia-smi printed something that is no number", false};
}

void split_smi_row(std::string_view row, size_t most, std::vector<std::string_view>& fields) {
  fields.clear();
  while (fields.size() + 1 < most) {
    const size_t comma = row.find(',');
    if (comma == row.npos) break;
    fields.push_back(without_blanks(row.substr(0, comma)));
    row.remove_prefix(comma + 1);
  }
  fields.push_back(without_blanks(row));
}

std::string smi_pci_bus_id(std::string_view text) {
  const std::vector<std::string_view> parts = pieces_of(without_blanks(text), ':');
  if (parts.size() < 2 || parts.size() > 3) return "";
  const std::string_view last = parts.back();
  const size_t dot = last.find('.');
  const auto domain = parts.size() == 3 ? whole_in(parts[0], 16) : 0.0;
  const auto bus = whole_in(parts[parts.size() - 2], 16);
  const auto device = whole_in(last.substr(0, dot), 16);
  const auto function = dot == last.npos ? 0.0 : whole_in(last.substr(dot + 1), 16);
  if (!domain || !bus || !device || !function || *domain > 0xffffffffu || *bus > 255 || *device > 31 || *function > 7)
    return "";
  return fmt::format("{:08x}:{:02x}:{:02x}.{:x}", static_cast<uint32_t>(*domain), static_cast<uint32_t>(*bus),
                     static_cast<uint32_t>(*device), static_cast<uint32_t>(*function));
}

}  // namespace profgpu
