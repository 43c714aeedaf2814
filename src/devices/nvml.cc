// The NVML backend: NVIDIA devices through the driver's own library.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <memory>
#include <string>
#include <utility>

#include "base/clock.h"
#include "base/steady_unix.h"
#include "devices/backend.h"
#include "devices/nvml_inventory.h"
#include "devices/nvml_reader.h"
#include "devices/nvml_xid.h"

namespace profgpu::nvml {
namespace {

// Facts about the driver and a device, for inventories and diagnoses. Slow calls are welcome.

Fact fact(std::string id, Return code, std::string value) {
  return code == kSuccess ? Fact{std::move(id), std::move(value), {}} : Fact{std::move(id), {}, words_of(code)};
}

template <class Call, class... Arguments>
Fact text_fact(Library& library, const char* id, Call call, Arguments... arguments) {
  std::array<char, 96> text{};
  const Return code = library.call(call, arguments..., text.data(), static_cast<uint32_t>(text.size() - 1));
  return fact(id, code, text.data());
}

std::string on_off(uint32_t value) { return value ? "enabled" : "disabled"; }

// "enabled", or "disabled, enabled after a reset".
Fact mode_fact(Library& library, const char* id, Return (*call)(Device, uint32_t*, uint32_t*), Device device) {
  uint32_t current = 0, pending = 0;
  const Return code = library.call(call, device, &current, &pending);
  return fact(id, code, on_off(current) + (current == pending ? "" : ", " + on_off(pending) + " after a reset"));
}

std::string compute_mode(uint32_t mode) {
  constexpr const char* kModes[] = {"default", "exclusive thread", "prohibited", "exclusive process"};
  return mode < std::size(kModes) ? kModes[mode] : std::to_string(mode);
}

// The NVLinks of a GPU.
struct NvLinks {
  Return state = kNotSupported, speed_known = kNotSupported;
  uint32_t up = 0, down = 0, to_switches = 0, version = 0, mbps = 0;
  std::vector<std::string> peers;   // PCI bus id of the GPU behind each link that leads to one
};

NvLinks links_of(Library& library, Device device) {
  NvLinks out;
  for (uint32_t link = 0; link < kMaxLinks; ++link) {
    uint32_t active = 0, type = kLinkGpu;
    const Return code = library.call(library.api.link_state, device, link, &active);
    if (link == 0) out.state = code;
    if (code != kSuccess) break;
    ++(active ? out.up : out.down);
    if (!active) continue;
    library.call(library.api.link_version, device, link, &out.version);
    FieldValue speed{kLinkSpeedMBps, link, 0, 0, 0, 0, {}};
    if (library.call(library.api.fields, device, 1, &speed) == kSuccess && speed.result == kSuccess)
      out.speed_known = kSuccess, out.mbps = speed.value.u32;
    library.call(library.api.link_remote_type, device, link, &type);
    PciInfo pci{};
    if (type == kLinkSwitch) ++out.to_switches;
    else if (library.call(library.api.link_remote, device, link, &pci) == kSuccess) out.peers.push_back(bus_id_of(pci));
  }
  return out;
}

std::vector<Fact> facts_of_system(Library& library) {
  int cuda = 0;
  const Return known = library.call(library.api.cuda_version, &cuda);
  return {{"driver_version", library.driver_version(), library.driver_version().empty() ? "not reported" : ""},
          text_fact(library, "nvml_version", library.api.nvml_version),
          fact("cuda_driver_version", known, fmt::format("{}.{}", cuda / 1000, cuda % 1000 / 10)),
          {"nvml_library", library.path(), {}}};
}

// Modes, links and health of a MIG instance are its GPU's.
std::vector<Fact> facts_of_device(Library& library, const Found& found) {
  if (!found.place.device) return {{"state", {}, words_of(found.broken)}};
  const Api& api = library.api;
  Reader::Place gpu = found.place;
  if (gpu.parent) gpu.device = std::exchange(gpu.parent, nullptr);
  gpu.constants_wanted = true;
  uint32_t persistence = 0, compute = 0;
  const Return persistence_known = library.call(api.persistence, gpu.device, &persistence);
  const Return compute_known = library.call(api.compute_mode, gpu.device, &compute);
  std::vector<Fact> facts = {text_fact(library, "serial", api.serial, gpu.device),
                             text_fact(library, "vbios_version", api.vbios, gpu.device),
                             fact("persistence_mode", persistence_known, on_off(persistence)),
                             fact("compute_mode", compute_known, compute_mode(compute)),
                             mode_fact(library, "ecc_mode", api.ecc_mode, gpu.device),
                             mode_fact(library, "mig_mode", api.mig_mode, gpu.device)};
  Reader reader(library, gpu);
  Reading reading;
  reading.time_ns = steady_unix_ns();
  [[maybe_unused]] const Status status = reader.read({.now_ns = monotonic_ns(), .everything = true}, reading);
  add_metric_facts(found.info, reading.samples, [&](Metric m) { return reader.why(m); }, facts);
  const NvLinks links = links_of(library, gpu.device);
  facts.push_back(fact("nvlinks_active", links.state, fmt::format("{} of {}", links.up, links.up + links.down)));
  facts.push_back(fact("nvlink_version", links.up ? links.state : kNotSupported, std::to_string(links.version)));
  facts.push_back(fact("nvlink_speed_mb_per_second", links.speed_known, std::to_string(links.mbps)));
  return facts;
}

// How devices reach each other, as `nvidia-smi topo -m` shows it: over NVLink, or by their common PCIe ancestor.

std::string ancestor_name(uint32_t level) {
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
uint32_t links_between(const NvLinks& a, const NvLinks& b, const std::string& b_bus_id) {
  const auto direct = static_cast<uint32_t>(std::count(a.peers.begin(), a.peers.end(), b_bus_id));
  return direct ? direct : std::min(a.to_switches, b.to_switches);
}

std::vector<std::vector<Link>> topology_of(Library& library, const std::vector<Found>& devices) {
  const size_t n = devices.size();
  std::vector<std::vector<Link>> out(n, std::vector<Link>(n));
  // A MIG instance is where its GPU is.
  const auto gpu_of = [&](size_t i) { return devices[i].info.parent ? *devices[i].info.parent : i; };
  std::vector<NvLinks> links(n);
  for (size_t i = 0; i < n; ++i)
    if (gpu_of(i) == i && devices[i].place.device) links[i] = links_of(library, devices[i].place.device);
  for (size_t i = 0; i < n; ++i)
    for (size_t j = 0; j < n; ++j) {
      const Found &a = devices[gpu_of(i)], &b = devices[gpu_of(j)];
      uint32_t level = 0;
      if (&a == &b) {
        out[i][j].kind = "X";
      } else if (!a.place.device || !b.place.device) {
        continue;
      } else if (const uint32_t count = links_between(links[gpu_of(i)], links[gpu_of(j)], b.info.pci_bus_id)) {
        out[i][j].kind = fmt::format("NV{}", count);
      } else if (library.call(library.api.ancestor, a.place.device, b.place.device, &level) == kSuccess) {
        out[i][j].kind = ancestor_name(level);
      }
    }
  return out;
}

}  // namespace
}  // namespace profgpu::nvml

namespace profgpu {
namespace {

// Without persistence mode the driver initializes each device anew, which takes seconds.
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
    const auto& reader = readers_[reading.device];
    Status status = Error{nvml::words_of(found_[reading.device].broken)};
    if (reader) status = reader->read(request, reading);
    add_xids(reading, !status);
    return status;
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
  std::vector<Fact> system_facts() override { return nvml::facts_of_system(*library_); }
  std::vector<Fact> device_facts(uint32_t device) override { return nvml::facts_of_device(*library_, found_[device]); }
  std::vector<std::vector<Link>> topology() override { return nvml::topology_of(*library_, found_); }

 private:
  static std::vector<nvml::Device> gpus_of(const std::vector<nvml::Found>& found) {
    std::vector<nvml::Device> out;
    for (const nvml::Found& f : found) out.push_back(f.place.parent ? nullptr : f.place.device);
    return out;
  }

  // Counted since the watch began: 0 is a value once it has.
  void add_xids(Reading& reading, bool only_new) {
    if (found_[reading.device].place.parent) return;
    auto& [version, seen] = xids_known_[reading.device];
    const uint32_t now = xids_.version();
    const auto events = now == version ? std::vector<nvml::XidWatch::Event>()
                                       : xids_.take_events(reading.device);  // first, so that the count has all of them
    if (only_new && events.empty()) return;
    if (now != version) seen = xids_.seen(reading.device), version = now;
    if (seen.state != nvml::kSuccess) return;
    reading.add(Metric::kXidErrors, static_cast<double>(seen.count));
    for (const auto& e : events) reading.add(Metric::kXidLast, static_cast<double>(e.code), e.time_ns);
    if (events.empty() && seen.count > 0) reading.add(Metric::kXidLast, static_cast<double>(seen.last), seen.last_ns);
  }

  // In this order, since each uses those before it until it is destroyed.
  std::shared_ptr<nvml::Library> library_;
  std::vector<nvml::Found> found_;
  std::vector<DeviceInfo> devices_;
  std::vector<std::unique_ptr<nvml::Reader>> readers_;
  nvml::XidWatch xids_;
  struct XidsKnown {
    uint32_t version = 0;
    nvml::XidWatch::Seen seen;
  };
  std::vector<XidsKnown> xids_known_;   // by device, at the previous reading
};

Result<std::unique_ptr<Backend>> open_nvml(const BackendOptions& options) {
  auto inventory = nvml::take_inventory(kPatienceNs, !options.constants_later);
  if (!inventory) return inventory.error();
  return std::unique_ptr<Backend>(
      std::make_unique<NvmlBackend>(std::move(inventory->library), std::move(inventory->devices)));
}

}  // namespace

extern const BackendKind kNvml = {"nvml",
                                  "NVIDIA's management library, which comes with the driver (libnvidia-ml.so.1)",
                                  true,
                                  open_nvml};

}  // namespace profgpu
