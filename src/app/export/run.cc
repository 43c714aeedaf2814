#include "app/export/run.h"

#include <algorithm>

namespace profgpu {
namespace {

constexpr std::string_view kNoClock = "none";

}  // namespace

Interval span_of(const RunRows& run) {
  Interval all{INT64_MAX, INT64_MIN};
  const auto add = [&](int64_t time) { all = {std::min(all.start, time), std::max(all.end, time)}; };
  for (const RankRows& rank : run.ranks) {
    const RunClock at = run.clock(rank);
    if (const auto& extent = rank.outline().extent) add(at(rank.start_ns())), add(at(extent->end));
    for (const int64_t first_ns : rank.outline().first_others_ns) add(at(first_ns));
  }
  if (run.ranks.empty() && run.samples != nullptr) add(run.samples->first_ns), add(run.samples->last_ns);
  return all.start <= all.end ? all : Interval{};
}

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
    case HostKind::kLibrary: return "library";
    case HostKind::kSystem: return "system";
    case HostKind::kOverhead: break;
  }
  return "overhead";
}

std::string_view activity_kind_name(ActivityKind kind) {
  return kind == ActivityKind::kKernel ? "kernel" : kind == ActivityKind::kMemcpy ? "memcpy" : "memset";
}

RankRows::RankRows(int rank, const Facts& facts, Interval part)
    : rank_(rank), outline_(RankOutline::of(facts, part)), timings_(&facts.get<CallTimings>()),
      loaded_(new Loaded{nullptr, &facts, TracePart(facts.trace(), part)}) {}

RankRows::RankRows(int rank, RankOutline outline, const CallTimings& timings, Reader read)
    : rank_(rank), outline_(std::move(outline)), timings_(&timings), read_(std::move(read)) {}

Status RankRows::load() const {
  if (loaded_) return ok();
  auto read = read_();
  if (!read) return read.error();
  const Facts& facts = (*read)->facts;
  loaded_.reset(new Loaded{*std::move(read), &facts, TracePart(facts.trace(), *outline_.part)});
  return ok();
}

void RankRows::drop() const {
  if (read_) loaded_.reset();
}

bool RankRows::shows_call(ActivityId a) const {
  return !is_cut() || std::binary_search(outline_.calls.begin(), outline_.calls.end(), a);
}

std::string_view RankRows::short_name(StringId name) const {
  if (!name.valid()) return {};
  const auto [it, fresh] = loaded_->short_names.try_emplace(name.value);
  if (fresh) it->second = short_kernel_name(trace().strings[name]);
  return it->second;
}

const std::vector<const Gap*>& RankRows::gaps() const {
  if (loaded_->gaps.empty())
    for (const DeviceIdle& d : idle().devices)
      for (const Gap& g : d.gaps) loaded_->gaps.push_back(&g);
  return loaded_->gaps;
}

const std::vector<size_t>& RunRows::sample_ends() const {
  if (sample_ends_.empty() && samples != nullptr)
    for (const SampleSeries& s : samples->series)
      sample_ends_.push_back(s.time_ns.size() + (sample_ends_.empty() ? 0 : sample_ends_.back()));
  return sample_ends_;
}

const RankClock* RunRows::job_clock(const RankRows& rank) const {
  if (job == nullptr) return nullptr;
  const auto at = std::find_if(job->clocks.begin(), job->clocks.end(),
                               [&](const RankClock& c) { return c.rank == rank.rank(); });
  return at != job->clocks.end() ? &*at : nullptr;
}

RunClock RunRows::clock(const RankRows& rank) const {
  const RankClock* own = job_clock(rank);
  const int64_t base_ns = rank.outline().base_time_ns;
  if (own == nullptr || own->method != kNoClock) return {base_ns, own};
  const auto known = std::find_if(ranks.begin(), ranks.end(), [&](const RankRows& r) {
    const RankClock* clock = job_clock(r);
    return clock != nullptr && clock->method != kNoClock;
  });
  const RankRows& first = known != ranks.end() ? *known : ranks.front();
  const RunClock of_first = known != ranks.end() ? clock(first) : RunClock(first.outline().base_time_ns, nullptr);
  return {saturated_sub(of_first(first.start_ns()), rank.start_ns()), nullptr};
}

}  // namespace profgpu
