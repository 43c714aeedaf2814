#include "analyse/kernels.h"

#include <algorithm>

#include "analyse/steps.h"
#include "base/statistics.h"

namespace profgpu {
namespace {

// Durations of each (name, kind) of a device's activity.
struct Bucket {
  KernelRow row;
  std::vector<int64_t> durations;
};

void finish(Bucket& b, int64_t kernel_total) {
  KernelRow& r = b.row;
  std::sort(b.durations.begin(), b.durations.end());
  r.count = static_cast<int64_t>(b.durations.size());
  for (const int64_t d : b.durations) r.total_ns += d;
  r.min_ns = b.durations.front();
  r.max_ns = b.durations.back();
  r.mean_ns = static_cast<double>(r.total_ns) / static_cast<double>(r.count);
  r.median_ns = percentile_of_sorted(b.durations, 50);
  r.p95_ns = percentile_of_sorted(b.durations, 95);
  r.stddev_ns = standard_deviation(b.durations);
  r.kernel_pct = percent_of(r.total_ns, kernel_total);
}

}  // namespace

std::vector<KernelRow> KernelRow::rows(const Facts& facts) { return facts.get<Kernels>().rows; }

Kernels Kernels::compute(const Facts& facts) {
  const Trace& trace = facts.trace();
  const Devices& devices = facts.get<Devices>();
  const Intervals warmup = facts.get<Steps>().warmup_time();
  Kernels all;
  all.category.resize(trace.strings.size(), KernelCategory::kOther);
  all.tensor_cores.resize(trace.strings.size());
  std::vector<bool> known(trace.strings.size());
  for (const StringId name : trace.activity.name) {
    if (known[name.value]) continue;
    known[name.value] = true;
    all.category[name.value] = kernel_category(trace.strings[name]);
    all.tensor_cores[name.value] = uses_tensor_cores(trace.strings[name], all.category[name.value]);
  }
  for (const DeviceTime& device : devices.devices) {
    std::vector<uint32_t> bucket_of(trace.strings.size() * 3, UINT32_MAX);
    std::vector<Bucket> buckets;
    int64_t kernel_total = 0;
    for (uint32_t i = device.begin.value; i < device.end.value; ++i) {
      const StringId name = trace.activity.name[i];
      const WorkKind kind = devices.kind[i];
      uint32_t& at = bucket_of[name.value * 3 + static_cast<size_t>(kind)];
      if (at == UINT32_MAX) {
        at = static_cast<uint32_t>(buckets.size());
        Bucket& b = buckets.emplace_back();
        b.row.device = device.id;
        b.row.name = name;
        b.row.text = trace.strings[name];
        b.row.short_name = short_kernel_name(b.row.text);
        b.row.kind = kind;
        b.row.category = kind == WorkKind::kMemory ? KernelCategory::kCopy : all.category[name.value];
        b.row.tensor_cores = all.tensor_cores[name.value];
      }
      buckets[at].durations.push_back(trace.activity.duration_ns[i]);
      const HostId launch = trace.activity.launch[i];
      const int64_t asked_ns = launch.valid() ? trace.host.start_ns[launch.value] : trace.activity.start_ns[i];
      if (!contains(warmup, asked_ns)) buckets[at].row.steady_ns += trace.activity.duration_ns[i];
      kernel_total += trace.activity.duration_ns[i];
    }
    for (Bucket& b : buckets) {
      finish(b, kernel_total);
      all.rows.push_back(std::move(b.row));
    }
  }
  std::sort(all.rows.begin(), all.rows.end(), [&](const KernelRow& a, const KernelRow& b) {
    if (a.device != b.device) return a.device < b.device;
    if (a.total_ns != b.total_ns) return a.total_ns > b.total_ns;
    if (a.name != b.name) return trace.strings[a.name] < trace.strings[b.name];
    return a.kind < b.kind;
  });
  return all;
}

}  // namespace profgpu
