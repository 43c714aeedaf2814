// profgpu devices: what GPUs there are, how they are connected, and what limits they have.
#include <fmt/format.h>

#include <chrono>
#include <set>

#include "analyse/report/quantity.h"
#include "base/decimal.h"
#include "cli/command.h"
#include "cli/device_options.h"
#include "cli/output.h"
#include "cli/terminal.h"
#include "devices/pending.h"
#include "devices/pci_address.h"
#include "devices/system_files.h"
#include "view/json_text.h"
#include "view/layout.h"

namespace profgpu {
namespace {

constexpr std::chrono::seconds kDeadline{5};

Record facts_record(const std::vector<Fact>& facts) {
  Record record;
  std::set<std::string_view> seen;  // a composite of two vendors may name one twice
  for (const Fact& fact : facts)
    if (seen.insert(fact.id).second) record.add(std::string(fact.id), unless_empty(fact.value));
  return record;
}

struct InventoryDevice {
  const DeviceInfo* info = nullptr;
  std::optional<int> numa_node;
  std::string cpu_affinity;              ///< "0-23,48-71"; empty: unknown
  std::vector<Fact> facts;

  [[nodiscard]] std::string fact(std::string_view id) const {
    for (const Fact& f : facts)
      if (f.id == id) return f.value;
    return "";
  }
  template <class V>
  void fields(V&& v) const {
    v("index", info->index), v("label", info->label()), v("name", info->name), v("vendor", info->vendor);
    v("uuid", unless_empty(info->uuid)), v("pci_bus_id", unless_empty(info->pci_bus_id));
    v("driver_version", unless_empty(info->driver_version)), v("numa_node", numa_node);
    v("cpu_affinity", unless_empty(cpu_affinity)), v("mig_profile", unless_empty(info->mig_profile));
    v("parent", info->parent), v("gpu_instance", info->gpu_instance), v("compute_instance", info->compute_instance);
    Record limits;
    for (const MetricInfo& m : metrics())
      if (m.kind == MetricKind::kConstant) limits.add(std::string(m.name), info->constant(m.metric));
    v("limits", Value(std::move(limits))), v("facts", Value(facts_record(facts)));
  }
};

struct Inventory {
  std::shared_ptr<Backend> owner;        ///< of the infos
  std::string backend, driver;
  std::vector<Fact> facts;
  std::vector<InventoryDevice> devices;
  std::vector<std::vector<std::string>> topology;  ///< of `devices`, square; empty: unknown
  bool complete = true;                  ///< false: the driver did not answer in time and may still be at it

  template <class V>
  void fields(V&& v) const {
    v("schema", "profgpu.devices.v1"), v("backend", backend), v("driver", unless_empty(driver));
    v("complete", complete), v("facts", Value(facts_record(facts))), v("devices", InFull<InventoryDevice>{devices});
    std::vector<Value> rows;
    for (const auto& row : topology) {
      List kinds;
      for (const std::string& kind : row) kinds.emplace_back(unless_empty(kind));
      rows.emplace_back(std::move(kinds));
    }
    v("topology", rows.empty() ? std::nullopt : std::optional(InFull<Value>{rows}));
  }
};

struct ReadFacts {
  std::vector<Fact> system;
  std::vector<std::vector<Fact>> devices;
  std::vector<std::vector<Link>> topology;
};

Inventory inventory_of(std::shared_ptr<Backend> backend, const std::vector<uint32_t>& devices) {
  Inventory inventory;
  inventory.owner = backend;
  inventory.backend = backend->name();
  Pending<ReadFacts> pending([backend, devices] {
    ReadFacts facts{backend->system_facts(), {}, backend->topology()};
    for (const uint32_t d : devices) facts.devices.push_back(backend->device_facts(d));
    return facts;
  });
  auto facts = pending.await(std::chrono::steady_clock::now() + kDeadline);
  inventory.complete = facts.has_value();
  if (facts) inventory.facts = facts->system;
  const SystemRoots roots = SystemRoots::from_environment();
  std::set<std::string> drivers;
  for (size_t i = 0; i < devices.size(); ++i) {
    InventoryDevice d;
    d.info = &backend->devices()[devices[i]];
    // A recording's devices are another machine's.
    const std::string folder = inventory.backend == "replay" ? "" : pci_folder(roots, d.info->pci_bus_id);
    d.numa_node = d.info->numa_node;
    if (!d.numa_node && !folder.empty()) d.numa_node = numa_node(roots, d.info->pci_bus_id);
    if (facts) d.facts = facts->devices[i];
    d.cpu_affinity = d.fact("cpu_affinity");
    if (d.cpu_affinity.empty() && !folder.empty()) d.cpu_affinity = file_line(folder + "/local_cpulist");
    drivers.insert(d.info->driver_version);
    inventory.devices.push_back(std::move(d));
  }
  if (drivers.size() == 1) inventory.driver = *drivers.begin();
  if (!facts || facts->topology.empty()) return inventory;
  const size_t all = backend->devices().size();
  for (const uint32_t i : devices) {
    auto& row = inventory.topology.emplace_back();
    for (const uint32_t j : devices)
      row.push_back(facts->topology.size() == all && facts->topology[i].size() == all ? facts->topology[i][j].kind
                                                                                      : "");
  }
  return inventory;
}

std::string number(const std::optional<double>& x, std::string_view unit) {
  return x ? fmt::format("{:.0f} {}", *x, unit) : std::string(kUnknownText);
}

std::string of_two(const std::optional<double>& a, const std::optional<double>& b, std::string_view unit) {
  if (!a && !b) return std::string(kUnknownText);
  return (a ? fmt::format("{:.0f}", *a) : std::string(kUnknownText)) + " / " + number(b, unit);
}

std::string text_or_dash(const std::string& text) { return text.empty() ? std::string(kUnknownText) : text; }

std::string memory_text(const DeviceInfo& d) {
  const auto bytes = d.constant(Metric::kMemoryTotal);
  return bytes ? format_bytes(*bytes) : std::string(kUnknownText);
}

std::string mig_text(const InventoryDevice& d) {
  return d.info->mig_profile.empty() ? text_or_dash(d.fact("mig_mode")) : d.info->mig_profile;
}

Lines inventory_lines(const Inventory& inventory, int width) {
  Grid grid({{"GPU"}, {"name"}, {"memory", true}, {"PCI bus id"}, {"MIG"}, {"NUMA"}, {"processors near it"}});
  Grid uuids({{"GPU"}, {"UUID", true}});   // to be copied: never shortened
  for (const InventoryDevice& d : inventory.devices) {
    grid.add_row({{d.info->label(), Style::kNote},
                  {d.info->name, Style::kStrong},
                  {memory_text(*d.info)},
                  {text_or_dash(d.info->pci_bus_id)},
                  {mig_text(d)},
                  {d.numa_node ? std::to_string(*d.numa_node) : std::string(kUnknownText)},
                  {text_or_dash(d.cpu_affinity)}});
    uuids.add_row({{d.info->label(), Style::kNote}, {text_or_dash(d.info->uuid)}});
  }
  Lines lines = grid.lines(width);
  append_apart(lines, uuids.lines(width));
  return lines;
}

Lines limit_lines(const Inventory& inventory, int width) {
  Grid grid({{"GPU"}, {"power default / max", true}, {"min", true}, {"SM clock", true}, {"memory clock", true},
             {"slowdown at", true}, {"PCIe", true}});
  for (const InventoryDevice& d : inventory.devices) {
    if (d.info->parent) continue;  // a MIG instance has its GPU's limits
    const auto constant = [&](Metric m) { return d.info->constant(m); };
    const auto generation = constant(Metric::kPcieGenerationMax), lanes = constant(Metric::kPcieWidthMax);
    grid.add_row(
        {{d.info->label(), Style::kNote},
         {of_two(constant(Metric::kPowerLimitDefault), constant(Metric::kPowerLimitMax), "W")},
         {number(constant(Metric::kPowerLimitMin), "W")},
         {number(constant(Metric::kSmClockMax), "MHz")},
         {number(constant(Metric::kMemoryClockMax), "MHz")},
         {number(constant(Metric::kTemperatureSlowdown), "°C")},
         {generation && lanes ? fmt::format("gen {:.0f} x{:.0f}", *generation, *lanes) : std::string(kUnknownText)}});
  }
  Lines lines = {Line("Limits", Style::kStrong)};
  append(lines, grid.lines(width));
  return lines;
}

std::string_view meaning_of(std::string_view kind) {
  if (kind.starts_with("NV")) return "that many NVLinks";
  if (kind == "X") return "the device itself";
  if (kind == "PIX") return "one PCIe bridge";
  if (kind == "PXB") return "several PCIe bridges, not the host's";
  if (kind == "PHB") return "a PCIe host bridge (the processor)";
  if (kind == "NODE") return "PCIe host bridges of one NUMA node";
  if (kind == "SYS") return "the link between NUMA nodes: slowest";
  if (kind == "XGMI") return "XGMI links";
  return "";
}

Style style_of(std::string_view kind) {
  if (kind.starts_with("NV") || kind == "XGMI") return Style::kGood;
  return kind == "X" ? Style::kFaint : kind == "SYS" || kind == "NODE" ? Style::kWarn : Style::kPlain;
}

Lines topology_lines(const Inventory& inventory, int width) {
  if (inventory.topology.empty()) return {};
  Grid grid({{""}});
  std::vector<size_t> whole;  // a MIG instance has its GPU's links
  for (size_t i = 0; i < inventory.devices.size(); ++i)
    if (!inventory.devices[i].info->parent) whole.push_back(i);
  for (const size_t i : whole) grid.add_column("GPU" + inventory.devices[i].info->label());
  std::set<std::string> kinds;
  for (const size_t i : whole) {
    const InventoryDevice& d = inventory.devices[i];
    std::vector<Cell> row = {{"GPU" + d.info->label(), Style::kNote}};
    for (const size_t j : whole) {
      const std::string& kind = inventory.topology[i][j];
      row.push_back({text_or_dash(kind), style_of(kind)});
      if (!kind.empty()) kinds.insert(kind.starts_with("NV") && kind.size() > 2 ? "NV#" : kind);
    }
    grid.add_row(std::move(row));
  }
  Lines lines = {Line("How they are connected", Style::kStrong)};
  append(lines, grid.lines(width));
  for (const std::string& kind : kinds)
    if (!meaning_of(kind).empty())
      lines.push_back(Line(fmt::format("  {:<6}", kind), style_of(kind)).add(meaning_of(kind), Style::kFaint));
  return lines;
}

std::string text_of(const Inventory& inventory, const std::vector<std::string>& notes, int width, bool colour) {
  Line head(fmt::format("{} device{} through {}", inventory.devices.size(), inventory.devices.size() == 1 ? "" : "s",
                        inventory.backend), Style::kStrong);
  if (!inventory.driver.empty()) head.add("  driver " + inventory.driver, Style::kFaint);
  Lines lines = {std::move(head)};
  for (const auto part : {inventory_lines, limit_lines, topology_lines}) append_apart(lines, part(inventory, width));
  lines.emplace_back();
  for (const std::string& note : notes) append(lines, wrapped_after(Line("! ", Style::kWarn), note, width));
  if (!inventory.complete)
    append(lines, wrapped_after(Line("! ", Style::kWarn),
                                "the driver did not answer in time; what it had not said is missing", width));
  append(lines, {Line(), Line("Next: profgpu stat   ·   profgpu doctor   ·   profgpu devices --json", Style::kFaint)});
  return rendered(lines, width, colour);
}

Outcome devices(const Arguments& arguments) {
  auto options = device_options(arguments, 1'000'000'000);
  if (!options) return Outcome::usage(options.error());
  if (options->device.empty()) options->device = {"all"};
  auto open = open_shown("devices", *options);
  if (!open) return Outcome::failed(open.error());
  const Inventory inventory = inventory_of(open->backend, open->devices);
  const bool colour = output_colour(asked_colour(arguments));
  const std::string text = arguments.has("--json") ? json_document(inventory)
                                                   : text_of(inventory, open->notes, output_width(), colour);
  return show_text("devices", text, !inventory.complete);
}

}  // namespace

extern const Command kDevices;
const Command kDevices{
    .name = "devices",
    .summary = "what GPUs there are, how they are connected, their limits",
    .positional = "",
    .groups = {shown_device_flags(),
               {"What to show",
                {{.name = "--json", .help = "everything, as JSON"},
                 colour_flag()}}},
    .examples = {{"profgpu devices", "names, UUIDs, limits, and the matrix of links"},
                 {"profgpu devices --json | jq -r '.devices[].uuid'", "UUIDs, for CUDA_VISIBLE_DEVICES"}},
    .notes = "The matrix says how two devices reach each other, as `nvidia-smi topo -m` does; programs that talk much "
             "belong on devices with NVLink between them. Programs run best on the processors near their device: "
             "`taskset -c LIST` or `numactl` keeps them there. Exit status: 0 shown, 1 no device can be read, "
             "2 usage.",
    .run = devices,
};

}  // namespace profgpu
