#include "cli/device_inventory.h"

#include <set>

#include "base/decimal.h"
#include "collect/pending.h"
#include "collect/system_files.h"
#include "present/json_text.h"

namespace profgpu {
namespace {

constexpr std::chrono::seconds kDeadline{5};

struct ReadFacts {
  std::vector<Fact> system;
  std::vector<std::vector<Fact>> devices;
  std::vector<std::vector<Link>> topology;
};

void text_or_null(JsonText& json, std::string_view text) { text.empty() ? json.null() : json.text(text); }

void write_facts(JsonText& json, const std::vector<Fact>& facts) {
  json.open('{');
  std::set<std::string_view> seen;  // a composite of two vendors may name one twice
  for (const Fact& fact : facts)
    if (seen.insert(fact.id).second) json.key(fact.id), text_or_null(json, fact.value);
  json.close('}');
}

void write_device(JsonText& json, const InventoryDevice& d) {
  const DeviceInfo& info = *d.info;
  json.element(), json.open('{');
  json.key("index"), json.integer(info.index);
  json.key("label"), json.text(info.label());
  json.key("name"), json.text(info.name);
  json.key("vendor"), json.text(info.vendor);
  json.key("uuid"), text_or_null(json, info.uuid);
  json.key("pci_bus_id"), text_or_null(json, info.pci_bus_id);
  json.key("driver_version"), text_or_null(json, info.driver_version);
  json.key("numa_node"), json.integer_or_null(d.numa_node);
  json.key("cpu_affinity"), text_or_null(json, d.cpu_affinity);
  json.key("mig_profile"), text_or_null(json, info.mig_profile);
  json.key("parent"), json.integer_or_null(info.parent);
  json.key("gpu_instance"), json.integer_or_null(info.gpu_instance);
  json.key("compute_instance"), json.integer_or_null(info.compute_instance);
  json.key("limits"), json.open('{');
  for (const MetricInfo& m : metrics())
    if (m.kind == MetricKind::kConstant) json.key(m.name), json.real_or_null(info.constant(m.metric));
  json.close('}');
  json.key("facts"), write_facts(json, d.facts);
  json.close('}');
}

}  // namespace

std::string Inventory::fact(const InventoryDevice& device, std::string_view id) const {
  for (const Fact& f : device.facts)
    if (f.id == id) return f.value;
  return "";
}

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
    // -1: the machine has only one node, or its firmware does not say.
    const auto node = folder.empty() ? std::nullopt : whole_number(file_line(folder + "/numa_node"));
    if (!d.numa_node && node && *node >= 0) d.numa_node = static_cast<int>(*node);
    if (facts) d.facts = facts->devices[i];
    d.cpu_affinity = inventory.fact(d, "cpu_affinity");
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

std::string inventory_json(const Inventory& inventory) {
  JsonText json;
  json.open('{');
  json.key("schema"), json.text("profgpu.devices.v1");
  json.key("backend"), json.text(inventory.backend);
  json.key("driver"), text_or_null(json, inventory.driver);
  json.key("complete"), json.boolean(inventory.complete);
  json.key("facts"), write_facts(json, inventory.facts);
  json.key("devices"), json.open('[');
  for (const InventoryDevice& d : inventory.devices) write_device(json, d);
  json.close(']');
  json.key("topology");
  if (inventory.topology.empty()) {
    json.null();
  } else {
    json.open('[');
    for (const auto& row : inventory.topology) {
      json.element(), json.open('[', Layout::kInline);
      for (const std::string& kind : row) json.element(), text_or_null(json, kind);
      json.close(']');
    }
    json.close(']');
  }
  json.close('}');
  return json.take() + "\n";
}

}  // namespace profgpu
