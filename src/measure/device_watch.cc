#include "measure/device_watch.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <set>
#include <thread>

#include "base/clock.h"
#include "base/decimal.h"
#include "base/steady_unix.h"
#include "base/text.h"
#include "devices/system_files.h"

namespace profgpu {
namespace {

constexpr int64_t kInterval_ns = 50'000'000;
constexpr size_t kMaxReadings = 4096;
constexpr int64_t kFirstReading_ns = 1'000'000'000;   // waited for at most, so that each figure has a reading

// "GPU-…" and "MIG-…" of one device differ, since CUDA's numbers have no prefix.
std::string_view digits_of(std::string_view uuid) {
  const size_t dash = uuid.find('-');
  return dash == uuid.npos ? uuid : uuid.substr(dash + 1);
}

// Gigabytes a second and lane in one direction, after line coding (8b/10b, 128b/130b; generation 6: FLITs of 242 bytes
// payload in 256), PCI Express Base Specification.
double lane_gbps(int generation) {
  constexpr double kRates[] = {0, 0.25, 0.5, 8.0 * 128 / 130 / 8, 16.0 * 128 / 130 / 8, 32.0 * 128 / 130 / 8,
                               64.0 * 242 / 256 / 8};
  return generation > 0 && generation < 7 ? kRates[generation] : 0;
}

// Of the device in its slot; 0: unknown.
int64_t lanes_at_most(Backend& backend, uint32_t device) {
  for (const Fact& f : backend.device_facts(device))
    if (f.id == "pcie_width_max") return whole_number(f.value).value_or(0);
  return 0;
}

std::string text_of(const ProcessSample& p) {
  const std::string name = p.name.empty() ? file_line(fmt::format("/proc/{}/comm", p.pid)) : p.name;
  return fmt::format("{} (pid {})", name.empty() ? "a process" : name, p.pid);
}

}  // namespace

DeviceWatch::DeviceWatch(std::shared_ptr<Backend> backend) : backend_(std::move(backend)) {
  if (!backend_) return;
  readings_.resize(backend_->devices().size());
  processes_.resize(readings_.size());
  at_first_.resize(readings_.size());
  for (uint32_t d = 0; d < readings_.size(); ++d) most_lanes_.push_back(lanes_at_most(*backend_, d));
  SamplerOptions options{.interval_ns = kInterval_ns};
  for (const Metric m : {Metric::kSmClock, Metric::kPower, Metric::kTemperature, Metric::kClockEventReasons,
                         Metric::kPcieGeneration, Metric::kPcieWidth, Metric::kEccCorrected, Metric::kEccUncorrected,
                         Metric::kXidErrors, Metric::kXidLast, Metric::kMemoryUsed})
    options.wanted.set(static_cast<size_t>(m));
  sampler_ = std::make_unique<Sampler>(backend_, options, [this](const Reading& reading) { take(reading); });
  sampler_->start();
  const int64_t until_ns = monotonic_ns() + kFirstReading_ns;
  const auto all_read = [&] {
    const std::lock_guard lock(mutex_);
    return std::ranges::none_of(readings_, &std::vector<Reading>::empty);
  };
  while (!all_read() && monotonic_ns() < until_ns) std::this_thread::sleep_for(std::chrono::milliseconds(5));
}

DeviceWatch::~DeviceWatch() {
  if (sampler_) sampler_->stop();
}

void DeviceWatch::take(const Reading& reading) {
  const std::lock_guard lock(mutex_);
  if (reading.has_processes) processes_[reading.device] = reading.processes;
  std::vector<Reading>& kept = readings_[reading.device];
  // The first stays: faults are counted from it.
  if (kept.size() >= kMaxReadings) kept.erase(kept.begin() + 1, kept.begin() + kMaxReadings / 2);
  kept.push_back({reading.device, reading.time_ns, reading.samples, false, {}});
}

std::optional<uint32_t> DeviceWatch::find(const std::string& uuid, const std::string& pci_bus_id) const {
  if (!backend_) return std::nullopt;
  const std::vector<DeviceInfo>& all = backend_->devices();
  for (uint32_t i = 0; i < all.size(); ++i)
    if (!uuid.empty() && digits_of(all[i].uuid) == digits_of(uuid)) return i;
  for (uint32_t i = 0; i < all.size(); ++i)
    if (!pci_bus_id.empty() && all[i].pci_bus_id == pci_bus_id && all[i].mig_profile.empty()) return i;
  return std::nullopt;
}

DeviceReadings DeviceWatch::since(uint32_t device, int64_t from_ns) const {
  const std::lock_guard lock(mutex_);
  const std::vector<Reading>& all = readings_[device];
  auto first = std::ranges::lower_bound(all, from_ns, {}, &Reading::time_ns);
  if (first == all.end() && !all.empty()) --first;
  DeviceReadings out;
  double clock = 0, power = 0;
  int64_t clocks = 0, powers = 0;
  uint32_t reasons = 0;
  int generation = 0, width = 0;
  for (; first != all.end(); ++first)
    for (const Sample& s : first->samples) {
      if (s.metric == Metric::kSmClock) clock += s.value, ++clocks;
      if (s.metric == Metric::kPower) power += s.value, ++powers;
      if (s.metric == Metric::kTemperature) out.temperature_c = std::max(out.temperature_c.value_or(0), s.value);
      if (s.metric == Metric::kClockEventReasons) reasons |= static_cast<uint32_t>(s.value) & kHeldBackReasons;
      // Links at rest run slower: the fastest counts.
      if (s.metric == Metric::kPcieGeneration) generation = std::max(generation, static_cast<int>(s.value));
      if (s.metric == Metric::kPcieWidth) width = std::max(width, static_cast<int>(s.value));
    }
  if (clocks > 0) out.sm_clock_mhz = clock / static_cast<double>(clocks);
  if (powers > 0) out.power_w = power / static_cast<double>(powers);
  if (const double rate = lane_gbps(generation) * width; rate > 0) {
    out.pcie_gbps = rate;
    out.pcie_link = fmt::format("Gen{} ×{}", generation, width);
    if (width < most_lanes_[device]) out.pcie_link += fmt::format(" of ×{}", most_lanes_[device]);
  }
  for (const ClockReasonInfo& r : clock_reasons())
    if (reasons & static_cast<uint32_t>(r.reason)) append_listed(out.held_back_by, r.words);
  return out;
}

DeviceFaults DeviceWatch::faults_since(uint32_t device, int64_t from_ns) const {
  const std::lock_guard lock(mutex_);
  const std::vector<Reading>& all = readings_[device];
  // Counters as they were before, and as they are: of slow ones not every reading has a value.
  const auto values_of = [&](Metric m) {
    std::optional<double> before, first, last;
    for (const Reading& r : all)
      for (const Sample& s : r.samples) {
        if (s.metric != m) continue;
        if (r.time_ns < from_ns) before = s.value;
        if (!first) first = s.value;
        last = s.value;
      }
    return std::pair(before ? before : first, last);
  };
  const auto rise = [&](Metric m) {
    const auto [before, last] = values_of(m);
    return before && last ? std::max<int64_t>(0, static_cast<int64_t>(*last - *before)) : 0;
  };
  DeviceFaults f{rise(Metric::kEccCorrected), rise(Metric::kEccUncorrected), rise(Metric::kXidErrors), 0};
  if (f.xids > 0) f.last_xid = static_cast<int64_t>(values_of(Metric::kXidLast).second.value_or(0));
  return f;
}

std::string DeviceWatch::link(uint32_t from, uint32_t to) {
  if (!backend_) return "";
  if (!topology_) topology_ = backend_->topology();
  return from < topology_->size() && to < (*topology_)[from].size() ? (*topology_)[from][to].kind : "";
}

std::optional<double> DeviceWatch::link_gbps(uint32_t from, std::string_view link) {
  const auto links = link.starts_with("NV") ? whole_number(link.substr(2)) : std::nullopt;
  if (!backend_ || !links) return std::nullopt;
  for (const Fact& f : backend_->device_facts(from))
    if (f.id == "nvlink_speed_mb_per_second")
      if (const auto speed = whole_number(f.value); speed && *speed > 0)
        return static_cast<double>(*links * *speed) / 1e3;
  return std::nullopt;
}

std::optional<double> DeviceWatch::memory_used_now(uint32_t device) const {
  const int64_t from_ns = steady_unix_ns(), until_ns = monotonic_ns() + kFirstReading_ns;
  for (; monotonic_ns() < until_ns; std::this_thread::sleep_for(std::chrono::milliseconds(5))) {
    const std::lock_guard lock(mutex_);
    for (const Reading& r : readings_[device])
      for (const Sample& s : r.samples)
        if (r.time_ns >= from_ns && s.metric == Metric::kMemoryUsed) return s.value;
  }
  return std::nullopt;
}

// NVLinks to another device; 0: it is reached over PCIe; none: that is unknown, or by another way.
std::optional<int64_t> DeviceWatch::nvlinks_to(uint32_t from, uint32_t to) {
  const std::string kind = link(from, to);
  if (kind.starts_with("NV")) return whole_number(kind.substr(2));
  const bool pcie = std::ranges::count(std::array{"PIX", "PXB", "PHB", "NODE", "SYS"}, kind) > 0;
  return pcie ? std::optional<int64_t>(0) : std::nullopt;
}

GroupLink DeviceWatch::link_of_group(const std::vector<uint32_t>& devices) {
  if (devices.size() < 2) return {};
  std::vector<int64_t> links;              // of each device to all others
  std::set<bool> kinds;
  for (const uint32_t from : devices) {
    int64_t& sum = links.emplace_back(0);
    for (const uint32_t to : devices) {
      if (to == from) continue;
      const auto count = nvlinks_to(from, to);
      if (!count) return {};
      kinds.insert(*count > 0), sum += *count;
    }
  }
  if (kinds.size() != 1) return {};
  const bool nvlink = *kinds.begin();
  GroupLink group{nvlink ? "" : "PCIe", {}, {}};
  for (size_t i = 0; i < devices.size(); ++i) {
    const uint32_t from = devices[i];
    // Over switches all links of a device reach each other one; without, each pair has its own.
    if (nvlink) links[i] = std::min(links[i], active_links(from).value_or(links[i]));
    const auto pcie_gbps = nvlink ? std::nullopt : since(from, 0).pcie_gbps;
    const auto all = nvlink ? link_gbps(from, fmt::format("NV{}", links[i])) : pcie_gbps;
    const auto next = nvlink ? link_gbps(from, link(from, devices[(i + 1) % devices.size()])) : pcie_gbps;
    if (!all || !next) return {};
    group.gbps = std::min(group.gbps.value_or(*all), *all);
    group.next_gbps = std::min(group.next_gbps.value_or(*next), *next);
  }
  if (nvlink) group.link = fmt::format("NV{}", *std::ranges::min_element(links));
  return group;
}

// "18 of 18" as facts have it.
std::optional<int64_t> DeviceWatch::active_links(uint32_t device) {
  for (const Fact& f : backend_->device_facts(device))
    if (f.id == "nvlinks_active") return whole_number(f.value.substr(0, f.value.find(' ')));
  return std::nullopt;
}

std::vector<std::string> DeviceWatch::others_at_first(uint32_t device) {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> out;
  for (const ProcessSample& p : processes_[device]) {
    if (p.pid == ::getpid()) continue;
    at_first_[device].insert(p.pid);
    out.push_back(text_of(p));
  }
  return out;
}

std::vector<std::string> DeviceWatch::others(uint32_t device) const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> out, since;
  bool own = false;
  for (const ProcessSample& p : processes_[device]) {
    if (p.pid == ::getpid()) own = true;
    else if (p.type != 'G') (at_first_[device].contains(p.pid) ? out : since).push_back(text_of(p));
  }
  if (own || since.size() > 1) out.insert(out.end(), since.begin(), since.end());
  return out;
}

}  // namespace profgpu
