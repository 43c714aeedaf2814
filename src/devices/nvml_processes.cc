#include "devices/nvml_processes.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/steady_unix.h"

namespace profgpu::nvml {
namespace {

constexpr uint32_t kMinRows = 16;        // per device before the buffers grow
constexpr uint32_t kMaxRows = 1 << 14;
// The driver averages a process's use over up to this long; a process without a row for longer was idle.
constexpr int64_t kUseHoldsNs = 2'500'000'000;

// Drivers 535.43 to 535.85 write a fifth member, and 32 bytes, into the rows of the _v3 calls.
bool writes_long_rows(const std::string& driver) {
  if (driver.rfind("535.", 0) != 0) return false;
  const long minor = std::strtol(driver.c_str() + 4, nullptr, 10);
  return minor >= 43 && minor < 86;
}

// Calls fill(rows, count) until the rows fit: the list may grow between two calls, so each call has extra space.
template <class Element, class Fill>
Return fetch(std::vector<Element>& rows, size_t row_size, uint32_t& count, Fill fill) {
  if (rows.empty()) rows.resize(kMinRows * row_size / sizeof(Element));
  for (int attempt = 0; attempt < 4; ++attempt) {
    const auto room = static_cast<uint32_t>(rows.size() * sizeof(Element) / row_size);
    count = room;
    const Return code = fill(rows.data(), count);
    const size_t wanted = std::clamp<uint32_t>(count, kMinRows, kMaxRows) + kMinRows;
    count = std::min(count, room);
    if (code != kInsufficientSize) return code;
    rows.resize(std::max(rows.size(), wanted * row_size / sizeof(Element)));
  }
  return kInsufficientSize;
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
  for (auto& list : lists_) list.reserve(kMinRows);
  raw_.resize(kMinRows * sizeof(ProcessConfidential) / sizeof(uint64_t));
  uses_.reserve(kMinRows);
}

Return Processes::read_list(Kind kind) {
  Return code = kFunctionNotFound;
  for (Version& version : versions_[kind]) {
    if (!version.call) continue;
    uint32_t count = 0;
    code = fetch(raw_, version.row_size, count,
                 [&](uint64_t* rows, uint32_t& n) { return calls_.call(version.call, &n, static_cast<void*>(rows)); });
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

// Not all rows are valid: some drivers fill all the space with rows of ended processes, with old times or percentages
// in the millions.
void Processes::add_use(const ProcessUtilizationInfo& row, int64_t unix_ns) {
  const auto time_ns = static_cast<int64_t>(std::min<uint64_t>(row.time_us, INT64_MAX / 1000) * 1000);
  if (row.time_us <= since_us_ || time_ns > unix_ns + kUseHoldsNs) return;
  if (std::max({row.sm, row.memory, row.encoder, row.decoder}) > 100 || !runs(row.pid)) return;
  const Use use{row.pid, time_ns, double(row.sm), double(row.memory), double(row.encoder), double(row.decoder)};
  const auto old = std::find_if(uses_.begin(), uses_.end(), [&](const Use& u) { return u.pid == use.pid; });
  if (old == uses_.end()) {
    std::erase_if(uses_, [&](const Use& u) { return time_ns - u.time_ns > kUseHoldsNs && !runs(u.pid); });
    uses_.push_back(use);
  } else if (old->time_ns <= time_ns) {
    *old = use;
  }
}

Return Processes::fetch_utilization(uint64_t since_us, uint32_t& count) {
  const Api& api = calls_.library.api;
  if (has_info_) {
    const Return code = fetch(info_rows_, sizeof(ProcessUtilizationInfo), count, [&](auto* rows, uint32_t& n) {
      ProcessesUtilizationInfo info{version_word(sizeof info, 1), n, since_us, rows};
      const Return made = calls_.call(api.processes_utilization, &info);
      n = info.count;
      return made;
    });
    if (!is_final(code)) return code;
    has_info_ = false;
  }
  std::vector<ProcessUtilization>& old = rows_;
  const Return code = fetch(old, sizeof(ProcessUtilization), count, [&](auto* rows, uint32_t& n) {
    return calls_.call(api.process_utilization, rows, &n, since_us);
  });
  info_rows_.clear();
  for (uint32_t i = 0; i < count && code == kSuccess; ++i)
    info_rows_.push_back({old[i].time_us, old[i].pid, old[i].sm, old[i].memory, old[i].encoder, old[i].decoder, 0, 0});
  return code;
}

Return Processes::read_utilization(int64_t unix_ns) {
  if (since_us_ == 0) since_us_ = static_cast<uint64_t>(std::max<int64_t>(unix_ns - kUseHoldsNs, 0)) / 1000;
  uint32_t count = 0;
  // The driver's times are the system's clock's.
  const auto set_by_us = static_cast<uint64_t>(clock_set_by_ns() / 1000);
  const Return code = fetch_utilization(since_us_ + set_by_us, count);
  // Nothing found: no process was active.
  knows_use_ = code == kSuccess || code == kNotFound;
  if (code != kSuccess) return code == kNotFound ? kSuccess : code;
  for (uint32_t i = 0; i < count; ++i) {
    info_rows_[i].time_us -= set_by_us;
    add_use(info_rows_[i], unix_ns);
  }
  for (const Use& u : uses_) since_us_ = std::max(since_us_, static_cast<uint64_t>(u.time_ns) / 1000);
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
