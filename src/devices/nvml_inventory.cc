#include "devices/nvml_inventory.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <iterator>
#include <optional>
#include <utility>

#include "devices/pci_address.h"
#include "devices/pending.h"

namespace profgpu::nvml {
namespace {

constexpr uint32_t kMaxInstances = 64;

std::string text_of(Library& library, GetText call, Device device) {
  std::array<char, 96> text{};
  const Return code = library.call(call, device, text.data(), static_cast<uint32_t>(text.size() - 1));
  return code == kSuccess ? text.data() : std::string();
}

// The host's node; a GPU's own node number is something else (memory of Grace Hopper).
std::optional<int32_t> numa_node_of(Library& library, Device device, const std::string& bus_id) {
  std::array<unsigned long, 16> nodes{};
  if (library.call(library.api.memory_affinity, device, uint32_t{nodes.size()}, nodes.data(), uint32_t{0}) == kSuccess)
    for (size_t i = 0; i < nodes.size() * 64; ++i)
      if (nodes[i / 64] >> i % 64 & 1) return static_cast<int32_t>(i);
  return numa_node(SystemRoots::from_environment(), bus_id);
}

void add(Found& found, Return code, Metric metric, double value) {
  if (code == kSuccess) found.info.constants.emplace_back(metric, value);
  else found.unknown.emplace_back(metric, code);
}

void add_memory(Library& library, Found& found) {
  MemoryV2 m{version_word(sizeof m, 2), 0, 0, 0, 0};
  Return code = library.call(library.api.memory_v2, found.place.device, &m);
  if (code != kSuccess) {
    Memory old{};
    code = library.call(library.api.memory, found.place.device, &old);
    m.total = old.total;
  }
  add(found, code, Metric::kMemoryTotal, static_cast<double>(m.total));
  if (code == kSuccess) found.place.memory_total = static_cast<double>(m.total);
}

void add_constants(Library& library, Found& found) {
  DeviceCalls calls(library, found.place.device);
  for (const Constant& c : constants().first(found.place.parent ? 1 : constants().size())) {
    double value = 0;
    const Return code = c.call(calls, value);
    add(found, code, c.metric, value);
  }
}

// One that the driver gave no handle for.
Found broken_gpu(const Library& library, uint32_t index, Return code) {
  Found f;
  f.broken = code;
  f.info.index = index;
  f.info.vendor = "NVIDIA";
  f.info.driver_version = library.driver_version();
  f.info.name = "NVIDIA GPU (" + words_of(code) + ")";
  return f;
}

Found gpu_at(Library& library, uint32_t index, bool with_constants) {
  Device device = nullptr;
  const Return code = library.call(library.api.handle, index, &device);
  Found f = broken_gpu(library, index, code);
  if (code != kSuccess) return f;
  f.place.device = device;
  f.info.name = text_of(library, library.api.name, f.place.device);
  if (f.info.name.empty()) f.info.name = "NVIDIA GPU";
  f.info.uuid = text_of(library, library.api.uuid, f.place.device);
  PciInfo pci{};
  if (library.call(library.api.pci_info, f.place.device, &pci) == kSuccess) f.info.pci_bus_id = bus_id_of(pci);
  f.info.numa_node = numa_node_of(library, f.place.device, f.info.pci_bus_id);
  uint32_t mode = 0, pending = 0;
  f.place.divided = library.call(library.api.mig_mode, f.place.device, &mode, &pending) == kSuccess && mode == 1;
  add_memory(library, f);
  if (with_constants) add_constants(library, f);
  f.place.constants_wanted = !with_constants;
  return f;
}

// From the name ("NVIDIA H100 80GB HBM3 MIG 3g.40gb"), else from slices and memory.
std::string profile_of(Library& library, Device device, const std::string& name) {
  const size_t at = name.rfind("MIG ");
  if (at != std::string::npos) return name.substr(at + 4);
  DeviceAttributes a{};
  if (library.call(library.api.attributes, device, &a) != kSuccess) return "MIG";
  const uint64_t gib = (a.memory_mib + 512) / 1024;
  return a.compute_slices < a.gpu_slices ? fmt::format("{}c.{}g.{}gb", a.compute_slices, a.gpu_slices, gib)
                                         : fmt::format("{}g.{}gb", a.gpu_slices, gib);
}

void add_instances(Library& library, std::vector<Found>& all) {
  const Device gpu = all.front().place.device;
  uint32_t count = 0;
  if (library.call(library.api.mig_count, gpu, &count) != kSuccess) return;
  for (uint32_t i = 0; i < std::min(count, kMaxInstances); ++i) {
    Found f;
    // Indices without an instance answer NOT_FOUND.
    if (library.call(library.api.mig_handle, gpu, i, &f.place.device) != kSuccess) continue;
    f.place.parent = gpu;
    f.info = all.front().info;
    f.info.constants.clear();
    f.info.parent = 0;
    f.info.uuid = text_of(library, library.api.uuid, f.place.device);
    f.info.mig_profile = profile_of(library, f.place.device, text_of(library, library.api.name, f.place.device));
    uint32_t id = 0;
    if (library.call(library.api.gpu_instance, f.place.device, &id) == kSuccess) {
      f.info.gpu_instance = id;
      f.place.gpu_instance = id;
    }
    if (library.call(library.api.compute_instance, f.place.device, &id) == kSuccess) f.info.compute_instance = id;
    add_memory(library, f);
    add_constants(library, f);
    all.push_back(std::move(f));
  }
}

std::vector<Found> find_device(Library& library, uint32_t index, bool with_constants) {
  std::vector<Found> found = {gpu_at(library, index, with_constants)};
  if (found.front().place.divided) add_instances(library, found);
  return found;
}

using Clock = std::chrono::steady_clock;

constexpr uint32_t kMaxGpus = 256;
// For the next answer once a device has answered: a driver without persistence mode wakes them one by one.
constexpr std::chrono::seconds kNextAnswer{3};
constexpr std::chrono::milliseconds kPoll{1};

struct OpenLibrary {
  std::shared_ptr<Library> library;
  uint32_t devices = 0;
};

Result<OpenLibrary> open_library() {
  auto library = Library::open();
  if (!library) return library.error();
  uint32_t count = 0;
  if (const Return code = (*library)->call((*library)->api.count, &count); code != kSuccess)
    return Error{"NVML cannot count its devices: " + words_of(code)};
  if (count == 0)
    return Error{"the NVIDIA driver works but has no device",
                 "in a container pass the devices in (--gpus all); else see lspci -d 10de: and dmesg | grep -i nvrm"};
  return OpenLibrary{*std::move(library), std::min(count, kMaxGpus)};
}

// By index; empty: no answer. All devices are queried at once, so that one that hangs does not keep others from being
// watched.
std::vector<std::vector<Found>> query_devices(const OpenLibrary& open, bool with_constants, Clock::time_point until) {
  std::vector<Pending<std::vector<Found>>> queries;
  for (uint32_t i = 0; i < open.devices; ++i)
    queries.emplace_back([library = open.library, i, with_constants] {
      return find_device(*library, i, with_constants);
    });
  std::vector<std::vector<Found>> answers(open.devices);
  for (size_t missing = answers.size(); missing > 0 && Clock::now() < until;)
    for (uint32_t i = 0; i < open.devices; ++i) {
      if (!answers[i].empty()) continue;
      auto answer = queries[i].await(Clock::now() + kPoll);
      if (!answer) continue;
      answers[i] = *std::move(answer);
      until = Clock::now() + kNextAnswer;
      --missing;
    }
  return answers;
}

Error no_answer(int64_t patience_ns) {
  left_in_driver = true;
  return {fmt::format("the NVIDIA driver has not answered for {} s", patience_ns / 1'000'000'000),
          "dmesg | grep -i -e nvrm -e xid may show why; a device that hangs needs a reset or a reboot"};
}

}  // namespace

// The numbers have the same offsets in all versions of the struct; the long text does not.
std::string bus_id_of(const PciInfo& pci) { return PciAddress{pci.domain, pci.bus, pci.device, 0}.bus_id(); }

Result<Inventory> take_inventory(int64_t patience_ns, bool with_constants) {
  const auto deadline = Clock::now() + std::chrono::nanoseconds(patience_ns);
  const auto open = Pending<Result<OpenLibrary>>(open_library).await(deadline);
  if (!open) return no_answer(patience_ns);
  if (!*open) return open->error();
  Inventory out{(*open)->library, {}};
  auto answers = query_devices(**open, with_constants, deadline);
  const auto silent = std::count_if(answers.begin(), answers.end(), [](const auto& a) { return a.empty(); });
  if (silent > 0) {
    left_in_driver = true;
    out.library->abandon();
  }
  if (silent == std::ssize(answers)) return no_answer(patience_ns);
  size_t forbidden = 0;
  for (uint32_t i = 0; i < answers.size(); ++i) {
    if (answers[i].empty()) answers[i].push_back(broken_gpu(*out.library, i, kTimeout));
    const auto gpu = static_cast<uint32_t>(out.devices.size());
    for (Found& f : answers[i]) {
      if (f.info.parent) f.info.parent = gpu;
      forbidden += f.broken == kNoPermission;
      out.devices.push_back(std::move(f));
    }
  }
  if (forbidden == out.devices.size())
    return Error{"no permission to use any NVIDIA device", "check the permissions of /dev/nvidia0 and so on"};
  return out;
}

}  // namespace profgpu::nvml
