#include "devices/level_zero.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/environment.h"

namespace profgpu {
namespace {

using namespace level_zero;

constexpr uint32_t kMaxHandles = 256;
constexpr auto kPatience = std::chrono::seconds(2);   // for an opening that is under way

std::string words_of(Return code) {
  switch (code) {
    case kNoPermission: return "no permission";
    case kDependencyMissing: return "a dependency is missing";
    case kUninitialized: return "no Intel driver for it is installed";
    case kDeviceLost: return "the device is lost";
    default: return fmt::format("code 0x{:x}", static_cast<uint32_t>(code));
  }
}

// All handles of a kind, from a function that returns first their count, then the handles.
template <class Handle, class List, class... Of>
std::vector<Handle> handles(List* list, Of... of) {
  uint32_t count = 0;
  if (!list || list(of..., &count, nullptr) != kSuccess) return {};
  std::vector<Handle> out(std::min(count, kMaxHandles));
  count = static_cast<uint32_t>(out.size());
  if (out.empty() || list(of..., &count, out.data()) != kSuccess) return {};
  out.resize(std::min<size_t>(out.size(), count));
  return out;
}

// The engine groups that run kernels, best first: all engines together, all compute engines, single engines.
int rank_of(uint32_t group) {
  switch (group) {
    case kRenderComputeAll: return 0;
    case kComputeAll: return 1;
    case kComputeSingle: case kRenderSingle: return 2;
    default: return 3;
  }
}

}  // namespace

LevelZeroDevice::LevelZeroDevice(const Api& api, Device device) : api_(api), device_(device) {
  PciProperties p;
  if (!call(api_.pci, device_, &p)) return;
  pci_ = fmt::format("{:04x}:{:02x}:{:02x}.{:x}", p.domain, p.bus, p.device, p.function);
  counts_bytes_ = p.counts_bytes, counts_replays_ = p.counts_replays;
  find_engines();
  find_memories();
}

void LevelZeroDevice::find_engines() {
  int best = 3;
  for (const auto e : handles<level_zero::Engine>(api_.engines, device_)) {
    EngineProperties p;
    if (!call(api_.engine_properties, e, &p) || rank_of(p.group) > best || rank_of(p.group) == 3) continue;
    if (rank_of(p.group) < best) best = rank_of(p.group), engines_.clear();
    engines_.push_back({e, {}});
  }
}

void LevelZeroDevice::find_memories() {
  for (const auto m : handles<level_zero::Memory>(api_.memories, device_)) {
    MemoryProperties p;
    if (call(api_.memory_properties, m, &p) && p.location == kDeviceMemory) memories_.push_back({m, {}});
  }
}

void LevelZeroDevice::add(Reading& reading, Metric metric, double value) {
  reading.add(metric, value);
  said_[static_cast<size_t>(metric)].store(true, std::memory_order_relaxed);
}

void LevelZeroDevice::read(Reading& reading) {
  for (std::atomic<bool>& said : said_) said.store(false, std::memory_order_relaxed);
  add_utilization(reading);
  add_memory(reading);
  add_bandwidth(reading);
  add_pcie(reading);
}

// Of several tiles, the busiest.
void LevelZeroDevice::add_utilization(Reading& reading) {
  double busiest = -1;
  for (Engine& e : engines_) {
    EngineStats now;
    if (!call(api_.engine_stats, e.handle, &now)) now = {};
    const EngineStats before = std::exchange(e.before, now);
    if (before.timestamp_us == 0 || now.timestamp_us <= before.timestamp_us || now.active_us < before.active_us)
      continue;
    const auto active = static_cast<double>(now.active_us - before.active_us);
    const auto elapsed = static_cast<double>(now.timestamp_us - before.timestamp_us);
    busiest = std::max(busiest, std::min(100.0, 100 * active / elapsed));
  }
  if (busiest >= 0) add(reading, Metric::kUtilization, busiest);
}

void LevelZeroDevice::add_memory(Reading& reading) {
  double free = 0, size = 0;
  for (const Memory& m : memories_) {
    MemoryState now;
    if (!call(api_.memory_state, m.handle, &now) || now.size == 0 || now.free > now.size) return;
    free += static_cast<double>(now.free), size += static_cast<double>(now.size);
  }
  if (size == 0) return;
  add(reading, Metric::kMemoryUsed, size - free);
  add(reading, Metric::kMemoryFree, free);
}

// Bytes moved, of those that the memory could move.
void LevelZeroDevice::add_bandwidth(Reading& reading) {
  double moved = 0, possible = 0;
  for (Memory& m : memories_) {
    MemoryBandwidth now;
    if (!call(api_.memory_bandwidth, m.handle, &now)) now = {};
    const MemoryBandwidth before = std::exchange(m.before, now);
    if (before.timestamp_us == 0 || now.timestamp_us <= before.timestamp_us) return;
    if (now.read < before.read || now.written < before.written) return;
    const double elapsed_s = static_cast<double>(now.timestamp_us - before.timestamp_us) * 1e-6;
    moved += static_cast<double>(now.read - before.read) + static_cast<double>(now.written - before.written);
    possible += static_cast<double>(now.max_per_second) * elapsed_s;
  }
  if (possible > 0) add(reading, Metric::kDramActive, std::min(100.0, 100 * moved / possible));
}

void LevelZeroDevice::add_pcie(Reading& reading) {
  PciStats now;
  if ((!counts_bytes_ && !counts_replays_) || !call(api_.pci_stats, device_, &now)) return;
  if (counts_bytes_) {
    add(reading, Metric::kPcieRx, static_cast<double>(now.received));
    add(reading, Metric::kPcieTx, static_cast<double>(now.transmitted));
  }
  if (counts_replays_) add(reading, Metric::kPcieReplays, static_cast<double>(now.replays));
}

std::unique_ptr<LevelZero::Opened> LevelZero::open() {
  auto opened = std::make_unique<Opened>();
  const std::string name = environment("PROFGPU_LEVEL_ZERO_LIBRARY", "libze_loader.so.1");
  auto library = DynLib::open(name);
  if (!library) {
    opened->why = "the Level Zero loader is missing (" + name + ")";
    return opened;
  }
  opened->library = *std::move(library);
  const Api& api = opened->api.emplace(opened->library);
  opened->library.leak();   // the drivers it loads do not expect to be unloaded
  if (!api.init || !api.drivers || !api.devices || !api.pci) {
    opened->why = "the Level Zero loader is too old: no zesInit";
  } else if (const Return code = api.init(0); code != kSuccess) {
    opened->why = "Level Zero cannot be used: " + words_of(code);
  } else {
    for (const Driver driver : handles<Driver>(api.drivers))
      for (const Device device : handles<Device>(api.devices, driver))
        opened->devices.push_back(std::make_unique<LevelZeroDevice>(api, device));
    if (opened->devices.empty()) opened->why = "Level Zero has no device";
  }
  return opened;
}

void LevelZero::start() {
  const std::lock_guard lock(lock_);
  if (!pending_) pending_.emplace(open);
}

LevelZero::~LevelZero() {
  if (!pending_ || opened()) return;
  if (!pending_->await(std::chrono::steady_clock::now() + kPatience)) left_in_driver = true;
}

const LevelZero::Opened* LevelZero::opened() const {
  if (pending_ && !opened_)
    if (auto now = pending_->await({})) opened_ = *std::move(now);
  return opened_.get();
}

LevelZeroDevice* LevelZero::device(const std::string& pci) const {
  const std::lock_guard lock(lock_);
  if (const Opened* o = opened())
    for (const auto& d : o->devices)
      if (d->pci() == pci) return d.get();
  return nullptr;
}

std::string LevelZero::why() const {
  const std::lock_guard lock(lock_);
  const Opened* o = opened();
  return o ? o->why : "Level Zero is not open yet";
}

int64_t LevelZero::calls() const {
  const std::lock_guard lock(lock_);
  int64_t sum = 0;
  if (const Opened* o = opened())
    for (const auto& d : o->devices) sum += d->calls();
  return sum;
}

}  // namespace profgpu
