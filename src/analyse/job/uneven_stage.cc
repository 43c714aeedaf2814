#include "analyse/job/uneven_stage.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/saturated.h"
#include "base/statistics.h"

namespace profgpu {
namespace {

constexpr double kUneven = 1.1;   // of the others' compute; embeddings and the loss make less of a difference

const Pipeline* staged_pipeline(std::span<const Parallelism> ways) {
  for (const Parallelism& way : ways)
    if (way.pipeline && way.pipeline->stages == static_cast<int64_t>(way.pipeline->by_stage.size()))
      return &*way.pipeline;
  return nullptr;
}

// How many times as long the kernels of `own` take as the same kernels of `others`, on average; none: they share none.
std::optional<double> times_as_long(const RankWork& own, std::span<const RankDigest* const> others) {
  std::map<uint64_t, std::pair<int64_t, int64_t>> known;   // by key: count, time
  for (const RankDigest* other : others)
    for (const KernelWork& k : other->work.kernels) known[k.key].first += k.count, known[k.key].second += k.total_ns;
  double own_ns = 0, others_ns = 0;
  for (const KernelWork& k : own.kernels) {
    const auto same = known.find(k.key);
    if (same == known.end() || same->second.first == 0) continue;
    own_ns += static_cast<double>(k.total_ns);
    others_ns += static_cast<double>(k.count) * static_cast<double>(same->second.second) /
                 static_cast<double>(same->second.first);
  }
  return others_ns > 0 ? std::optional(own_ns / others_ns) : std::nullopt;
}

// Whether its compute is long because it is more, not because the device is slow.
bool has_more_work(std::span<const RankDigest> ranks, const UnevenStage& stage) {
  std::vector<const RankDigest*> others;
  const RankDigest* own = nullptr;
  for (const RankDigest& r : ranks) {
    if (!std::ranges::binary_search(stage.ranks, r.rank)) others.push_back(&r);
    else if (own == nullptr) own = &r;
  }
  const double excess =
      static_cast<double>(stage.compute_ns_per_step) / static_cast<double>(stage.others_ns_per_step) - 1;
  const std::optional<double> slower = own != nullptr ? times_as_long(own->work, others) : std::nullopt;
  return !slower || *slower - 1 < excess / 2;
}

// The others' median, without the stage at `own`.
int64_t median_of_others(const std::vector<Stage>& stages, size_t own) {
  std::vector<int64_t> others;
  for (size_t i = 0; i < stages.size(); ++i)
    if (i != own) others.push_back(stages[i].compute_ns_per_step);
  return lower_median(std::move(others));
}

}  // namespace

std::optional<UnevenStage> uneven_stage(std::span<const RankDigest> ranks, std::span<const Parallelism> ways) {
  const Pipeline* pipeline = staged_pipeline(ways);
  if (pipeline == nullptr || pipeline->by_stage.size() < 2) return std::nullopt;
  const std::vector<Stage>& stages = pipeline->by_stage;
  const auto most = std::ranges::max_element(stages, {}, &Stage::compute_ns_per_step);
  UnevenStage out{most->stage, most->ranks, most->compute_ns_per_step,
                  median_of_others(stages, static_cast<size_t>(most - stages.begin()))};
  if (out.others_ns_per_step <= 0 ||
      static_cast<double>(out.compute_ns_per_step) <= kUneven * static_cast<double>(out.others_ns_per_step))
    return std::nullopt;
  int64_t step_ns = 0;
  for (const RankDigest& r : ranks)
    if (std::ranges::binary_search(out.ranks, r.rank)) step_ns = std::max(step_ns, r.mean_step_ns());
  out.excess_pct = percent_of(out.compute_ns_per_step - out.others_ns_per_step, step_ns);
  out.more_work = has_more_work(ranks, out);
  return out;
}

std::vector<int64_t> less_with_even_stages(const JobLanes& lanes, std::span<const Parallelism> ways,
                                           const UnevenStage& uneven) {
  const std::vector<Stage>& stages = staged_pipeline(ways)->by_stage;
  const int64_t mean = sum_of(stages, &Stage::compute_ns_per_step) / static_cast<int64_t>(stages.size());
  std::vector<int64_t> less(lanes.points.size());
  for (const Stage& s : stages) {
    const int64_t even = uneven.more_work ? mean : std::min(s.compute_ns_per_step, uneven.others_ns_per_step);
    if (s.compute_ns_per_step <= 0 || (!uneven.more_work && s.stage != uneven.stage)) continue;
    const double part = 1 - static_cast<double>(even) / static_cast<double>(s.compute_ns_per_step);
    for (uint32_t r = 0; r < lanes.ranks.size(); ++r) {
      if (!std::ranges::binary_search(s.ranks, lanes.digests[r].rank)) continue;
      const size_t end = r + 1 < lanes.ranks.size() ? lanes.ranks[r + 1].first_point : lanes.points.size();
      for (uint32_t p = lanes.ranks[r].first_point; p < end; ++p)
        for (const LanePart& of_kind : lanes.parts_before(r, p))
          if (of_kind.kind == LaneTime::kCompute)
            add_saturated(less[p], std::llround(part * static_cast<double>(of_kind.ns)));
    }
  }
  return less;
}

}  // namespace profgpu
