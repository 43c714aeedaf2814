#include "devices/nvml_processes.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace profgpu::nvml {
namespace {

constexpr uint32_t kRoom = 16;           // processes a device before the buffers grow
constexpr uint32_t kMostRows = 1 << 14;
// The driver averages a process's use over up to this long; a process without a row for longer has done nothing.
constexpr int64_t kUseHoldsNs = 2'500'000'000;

// Drivers 535.43 to 535.85 write a fifth member, and 32 bytes, into the rows of the _v3 calls.
bool writes_long_rows(const std::string& driver) {
  if (driver.rfind("535.", 0) != 0) return false;
  const long minor = std::strtol(driver.c_str() + 4, nullptr, 10);
  return minor >= 43 && minor < 86;
}

}  // namespace

Processes::Processes(DeviceCalls& calls, double memory_total) : calls_(calls), memory_total_(memory_total) {
  const Api& a = calls.library.api;
  versions_[kCompute] = {{{a.compute_v3, 24}, {a.compute_v2, 24}, {a.compute_v1, 16}}};
  versions_[kGraphics] = {{{a.graphics_v3, 24}, {a.graphics_v2, 24}, {a.graphics_v1, 16}}};
  versions_[kMps] = {{{a.mps_v3, 24}, {a.mps_v2, 24}, {a.mps_v1, 16}}};
  if (writes_long_rows(calls.library.driver_version()))
    for (Versions& v : versions_) {
      v[0].row_size = sizeof(ProcessConfidential);
      if (v[1].call) std::swap(v[0], v[1]);   // the older call of these drivers is sound
    }
  for (auto& list : lists_) list.reserve(kRoom);
  raw_.resize(kRoom * sizeof(ProcessConfidential) / sizeof(uint64_t));
  uses_.reserve(kRoom);
}

// The list may grow between two calls, so that each time there is more room than was asked for.
Return Processes::fetch(const Version& version, uint32_t& count) {
  for (int attempt = 0; attempt < 4; ++attempt) {
    const auto room = static_cast<uint32_t>(raw_.size() * sizeof(uint64_t) / version.row_size);
    count = room;
    const Return code = calls_.call(version.call, &count, static_cast<void*>(raw_.data()));
    if (code == kSuccess) count = std::min(count, room);
    if (code != kInsufficientSize) return code;
    const size_t rows = std::clamp<uint32_t>(count, kRoom, kMostRows) + kRoom;
    raw_.resize(std::max(raw_.size(), rows * version.row_size / sizeof(uint64_t)));
  }
  return kInsufficientSize;
}

Return Processes::read_list(Kind kind) {
  Return code = kFunctionNotFound;
  for (Version& version : versions_[kind]) {
    if (!version.call) continue;
    uint32_t count = 0;
    code = fetch(version, count);
    // A newer library on an older driver: its older calls work.
    if (code == kFunctionNotFound || code == kArgumentVersionMismatch) {
      version.call = nullptr;
      continue;
    }
    auto& list = lists_[kind];
    list.clear();
    if (code != kSuccess) break;
    const char* row = reinterpret_cast<const char*>(raw_.data());
    for (uint32_t i = 0; i < count; ++i, row += version.row_size) {
      ProcessV1 p;
      std::memcpy(&p, row, sizeof p);
      if (p.pid != 0) list.push_back({p.pid, p.memory});
    }
    break;
  }
  if (is_final(code)) versions_[kind] = {};
  return code;
}

bool Processes::runs(int64_t pid) const {
  return std::any_of(lists_.begin(), lists_.end(), [&](const auto& list) {
    return std::any_of(list.begin(), list.end(), [&](const Row& r) { return r.pid == pid; });
  });
}

// Rows are not all what they seem: some drivers return as many as there is room for, of processes that are gone, with
// old times or percentages in the millions.
void Processes::add_use(uint32_t pid, uint64_t time_us, const std::array<uint32_t, 4>& pct, int64_t unix_ns) {
  const auto time_ns = static_cast<int64_t>(std::min<uint64_t>(time_us, INT64_MAX / 1000) * 1000);
  if (time_us <= since_us_ || time_ns > unix_ns + kUseHoldsNs) return;
  if (std::any_of(pct.begin(), pct.end(), [](uint32_t p) { return p > 100; }) || !runs(pid)) return;
  const Use use{pid, time_ns, double(pct[0]), double(pct[1]), double(pct[2]), double(pct[3])};
  const auto old = std::find_if(uses_.begin(), uses_.end(), [&](const Use& u) { return u.pid == use.pid; });
  if (old == uses_.end()) uses_.push_back(use);
  else if (old->time_ns <= time_ns) *old = use;
}

Return Processes::fetch_processes_utilization(uint32_t& count) {
  if (info_rows_.empty()) info_rows_.resize(kRoom);
  for (int attempt = 0; attempt < 4; ++attempt) {
    ProcessesUtilizationInfo info{version_word(sizeof info, 1), static_cast<uint32_t>(info_rows_.size()), since_us_,
                                  info_rows_.data()};
    const Return code = calls_.call(calls_.library.api.processes_utilization, &info);
    count = std::min(info.count, static_cast<uint32_t>(info_rows_.size()));
    if (code != kInsufficientSize) return code;
    info_rows_.resize(std::max<size_t>(info_rows_.size(), std::clamp<uint32_t>(info.count, kRoom, kMostRows) + kRoom));
  }
  return kInsufficientSize;
}

Return Processes::fetch_process_utilization(uint32_t& count) {
  if (rows_.empty()) rows_.resize(kRoom);
  for (int attempt = 0; attempt < 4; ++attempt) {
    count = static_cast<uint32_t>(rows_.size());
    const Return code = calls_.call(calls_.library.api.process_utilization, rows_.data(), &count, since_us_);
    const uint32_t wanted = count;
    count = std::min(count, static_cast<uint32_t>(rows_.size()));
    if (code != kInsufficientSize) return code;
    rows_.resize(std::max<size_t>(rows_.size(), std::clamp<uint32_t>(wanted, kRoom, kMostRows) + kRoom));
  }
  return kInsufficientSize;
}

Return Processes::read_utilization(int64_t unix_ns) {
  if (since_us_ == 0) since_us_ = static_cast<uint64_t>(std::max<int64_t>(unix_ns - kUseHoldsNs, 0)) / 1000;
  uint32_t count = 0;
  Return code = has_info_ ? fetch_processes_utilization(count) : kFunctionNotFound;
  bool old = false;
  if (is_final(code)) {
    has_info_ = false;
    code = fetch_process_utilization(count);
    old = true;
  }
  // Nothing found: nobody did anything.
  knows_use_ = code == kSuccess || code == kNotFound;
  if (code != kSuccess) return code == kNotFound ? kSuccess : code;
  const uint64_t before_us = since_us_;
  uint64_t newest_us = before_us;
  for (uint32_t i = 0; i < count; ++i) {
    const auto& n = old ? ProcessUtilizationInfo{rows_[i].time_us, rows_[i].pid, rows_[i].sm, rows_[i].memory,
                                                 rows_[i].encoder, rows_[i].decoder, 0, 0}
                        : info_rows_[i];
    add_use(n.pid, n.time_us, {n.sm, n.memory, n.encoder, n.decoder}, unix_ns);
  }
  for (const Use& u : uses_) newest_us = std::max(newest_us, static_cast<uint64_t>(u.time_ns) / 1000);
  since_us_ = newest_us;
  return kSuccess;
}

void Processes::show(Row row, char type, Reading& reading) const {
  ProcessSample& p = reading.processes.emplace_back();
  p.pid = row.pid;
  p.type = type;
  const bool known = row.memory != kNotAvailable && row.memory <= uint64_t{INT64_MAX} &&
                     (memory_total_ <= 0 || static_cast<double>(row.memory) <= memory_total_);
  if (known) p.memory_bytes = static_cast<int64_t>(row.memory);
  if (!knows_use_) return;
  const auto u = std::find_if(uses_.begin(), uses_.end(), [&](const Use& use) { return use.pid == row.pid; });
  const bool busy = u != uses_.end() && reading.time_ns - u->time_ns < kUseHoldsNs;
  p.utilization_pct = busy ? u->sm : 0;
  p.memory_utilization_pct = busy ? u->memory : 0;
  p.encoder_pct = busy ? u->encoder : 0;
  p.decoder_pct = busy ? u->decoder : 0;
}

void Processes::show(Reading& reading) const {
  reading.has_processes = true;
  const size_t first = reading.processes.size();
  constexpr std::array<std::pair<Kind, char>, kKinds> kOrder = {{{kMps, 'M'}, {kCompute, 'C'}, {kGraphics, 'G'}}};
  for (const auto& [kind, type] : kOrder)
    for (const Row& row : lists_[kind]) {
      const auto begin = reading.processes.begin() + static_cast<ptrdiff_t>(first);
      const bool there = std::any_of(begin, reading.processes.end(), [&](const auto& p) { return p.pid == row.pid; });
      if (!there) show(row, type, reading);
    }
}

}  // namespace profgpu::nvml
