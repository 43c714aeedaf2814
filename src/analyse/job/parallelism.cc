#include "analyse/job/parallelism.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <set>
#include <utility>

#include "base/statistics.h"
#include "base/text.h"

namespace profgpu {
namespace {

using RowKey = std::pair<ParallelKind, int64_t>;

bool is_sharded(ParallelKind kind) {
  return kind == ParallelKind::kFsdp || kind == ParallelKind::kFsdpOrZero2 || kind == ParallelKind::kFsdpOrZero3;
}

bool shares_gradients(ParallelKind kind) { return kind <= ParallelKind::kZero3; }

// Whether `replicas` all-reduces what `shards` has scattered: equally often, and one rank's share of the bytes.
bool reduces_shards(const GroupUse& replicas, const GroupUse& shards) {
  const CallCount reduced = replicas.counts.of(CollectiveOp::kAllReduce);
  const CallCount scattered = shards.counts.of(CollectiveOp::kReduceScatter);
  if (!reduced.sized || !scattered.sized || scattered.bytes == 0) return false;
  if (shards.steps == 0 || replicas.steps == 0) return false;
  const auto near = [](double a, double b) { return std::abs(a - b) <= 0.1 * b; };
  const auto replica_steps = static_cast<double>(replicas.steps), shard_steps = static_cast<double>(shards.steps);
  return near(static_cast<double>(reduced.calls) / replica_steps, static_cast<double>(scattered.calls) / shard_steps) &&
         near(static_cast<double>(reduced.bytes * shards.size) / replica_steps,
              static_cast<double>(scattered.bytes) / shard_steps);
}

/// A row under construction.
struct Row {
  bool named = true;
  int64_t replicas = 0;
  std::set<uint32_t> groups, second_groups;   // second: replicas of shards
  std::vector<SharedWork> ranks;
};

class Recognition {
 public:
  explicit Recognition(std::span<const RankDigest> ranks)
      : ranks_(ranks), uses_(group_uses(ranks)), pairs_(pair_uses(ranks, uses_)), rings_(rings(uses_, pairs_)) {
    for (uint32_t g = 0; g < uses_.groups.size(); ++g) {
      const GroupUse& group = uses_.groups[g];
      claims_.push_back(group.size == 1 ? std::vector<GroupClaim>{} : claims_of(group, uses_, rings_.contains(g)));
    }
  }

  std::vector<Parallelism> ways() {
    for (uint32_t r = 0; r < ranks_.size(); ++r) add(r);
    std::vector<Parallelism> out;
    for (auto& [key, row] : rows_)
      if (!row.ranks.empty()) out.push_back(way(key, row));
    std::ranges::stable_sort(out, std::greater(), [](const Parallelism& w) {
      return std::pair(w.exposed_ns_per_step, w.communication_ns_per_step);
    });
    return out;
  }

 private:
  /// By those of a rank's groups that reduce over replicas: the group whose shards they reduce.
  [[nodiscard]] std::map<uint32_t, uint32_t> replicas_of(const std::set<uint32_t>& groups) const {
    std::vector<uint32_t> sharding;
    for (const uint32_t g : groups)
      if (std::ranges::any_of(claims_[g], is_sharded, &GroupClaim::kind)) sharding.push_back(g);
    std::map<uint32_t, uint32_t> shards_of;
    for (const uint32_t second : groups) {
      if (std::ranges::count(claims_[second], ParallelKind::kDdp, &GroupClaim::kind) == 0) continue;
      for (const uint32_t first : sharding)
        if (first != second && reduces_shards(uses_.groups[second], uses_.groups[first])) shards_of[second] = first;
    }
    return shards_of;
  }

  // The row of each operation of each of the rank's groups.
  [[nodiscard]] std::map<std::pair<uint32_t, CollectiveOp>, RowKey> rows_of(const std::set<uint32_t>& groups) {
    const std::map<uint32_t, uint32_t> shards_of = replicas_of(groups);
    std::set<uint32_t> replicated;
    for (const auto& [second, first] : shards_of) replicated.insert(first);
    std::map<std::pair<uint32_t, CollectiveOp>, RowKey> row_of;
    for (const uint32_t g : groups)
      for (const GroupClaim& claim : claims_[g]) {
        RowKey key{claim.kind, uses_.groups[g].size};
        const bool second = claim.kind == ParallelKind::kDdp && shards_of.contains(g);
        if (second) key = {ParallelKind::kHsdp, uses_.groups[shards_of.at(g)].size};
        if (is_sharded(claim.kind) && replicated.contains(g)) key.first = ParallelKind::kHsdp;
        Row& row = rows_[key];
        (second ? row.second_groups : row.groups).insert(g);
        if (second) row.replicas = std::max(row.replicas, uses_.groups[g].size);
        else row.named = row.named && claim.named;
        for (const CollectiveOp op : claim.ops) row_of[{g, op}] = key;
      }
    return row_of;
  }

  void add(uint32_t r) {
    const std::vector<uint32_t>& group_of = uses_.group_of_call[r];
    const auto row_of = rows_of({group_of.begin(), group_of.end()});
    std::map<RowKey, std::vector<uint32_t>> calls;
    for (uint32_t i = 0; i < group_of.size(); ++i) {
      if (!ranks_[r].calls.calls[i].measured) continue;
      const auto it = row_of.find({group_of[i], op_of(ranks_[r], i)});
      if (it != row_of.end()) calls[it->second].push_back(i);
    }
    for (const auto& [key, of_row] : calls) {
      rows_[key].ranks.push_back(shared_work(ranks_[r], of_row, shares_gradients(key.first)));
      rows_[key].ranks.back().rank = r;
    }
  }

  [[nodiscard]] std::optional<int64_t> hosts_per_group(const Row& row) const {
    std::map<int, std::string> host_of;
    for (const SharedWork& w : row.ranks) host_of[ranks_[w.rank].rank] = ranks_[w.rank].host;
    size_t most = 0;
    for (const uint32_t g : row.groups) {
      std::set<std::string> hosts;
      for (const int rank : uses_.groups[g].ranks)
        if (host_of.contains(rank) && !host_of[rank].empty()) hosts.insert(host_of[rank]);
      most = std::max(most, hosts.size());
    }
    return most > 0 ? std::optional(static_cast<int64_t>(most)) : std::nullopt;
  }

  Parallelism way(const RowKey& key, const Row& row) const;
  void add_bytes(const Row& row, Parallelism& way) const;
  [[nodiscard]] Pipeline pipeline(const Row& row) const;

  std::span<const RankDigest> ranks_;
  GroupUses uses_;
  PairUses pairs_;
  std::set<uint32_t> rings_;
  std::vector<std::vector<GroupClaim>> claims_;
  std::map<RowKey, Row> rows_;
};

void Recognition::add_bytes(const Row& row, Parallelism& way) const {
  double least = 0, most = 0, sum = 0;
  for (const SharedWork& w : row.ranks) {
    CallCount all;
    for (int op = 0; op < kCollectiveOps; ++op) all.add(w.counts.of(static_cast<CollectiveOp>(op)));
    if (!all.sized) return;
    const double bytes = static_cast<double>(all.bytes) / static_cast<double>(w.steps);
    least = &w == &row.ranks.front() ? bytes : std::min(least, bytes);
    most = std::max(most, bytes);
    sum += bytes;
  }
  const double mean = sum / static_cast<double>(row.ranks.size());
  way.bytes_per_step = static_cast<int64_t>(mean);
  if (mean > 0 && row.ranks.size() > 1) way.bytes_spread_pct = 100 * (most - least) / mean;
}

Pipeline Recognition::pipeline(const Row& row) const {
  std::map<uint32_t, bool> groups;
  for (const uint32_t g : row.groups)
    for (const GroupClaim& claim : claims_[g])
      if (claim.kind == ParallelKind::kPipeline) groups[g] = claim.named;
  std::map<uint32_t, int64_t> alone;
  for (const SharedWork& w : row.ranks) alone[w.rank] = static_cast<int64_t>(w.exposed_ns_per_step);
  return pipeline_of(ranks_, uses_, pairs_, groups, alone);
}

std::optional<int64_t> median(std::vector<int64_t> values) {
  const auto v = percentile(std::move(values), 50);
  return v ? std::optional(static_cast<int64_t>(*v)) : std::nullopt;
}

std::optional<GradientUse> mean_gradients(const std::vector<SharedWork>& ranks) {
  GradientUse out;
  std::vector<int64_t> delays, tails, middles;
  double n = 0;
  for (const SharedWork& w : ranks) n += w.gradients.has_value();
  if (n == 0) return std::nullopt;
  for (const SharedWork& w : ranks) {
    if (!w.gradients) continue;
    const GradientUse& g = *w.gradients;
    out.per_step += g.per_step / n;
    out.backward_per_step += g.backward_per_step / n;
    out.micro_batches_per_step += g.micro_batches_per_step / n;
    out.reduced_passes_per_step += g.reduced_passes_per_step / n;
    out.steps_without = std::max(out.steps_without, g.steps_without);
    if (g.smallest_bytes) out.smallest_bytes = std::min(out.smallest_bytes.value_or(INT64_MAX), *g.smallest_bytes);
    if (g.largest_bytes) out.largest_bytes = std::max(out.largest_bytes.value_or(0), *g.largest_bytes);
    if (g.median_bytes) middles.push_back(*g.median_bytes);
    if (g.first_delay_ns) delays.push_back(*g.first_delay_ns);
    tails.push_back(g.tail_ns);
  }
  out.median_bytes = median(std::move(middles));
  out.first_delay_ns = median(std::move(delays));
  out.tail_ns = median(std::move(tails)).value_or(0);
  return out;
}

std::optional<GatherUse> mean_gathers(const std::vector<SharedWork>& ranks) {
  GatherUse out;
  double n = 0;
  for (const SharedWork& w : ranks) n += w.gathers.has_value();
  if (n == 0) return std::nullopt;
  for (const SharedWork& w : ranks) {
    if (!w.gathers) continue;
    for (double GatherUse::* figure : {&GatherUse::per_step, &GatherUse::backward_per_step, &GatherUse::late_per_step,
                                       &GatherUse::late_ns_per_step})
      out.*figure += (*w.gathers).*figure / n;
  }
  return out;
}

// ZeRO-2 reduces gradients in every micro-batch, ZeRO-1 in the last.
ParallelKind settled(ParallelKind kind, const std::optional<GradientUse>& gradients) {
  if (kind != ParallelKind::kZero1Or2 || !gradients || gradients->micro_batches_per_step < 1.5) return kind;
  const bool all = gradients->reduced_passes_per_step > 0.9 * gradients->micro_batches_per_step;
  return all ? ParallelKind::kZero2 : gradients->reduced_passes_per_step < 1.1 ? ParallelKind::kZero1 : kind;
}

Parallelism Recognition::way(const RowKey& key, const Row& row) const {
  Parallelism out;
  out.named = row.named;
  out.group_size = key.second;
  out.groups = static_cast<int64_t>(row.groups.size());
  out.hosts_per_group = hosts_per_group(row);
  if (row.replicas > 0) out.replicas = row.replicas;
  double total = 0, exposed = 0;
  const auto n = static_cast<double>(row.ranks.size());
  for (const SharedWork& w : row.ranks) {
    out.ranks.push_back(ranks_[w.rank].rank);
    out.rank_steps += w.steps;
    for (int op = 0; op < kCollectiveOps; ++op)
      for (int part = 0; part < kStepParts; ++part) {
        const CallCount& c = w.counts.of(static_cast<CollectiveOp>(op), static_cast<StepPart>(part));
        out.counts.at(static_cast<CollectiveOp>(op), static_cast<StepPart>(part)).add(c);
        out.calls_per_step += static_cast<double>(c.calls) / static_cast<double>(w.steps) / n;
      }
    total += w.communication_ns_per_step / n;
    exposed += w.exposed_ns_per_step / n;
  }
  out.communication_ns_per_step = static_cast<int64_t>(total);
  out.exposed_ns_per_step = static_cast<int64_t>(exposed);
  add_bytes(row, out);
  out.gradients = mean_gradients(row.ranks);
  out.gathers = mean_gathers(row.ranks);
  out.kind = settled(key.first, out.gradients);
  if (out.kind == ParallelKind::kPipeline) out.pipeline = pipeline(row);
  return out;
}

struct KindText {
  std::string_view name, words;
};
// By ParallelKind.
constexpr std::array<KindText, 15> kKindTexts = {{
    {"ddp", "data parallel (DDP): gradients all-reduced in buckets"},
    {"fsdp", "FSDP: parameters all-gathered before use, gradients reduce-scattered"},
    {"fsdp_or_zero2", "gradients and optimizer sharded, parameters all-gathered once per step (FSDP that keeps them "
                      "after forward, or ZeRO-2)"},
    {"fsdp_or_zero3", "parameters sharded: all-gathered in forward and backward, gradients reduce-scattered (FSDP or "
                      "ZeRO-3)"},
    {"hsdp", "hybrid FSDP: parameters sharded within a group, gradients all-reduced over its replicas"},
    {"zero1", "ZeRO-1: optimizer sharded, parameters gathered after it"},
    {"zero1_or_2", "ZeRO-1 or ZeRO-2: gradients scattered to their owners, parameters gathered after the optimizer"},
    {"zero2", "ZeRO-2: gradients scattered to their owners in every micro-batch, parameters gathered after the "
              "optimizer"},
    {"zero3", "ZeRO-3: parameters all-gathered in forward and backward, gradients reduce-scattered"},
    {"tensor_parallel", "tensor parallel: activations all-reduced in every layer"},
    {"pipeline_parallel", "pipeline parallel: activations and their gradients sent between stages"},
    {"expert_parallel", "expert parallel: tokens exchanged all to all"},
    {"context_parallel", "context parallel: parts of the sequence exchanged for attention"},
    {"embedding_parallel", "embedding parallel: tables spread over ranks, their rows exchanged"},
    {"unknown", "pattern not recognized: "},
}};

std::string op_words(const std::vector<CollectiveUse>& uses) {
  return joined(uses, ", ", [](const CollectiveUse& use) {
    return use.op == CollectiveOp::kUnknown ? "kernels with unspecific names" : collective_op_name(use.op);
  });
}

}  // namespace

std::optional<double> Parallelism::overlap_pct() const {
  if (communication_ns_per_step == 0) return std::nullopt;
  const auto all = static_cast<double>(communication_ns_per_step);
  return 100 * (all - static_cast<double>(exposed_ns_per_step)) / all;
}

double Parallelism::per_step(CollectiveOp op, StepPart part) const {
  return rank_steps > 0 ? static_cast<double>(counts.of(op, part).calls) / static_cast<double>(rank_steps) : 0;
}

std::vector<Parallelism> parallelism_of(std::span<const RankDigest> ranks) { return Recognition(ranks).ways(); }

RankParallelism RankParallelism::compute(const Facts& facts) {
  const RankDigest rank = calls_digest(facts.trace().distributed.rank.value_or(0), facts);
  return {parallelism_of({&rank, 1})};
}

std::vector<CollectiveUse> Parallelism::collectives() const {
  std::vector<CollectiveUse> uses;
  for (int i = 0; i < kCollectiveOps; ++i) {
    const auto op = static_cast<CollectiveOp>(i);
    const CallCount all = counts.of(op);
    if (all.calls == 0) continue;
    uses.push_back({op, per_step(op, StepPart::kForward), per_step(op, StepPart::kBackward),
                    per_step(op, StepPart::kOther),
                    only_if(all.sized && rank_steps > 0, all.bytes / std::max<int64_t>(rank_steps, 1))});
  }
  return uses;
}

std::string_view parallel_kind_name(ParallelKind kind) { return kKindTexts[static_cast<size_t>(kind)].name; }

std::string Parallelism::words() const {
  std::string words(kKindTexts[static_cast<size_t>(kind)].words);
  if (kind == ParallelKind::kDdp && gradients && gradients->backward_per_step == 0)
    words = "data parallel: gradients all-reduced outside the backward pass";
  if (kind == ParallelKind::kTensor && counts.of(CollectiveOp::kReduceScatter).calls > 0)
    words = "tensor parallel with sequence parallelism: activations all-gathered and reduce-scattered in every layer";
  if (kind == ParallelKind::kExpert && !named) words += "; sequence parallelism by all-to-all looks the same";
  if (kind == ParallelKind::kUnknown) words += op_words(collectives());
  return words + (ranks.size() == 1 ? ", as this rank's calls suggest" : "");
}

}  // namespace profgpu
