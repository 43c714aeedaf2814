// The NVML backend: NVIDIA devices through the driver's own library.
#include "devices/nvml.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <memory>
#include <string>
#include <utility>

#include "base/text.h"
#include "devices/backend.h"
#include "devices/nvml_inventory.h"
#include "devices/nvml_reader.h"
#include "devices/nvml_xid.h"

namespace profgpu {

namespace {

// Without persistence mode the driver brings each device up anew, which takes seconds.
constexpr int64_t kPatienceNs = 60'000'000'000;

class NvmlBackend : public Backend {
 public:
  NvmlBackend(std::shared_ptr<nvml::Library> library, std::vector<nvml::Found> found)
      : library_(std::move(library)),
        found_(std::move(found)),
        xids_(library_, gpus_of(found_)),
        xids_known_(found_.size()) {
    for (const nvml::Found& f : found_) {
      devices_.push_back(f.info);
      readers_.push_back(f.place.device ? std::make_unique<nvml::Reader>(*library_, f.place) : nullptr);
      if (!readers_.back()) continue;
      for (const auto& [metric, value] : f.info.constants) readers_.back()->calls().note(metric, nvml::kSuccess);
      for (const auto& [metric, code] : f.unknown) readers_.back()->calls().note(metric, code);
    }
  }

  std::string_view name() const override { return "nvml"; }
  const std::vector<DeviceInfo>& devices() const override { return devices_; }

  Status read(const ReadRequest& request, Reading& reading) override {
    xids_.start();
    if (request.everything) xids_.refresh(request.tick_ns);
    add_xids(reading);
    const auto& reader = readers_[reading.device];
    if (!reader) return Error{nvml::words_of(found_[reading.device].broken)};
    return reader->read(request, reading);
  }

  std::string why_absent(uint32_t device, Metric metric) const override {
    if (!readers_[device]) return nvml::words_of(found_[device].broken);
    if (metric == Metric::kXidErrors || metric == Metric::kXidLast) {
      if (found_[device].place.parent) return "not reported for MIG instances";
      const auto seen = xids_.seen(device);
      if (seen.state != nvml::kSuccess) return nvml::words_of(static_cast<nvml::Return>(seen.state));
      return metric == Metric::kXidLast && seen.count == 0 ? "none seen" : "";
    }
    return readers_[device]->why(metric);
  }

  int64_t calls() const override { return library_->calls(); }
  std::vector<Fact> system_facts() override { return nvml::system_facts(*library_); }
  std::vector<Fact> device_facts(uint32_t device) override { return nvml::device_facts(*library_, found_[device]); }
  std::vector<std::vector<Link>> topology() override { return nvml::topology(*library_, found_); }

 private:
  static std::vector<nvml::Device> gpus_of(const std::vector<nvml::Found>& found) {
    std::vector<nvml::Device> out;
    for (const nvml::Found& f : found) out.push_back(f.place.parent ? nullptr : f.place.device);
    return out;
  }

  // Counted since the watch began: 0 is a fact once it has.
  void add_xids(Reading& reading) {
    if (found_[reading.device].place.parent) return;
    auto& [version, seen] = xids_known_[reading.device];
    const uint32_t now = xids_.version();
    const auto events = now == version ? std::vector<nvml::XidWatch::Event>()
                                       : xids_.take_events(reading.device);  // first, so that the count has all of them
    if (now != version) seen = xids_.seen(reading.device), version = now;
    if (seen.state != nvml::kSuccess) return;
    reading.add(Metric::kXidErrors, static_cast<double>(seen.count));
    for (const auto& e : events) reading.add(Metric::kXidLast, static_cast<double>(e.code), e.time_ns);
    if (events.empty() && seen.count > 0) reading.add(Metric::kXidLast, static_cast<double>(seen.last), seen.last_ns);
  }

  // In this order, since each uses those before it to its end.
  std::shared_ptr<nvml::Library> library_;
  std::vector<nvml::Found> found_;
  std::vector<DeviceInfo> devices_;
  std::vector<std::unique_ptr<nvml::Reader>> readers_;
  nvml::XidWatch xids_;
  struct XidsKnown {
    uint32_t version = 0;
    nvml::XidWatch::Seen seen;
  };
  std::vector<XidsKnown> xids_known_;   // by device, at the reading before
};

Result<std::unique_ptr<Backend>> open_nvml(const BackendOptions& options) {
  auto inventory = nvml::take_inventory(kPatienceNs, !options.constants_later);
  if (!inventory) return inventory.error();
  return std::unique_ptr<Backend>(
      std::make_unique<NvmlBackend>(std::move(inventory->library), std::move(inventory->devices)));
}

}  // namespace

extern const BackendKind kNvml;
const BackendKind kNvml = {"nvml", "NVIDIA's management library, as the driver brings it (libnvidia-ml.so.1)", true,
                           open_nvml};

}  // namespace profgpu

namespace profgpu::nvml {

namespace {

Fact fact(std::string id, Return code, std::string value) {
  return code == kSuccess ? Fact{std::move(id), std::move(value), {}} : Fact{std::move(id), {}, words_of(code)};
}

std::string on_off(uint32_t value) { return value ? "enabled" : "disabled"; }

// "enabled", or "disabled, enabled after a reset".
std::string mode_of(uint32_t current, uint32_t pending) {
  return current == pending ? on_off(current) : fmt::format("{}, {} after a reset", on_off(current), on_off(pending));
}

std::string compute_mode_of(uint32_t mode) {
  constexpr const char* kModes[] = {"default", "exclusive thread", "prohibited", "exclusive process"};
  return mode < std::size(kModes) ? kModes[mode] : std::to_string(mode);
}

std::string recovery_of(uint64_t action) {
  constexpr const char* kActions[] = {"none", "reset the GPU", "reboot the node", "drain peer-to-peer traffic",
                                      "drain and reset"};
  return action < std::size(kActions) ? kActions[action] : std::to_string(action);
}

class NvmlFacts {
 public:
  NvmlFacts(Library& library, Device device) : library_(library), device_(device) {}

  void text(const char* id, GetText call) {
    std::array<char, 96> out{};
    const Return code = library_.call(call, device_, out.data(), static_cast<uint32_t>(out.size() - 1));
    facts.push_back(fact(id, code, out.data()));
  }
  void number(const char* id, GetUint call, std::string (*show)(uint32_t)) {
    uint32_t value = 0;
    const Return code = library_.call(call, device_, &value);
    facts.push_back(fact(id, code, show(value)));
  }
  void mode(const char* id, Return (*call)(Device, uint32_t*, uint32_t*)) {
    uint32_t current = 0, pending = 0;
    const Return code = library_.call(call, device_, &current, &pending);
    facts.push_back(fact(id, code, mode_of(current, pending)));
  }
  void clock_max(const char* id, ClockType type) {
    uint32_t mhz = 0;
    const Return code = library_.call(library_.api.clock_max, device_, uint32_t{type}, &mhz);
    facts.push_back(fact(id, code, std::to_string(mhz)));
  }
  void clock_reasons() {
    uint64_t bits = 0;
    const Return code = library_.call(library_.api.clock_reasons, device_, &bits);
    std::string names;
    for (const ClockReasonInfo& r : profgpu::clock_reasons())
      if (bits & static_cast<uint32_t>(r.reason)) append_listed(names, r.name);
    facts.push_back(fact("clock_event_reasons", code, names.empty() ? "none" : names));
  }
  void power_limits();
  void health();
  void links();

  std::vector<Fact> facts;

 private:
  Library& library_;
  Device device_;
};

std::string plain(uint32_t value) { return std::to_string(value); }
std::string watts(uint32_t milliwatts) { return fmt::format("{:.0f}", milliwatts / 1000.0); }

void NvmlFacts::power_limits() {
  number("power_limit_w", library_.api.power_limit, watts);
  number("power_limit_default_w", library_.api.power_default, watts);
  uint32_t low = 0, high = 0;
  const Return code = library_.call(library_.api.power_range, device_, &low, &high);
  facts.push_back(fact("power_limit_min_w", code, watts(low)));
  facts.push_back(fact("power_limit_max_w", code, watts(high)));
}

void NvmlFacts::health() {
  struct Row {
    Field field;
    const char* id;
  };
  constexpr Row kRows[] = {
      {kRemappedCorrected, "remapped_rows_corrected"}, {kRemappedUncorrected, "remapped_rows_uncorrected"},
      {kRemappedPending, "remapped_rows_pending"},     {kRemappedFailed, "remapped_rows_failed"},
      {kRetiredSbe, "retired_pages_single_bit"},       {kRetiredDbe, "retired_pages_double_bit"},
      {kRetiredPending, "retired_pages_pending"},      {kEccSbeVolatile, "ecc_corrected_errors"},
      {kEccDbeVolatile, "ecc_uncorrected_errors"},     {kEccSbeLifetime, "ecc_corrected_errors_lifetime"},
      {kEccDbeLifetime, "ecc_uncorrected_errors_lifetime"}, {kPcieReplay, "pcie_replays"},
      {nvml::kRecoveryAction, "recovery_action"},
  };
  std::array<FieldValue, std::size(kRows)> values{};
  for (size_t i = 0; i < values.size(); ++i) values[i].field = kRows[i].field;
  const Return code = library_.call(library_.api.fields, device_, static_cast<int>(values.size()), values.data());
  for (size_t i = 0; i < values.size(); ++i) {
    const FieldValue& f = values[i];
    const Return own = code == kSuccess ? static_cast<Return>(f.result) : code;
    const uint64_t number = f.type == kUint || f.type == kSint ? f.value.u32 : f.value.u64;
    facts.push_back(fact(kRows[i].id, own,
                         kRows[i].field == nvml::kRecoveryAction ? recovery_of(number) : std::to_string(number)));
  }
}

void NvmlFacts::links() {
  uint64_t errors = 0;
  uint32_t up = 0, down = 0, version = 0, mbps = 0;
  Return counted = kNotSupported, stated = kNotSupported, sped = kNotSupported;
  for (uint32_t link = 0; link < kMaxLinks; ++link) {
    uint32_t active = 0;
    const Return code = library_.call(library_.api.link_state, device_, link, &active);
    if (code != kSuccess) {
      if (link == 0) stated = code;
      break;
    }
    stated = kSuccess;
    ++(active ? up : down);
    if (!active) continue;
    library_.call(library_.api.link_version, device_, link, &version);
    for (uint32_t counter = 0; counter < 4; ++counter) {
      uint64_t count = 0;
      if (library_.call(library_.api.link_errors, device_, link, counter, &count) != kSuccess) continue;
      counted = kSuccess;
      errors += count;
    }
    FieldValue speed{};
    speed.field = kLinkSpeedMBps;
    speed.scope = link;
    if (library_.call(library_.api.fields, device_, 1, &speed) == kSuccess && speed.result == kSuccess) {
      sped = kSuccess;
      mbps = speed.value.u32;
    }
  }
  facts.push_back(fact("nvlinks_active", stated, fmt::format("{} of {}", up, up + down)));
  facts.push_back(fact("nvlink_version", up ? stated : kNotSupported, std::to_string(version)));
  facts.push_back(fact("nvlink_speed_mb_per_second", sped, std::to_string(mbps)));
  facts.push_back(fact("nvlink_errors", counted, std::to_string(errors)));
}

}  // namespace

std::vector<Fact> system_facts(Library& library) {
  std::vector<Fact> out;
  out.push_back({"driver_version", library.driver_version(), library.driver_version().empty() ? "not told" : ""});
  std::array<char, 96> text{};
  const Return code = library.call(library.api.nvml_version, text.data(), static_cast<uint32_t>(text.size() - 1));
  out.push_back(fact("nvml_version", code, text.data()));
  int cuda = 0;
  const Return known = library.call(library.api.cuda_version, &cuda);
  out.push_back(fact("cuda_driver_version", known, fmt::format("{}.{}", cuda / 1000, cuda % 1000 / 10)));
  out.push_back({"nvml_library", library.path(), {}});
  return out;
}

std::vector<Fact> device_facts(Library& library, const Found& found) {
  if (!found.place.device) return {{"state", {}, words_of(found.broken)}};
  const Api& api = library.api;
  // Modes, links and health are the GPU's.
  NvmlFacts f(library, found.place.parent ? found.place.parent : found.place.device);
  f.text("serial", api.serial);
  f.text("vbios_version", api.vbios);
  f.number("persistence_mode", api.persistence, on_off);
  f.number("compute_mode", api.compute_mode, compute_mode_of);
  f.mode("ecc_mode", api.ecc_mode);
  f.mode("mig_mode", api.mig_mode);
  f.number("performance_state", api.pstate, plain);
  f.number("pcie_generation", api.pcie_generation, plain);
  f.number("pcie_generation_max", api.pcie_generation_max, plain);
  f.number("pcie_width", api.pcie_width, plain);
  f.number("pcie_width_max", api.pcie_width_max, plain);
  f.power_limits();
  f.clock_max("sm_clock_max_mhz", kSmClock);
  f.clock_max("memory_clock_max_mhz", kMemoryClock);
  f.clock_reasons();
  f.health();
  f.links();
  return std::move(f.facts);
}

// How NVIDIA devices reach each other: over NVLink, or how far up the PCIe tree they meet.

namespace {

std::string words_of_ancestor(uint32_t level) {
  switch (level) {
    case kInternal:
    case kSingle: return "PIX";
    case kMultiple: return "PXB";
    case kHostBridge: return "PHB";
    case kNode: return "NODE";
    case kSystem: return "SYS";
    default: return {};
  }
}

// Links that lead to the other GPU itself, else those that both have to switches: on boards with switches each GPU
// reaches each other over all of its links.
uint32_t links_between(const ActiveLinks& a, const ActiveLinks& b, const std::string& b_bus_id) {
  const auto direct = static_cast<uint32_t>(std::count(a.peers.begin(), a.peers.end(), b_bus_id));
  return direct ? direct : std::min(a.to_switches, b.to_switches);
}

}  // namespace

ActiveLinks active_links(Library& library, Device device) {
  ActiveLinks out;
  for (uint32_t link = 0; link < kMaxLinks; ++link) {
    uint32_t active = 0, type = kLinkGpu;
    if (library.call(library.api.link_state, device, link, &active) != kSuccess) break;
    if (!active) continue;
    ++out.count;
    library.call(library.api.link_remote_type, device, link, &type);
    if (type == kLinkSwitch) {
      ++out.to_switches;
      continue;
    }
    PciInfo pci{};
    if (library.call(library.api.link_remote, device, link, &pci) == kSuccess)
      out.peers.push_back(fmt::format("{:08x}:{:02x}:{:02x}.0", pci.domain, pci.bus, pci.device));
  }
  return out;
}

std::vector<std::vector<Link>> topology(Library& library, const std::vector<Found>& devices) {
  const size_t n = devices.size();
  std::vector<std::vector<Link>> out(n, std::vector<Link>(n));
  // An instance is where its GPU is.
  const auto gpu_of = [&](size_t i) { return devices[i].info.parent ? *devices[i].info.parent : i; };
  std::vector<ActiveLinks> links(n);
  for (size_t i = 0; i < n; ++i)
    if (gpu_of(i) == i && devices[i].place.device) links[i] = active_links(library, devices[i].place.device);
  for (size_t i = 0; i < n; ++i)
    for (size_t j = 0; j < n; ++j) {
      const size_t a = gpu_of(i), b = gpu_of(j);
      if (a == b) {
        out[i][j].kind = "X";
        continue;
      }
      if (!devices[a].place.device || !devices[b].place.device) continue;
      if (const uint32_t count = links_between(links[a], links[b], devices[b].info.pci_bus_id)) {
        out[i][j].kind = fmt::format("NV{}", count);
        continue;
      }
      uint32_t level = 0;
      const Return code = library.call(library.api.ancestor, devices[a].place.device, devices[b].place.device, &level);
      if (code == kSuccess) out[i][j].kind = words_of_ancestor(level);
    }
  return out;
}

}  // namespace profgpu::nvml
