#include "analyse/rank/outside_memory.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace profgpu {
namespace {

std::optional<int64_t> highest(const SampleLog& samples, uint32_t device, Metric metric) {
  const SampleSeries* series = samples.find(device, metric);
  if (series == nullptr) return std::nullopt;
  std::optional<double> most;
  for (const double value : series->value)
    if (!std::isnan(value) && (!most || value > *most)) most = value;
  return most ? std::optional(std::llround(*most)) : std::nullopt;
}

std::optional<int64_t> process_bytes(const SampleLog& samples, uint32_t device, int rank) {
  std::map<int64_t, int64_t> all;  // by pid: the highest
  std::optional<int64_t> of_rank;
  for (const SampleLog::ProcessRow& row : samples.processes) {
    if (row.device != device || !row.process.memory_bytes) continue;
    int64_t& most = all[row.process.pid];
    most = std::max(most, *row.process.memory_bytes);
    if (row.process.origin && row.process.origin->rank == rank) of_rank = std::max(of_rank.value_or(0), most);
  }
  if (of_rank) return of_rank;
  return all.size() == 1 ? std::optional(all.begin()->second) : std::nullopt;
}

}  // namespace

std::optional<OutsideMemory> outside_memory(const SampleLog& samples, uint32_t device, int rank,
                                            const SnapshotSection& snapshot) {
  if (device >= samples.devices.size()) return std::nullopt;
  OutsideMemory out;
  for (const auto& [metric, value] : samples.devices[device].constants)
    if (metric == Metric::kMemoryTotal) out.capacity_bytes = std::llround(value);
  out.used_bytes = highest(samples, device, Metric::kMemoryUsed);
  out.process_bytes = process_bytes(samples, device, rank);
  if (!out.used_bytes && !out.process_bytes) return std::nullopt;
  const SnapshotDevice* of_peak = nullptr;
  for (const SnapshotDevice& d : snapshot.devices)
    if (snapshot.peak.device == d.device) of_peak = &d;
  const std::optional<int64_t> reserved = of_peak != nullptr ? of_peak->peak_reserved_bytes : std::nullopt;
  if (out.process_bytes && reserved && *out.process_bytes >= *reserved) out.own_bytes = *out.process_bytes - *reserved;
  if (out.process_bytes && out.used_bytes && *out.used_bytes >= *out.process_bytes)
    out.other_bytes = *out.used_bytes - *out.process_bytes;
  return out;
}

void fit_beside_others(SnapshotSection& snapshot) {
  if (!snapshot.batch || snapshot.oom || !snapshot.outside || !snapshot.outside->capacity_bytes) return;
  const OutsideMemory& o = *snapshot.outside;
  const int64_t left = *o.capacity_bytes - o.own_bytes.value_or(0) - o.other_bytes.value_or(0);
  snapshot.batch->fit_into(std::max<int64_t>(left, 0));
}

}  // namespace profgpu
