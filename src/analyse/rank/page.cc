#include "analyse/rank/page.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

#include "analyse/memory/page_history.h"
#include "analyse/rank/idle.h"
#include "analyse/rank/kernels.h"
#include "analyse/rank/memory.h"
#include "analyse/rank/sample_series.h"
#include "analyse/rank/step_utilization.h"
#include "analyse/rank/timeline.h"
#include "base/saturated.h"

namespace profgpu {
namespace {

constexpr size_t kMaxBins = 4096;
constexpr size_t kMinBins = 256;
constexpr size_t kBinsOfAllTracks = 600'000;   // keeps the page of a job with many ranks small

std::optional<int64_t> unix_shift(const Trace& trace) {
  if (trace.base_time_ns != 0) return trace.base_time_ns;
  return only_if(!trace.windows.empty() && is_unix_time(trace.windows.front().start), int64_t{0});
}

Interval span_of(const Trace& trace) {
  if (trace.windows.empty()) return {};
  return {trace.windows.front().start, trace.windows.back().end};
}

// Shifts to the first rank's clock. Ranks with unrelated clocks, whose times do not overlap, start together.
std::vector<PlacedRank> on_one_clock(const PageInput& input) {
  std::vector<PlacedRank> placed;
  const Trace& first = input.ranks.front().facts->trace();
  const Interval first_span = span_of(first);
  for (const RankFacts& r : input.ranks) {
    const Trace& trace = r.facts->trace();
    PlacedRank rank{r.rank, r.facts, trace.base_time_ns - first.base_time_ns};
    if (const auto offset = input.clock_offset_ns.find(r.rank); offset != input.clock_offset_ns.end())
      rank.shift_ns = saturated_add(rank.shift_ns, offset->second);
    const Interval span = span_of(trace);
    const bool apart = saturated_add(span.start, rank.shift_ns) >= first_span.end ||
                       saturated_add(span.end, rank.shift_ns) <= first_span.start;
    if (apart) rank.shift_ns = first_span.start - span.start;
    placed.push_back(rank);
  }
  return placed;
}

Interval span_of(const std::vector<PlacedRank>& ranks) {
  Interval all{INT64_MAX, INT64_MIN};
  for (const PlacedRank& r : ranks) {
    const Interval span = span_of(r.facts->trace());
    all = hull(all, {span.start + r.shift_ns, span.end + r.shift_ns});
  }
  return all;
}

size_t bins_of_track(const std::vector<PlacedRank>& ranks) {
  size_t tracks = 1;
  for (const PlacedRank& r : ranks) tracks += r.facts->trace().threads.size() + r.facts->trace().queues.size() + 4;
  return std::clamp(kBinsOfAllTracks / tracks, kMinBins, kMaxBins);
}

TimelinePlan plan_of(const std::vector<PlacedRank>& ranks, KeptEvents kept, int64_t span_ns) {
  TimelinePlan plan;
  plan.host_least_ns = kept.host_least_ns;
  plan.scale.kept = std::move(kept.windows);
  const auto bins = static_cast<int64_t>(bins_of_track(ranks));
  plan.scale.bin_ns = std::max<int64_t>((span_ns + bins - 1) / bins, 1);
  plan.scale.bins = static_cast<size_t>((span_ns + plan.scale.bin_ns - 1) / plan.scale.bin_ns);
  return plan;
}

void add_samples(const PlacedSamples& samples, const std::map<uint32_t, int>& rank_of, PageData& page) {
  page.samples = sample_series(samples, rank_of);
  if (page.samples.empty()) return;
  for (const ClockReasonInfo& r : clock_reasons()) page.reasons.push_back({static_cast<uint32_t>(r.reason), r.words});
}

// For a page of samples alone, on their own time.
void place_samples(const SampleLog& log, PageData& page) {
  page.origin_ns = log.first_ns;
  page.unix_origin_ns = log.first_ns;
  page.span_ns = std::max<int64_t>(log.last_ns - log.first_ns, 1);
  add_samples({&log, log.first_ns, page.span_ns}, {}, page);
}

// Clock rates of a rank's devices. Records which rank ran on each sampled device.
DeviceClocks clocks_of(const PlacedSamples& samples, const std::vector<PlacedRank>& ranks, const PlacedRank& rank,
                       std::map<uint32_t, int>& rank_of) {
  DeviceClocks clocks;
  clocks.shift_ns = samples.shift_ns;
  if (!samples.log) return clocks;
  for (const Trace::DeviceRows& rows : rank.facts->trace().device_rows) {
    const auto device = sampled_device(*samples.log, ranks, rank, rows.device);
    if (!device) continue;
    rank_of.try_emplace(*device, rank.rank);
    if (auto course = ClockCourse::of(*samples.log, *device)) clocks.courses.emplace(rows.device, std::move(*course));
  }
  return clocks;
}

void add_rank(const PlacedRank& r, const TimelinePlan& plan, const DeviceClocks& clocks, uint32_t memory_events,
              PageData& page) {
  add_timeline(r, plan, clocks, page);
  PageRank& rank = page.ranks.emplace_back();
  rank.rank = r.rank;
  rank.shift_ns = r.shift_ns;
  rank.flame = flames(*r.facts, page.strings);
  rank.kernels = kernel_histograms(*r.facts);
  rank.memory = memory_over_time(*r.facts, r.shift_ns);
  rank.gaps = page_gaps(*r.facts, r.shift_ns);
  for (const StepUtilization::Row& row : r.facts->get<StepUtilization>().rows)
    rank.utilization.push_back({static_cast<int64_t>(row.step), row.mfu_pct, row.hfu_pct});
  const auto& snapshots = r.facts->trace().snapshots;
  if (!snapshots.empty()) rank.snapshot = page_snapshot(*snapshots.back(), page.strings, memory_events);
}

}  // namespace

Result<std::shared_ptr<const PageData>> make_page(const PageInput& input, const StepChoice& steps) {
  auto page = std::make_shared<PageData>();
  page->categories = page_category_names();
  const SampleLog* log = input.samples && !input.samples->empty() ? input.samples : nullptr;
  if (input.ranks.empty()) {
    if (log) place_samples(*log, *page);
    return std::shared_ptr<const PageData>(page);
  }
  std::vector<PlacedRank> ranks = on_one_clock(input);
  const Interval span = span_of(ranks);
  page->origin_ns = span.start;
  page->span_ns = std::max<int64_t>(span.length(), 1);
  const auto shift = unix_shift(input.ranks.front().facts->trace());
  if (shift) page->unix_origin_ns = span.start + *shift;
  for (PlacedRank& r : ranks) r.shift_ns -= span.start;

  KeptEvents kept = kept_events(ranks, {0, page->span_ns}, steps, kPageEvents);
  if (kept.windows.empty())
    return Error{"--html-steps leaves no step", "`--section steps` lists them with their numbers"};
  for (const Interval& w : kept.windows) page->kept.emplace_back(w.start, w.end);
  page->host_least_ns = kept.host_least_ns;
  const TimelinePlan plan = plan_of(ranks, std::move(kept), page->span_ns);

  PlacedSamples samples;
  if (shift && log) samples = {log, *page->unix_origin_ns, page->span_ns};
  std::map<uint32_t, int> rank_of;
  const uint32_t memory_events = kPageMemoryEvents / static_cast<uint32_t>(ranks.size());
  for (const PlacedRank& r : ranks) add_rank(r, plan, clocks_of(samples, ranks, r, rank_of), memory_events, *page);
  for (const int rank : input.without_events) page->ranks.emplace_back().rank = rank;
  std::ranges::sort(page->ranks, {}, &PageRank::rank);
  page->without_events = input.without_events;
  if (samples.log) add_samples(samples, rank_of, *page);
  return std::shared_ptr<const PageData>(page);
}

namespace {

constexpr int kHistogramBins = 40;
constexpr size_t kHistograms = 100;

PageGap page_gap(const Trace& trace, int32_t device, const Gap& g, int64_t shift_ns) {
  PageGap gap;
  gap.device = device;
  gap.start_ns = g.start_ns + shift_ns;
  gap.duration_ns = g.length();
  gap.cause = idle_cause_name(g.cause);
  if (g.before.valid()) gap.after = trace.name(g.before);   // the gap comes after it
  if (g.after.valid()) gap.before = trace.name(g.after);
  if (g.host.valid()) gap.host = trace.name(g.host);
  return gap;
}

size_t histogram_bin(int64_t ns, int64_t from_ns, int64_t to_ns) {
  if (to_ns <= from_ns) return 0;
  const double position = std::log(static_cast<double>(ns) / static_cast<double>(from_ns)) /
                          std::log(static_cast<double>(to_ns) / static_cast<double>(from_ns));
  return static_cast<size_t>(std::clamp(static_cast<int>(position * kHistogramBins), 0, kHistogramBins - 1));
}

}  // namespace

std::vector<PageGap> page_gaps(const Facts& facts, int64_t shift_ns, size_t most) {
  std::vector<PageGap> all;
  for (const DeviceIdle& idle : facts.get<Idle>().devices) {
    const std::vector<Gap> gaps = idle.all();
    for (size_t c = 0; c < kIdleCauses; ++c)
      for (const Gap* gap :
           longest_gaps(gaps, most, [&](const Gap& g) { return g.cause == static_cast<IdleCause>(c); }))
        all.push_back(page_gap(facts.trace(), idle.device, *gap, shift_ns));
  }
  std::ranges::stable_sort(all, std::greater(), &PageGap::duration_ns);
  return all;
}

std::vector<PageHistogram> kernel_histograms(const Facts& facts) {
  const Trace& trace = facts.trace();
  std::vector<PageHistogram> all;
  std::map<std::pair<int32_t, StringId>, size_t> index_of;
  std::map<int32_t, size_t> of_device;
  for (const KernelRow& row : facts.get<Kernels>().rows) {   // by device, longest first
    if (row.count < 2 || of_device[row.device]++ >= kHistograms) continue;
    index_of[{row.device, row.name}] = all.size();
    // From 1 ns on, because bins of equal ratio cannot start at zero.
    const int64_t from_ns = std::max<int64_t>(row.min_ns, 1);
    all.push_back({row.device, std::string(trace.strings[row.name]), from_ns, std::max(row.max_ns, from_ns),
                   std::vector<int64_t>(kHistogramBins)});
  }
  for (uint32_t i = 0; i < trace.activity.size(); ++i) {
    const auto it = index_of.find({trace.device_of(ActivityId(size_t{i})), trace.activity.name[i]});
    if (it == index_of.end()) continue;
    PageHistogram& h = all[it->second];
    ++h.counts[histogram_bin(std::max<int64_t>(trace.activity.duration_ns[i], 1), h.from_ns, h.to_ns)];
  }
  return all;
}

}  // namespace profgpu
