#include "measure/result/bench_result.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "analyse/report/quantity.h"
#include "base/file_text.h"
#include "base/text.h"
#include "measure/result/collective_curve.h"
#include "measure/result/crossing.h"
#include "view/json_text.h"

namespace profgpu {
namespace {

constexpr std::string_view kSchema = "profgpu.bench.v1";
constexpr size_t kMaxFile = 64 << 20;
constexpr std::array<std::string_view, 5> kMissNames = {"failed", "skipped", "wrong", "lost", "hang"};

// A device as a file of peaks has it. Figures of products name their precision; the best size counts. What another
// process disturbed is no peak.
Record device_record(const MeasuredDevice& device, const std::vector<Figure>& figures) {
  std::map<std::string, double> tera;
  double memory_gbps = 0;
  for (const Figure& f : figures) {
    if (f.device != device.index || !f.used_by.empty()) continue;
    if (!f.precision.empty()) tera[f.precision] = std::max(tera[f.precision], f.value);
    if (f.name.starts_with("device_memory_") && f.name != "device_memory_write")
      memory_gbps = std::max(memory_gbps, f.value);
  }
  Record record;
  record.add("index", device.index).add("name", device.name).add("uuid", unless_empty(device.uuid));
  record.add("pci_bus_id", unless_empty(device.pci_bus_id)).add("compute_capability", device.compute_capability);
  record.add("memory_bytes", device.memory_bytes).add("multiprocessors", device.multiprocessors);
  Record rates;
  for (const auto& [precision, rate] : tera) rates.add(precision, rate);
  if (!tera.empty()) record.add("tflops", std::move(rates));
  if (memory_gbps > 0) record.add("memory_gbps", memory_gbps);
  return record;
}

std::string text_at(const Record& record, std::string_view name) {
  const std::string* text = record.at(name).text();
  return text ? *text : "";
}
std::optional<int64_t> whole_at(const Record& record, std::string_view name) {
  const int64_t* n = record.at(name).integer();
  return n ? std::optional(*n) : std::nullopt;
}
std::optional<double> number_at(const Record& record, std::string_view name) {
  const Value& value = record.at(name);
  return value.real() || value.integer() ? std::optional(value.number()) : std::nullopt;
}

std::optional<bool> flag_at(const Record& record, std::string_view name) {
  const bool* flag = record.at(name).boolean();
  return flag ? std::optional(*flag) : std::nullopt;
}
std::vector<std::string> texts_at(const Record& record, std::string_view name) {
  std::vector<std::string> all;
  if (const List* list = record.at(name).list())
    for (const Value& item : *list)
      if (item.text()) all.push_back(*item.text());
  return all;
}

Figure figure_of(const Record& r) {
  Figure f;
  f.benchmark = text_at(r, "benchmark"), f.name = text_at(r, "name"), f.label = text_at(r, "label");
  f.device = whole_at(r, "device"), f.peer = whole_at(r, "peer"), f.node = whole_at(r, "node");
  f.near = flag_at(r, "near"), f.ranks = whole_at(r, "ranks");
  f.rank = whole_at(r, "rank"), f.peer_rank = whole_at(r, "peer_rank");
  f.link = text_at(r, "link"), f.link_gbps = number_at(r, "link_gbps");
  f.unit = text_at(r, "unit"), f.value = r.at("value").number(), f.best = r.at("best").number();
  f.spread_pct = r.at("spread_pct").number(), f.runs = whole_at(r, "runs").value_or(0);
  f.outliers = whole_at(r, "outliers").value_or(0), f.precision = text_at(r, "precision");
  f.size = whole_at(r, "size"), f.in_trace = number_at(r, "in_trace"), f.algbw_gbps = number_at(r, "algbw_gbps");
  f.used_by = text_at(r, "used_by"), f.cache = text_at(r, "cache");
  f.readings = {number_at(r, "sm_clock_mhz"), number_at(r, "power_w"), number_at(r, "temperature_c"),
                text_at(r, "held_back_by"), number_at(r, "pcie_link_gbps"), text_at(r, "pcie_link")};
  return f;
}

NotMeasured not_measured_of(const Record& r) {
  const auto kind = std::ranges::find(kMissNames, text_at(r, "kind"));
  return {text_at(r, "benchmark"), text_at(r, "label"), whole_at(r, "device"), text_at(r, "why"), text_at(r, "hint"),
          kind == kMissNames.end() ? MissKind::kFailed : static_cast<MissKind>(kind - kMissNames.begin())};
}

MeasuredDevice device_of(const Record& r) {
  MeasuredDevice d;
  d.index = whole_at(r, "index").value_or(0), d.name = text_at(r, "name"), d.uuid = text_at(r, "uuid");
  d.pci_bus_id = text_at(r, "pci_bus_id"), d.compute_capability = text_at(r, "compute_capability");
  d.memory_bytes = whole_at(r, "memory_bytes").value_or(0);
  d.multiprocessors = whole_at(r, "multiprocessors").value_or(0);
  return d;
}

MeasuredRank rank_of(const Record& r) {
  return {whole_at(r, "rank").value_or(0), text_at(r, "host"), whole_at(r, "device").value_or(0), text_at(r, "name"),
          text_at(r, "uuid")};
}

// Older results do not say over how many devices a figure of several is.
void complete(BenchResult& result) {
  const size_t ranks = result.ranks.empty() ? result.devices.size() : result.ranks.size();
  for (Figure& f : result.figures)
    if (f.of_group() && !f.ranks && ranks > 0) f.ranks = static_cast<int64_t>(ranks);
}

// All records of a list; others in it, and what is no list, give none.
template <class Of>
void read_records(const Value& list, Of of, auto& to) {
  if (!list.list()) return;
  for (const Value& item : *list.list())
    if (item.record()) to.push_back(of(*item.record()));
}

}  // namespace

std::string_view Figure::link_class() const {
  if (rank) return link;
  if (!peer) return "";
  if (link.starts_with("NV")) return "NVLink";
  if (link.starts_with("XGMI")) return "XGMI";
  return link.empty() ? "" : "PCIe";
}

bool Figure::of_group() const {
  return !device && !rank && benchmark != "host" && benchmark != "storage" && benchmark != "crossover";
}

// Copies between host and device are over the device's own PCIe link.
std::optional<double> Figure::link_share_pct() const {
  if (unit != "GB/s") return std::nullopt;
  const bool of_host = device && !peer && contains(name, "memcpy_ce");
  const std::optional<double> most = of_host ? readings.pcie_gbps : link.empty() ? std::nullopt : link_gbps;
  return most && *most > 0 ? std::optional(100 * value / *most) : std::nullopt;
}

std::string Figure::link_text() const {
  if (link.starts_with("NV")) return link.substr(2) + " NVLinks";
  if (link.ends_with("NIC") || link.ends_with("NICs")) return "a host's " + link;
  return std::string("the PCIe link") + (contains(readings.pcie_link, " of ") ? ", " + readings.pcie_link : "");
}

std::string_view miss_name(MissKind kind) {
  return kMissNames[static_cast<size_t>(kind)];
}

std::string NotMeasured::what() const {
  const std::string name = label.empty() ? benchmark : label;
  return device ? fmt::format("GPU {}: {}", *device, name) : name;
}

std::string Figure::place() const {
  if (rank) return peer_rank ? fmt::format("rank {}→{}", *rank, *peer_rank) : fmt::format("rank {}", *rank);
  if (device && peer) return fmt::format("GPU {}→{}", *device, *peer);
  if (device) return fmt::format("GPU {}", *device);
  return node ? fmt::format("node {}", *node) : "";
}

std::string Figure::text_of(double of) const {
  return format_measured(of, unit);
}

std::string bench_json(const BenchResult& result) {
  List devices;
  for (const MeasuredDevice& d : result.devices) devices.push_back(device_record(d, result.figures));
  return json_document(Record()
                           .add("schema", kSchema)
                           .add("unix_ns", result.unix_ns)
                           .add("simulated", result.simulated)
                           .add("full", result.full)
                           .add("interrupted", result.interrupted)
                           .add("selected", result.selected)
                           .add("clocks_locked", value_of(result.clocks_locked))
                           .add("benchmarks", value_of(result.benchmarks))
                           .add("machine", value_of(result.machine))
                           .add("devices", std::move(devices))
                           .add("ranks", value_of(result.ranks))
                           .add("figures", value_of(result.figures))
                           .add("collectives", value_of(collective_curves(result.figures)))
                           .add("crossover", value_of(crossings(result.figures)))
                           .add("not_measured", value_of(result.not_measured))
                           .add("notes", value_of(result.notes)));
}

Result<BenchResult> bench_from_json(std::string text, std::string_view path) {
  const auto value = value_from_json(text);
  const Record* record = value ? (*value).record() : nullptr;
  if (!record || text_at(*record, "schema") != kSchema)
    return Error{fmt::format("{}: not a result of profgpu bench{}", path,
                             value ? "" : ": " + value.error().message),
                 "write one with `profgpu bench -o FILE`"};
  BenchResult result;
  result.unix_ns = whole_at(*record, "unix_ns").value_or(0);
  result.simulated = flag_at(*record, "simulated").value_or(false);
  result.full = flag_at(*record, "full").value_or(false);
  result.interrupted = flag_at(*record, "interrupted").value_or(false);
  result.selected = flag_at(*record, "selected").value_or(false);
  if (const List* list = record->at("clocks_locked").list())
    for (const Value& item : *list)
      if (item.integer()) result.clocks_locked.push_back(*item.integer());
  result.benchmarks = texts_at(*record, "benchmarks");
  if (const Record* m = record->at("machine").record())
    result.machine = {text_at(*m, "host"), text_at(*m, "kernel"), text_at(*m, "processor"),
                      whole_at(*m, "cores").value_or(0), whole_at(*m, "memory_bytes").value_or(0),
                      text_at(*m, "cuda"), text_at(*m, "driver"), text_at(*m, "governor")};
  read_records(record->at("devices"), device_of, result.devices);
  read_records(record->at("ranks"), rank_of, result.ranks);
  read_records(record->at("figures"), figure_of, result.figures);
  std::erase_if(result.figures, [](const Figure& f) { return !(f.value > 0) || !std::isfinite(f.value); });
  read_records(record->at("not_measured"), not_measured_of, result.not_measured);
  result.notes = texts_at(*record, "notes");
  complete(result);
  return result;
}

Result<BenchResult> read_bench(const std::string& path) {
  auto text = file_text(path, kMaxFile);
  if (!text) return Error{path + ": cannot be read"};
  return bench_from_json(*std::move(text), path);
}

}  // namespace profgpu
