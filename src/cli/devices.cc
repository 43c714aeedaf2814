// profgpu devices: what GPUs there are, how they are connected, and what limits they have.
#include <fmt/format.h>

#include <chrono>
#include <set>

#include "cli/command.h"
#include "cli/device_inventory.h"
#include "cli/device_opening.h"
#include "cli/output.h"
#include "cli/terminal.h"
#include "present/grid.h"
#include "report/quantity.h"

namespace profgpu {
namespace {

using Info = DeviceInfo;

std::string number(const std::optional<double>& x, std::string_view unit) {
  return x ? fmt::format("{:.0f} {}", *x, unit) : std::string(kUnknownText);
}

std::string of_two(const std::optional<double>& a, const std::optional<double>& b, std::string_view unit) {
  if (!a && !b) return std::string(kUnknownText);
  return (a ? fmt::format("{:.0f}", *a) : std::string(kUnknownText)) + " / " + number(b, unit);
}

std::string text_or_dash(const std::string& text) { return text.empty() ? std::string(kUnknownText) : text; }

std::string memory_text(const Info& d) {
  const auto bytes = d.constant(Metric::kMemoryTotal);
  return bytes ? format_bytes(*bytes) : std::string(kUnknownText);
}

std::string mig_text(const Inventory& inventory, const InventoryDevice& d) {
  if (!d.info->mig_profile.empty()) return d.info->mig_profile;
  const std::string mode = inventory.fact(d, "mig_mode");
  return text_or_dash(mode);
}

Lines inventory_lines(const Inventory& inventory, int width) {
  Grid grid, uuids;
  grid.add_column("GPU");
  grid.add_column("name");
  grid.add_column("memory", true);
  for (const std::string_view title : {"PCI bus id", "MIG", "NUMA", "processors near it"})
    grid.add_column(std::string(title));
  uuids.add_column("GPU");
  uuids.add_column("UUID", true);  // to be copied: never shortened
  for (const InventoryDevice& d : inventory.devices) {
    grid.add_row({{d.info->label(), Style::kNote},
                  {d.info->name, Style::kStrong},
                  {memory_text(*d.info)},
                  {text_or_dash(d.info->pci_bus_id)},
                  {mig_text(inventory, d)},
                  {d.numa_node ? std::to_string(*d.numa_node) : std::string(kUnknownText)},
                  {text_or_dash(d.cpu_affinity)}});
    uuids.add_row({{d.info->label(), Style::kNote}, {text_or_dash(d.info->uuid)}});
  }
  Lines lines = grid.lines(width);
  append(lines, {Line()});
  append(lines, uuids.lines(width));
  return lines;
}

Lines limit_lines(const Inventory& inventory, int width) {
  Grid grid;
  grid.add_column("GPU");
  for (const std::string_view title : {"power default / max", "min", "SM clock", "memory clock", "slowdown at", "PCIe"})
    grid.add_column(std::string(title), true);
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
  Grid grid;
  grid.add_column("");
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
  Lines lines = {std::move(head), Line()};
  append(lines, inventory_lines(inventory, width));
  append(lines, {Line()});
  append(lines, limit_lines(inventory, width));
  append(lines, {Line()});
  append(lines, topology_lines(inventory, width));
  append(lines, {Line()});
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
  bool stuck = false;
  auto open = open_in_time(*options, stuck);
  if (stuck) leave_stuck("devices", Outcome::failed(open.error()));
  if (!open) return Outcome::failed(open.error());
  if (!open->backend || open->devices.empty()) return Outcome::failed(no_device(*open));
  const Inventory inventory = inventory_of(open->backend, open->devices);
  const std::string colour = arguments.value("--color", "auto");
  const std::string text = arguments.has("--json") ? inventory_json(inventory)
                                                   : text_of(inventory, open->notes, output_width(),
                                                             output_colour(colour == "always"  ? Colour::kAlways
                                                                           : colour == "never" ? Colour::kNever
                                                                                               : Colour::kAuto));
  auto written = write_stdout(text);
  const Outcome outcome = written ? Outcome{} : Outcome::failed(written.error());
  if (!inventory.complete) leave_stuck("devices", outcome);
  return outcome;
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
                 {.name = "--color", .value = "WHEN", .help = "colours (default auto)",
                  .choices = {"auto", "always", "never"}}}}},
    .examples = {{"profgpu devices", "names, UUIDs, limits, and the matrix of links"},
                 {"profgpu devices --json | jq -r '.devices[].uuid'", "UUIDs, for CUDA_VISIBLE_DEVICES"}},
    .notes = "The matrix says how two devices reach each other, as `nvidia-smi topo -m` does; programs that talk much "
             "belong on devices with NVLink between them. Programs run best on the processors near their device: "
             "`taskset -c LIST` or `numactl` keeps them there. Exit status: 0 shown, 1 no device can be read, "
             "2 usage.",
    .run = devices,
};

}  // namespace profgpu
