#include "export/run.h"

namespace profgpu {

std::string_view host_kind_name(HostKind kind) {
  switch (kind) {
    case HostKind::kAnnotation: return "annotation";
    case HostKind::kOp: return "op";
    case HostKind::kPython: return "python";
    case HostKind::kRuntime: return "runtime";
    case HostKind::kDriver: return "driver";
    case HostKind::kOverhead: break;
  }
  return "overhead";
}

std::string_view activity_kind_name(ActivityKind kind) {
  return kind == ActivityKind::kKernel ? "kernel" : kind == ActivityKind::kMemcpy ? "memcpy" : "memset";
}

std::string_view RankRows::short_name(StringId name) const {
  if (!name.valid()) return {};
  const auto [it, fresh] = short_names_.try_emplace(name.value);
  if (fresh) it->second = short_kernel_name(trace().strings[name]);
  return it->second;
}

const std::vector<const Gap*>& RankRows::gaps() const {
  if (gaps_.empty())
    for (const DeviceIdle& d : idle().devices)
      for (const Gap& g : d.gaps) gaps_.push_back(&g);
  return gaps_;
}

const std::vector<size_t>& RunRows::sample_ends() const {
  if (sample_ends_.empty() && samples != nullptr)
    for (const SampleSeries& s : samples->series)
      sample_ends_.push_back(s.time_ns.size() + (sample_ends_.empty() ? 0 : sample_ends_.back()));
  return sample_ends_;
}

int64_t RunRows::unix_shift_ns(const RankRows& rank) const {
  int64_t shift = rank.trace().base_time_ns;
  if (job != nullptr)
    for (const RankClock& c : job->clocks)
      if (c.rank == rank.rank()) shift += c.offset_ns;
  return shift;
}

}  // namespace profgpu
