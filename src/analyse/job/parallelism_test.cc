#include "analyse/job/parallelism.h"

#include <gtest/gtest.h>

#include "tests/support/trace_rows.h"

namespace profgpu {
namespace {

constexpr int64_t kStep = 1'000'000, kMiB = 1 << 20;

/// A rank written down by hand: steps of 1 ms, forward in their first 0.4, backward until 0.8, the optimizer after it.
/// Calls are added for every step alike.
class HandRank {
 public:
  struct Group {
    std::string name = "0", description = {}, members = {};
    int32_t size = 8;
    int32_t own = -1;
  };
  struct Call {
    const char* name;
    Group group;
    Phase phase;
    int64_t bytes;
    int64_t at, duration;         ///< within the step
    int64_t hidden_from = 0, hidden = 0;   ///< compute beside it, from its start on
    int32_t peer = -1;
  };

  explicit HandRank(int rank = 0, int steps = 4) {
    d.rank = rank;
    for (int s = 0; s < steps; ++s) d.steps.push_back({s, s * kStep, kStep, true});
  }
  /// Of every step; `from`: the first step that has it.
  HandRank& call(const Call& c, size_t from = 0) {
    for (size_t s = from; s < d.steps.size(); ++s) one(c, s);
    return *this;
  }
  HandRank& one(const Call& c, size_t s) {
    CollectiveKind kind;
    kind.group = c.group.name, kind.description = c.group.description, kind.members = c.group.members;
    kind.group_size = c.group.size;
    kind.group_rank = c.group.own;
    kind.name = c.name;
    kind.described = c.group.size > 0;
    CollectiveCall out;
    auto& kinds = d.calls.kinds;
    out.kind = static_cast<uint32_t>(std::find(kinds.begin(), kinds.end(), kind) - kinds.begin());
    if (out.kind == kinds.size()) kinds.push_back(kind);
    out.start_ns = out.launch_ns = static_cast<int64_t>(s) * kStep + c.at;
    out.end_ns = out.start_ns + c.duration;
    out.message_bytes = c.bytes;
    out.phase = c.phase;
    out.measured = d.steps[s].measured;
    out.step_index = static_cast<uint32_t>(s);
    out.peer = c.peer;
    out.exposed_ns = c.duration - c.hidden;
    out.cover_begin = static_cast<uint32_t>(d.calls.cover.size());
    if (c.hidden > 0) d.calls.cover.push_back({out.start_ns + c.hidden_from, out.start_ns + c.hidden_from + c.hidden});
    out.cover_end = static_cast<uint32_t>(d.calls.cover.size());
    d.calls.calls.push_back(out);
    d.sites.calls.push_back({op(c.name), false});
    return *this;
  }
  /// A backward pass in every step.
  HandRank& backward(int64_t at, int64_t duration) {
    for (const DigestStep& s : d.steps) d.sites.backward.push_back({s.start_ns + at, s.start_ns + at + duration});
    std::sort(d.sites.backward.begin(), d.sites.backward.end());
    return *this;
  }
  RankDigest d;

 private:
  static CollectiveOp op(std::string_view name) {
    for (int i = 1; i < kCollectiveOps; ++i)
      if (collective_op_name(static_cast<CollectiveOp>(i)) == name) return static_cast<CollectiveOp>(i);
    return CollectiveOp::kUnknown;
  }
};
using Group = HandRank::Group;

constexpr Phase kF = Phase::kForward, kB = Phase::kBackward, kO = Phase::kOptimizer, kX = Phase::kOther;

std::string kinds(const std::vector<Parallelism>& ways) {
  std::string out;
  for (const Parallelism& w : ways)
    out += (out.empty() ? "" : " ") + std::string(parallel_kind_name(w.kind)) + ":" + std::to_string(w.group_size);
  return out;
}
std::vector<Parallelism> ways(const HandRank& rank) { return parallelism_of({&rank.d, 1}); }
std::vector<Parallelism> ways(const std::vector<HandRank>& ranks) {
  std::vector<RankDigest> digests;
  for (const HandRank& r : ranks) digests.push_back(r.d);
  return parallelism_of(digests);
}

HandRank& add_fsdp(HandRank& rank, const Group& group, int layers = 4, int64_t bytes = 8 * kMiB) {
  for (int i = 0; i < layers; ++i) {
    rank.call({"all_gather", group, kF, bytes, 10'000 + 90'000 * i, 40'000, 0, 40'000});
    rank.call({"all_gather", group, kB, bytes, 410'000 + 90'000 * i, 40'000, 0, 40'000});
    rank.call({"reduce_scatter", group, kB, bytes, 460'000 + 90'000 * i, 40'000, 0, 30'000});
  }
  return rank;
}

TEST(Parallelism, NothingWithoutCollectivesOrInAGroupOfOne) {
  EXPECT_TRUE(parallelism_of({}).empty());
  EXPECT_TRUE(ways(HandRank()).empty());
  EXPECT_TRUE(ways(HandRank().call({"all_reduce", {.size = 1}, kB, kMiB, 500'000, 1000})).empty());
}

TEST(Parallelism, DataParallelBuckets) {
  HandRank rank;
  rank.backward(400'000, 400'000);
  rank.call({"all_reduce", {}, kB, 25 * kMiB, 500'000, 100'000, 0, 100'000});
  rank.call({"all_reduce", {}, kB, 25 * kMiB, 600'000, 100'000, 0, 80'000});
  rank.call({"all_reduce", {}, kB, 1 * kMiB, 750'000, 100'000, 0, 20'000});
  rank.call({"broadcast", {}, kF, 4096, 1'000, 1'000});
  rank.call({"all_reduce", {}, kO, 4, 900'000, 500});   // a loss
  const auto all = ways(rank);
  ASSERT_EQ(kinds(all), "ddp:8");
  const Parallelism& ddp = all[0];
  EXPECT_EQ(ddp.calls_per_step, 5);
  EXPECT_EQ(ddp.bytes_per_step, 51 * kMiB + 4096 + 4);
  EXPECT_EQ(ddp.communication_ns_per_step, 301'500);
  EXPECT_EQ(ddp.exposed_ns_per_step, 101'500);
  EXPECT_NEAR(ddp.overlap_pct().value(), 100.0 * 200'000 / 301'500, 1e-9);
  ASSERT_TRUE(ddp.gradients);
  EXPECT_EQ(ddp.gradients->per_step, 3);
  EXPECT_EQ(ddp.gradients->largest_bytes, 25 * kMiB);
  EXPECT_EQ(ddp.gradients->smallest_bytes, kMiB);
  EXPECT_EQ(ddp.gradients->first_delay_ns, 100'000);
  EXPECT_EQ(ddp.gradients->tail_ns, 80'000);   // compute ends at 770, the last bucket at 850
  EXPECT_EQ(ddp.gradients->micro_batches_per_step, 1);
  EXPECT_EQ(ddp.gradients->reduced_passes_per_step, 1);
  EXPECT_EQ(ddp.gradients->steps_without, 0);
}

TEST(Parallelism, AccumulationReducesInTheLastMicroBatchOnly) {
  const HandRank::Call bucket{"all_reduce", {}, kB, 25 * kMiB, 700'000, 50'000};
  HandRank once;
  once.backward(200'000, 100'000).backward(600'000, 200'000).call(bucket);
  EXPECT_EQ(ways(once)[0].gradients->micro_batches_per_step, 2);
  EXPECT_EQ(ways(once)[0].gradients->reduced_passes_per_step, 1);
  EXPECT_EQ(ways(once)[0].gradients->first_delay_ns, 100'000);
  HandRank always = once;
  always.call({"all_reduce", {}, kB, 25 * kMiB, 250'000, 50'000});
  EXPECT_EQ(ways(always)[0].gradients->reduced_passes_per_step, 2);
  HandRank seldom;
  seldom.backward(600'000, 200'000).call(bucket, 2);   // an optimizer step every second range
  EXPECT_EQ(ways(seldom)[0].gradients->steps_without, 2);
}

TEST(Parallelism, WarmUpDoesNotCount) {
  HandRank rank;
  rank.d.steps[0].measured = false;
  rank.one({"all_reduce", {}, kB, 90 * kMiB, 500'000, 300'000}, 0);
  for (size_t s = 1; s < 4; ++s) rank.one({"all_reduce", {}, kB, kMiB, 500'000, 1'000}, s);
  EXPECT_EQ(ways(rank)[0].bytes_per_step, kMiB);
  EXPECT_EQ(ways(rank)[0].communication_ns_per_step, 1'000);
}

TEST(Parallelism, ShardedParameters) {
  HandRank rank;
  add_fsdp(rank, {.name = "0", .description = "default_pg"});
  ASSERT_EQ(kinds(ways(rank)), "fsdp_or_zero3:8");
  EXPECT_FALSE(ways(rank)[0].named);
  EXPECT_EQ(ways(rank)[0].gathers->per_step, 8);
  EXPECT_EQ(ways(rank)[0].gathers->late_per_step, 0);
  EXPECT_EQ(ways(rank)[0].gradients->per_step, 4);
  rank.d.sites.libraries.deepspeed = true;
  EXPECT_EQ(kinds(ways(rank)), "zero3:8");
  rank.d.sites.libraries = {.fsdp = true};
  EXPECT_EQ(kinds(ways(rank)), "fsdp:8");
  EXPECT_TRUE(ways(rank)[0].named);
  HandRank mesh;
  EXPECT_EQ(kinds(ways(add_fsdp(mesh, {.name = "3", .description = "mesh_fsdp"}))), "fsdp:8");
}

TEST(Parallelism, GathersThatComputeDoesNotHideAreLate) {
  HandRank rank;
  rank.call({"all_gather", {}, kF, 8 * kMiB, 10'000, 40'000});                   // the first hides behind nothing
  rank.call({"all_gather", {}, kF, 8 * kMiB, 100'000, 40'000, 30'000, 10'000});  // 30 µs late
  rank.call({"all_gather", {}, kF, 8 * kMiB, 200'000, 40'000, 5'000, 35'000});   // between two kernels
  rank.call({"all_gather", {}, kB, 8 * kMiB, 500'000, 40'000});
  rank.call({"reduce_scatter", {}, kB, 8 * kMiB, 600'000, 40'000});
  const auto all = ways(rank);
  ASSERT_EQ(kinds(all), "fsdp_or_zero3:8");
  EXPECT_EQ(all[0].gathers->late_per_step, 2);
  EXPECT_EQ(all[0].gathers->late_ns_per_step, 70'000);
}

TEST(Parallelism, OptimizerSharding) {
  HandRank two;
  two.call({"reduce_scatter", {}, kB, 50 * kMiB, 500'000, 50'000});
  two.call({"all_gather", {}, kO, 25 * kMiB, 850'000, 50'000});
  EXPECT_EQ(kinds(ways(two)), "zero1_or_2:8");
  two.backward(200'000, 100'000).backward(450'000, 300'000);
  EXPECT_EQ(kinds(ways(two)), "zero1:8");   // the first micro-batch keeps its gradients
  two.call({"reduce_scatter", {}, kB, 50 * kMiB, 250'000, 50'000});
  EXPECT_EQ(kinds(ways(two)), "zero2:8");
  HandRank one;
  one.call({"all_reduce", {}, kB, 50 * kMiB, 500'000, 50'000}).call({"all_gather", {}, kO, 25 * kMiB, 850'000, 50'000});
  EXPECT_EQ(kinds(ways(one)), "zero1:8");
  HandRank sent;   // ZeroRedundancyOptimizer
  sent.call({"all_reduce", {}, kB, 50 * kMiB, 500'000, 50'000}).call({"broadcast", {}, kO, 25 * kMiB, 850'000, 50'000});
  EXPECT_EQ(kinds(ways(sent)), "zero1:8");
  HandRank owners;   // DeepSpeed's reductions to owners
  owners.call({"reduce", {}, kB, 50 * kMiB, 500'000, 50'000}).call({"all_gather", {}, kO, 25 * kMiB, 850'000, 50'000});
  EXPECT_EQ(kinds(ways(owners)), "zero1_or_2:8");
  HandRank once;   // gathered in forward, kept for backward
  once.call({"all_gather", {}, kF, 25 * kMiB, 50'000, 50'000});
  once.call({"reduce_scatter", {}, kB, 50 * kMiB, 500'000, 50'000});
  EXPECT_EQ(kinds(ways(once)), "fsdp_or_zero2:8");
}

TEST(Parallelism, HybridShardingReducesShardsOverReplicas) {
  const Group shard{.name = "1", .size = 4}, replicas{.name = "2", .size = 2};
  HandRank rank;
  add_fsdp(rank, shard);
  for (int i = 0; i < 4; ++i) rank.call({"all_reduce", replicas, kB, 2 * kMiB, 510'000 + 90'000 * i, 10'000});
  const auto all = ways(rank);
  ASSERT_EQ(kinds(all), "hsdp:4");
  EXPECT_EQ(all[0].replicas, 2);
  EXPECT_EQ(all[0].groups, 1);
  EXPECT_EQ(all[0].calls_per_step, 16);
  // A second group that reduces something else is data parallel.
  HandRank other;
  add_fsdp(other, shard).call({"all_reduce", replicas, kB, 90 * kMiB, 510'000, 10'000});
  EXPECT_EQ(kinds(ways(other)), "fsdp_or_zero3:4 ddp:2");
}

TEST(Parallelism, TensorParallel) {
  const Group tp{.name = "5", .size = 4};
  HandRank rank;
  for (int i = 0; i < 4; ++i)
    rank.call({"all_reduce", tp, kF, kMiB, 50'000 + 80'000 * i, 10'000})
        .call({"all_reduce", tp, kB, kMiB, 450'000 + 80'000 * i, 10'000});
  rank.call({"all_gather", tp, kF, kMiB, 390'000, 1'000});   // of logits
  EXPECT_EQ(kinds(ways(rank)), "tensor_parallel:4");
  EXPECT_EQ(ways(rank)[0].calls_per_step, 9);
  HandRank sequence;
  for (int i = 0; i < 4; ++i)
    for (const auto& [phase, at] : {std::pair(kF, 50'000), std::pair(kB, 450'000)})
      sequence.call({"all_gather", tp, phase, kMiB, at + 80'000 * i, 10'000})
          .call({"reduce_scatter", tp, phase, kMiB, at + 40'000 + 80'000 * i, 10'000});
  EXPECT_EQ(kinds(ways(sequence)), "tensor_parallel:4");
  EXPECT_NE(ways(sequence)[0].words().find("sequence parallelism"), std::string::npos);
}

TEST(Parallelism, TensorParallelServing) {
  HandRank rank;   // no backward: kernels of vLLM's own, with nothing recorded
  for (int i = 0; i < 6; ++i) {
    rank.call({"void vllm::cross_device_reduce_1stage<__nv_bfloat16, 2>(", {.size = 0}, kF, -1, 100'000 * i, 5'000});
  }
  for (CallSite& s : rank.d.sites.calls) s.op = CollectiveOp::kAllReduce;
  const auto all = ways(rank);
  ASSERT_EQ(kinds(all), "tensor_parallel:0");
  EXPECT_FALSE(all[0].bytes_per_step);
  EXPECT_EQ(all[0].exposed_ns_per_step, 30'000);
}

TEST(Parallelism, PipelineStagesAndBubbles) {
  const int stages = 4, batches = 6;
  std::vector<HandRank> ranks;
  for (int r = 0; r < stages; ++r) {
    HandRank rank(r);
    rank.d.world_size = stages;
    rank.d.memory.peak_allocated_bytes = (10 - r) * kMiB;
    const Group world{.size = stages};
    for (int m = 0; m < batches; ++m) {
      if (r > 0) rank.call({"recv", world, kX, kMiB, 30'000 * m, 4'000 * (r + 1), 0, 0, r - 1});
      if (r + 1 < stages) rank.call({"send", world, kX, kMiB, 30'000 * m + 20'000, 1'000, 0, 1'000, r + 1});
      if (r + 1 < stages) rank.call({"recv", world, kX, kMiB, 400'000 + 30'000 * m, 2'000, 0, 0, r + 1});
      if (r > 0) rank.call({"send", world, kX, kMiB, 420'000 + 30'000 * m, 1'000, 0, 1'000, r - 1});
    }
    rank.backward(300'000, 500'000);
    ranks.push_back(std::move(rank));
  }
  const auto all = ways(ranks);
  ASSERT_EQ(kinds(all), "pipeline_parallel:4");
  const Pipeline& p = all[0].pipeline.value();
  EXPECT_EQ(p.stages, 4);
  EXPECT_EQ(p.micro_batches, 6);
  EXPECT_NEAR(p.ideal_bubble_pct.value(), 100.0 * 3 / 9, 1e-9);
  ASSERT_EQ(p.by_stage.size(), 4u);
  EXPECT_EQ(p.by_stage[0].bubble_ns_per_step, 6 * 2'000);
  EXPECT_EQ(p.by_stage[1].bubble_ns_per_step, 6 * 10'000);
  EXPECT_EQ(p.by_stage[3].bubble_ns_per_step, 6 * 16'000);
  EXPECT_NEAR(p.by_stage[3].bubble_pct, 9.6, 1e-9);
  EXPECT_EQ(p.by_stage[2].ranks, std::vector<int>{2});
  EXPECT_EQ(p.by_stage[0].peak_allocated_bytes, 10 * kMiB);
  EXPECT_EQ(p.by_stage[3].peak_allocated_bytes, 7 * kMiB);
  // One rank knows its neighbours and no more; a group that says what it is numbers its stages.
  EXPECT_EQ(kinds(ways(ranks[1])), "pipeline_parallel:4");
  EXPECT_FALSE(ways(ranks[1])[0].pipeline->stages);
  for (CollectiveKind& k : ranks[1].d.calls.kinds) k.description = "mesh_pp";
  EXPECT_EQ(ways(ranks[1])[0].pipeline->stages, 4);
  EXPECT_EQ(ways(ranks[1])[0].pipeline->by_stage.at(0).stage, 1);
}

// As where each pair of stages has a communicator, and another one for the way back.
TEST(Parallelism, StagesThatHaveAGroupPerPairAreOnePipeline) {
  std::vector<HandRank> ranks;
  for (int r = 0; r < 4; ++r) {
    HandRank rank(r);
    rank.d.world_size = 4;
    const auto pair = [](int first, const char* way) {
      return Group{.name = way + std::to_string(first), .members = "[" + std::to_string(first) + ", " +
                   std::to_string(first + 1) + "]", .size = 2};
    };
    for (int m = 0; m < 4; ++m) {
      if (r > 0) rank.call({"recv", pair(r - 1, "f"), kX, kMiB, 30'000 * m, 4'000});
      if (r < 3) rank.call({"send", pair(r, "f"), kX, kMiB, 30'000 * m + 20'000, 1'000});
      if (r < 3) rank.call({"recv", pair(r, "b"), kX, kMiB, 400'000 + 30'000 * m, 2'000});
      if (r > 0) rank.call({"send", pair(r - 1, "b"), kX, kMiB, 420'000 + 30'000 * m, 1'000});
    }
    rank.backward(300'000, 500'000);
    ranks.push_back(std::move(rank));
  }
  const auto all = ways(ranks);
  const auto pipeline = std::ranges::find_if(all, [](const Parallelism& way) { return way.pipeline.has_value(); });
  ASSERT_NE(pipeline, all.end());
  EXPECT_EQ(pipeline->pipeline->stages, 4);
  ASSERT_EQ(pipeline->pipeline->by_stage.size(), 4u);
  for (int r = 0; r < 4; ++r) EXPECT_EQ(pipeline->pipeline->by_stage[static_cast<size_t>(r)].ranks, std::vector<int>{r});
}

TEST(Parallelism, TwoPipelinesInOneGroup) {
  std::vector<HandRank> ranks;   // 0 -> 2, 1 -> 3
  for (int r = 0; r < 4; ++r) {
    HandRank rank(r);
    rank.d.world_size = 4;
    const int32_t other = (r + 2) % 4;
    rank.call({r < 2 ? "send" : "recv", {.size = 4}, kX, kMiB, 1'000, 1'000, 0, 0, other});
    rank.call({r < 2 ? "recv" : "send", {.size = 4}, kB, kMiB, 500'000, 1'000, 0, 0, other});
    ranks.push_back(std::move(rank));
  }
  const auto all = ways(ranks);
  ASSERT_EQ(kinds(all), "pipeline_parallel:4");
  EXPECT_EQ(all[0].pipeline->stages, 2);
  ASSERT_EQ(all[0].pipeline->by_stage.size(), 2u);
  EXPECT_EQ(all[0].pipeline->by_stage[1].ranks, (std::vector<int>{2, 3}));
}

TEST(Parallelism, AGroupThatOnlySaysEachOnesPlaceInIt) {
  std::vector<HandRank> ranks;   // a recording's communicator of every second rank, handing on from last to first
  for (int r = 1; r < 8; r += 2) {
    HandRank rank(r);
    rank.d.world_size = 8;
    const int32_t own = 3 - r / 2;
    const Group every_second{.size = 4, .own = own};
    if (own > 0) rank.call({"recv", every_second, kX, kMiB, 1'000, 1'000, 0, 0, own - 1});
    if (own < 3) rank.call({"send", every_second, kX, kMiB, 2'000, 1'000, 0, 0, own + 1});
    ranks.push_back(std::move(rank));
  }
  const auto all = ways(ranks);
  ASSERT_EQ(kinds(all), "pipeline_parallel:4");
  EXPECT_EQ(all[0].pipeline->stages, 4);
  ASSERT_EQ(all[0].pipeline->by_stage.size(), 4u);
  EXPECT_EQ(all[0].pipeline->by_stage[0].ranks, std::vector<int>{7});
  EXPECT_EQ(all[0].pipeline->by_stage[3].ranks, std::vector<int>{1});
}

TEST(Parallelism, RingsAreNoPipelines) {
  std::vector<HandRank> ranks;
  for (int r = 0; r < 4; ++r) {
    HandRank rank(r);
    rank.backward(400'000, 400'000);
    for (const auto& [phase, at] : {std::pair(kF, 10'000), std::pair(kB, 410'000)})
      for (int i = 0; i < 3; ++i)
        rank.call({"send", {.size = 4}, phase, kMiB, at + 9'000 * i, 1'000, 0, 0, (r + 1) % 4})
            .call({"recv", {.size = 4}, phase, kMiB, at + 9'000 * i, 1'000, 0, 0, (r + 3) % 4});
    ranks.push_back(std::move(rank));
  }
  EXPECT_EQ(kinds(ways(ranks)), "context_parallel:4");
  EXPECT_EQ(kinds(ways(ranks[2])), "context_parallel:4");
}

TEST(Parallelism, ExchangesOfTokensAndOfEmbeddings) {
  HandRank moe;
  for (int i = 0; i < 4; ++i)
    moe.call({"all_to_all", {}, kF, kMiB, 50'000 + 80'000 * i, 10'000})
        .call({"all_to_all", {}, kB, kMiB, 450'000 + 80'000 * i, 10'000});
  EXPECT_EQ(kinds(ways(moe)), "expert_parallel:8");
  EXPECT_NE(ways(moe)[0].words().find("looks the same"), std::string::npos);
  for (CollectiveKind& k : moe.d.calls.kinds) k.description = "EXPERT_MODEL_PARALLEL_GROUP";
  EXPECT_TRUE(ways(moe)[0].named);
  for (CollectiveKind& k : moe.d.calls.kinds) k.description = "mesh_cp";
  EXPECT_EQ(kinds(ways(moe)), "context_parallel:8");
  HandRank tables;
  tables.call({"all_to_all", {}, kF, kMiB, 50'000, 10'000}).call({"all_to_all", {}, kB, kMiB, 450'000, 10'000});
  tables.call({"all_reduce", {}, kB, kMiB, 500'000, 5'000});
  EXPECT_EQ(kinds(ways(tables)), "embedding_parallel:8 ddp:8");
}

TEST(Parallelism, ThreeDimensionsAtOnce) {
  std::vector<HandRank> ranks;   // tensor 2, pipeline 2, data 2
  for (int r = 0; r < 8; ++r) {
    HandRank rank(r);
    const int tp = r / 2 * 2, dp = r % 2 + r / 4 * 4, pp = r % 4;
    const auto text = [](int a, int b) { return "[" + std::to_string(a) + ", " + std::to_string(b) + "]"; };
    const Group tensor{"t", {}, text(tp, tp + 1), 2}, data{"d", {}, text(dp, dp + 2), 2};
    const Group pipe{"p", {}, text(pp, pp + 4), 2};
    rank.d.host = r < 4 ? "a" : "b";
    rank.backward(400'000, 400'000);
    for (int i = 0; i < 4; ++i)
      rank.call({"all_reduce", tensor, kF, kMiB, 50'000 + 50'000 * i, 20'000})
          .call({"all_reduce", tensor, kB, kMiB, 450'000 + 50'000 * i, 20'000});
    rank.call({r < 4 ? "send" : "recv", pipe, kF, kMiB, 350'000, 10'000})
        .call({r < 4 ? "recv" : "send", pipe, kB, kMiB, 410'000, 10'000});
    rank.call({"all_reduce", data, kB, 30 * kMiB, 700'000, 50'000});
    ranks.push_back(std::move(rank));
  }
  const auto all = ways(ranks);
  ASSERT_EQ(kinds(all), "tensor_parallel:2 ddp:2 pipeline_parallel:2");
  EXPECT_EQ(all[0].groups, 4);
  EXPECT_EQ(all[0].hosts_per_group, 1);
  EXPECT_EQ(all[2].hosts_per_group, 2);
  EXPECT_EQ(all[2].pipeline->stages, 2);
  EXPECT_EQ(all[0].ranks.size(), 8u);
  EXPECT_EQ(all[1].bytes_per_step, 30 * kMiB);
}

TEST(Parallelism, WhatIsNotKnownIsNotInvented) {
  HandRank features;   // a contrastive loss gathers features beside a data-parallel job
  features.call({"all_gather", {}, kF, kMiB, 300'000, 5'000}).call({"reduce_scatter", {}, kB, kMiB, 410'000, 5'000});
  features.call({"all_reduce", {}, kB, 100 * kMiB, 500'000, 50'000});
  EXPECT_EQ(kinds(ways(features)), "ddp:8");
  HandRank phaseless;   // nothing of the host was recorded
  phaseless.call({"all_reduce", {}, kX, 25 * kMiB, 500'000, 5'000});
  EXPECT_EQ(kinds(ways(phaseless)), "unknown:8");
  EXPECT_EQ(ways(phaseless)[0].words(), "pattern not recognized: all_reduce, as this rank's calls suggest");
  for (CollectiveKind& k : phaseless.d.calls.kinds) k.description = "mesh_dp";
  EXPECT_EQ(kinds(ways(phaseless)), "ddp:8");
  EXPECT_EQ(kinds(ways(HandRank().call({"all_reduce", {}, kB, 4, 500'000, 900}))), "unknown:8");
  EXPECT_EQ(kinds(ways(HandRank().call({"ncclDevKernel_Generic(", {.size = 0}, kB, -1, 500'000, 900}))), "unknown:0");
}

TEST(Parallelism, KernelsThatDoNotSayWhatTheyDoAreWhatTheProgramSays) {
  HandRank rank;
  rank.call({"ncclDevKernel_Generic(", {.size = 0}, kB, -1, 500'000, 900});
  EXPECT_EQ(ways(rank)[0].words(),
            "pattern not recognized: kernels with unspecific names, as this rank's calls suggest");
  rank.d.sites.libraries.ddp = true;
  ASSERT_EQ(kinds(ways(rank)), "ddp:0");
  EXPECT_TRUE(ways(rank)[0].named);
  rank.call({"ncclDevKernel_Generic(", {.size = 0}, kF, -1, 100'000, 900});   // more than gradients
  EXPECT_EQ(kinds(ways(rank)), "unknown:0");
  rank.d.sites.libraries.ddp = false;
  rank.d.sites.libraries.fsdp = true;
  EXPECT_EQ(kinds(ways(rank)), "fsdp:0");
  rank.d.sites.libraries.megatron = true;   // may be any of several ways
  EXPECT_EQ(kinds(ways(rank)), "unknown:0");
}

TEST(Parallelism, BareKernelsJoinTheGroupOfTheirStream) {
  HandRank rank;
  rank.call({"all_reduce", {}, kB, 25 * kMiB, 500'000, 50'000});
  rank.call({"ncclDevKernel_Generic(", {.size = 0}, kB, -1, 600'000, 10'000});
  ASSERT_EQ(kinds(ways(rank)), "ddp:8");
  EXPECT_EQ(ways(rank)[0].communication_ns_per_step, 60'000);
  EXPECT_FALSE(ways(rank)[0].bytes_per_step);
  for (CollectiveCall& c : rank.d.calls.calls)
    if (c.message_bytes < 0) c.queue = 1;
  EXPECT_EQ(kinds(ways(rank)), "ddp:8 unknown:0");
}

TEST(Parallelism, OverlappingCallsCountOnce) {
  HandRank rank;   // a gather and a scatter on streams of their own
  rank.call({"all_gather", {}, kF, kMiB, 100'000, 40'000});
  rank.call({"all_gather", {}, kB, kMiB, 500'000, 40'000, 0, 10'000});
  rank.call({"reduce_scatter", {}, kB, kMiB, 520'000, 40'000, 30'000, 10'000});
  EXPECT_EQ(ways(rank)[0].communication_ns_per_step, 40'000 + 60'000);
  EXPECT_EQ(ways(rank)[0].exposed_ns_per_step, 40'000 + 60'000 - 20'000);
}

TEST(Parallelism, TableHasNullsForWhatIsUnknown) {
  HandRank rank;
  rank.call({"all_reduce", {.size = 0}, kB, -1, 500'000, 50'000});
  const Table table = table_of(ways(rank));
  ASSERT_EQ(table.rows.size(), 1u);
  EXPECT_EQ(*table.at(0, "kind").text(), "ddp");
  EXPECT_TRUE(table.at(0, "words").text()->ends_with("as this rank's calls suggest"));
  EXPECT_TRUE(table.at(0, "group_size").is_null());
  EXPECT_TRUE(table.at(0, "bytes_per_step").is_null());
  EXPECT_EQ(*table.at(0, "detail").record()->at("told_by").text(), "pattern");
  EXPECT_TRUE(table.at(0, "detail").record()->at("first_bucket_delay_ns").is_null());
}

// From rows of a trace: ranges around launches name what kernels do not.
TEST(CallSites, RangesTellWhatKernelsHide) {
  test::TraceRows t;
  t.annotation("ProfilerStep#1", 0, 1'000'000).op("DistributedDataParallel.forward", 9'000, 5'000);
  t.op("aten::mm", 10'000, 1'000);
  t.op("autograd::engine::evaluate_function: torch::autograd::AccumulateGrad", 500'000, 100'000, "2");
  t.annotation("nccl:all_reduce", 510'000, 50'000, "2").call("cudaLaunchKernelExC", 520'000, 1'000, 77, "2");
  t.kernel("ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclWorkElem)", 530'000, 100'000, 77, 0, 20);
  t.kernel("ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclWorkElem)", 730'000, 100'000, 0, 0, 20);
  const Trace trace = t.finish();
  const Facts facts(trace, {});
  const CallSites sites = CallSites::compute(facts);
  ASSERT_EQ(sites.calls.size(), 2u);
  EXPECT_EQ(sites.calls[0].op, CollectiveOp::kAllReduce);
  EXPECT_TRUE(sites.calls[0].gradient_hook);
  EXPECT_EQ(sites.calls[1].op, CollectiveOp::kUnknown);
  EXPECT_FALSE(sites.calls[1].gradient_hook);
  EXPECT_TRUE(sites.libraries.ddp);
  ASSERT_EQ(sites.backward.size(), 1u);
  EXPECT_EQ(sites.backward[0], (Interval{500'000, 600'000}));
  const auto& found = facts.get<RankParallelism>().ways;
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].kind, ParallelKind::kDdp);
  EXPECT_TRUE(found[0].named);
}

}  // namespace
}  // namespace profgpu
