#include "export/run.h"

#include <algorithm>

namespace profgpu {
namespace {

constexpr std::string_view kNoClock = "none";

}  // namespace

std::string_view clock_note(const RankClock& clock) {
  if (clock.known()) return {};
  if (clock.method == "stated") return "not known: Unix time, as good as the hosts say theirs is";
  return clock.method == kNoClock ? "not known: ranks start together" : "not known: equal steps begin together";
}

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

std::optional<Interval> RankRows::shown(Interval range) const {
  const Interval cut{std::max(range.start, part_.start), std::min(range.end, part_.end)};
  // What only touches the part is not in it; what has no length may lie at its ends.
  if (cut.start > cut.end || (cut.start == cut.end && range.start < range.end)) return std::nullopt;
  return cut;
}

bool RankRows::shows(ActivityId a) const {
  if (!is_cut() || shown(trace().activity.interval(a))) return true;
  const HostId launch = trace().activity.launch[a.value];
  return launch.valid() && shows(launch);
}

Interval RankRows::extent() const {
  Interval all{INT64_MAX, INT64_MIN};
  const auto add = [&](Interval i) { all = {std::min(all.start, i.start), std::max(all.end, i.end)}; };
  for (const Interval& window : trace().windows)
    if (const auto cut = shown(window)) add(*cut);
  if (is_cut())
    for (uint32_t a = 0; a < trace().activity.size(); ++a)
      if (shows(ActivityId(a))) add(trace().activity.interval(ActivityId(a)));
  return all.start <= all.end ? all : Interval{};
}

const RankClock* RunRows::job_clock(const RankRows& rank) const {
  if (job == nullptr) return nullptr;
  const auto at = std::find_if(job->clocks.begin(), job->clocks.end(),
                               [&](const RankClock& c) { return c.rank == rank.rank(); });
  return at != job->clocks.end() ? &*at : nullptr;
}

RunClock RunRows::clock(const RankRows& rank) const {
  const RankClock* own = job_clock(rank);
  const int64_t base_ns = rank.trace().base_time_ns;
  if (own == nullptr || own->method != kNoClock) return {base_ns, own};
  const auto known = std::find_if(ranks.begin(), ranks.end(), [&](const RankRows& r) {
    const RankClock* clock = job_clock(r);
    return clock != nullptr && clock->method != kNoClock;
  });
  const RankRows& first = known != ranks.end() ? *known : ranks.front();
  const RunClock of_first = known != ranks.end() ? clock(first) : RunClock(first.trace().base_time_ns, nullptr);
  return {of_first(first.start_ns()) - rank.start_ns(), nullptr};
}

}  // namespace profgpu
