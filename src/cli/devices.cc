// profgpu devices: GPUs, how they are connected, and their limits.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <set>

#include "analyse/report/quantity.h"
#include "analyse/report/text.h"
#include "analyse/work/device_limits.h"
#include "cli/device_options.h"
#include "cli/output.h"
#include "cli/terminal.h"
#include "devices/pending.h"
#include "devices/pci_address.h"
#include "devices/system_files.h"
#include "view/json_text.h"
#include "view/layout.h"
#include "view/wording.h"

namespace profgpu {
namespace {

constexpr std::chrono::seconds kDeadline{5};

// A composite of two vendors may have one twice.
Value facts_value(const std::vector<Fact>& facts) {
  Record record;
  std::set<std::string_view> seen;
  for (const Fact& fact : facts)
    if (seen.insert(fact.id).second) record.add(std::string(fact.id), unless_empty(fact.value));
  return record;
}

Value peaks_value(const DeviceLimits& limits) {
  Record tflops;
  for (int i = 1; i < kPrecisions; ++i)
    if (const double tera = limits.tera[static_cast<size_t>(i)]; tera > 0)
      tflops.add(std::string(precision_name(static_cast<Precision>(i))), tera);
  Record peaks;
  peaks.add("device", limits.name).add("source", limits.source).add("memory_gbps", limits.memory_gbps);
  peaks.add("cache_bytes", only_if(limits.cache_bytes > 0, limits.cache_bytes));
  peaks.add("link_gbps", only_if(limits.link_gbps > 0, limits.link_gbps));
  peaks.add("host_link_gbps", only_if(limits.host_link_gbps > 0, limits.host_link_gbps));
  return peaks.add("tflops", std::move(tflops));
}

struct InventoryDevice {
  const DeviceInfo* info = nullptr;
  std::optional<int> numa_node;
  std::string cpu_affinity;              ///< "0-23,48-71"; empty: unknown
  std::vector<Fact> facts;
  std::optional<DeviceLimits> peaks;     ///< none: unknown

  [[nodiscard]] std::string fact(std::string_view id) const {
    const Fact* found = first_where(facts, [&](const Fact& f) { return f.id == id; });
    return found ? found->value : "";
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
    v("limits", Value(std::move(limits))), v("peaks", peaks ? peaks_value(*peaks) : Value());
    v("facts", facts_value(facts));
  }
};

using TopologyRow = std::vector<std::string>;

struct Inventory {
  std::shared_ptr<Backend> owner;        ///< of the infos
  std::string backend, driver;
  std::vector<Fact> facts;
  std::vector<InventoryDevice> devices;
  std::vector<TopologyRow> topology;     ///< of `devices`, square; empty: unknown
  bool complete = true;                  ///< false: the driver did not answer in time and may still be blocked

  template <class V>
  void fields(V&& v) const {
    v("schema", "profgpu.devices.v1"), v("backend", backend), v("driver", unless_empty(driver));
    v("complete", complete), v("facts", facts_value(facts)), v("devices", InFull<InventoryDevice>{devices});
    std::vector<Value> rows;
    for (const TopologyRow& row : topology) {
      List kinds;
      for (const std::string& kind : row) kinds.emplace_back(unless_empty(kind));
      rows.emplace_back(std::move(kinds));
    }
    v("topology", only_if(!rows.empty(), InFull<Value>{rows}));
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
    // A recording's devices are of another machine.
    const std::string folder = inventory.backend == "replay" ? "" : pci_folder(roots, d.info->pci_bus_id);
    d.numa_node = d.info->numa_node;
    if (!d.numa_node && !folder.empty()) d.numa_node = numa_node(roots, d.info->pci_bus_id);
    if (facts) d.facts = facts->devices[i];
    d.cpu_affinity = d.fact("cpu_affinity");
    if (d.cpu_affinity.empty() && !folder.empty()) d.cpu_affinity = file_line(folder + "/local_cpulist");
    if (!d.info->parent)
      d.peaks = find_limits({d.info->name, static_cast<int64_t>(d.info->constant(Metric::kMemoryTotal).value_or(0)), 0})
                    .limits;
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

// Never shortened, so that they can be copied: on a narrow screen each has a line of its own.
Lines uuid_lines(const Inventory& inventory, int width) {
  Grid grid({{"GPU"}, {"UUID", true}});
  Lines apart{Line("UUID", Style::kStrong)};
  int widest = 0;
  for (const InventoryDevice& d : inventory.devices) {
    const std::string uuid = text_or_dash(d.info->uuid);
    grid.add_row({{d.info->label(), Style::kNote}, {uuid}});
    apart.push_back(Line(d.info->label(), Style::kNote));
    apart.push_back(Line("  " + uuid).whole());
    widest = std::max(widest, display_width(d.info->label()) + display_width(uuid));
  }
  constexpr int kBetween = 2;
  return widest + kBetween <= width ? grid.lines(width) : apart;
}

Lines inventory_lines(const Inventory& inventory, int width) {
  Grid grid({{"GPU"}, {"name"}, {"memory", true}, {"PCI bus id"}, {"MIG"}, {"NUMA"}, {"nearest CPUs"}});
  for (const InventoryDevice& d : inventory.devices) {
    grid.add_row({{d.info->label(), Style::kNote},
                  {d.info->name, Style::kStrong},
                  {memory_text(*d.info)},
                  {text_or_dash(d.info->pci_bus_id)},
                  {mig_text(d)},
                  {d.numa_node ? std::to_string(*d.numa_node) : std::string(kUnknownText)},
                  {text_or_dash(d.cpu_affinity)}});
  }
  Lines lines = grid.lines(width);
  append_apart(lines, uuid_lines(inventory, width));
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

Lines peak_lines(const Inventory& inventory, int width) {
  constexpr Precision kShown[] = {Precision::kFp32, Precision::kTf32, Precision::kBf16, Precision::kFp16,
                                  Precision::kFp8};
  Grid grid({{"GPU"}, {"as"}, {"FP32", true}, {"TF32", true}, {"BF16", true}, {"FP16", true}, {"FP8", true},
             {"memory", true}});
  for (const InventoryDevice& d : inventory.devices) {
    if (!d.peaks) continue;
    std::vector<Cell> row = {{d.info->label(), Style::kNote}, {d.peaks->name}};
    for (const Precision p : kShown) {
      const double tera = d.peaks->tera[static_cast<size_t>(p)];
      row.push_back({tera > 0 ? fmt::format("{:.4g}", tera) : std::string(kUnknownText)});
    }
    row.push_back({format_gbps(d.peaks->memory_gbps)});
    grid.add_row(std::move(row));
  }
  if (grid.empty()) return {};
  Lines lines = {Line("Peak rates by precision, dense, TFLOP/s", Style::kStrong)};
  append(lines, grid.lines(width));
  return lines;
}

struct LinkKind {
  std::string_view kind, meaning;
  Style style = Style::kPlain;
};
constexpr LinkKind kLinkKinds[] = {{"X", "the GPU itself", Style::kFaint},
                                   {"NV#", "that many NVLinks", Style::kGood},
                                   {"XGMI", "XGMI links", Style::kGood},
                                   {"PIX", "one PCIe bridge"},
                                   {"PXB", "several PCIe bridges, but not the host bridge"},
                                   {"PHB", "a PCIe host bridge (the CPU)"},
                                   {"NODE", "PCIe host bridges of one NUMA node", Style::kWarn},
                                   {"SYS", "the link between NUMA nodes: slowest", Style::kWarn}};

// Null: unknown.
const LinkKind* link_kind(std::string_view kind) {
  if (kind.starts_with("NV")) kind = "NV#";
  return first_where(kLinkKinds, [&](const LinkKind& k) { return k.kind == kind; });
}

Lines topology_lines(const Inventory& inventory, int width) {
  if (inventory.topology.empty()) return {};
  Grid grid({{""}});
  std::vector<size_t> whole;  // a MIG instance has its GPU's links
  for (size_t i = 0; i < inventory.devices.size(); ++i)
    if (!inventory.devices[i].info->parent) whole.push_back(i);
  for (const size_t i : whole) grid.add_column("GPU" + inventory.devices[i].info->label());
  std::set<const LinkKind*> kinds;
  for (const size_t i : whole) {
    std::vector<Cell> row = {{"GPU" + inventory.devices[i].info->label(), Style::kNote}};
    for (const size_t j : whole) {
      const std::string& kind = inventory.topology[i][j];
      const LinkKind* known = link_kind(kind);
      row.push_back({text_or_dash(kind), known ? known->style : Style::kPlain});
      if (known) kinds.insert(known);
    }
    grid.add_row(std::move(row));
  }
  Lines lines = {Line("How they are connected", Style::kStrong)};
  append(lines, grid.lines(width));
  for (const LinkKind* k : kinds)
    lines.push_back(Line(fmt::format("  {:<6}", k->kind), k->style).add(k->meaning, Style::kFaint));
  return lines;
}

std::string text_of(const Inventory& inventory, const std::vector<std::string>& notes, int width, bool colour) {
  Line head(fmt::format("{} through {}", plural(static_cast<int64_t>(inventory.devices.size()), "GPU", "GPUs"),
                        inventory.backend), Style::kStrong);
  if (!inventory.driver.empty()) head.add("  driver " + inventory.driver, Style::kFaint);
  Lines lines = {std::move(head)};
  for (const auto part : {inventory_lines, limit_lines, peak_lines, topology_lines})
    append_apart(lines, part(inventory, width));
  lines.emplace_back();
  for (const std::string& note : notes) append(lines, wrapped_after(Line("! ", Style::kWarn), note, width));
  if (!inventory.complete)
    append(lines, wrapped_after(Line("! ", Style::kWarn),
                                "the driver did not answer in time; what it had not reported is missing", width));
  append(lines, {Line(), Line("Next: profgpu stat   ·   profgpu doctor   ·   profgpu devices --json", Style::kFaint)});
  return rendered(lines, width, colour);
}

Outcome devices(const Arguments& arguments) {
  auto options = device_options(arguments, "all");
  if (!options) return Outcome::usage(options.error());
  auto open = open_shown("devices", *options);
  if (!open) return open.error();
  const Inventory inventory = inventory_of(open->backend, open->devices);
  const bool colour = output_colour(colour_option(arguments));
  const Outcome outcome = arguments.has("--json")
                              ? write_stdout(json_document(inventory))
                              : write_text(text_of(inventory, open->notes, output_width(), colour));
  if (!inventory.complete) leave_stuck("devices", outcome);
  return outcome;
}

}  // namespace

extern const Command kDevices{
    .name = "devices",
    .summary = "list GPUs, how they are connected, and their limits",
    .groups = {device_flags(kAllDevices),
               {"What to show", {{"--json", "everything, as JSON"}, kColourFlag}}},
    .examples = {{"profgpu devices", "names, UUIDs, limits, and the link matrix"},
                 {"profgpu devices --json | jq -r '.devices[].uuid'", "UUIDs, for CUDA_VISIBLE_DEVICES"}},
    .notes = "The matrix shows the connection between each pair of GPUs, like `nvidia-smi topo -m`. Run programs that "
             "communicate much on GPUs with NVLink between them, and on the CPUs nearest to their GPU: `taskset -c LIST` "
             "or `numactl`.\n\nExit status: 0 shown, 1 no GPU can be read, 2 usage.",
    .run = devices,
};

}  // namespace profgpu
