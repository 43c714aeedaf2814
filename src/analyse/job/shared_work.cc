#include "analyse/job/shared_work.h"

#include <algorithm>
#include <array>
#include <map>

#include "base/statistics.h"
#include "trace/intervals.h"

namespace profgpu {
namespace {

/// A shorter pause between two compute kernels still counts as compute.
constexpr int64_t kPauseNs = 10'000;

using SharedCalls = std::vector<const CollectiveCall*>;

std::optional<int64_t> whole(std::optional<double> v) {
  return v ? std::optional(static_cast<int64_t>(*v)) : std::nullopt;
}

void add_time(const RankDigest& rank, SharedCalls calls, SharedWork& out) {
  std::ranges::stable_sort(calls, {}, &CollectiveCall::start_ns);
  int64_t until = INT64_MIN, total = 0, exposed = 0;
  for (const CollectiveCall* c : calls) {
    if (c->end_ns <= until) continue;
    const Interval part{std::max(c->start_ns, until), c->end_ns};
    total += part.length();
    exposed += part.start == c->start_ns
                   ? c->exposed_ns
                   : part.length() - sum_of(rank.cover(*c), [&](Interval i) { return overlap_length(i, part); });
    until = c->end_ns;
  }
  out.communication_ns_per_step = static_cast<double>(total) / static_cast<double>(out.steps);
  out.exposed_ns_per_step = static_cast<double>(exposed) / static_cast<double>(out.steps);
}

/// Backward passes of measured steps, in order.
std::vector<Interval> measured_passes(const RankDigest& rank) {
  std::vector<Interval> out;
  size_t step = 0;
  for (const Interval& pass : rank.sites.backward) {
    while (step < rank.steps.size() && rank.steps[step].interval().end <= pass.start) ++step;
    if (step == rank.steps.size()) break;
    if (rank.steps[step].start_ns <= pass.start && rank.steps[step].measured) out.push_back(pass);
  }
  return out;
}

/// The last pass that began by `time`, or -1.
int64_t pass_at(const std::vector<Interval>& passes, int64_t time) {
  return std::ranges::upper_bound(passes, time, {}, &Interval::start) - passes.begin() - 1;
}

// `buckets` are sorted by start. Those that follow each other without a pause are one tail.
int64_t tail_ns(const RankDigest& rank, const SharedCalls& buckets) {
  int64_t tail = 0;
  for (size_t i = buckets.size(); i-- > 0;) {
    const CollectiveCall& c = *buckets[i];
    const auto cover = rank.cover(c);
    const int64_t alone_from = cover.empty() ? c.start_ns : cover.back().end;
    tail += c.end_ns - alone_from;
    if (!cover.empty() || (i > 0 && buckets[i - 1]->end_ns + kPauseNs < c.start_ns)) break;
  }
  return tail;
}

GradientUse gradients_of(const RankDigest& rank, std::map<uint32_t, SharedCalls>& by_step, int64_t steps) {
  const std::vector<Interval> passes = measured_passes(rank);
  std::vector<bool> reduces(passes.size());
  std::vector<int64_t> bytes, delays, tails;
  int64_t calls = 0;
  for (auto& [place, buckets] : by_step) {
    std::ranges::stable_sort(buckets, {}, &CollectiveCall::start_ns);
    const CollectiveCall& first = *buckets.front();
    const int64_t pass = pass_at(passes, first.launch_ns);
    if (pass >= 0 && first.launch_ns < passes[static_cast<size_t>(pass)].end)
      delays.push_back(first.start_ns - passes[static_cast<size_t>(pass)].start);
    tails.push_back(tail_ns(rank, buckets));
    for (const CollectiveCall* c : buckets) {
      ++calls;
      if (c->message_bytes >= 0) bytes.push_back(c->message_bytes);
      if (const int64_t p = pass_at(passes, c->launch_ns); p >= 0) reduces[static_cast<size_t>(p)] = true;
    }
  }
  const auto n = static_cast<double>(steps);
  GradientUse out;
  out.per_step = static_cast<double>(calls) / n;
  if (!bytes.empty()) {
    out.smallest_bytes = std::ranges::min(bytes);
    out.largest_bytes = std::ranges::max(bytes);
    out.median_bytes = whole(percentile(bytes, 50));
  }
  out.first_delay_ns = whole(percentile(std::move(delays), 50));
  out.tail_ns = whole(percentile(std::move(tails), 50)).value_or(0);
  out.micro_batches_per_step = static_cast<double>(passes.size()) / n;
  out.reduced_passes_per_step = static_cast<double>(std::ranges::count(reduces, true)) / n;
  out.steps_without = steps - static_cast<int64_t>(by_step.size());
  return out;
}

GatherUse gathers_of(const RankDigest& rank, const std::map<uint32_t, SharedCalls>& by_step, int64_t steps) {
  int64_t calls = 0, late = 0, late_ns = 0;
  for (const auto& [place, gathers] : by_step) {
    calls += static_cast<int64_t>(gathers.size());
    for (size_t i = 1; i < gathers.size(); ++i) {
      const CollectiveCall& c = *gathers[i];
      const auto cover = rank.cover(c);
      const int64_t bare = (cover.empty() ? c.end_ns : cover.front().start) - c.start_ns;
      if (bare > kPauseNs) ++late, late_ns += bare;
    }
  }
  const auto n = static_cast<double>(steps);
  GatherUse out;
  out.per_step = static_cast<double>(calls) / n;
  out.late_per_step = static_cast<double>(late) / n;
  out.late_ns_per_step = static_cast<double>(late_ns) / n;
  return out;
}

}  // namespace

SharedWork shared_work(const RankDigest& rank, const std::vector<uint32_t>& calls, bool shards) {
  SharedWork out;
  out.steps = std::max<int64_t>(rank.measured_steps(), 1);
  SharedCalls measured;
  std::array<std::map<uint32_t, SharedCalls>, kCollectiveOps> by_step;
  for (const uint32_t i : calls) {
    const CollectiveCall& c = rank.calls.calls[i];
    if (!c.measured) continue;
    measured.push_back(&c);
    const auto op = static_cast<size_t>(op_of(rank, i));
    out.counts.at(op_of(rank, i), step_part(rank, i)).add(c);
    if (c.message_bytes < 0 || c.message_bytes > kSmallBytes) by_step[op][c.step_index].push_back(&c);
  }
  add_time(rank, std::move(measured), out);
  if (!shards) return out;
  const auto n = static_cast<double>(out.steps);
  const auto backward = [&](CollectiveOp op) {
    return static_cast<double>(out.counts.of(op, StepPart::kBackward).calls) / n;
  };
  for (const CollectiveOp op : {CollectiveOp::kReduceScatter, CollectiveOp::kReduce, CollectiveOp::kAllReduce}) {
    auto& steps = by_step[static_cast<size_t>(op)];
    if (out.gradients || steps.empty()) continue;
    out.gradients = gradients_of(rank, steps, out.steps);
    out.gradients->backward_per_step = backward(op);
  }
  constexpr auto kGather = static_cast<size_t>(CollectiveOp::kAllGather);
  if (!by_step[kGather].empty()) {
    out.gathers = gathers_of(rank, by_step[kGather], out.steps);
    out.gathers->backward_per_step = backward(CollectiveOp::kAllGather);
  }
  return out;
}

}  // namespace profgpu
