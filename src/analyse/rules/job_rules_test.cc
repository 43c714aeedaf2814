// Rules on jobs and on one of their ranks, with figures written down by hand.
#include <gtest/gtest.h>

#include "analyse/rules/measure.h"
#include "tests/support/diagnosed.h"
#include "tests/support/hand_trace.h"
#include "tests/support/trace_rows.h"

namespace profgpu {
namespace {

constexpr int64_t kStep_ns = 50'000'000, kJobSteps = 8;

size_t index_of(std::string_view rule) {
  return static_cast<size_t>(std::ranges::find(rules(), rule, [](const Rule* r) { return r->id; }) - rules().begin());
}

/// Ranks on a device each, with findings and stragglers that are given.
struct GivenJob {
  explicit GivenJob(int ranks) {
    for (int r = 0; r < ranks; ++r) {
      RankDiagnosis& d = evidence.ranks.emplace_back();
      d.measure.rank = r;
      d.measure.has_device = true;
      d.measure.annotated = true;
      d.measure.device.activities = 1000;
      d.measure.wall_ns = kJobSteps * kStep_ns, d.measure.steps = kJobSteps;
      d.measure.device.waiting_ns = d.measure.wall_ns;
      d.measure.device.utilization_pct = d.measure.device.known_utilization_pct = 90;
      d.findings.resize(rules().size());
      job.ranks.push_back(r);
    }
    evidence.job = &job;
  }

  void late(int rank, std::string kind, int64_t excess_ns) {
    Straggler s;
    s.kind = std::move(kind);
    s.rank = rank;
    s.excess_ns_per_step = excess_ns;
    s.excess_pct = 100.0 * static_cast<double>(excess_ns) / kStep_ns;
    job.stragglers.push_back(std::move(s));
  }
  /// A finding of one rank by itself, that costs so much per step.
  Finding& finding(int rank, std::string_view rule, double value, int64_t cost_ns) {
    std::optional<Finding>& f = evidence.ranks[static_cast<size_t>(rank)].findings[index_of(rule)];
    f = find_rule(rule)->finding(value, find_rule(rule)->threshold);
    f->ranks = {rank};
    f->steps = kJobSteps;
    f->why = "It is so.";
    set_cost(*f, kJobSteps * kStep_ns, cost_ns * kJobSteps);
    return *f;
  }
  std::optional<Finding> said(std::string_view rule) {
    for (const Finding& f : diagnose(evidence).findings)
      if (f.rule == rule) return f;
    return std::nullopt;
  }

  Job job;
  Evidence evidence;
};

bool tells(const std::string& text, std::string_view words) { return text.find(words) != text.npos; }

TEST(StragglerRank, NamesWhatItsHostDoes) {
  GivenJob given(4);
  given.late(0, "slow_host", 14'000'000);
  Place place;
  place.name = "log_images", place.file = "train.py", place.line = 130, place.ns = kJobSteps * 13'000'000;
  given.finding(0, "host-bound-launches", 30, 15'000'000).where = {place};
  const auto f = given.said("straggler-rank");
  ASSERT_TRUE(f);
  EXPECT_EQ(f->what, "rank 0 arrives late at collectives: log_images (train.py:130)");
  EXPECT_TRUE(tells(f->fix.front(), "move the work of log_images (train.py:130) out of the step")) << f->fix.front();
}

TEST(StragglerRank, APlaceThatExplainsLittleIsNotItsReason) {
  GivenJob given(4);
  given.late(0, "slow_host", 14'000'000);
  Place place;
  place.name = "log_images", place.file = "train.py", place.line = 130, place.ns = kJobSteps * 4'000'000;
  given.finding(0, "host-bound-launches", 30, 15'000'000).where = {place};
  EXPECT_EQ(given.said("straggler-rank")->what, "rank 0 arrives late at collectives: the host launches late");
}

TEST(StragglerRank, NamesPythonsCollector) {
  GivenJob given(4);
  given.late(1, "slow_host", 18'000'000);
  given.finding(1, "python-gc", 36, 20'000'000).fix = {"gc.freeze()"};
  const auto f = given.said("straggler-rank");
  ASSERT_TRUE(f);
  EXPECT_EQ(f->what, "rank 1 arrives late at collectives: Python's garbage collection");
  EXPECT_EQ(f->fix.front(), "gc.freeze()");
}

TEST(StragglerRank, RanksThatAreLateForDifferentReasonsHaveTheirOwnFixes) {
  GivenJob given(6);
  given.late(3, "slow_compute", 6'500'000);
  given.late(5, "slow_input", 6'300'000);
  const auto f = given.said("straggler-rank");
  ASSERT_TRUE(f);
  EXPECT_EQ(f->ranks, (std::vector<int>{3, 5}));
  EXPECT_EQ(f->what, "ranks 3, 5 arrive late at collectives, for different reasons: rank 3: the same kernels take longer "
                     "on the GPU; rank 5: slow data loading");
  const auto of_rank = [&](std::string_view rank) {
    return std::ranges::count_if(f->fix, [&](const std::string& fix) { return fix.starts_with(rank); });
  };
  EXPECT_EQ(of_rank("rank 3: "), 2);
  EXPECT_EQ(of_rank("rank 5: "), 2);
}

/// Ranks of an MPI program without a device: time between the calls, and in them.
struct GivenMpiJob : GivenJob {
  explicit GivenMpiJob(const std::vector<std::pair<int64_t, int64_t>>& times) : GivenJob(static_cast<int>(times.size())) {
    for (size_t r = 0; r < times.size(); ++r) {
      RankMeasure& m = evidence.ranks[r].measure;
      m.has_device = false;
      MpiTime& mpi = m.host.mpi.emplace();
      mpi.wall_ns = m.wall_ns;
      std::tie(mpi.outside_ns, mpi.total_ns) = times[r];
      MpiFunction recv;
      recv.name = "MPI_Recv", recv.calls = 30, recv.total_ns = mpi.total_ns, recv.median_bytes = 512 << 10;
      recv.pct = mpi.pct();
      mpi.functions.push_back(std::move(recv));
    }
  }
  [[nodiscard]] ReportVerdict verdict() const { return diagnose(evidence).verdict; }
};

TEST(MpiImbalance, NamesTheRankThatTheOthersWaitFor) {
  GivenMpiJob given({{100'000'000, 300'000'000}, {320'000'000, 80'000'000}, {120'000'000, 280'000'000}});
  Pair pair;
  pair.from = 1, pair.to = 0, pair.calls = 30, pair.receiver_wait_ns = 190'000'000;
  given.job.pairs = {pair};
  const auto f = given.said("mpi-imbalance");
  ASSERT_TRUE(f);
  EXPECT_EQ(f->ranks, (std::vector<int>{1}));
  EXPECT_EQ(f->what, "rank 1 works longer between calls of MPI than the others, which wait in MPI_Recv");
  EXPECT_EQ(f->cost_ns, 200'000'000);
  ASSERT_EQ(f->evidence.size(), 2u);
  EXPECT_EQ(f->evidence[0], "rank 0 is in MPI_Recv for 300 ms (75 % of the time), in 30 calls of 512 KiB");
  EXPECT_EQ(f->evidence[1], "rank 0 waits 190 ms until rank 1 sends: 30 messages");
  EXPECT_TRUE(given.verdict().text.starts_with("Rank 1 works longer than the others, which wait for it in MPI_Recv"))
      << given.verdict().text;
}

TEST(MpiImbalance, EvenRanksAreSilentAndTheVerdictSaysHowLongTheyAreInMpi) {
  const GivenMpiJob given({{200'000'000, 200'000'000}, {210'000'000, 190'000'000}});
  EXPECT_FALSE(GivenMpiJob(given).said("mpi-imbalance"));
  EXPECT_EQ(given.verdict().text, "Rank 0 is in calls of MPI 50 % of the time, most of it in MPI_Recv; rank 1 48 %.");
  const GivenMpiJob busy({{390'000'000, 8'000'000}, {392'000'000, 4'000'000}});
  EXPECT_TRUE(busy.verdict().text.starts_with("Calls of MPI take at most 2 % of the time")) << busy.verdict().text;
}

TEST(MpiImbalance, LeavesToStragglersWhatCollectivesShow) {
  GivenMpiJob given({{100'000'000, 300'000'000}, {320'000'000, 80'000'000}});
  given.late(1, "longer_between_calls", 20'000'000);
  EXPECT_FALSE(given.said("mpi-imbalance"));
  EXPECT_EQ(given.said("straggler-rank")->what,
            "rank 1 arrives late at collectives: it computes longer between calls of MPI");
}

WhatIf row(std::string change, int64_t saved_ns) {
  WhatIf w;
  w.change = std::move(change);
  w.step_ns = kStep_ns - saved_ns;
  w.saved_ns_per_step = w.most_saved_ns_per_step = saved_ns;
  return w;
}

// What makes a rank late costs what the rank is late by, once.
TEST(JobCosts, OfWhatMakesARankLateAreInStragglerRank) {
  GivenJob given(4);
  given.late(0, "checkpoint", 8'000'000);
  given.finding(0, "checkpoint-stall", 21, 8'500'000);
  given.finding(0, "python-gc", 10, 5'000'000);
  given.job.what_if_on_top = {row("checkpoint_free", 0)};
  given.job.what_if_less = {row("python-gc", 0)};
  const auto stall = given.said("checkpoint-stall"), gc = given.said("python-gc");
  ASSERT_TRUE(stall && gc);
  EXPECT_EQ(stall->cost_ns, 0);
  EXPECT_TRUE(tells(stall->why, "its cost is in straggler-rank")) << stall->why;
  EXPECT_EQ(gc->cost_ns, 0);
  EXPECT_EQ(gc->severity, Severity::kInfo);
  EXPECT_TRUE(tells(gc->why, "Other work takes the same time")) << gc->why;
}

TEST(JobCosts, OfKernelsComeFromTheJobsReplay) {
  GivenJob given(4);
  given.finding(0, "unfused-attention", 20, 5'000'000);
  given.job.what_if_less = {row("unfused-attention", 3'000'000)};
  EXPECT_EQ(given.said("unfused-attention")->cost_ns, kJobSteps * 3'000'000);
}

/// One rank of two; compute of 1 ms, then an all-reduce that takes so long in each step. Microseconds.
std::optional<Finding> one_rank(const std::vector<int64_t>& transfers) {
  test::TraceRows t;
  int64_t at = 1000;
  for (size_t i = 0; i < transfers.size(); ++i) {
    const int64_t length = 1100 + transfers[i];
    const auto correlation = static_cast<uint32_t>(10 * i);
    t.annotation("ProfilerStep#" + std::to_string(i), at * 1000, length * 1000);
    t.call("cudaLaunchKernel", at * 1000, 1000, correlation + 1).kernel("gemm", (at + 10) * 1000, 1'000'000, correlation + 1);
    t.call("cudaLaunchKernel", at * 1000 + 2000, 1000, correlation + 2);
    t.collective({.name = "allreduce", .in = 1 << 20, .out = 1 << 20}, (at + 1010) * 1000, transfers[i] * 1000,
                 correlation + 2);
    t.call("cudaDeviceSynchronize", at * 1000 + 4000, (length - 10) * 1000);
    at += length;
  }
  const Diagnosis d = diagnosed(t.finish());
  const Finding* f = finding(d.findings, "exposed-communication");
  return f == nullptr ? std::nullopt : std::optional(*f);
}

TEST(ExposedCommunication, OfOneRankMayBeWaiting) {
  const auto even = one_rank({600, 600, 600, 600, 600, 600}), uneven = one_rank({300, 4000, 300, 4000, 3000, 4000});
  ASSERT_TRUE(even && uneven);
  EXPECT_TRUE(tells(even->verdict, "one rank's trace cannot tell"));
  EXPECT_FALSE(even->cost_ns) << "the last rank may be late by as much in each of them";
  EXPECT_TRUE(tells(uneven->verdict, "one rank's trace cannot tell"));
  EXPECT_FALSE(uneven->cost_ns);
  EXPECT_TRUE(tells(uneven->why, "Calls of one size take 300 µs to 4.00 ms")) << uneven->why;
}

// The busier device launches late now and then; the other one waits for the host most of the time.
TEST(LowGpuUtilization, IsExplainedByTheIdleTimeOfItsOwnDevice) {
  test::TraceRows t;
  for (int64_t i = 0; i < 10; ++i) {
    const int64_t at = 1'000'000 + i * 1'000'000;
    const auto correlation = static_cast<uint32_t>(10 * i);
    t.annotation("ProfilerStep#" + std::to_string(i), at, 1'000'000);
    t.call("cudaLaunchKernel", at, 1000, correlation + 1).kernel("gemm", at + 5000, 990'000, correlation + 1);
    t.call("cudaLaunchKernel", at + 700'000, 1000, correlation + 2).kernel("gemm", at + 705'000, 250'000, correlation + 2, 1);
  }
  const Diagnosis d = diagnosed(t.finish());
  const Finding* f = finding(d.findings, "low-gpu-utilization");
  ASSERT_NE(f, nullptr);
  EXPECT_EQ(f->seen.device, 1);
  EXPECT_FALSE(tells(f->why, "(0.") || tells(f->why, "(1.")) << f->why;   // percent of the other device's time
}

/// Ranks under DDP without a device, whose collectives were not recorded: time outside the backward pass, and in it.
struct GivenHostJob : GivenJob {
  explicit GivenHostJob(const std::vector<std::pair<int64_t, int64_t>>& times) : GivenJob(static_cast<int>(times.size())) {
    for (size_t r = 0; r < times.size(); ++r) {
      RankMeasure& m = evidence.ranks[r].measure;
      m.has_device = false;
      m.with.seen[static_cast<size_t>(Framework::kDdp)] = true;
      m.wall_ns = kJobSteps * (times[r].first + times[r].second);
      m.host.backward_ns = kJobSteps * times[r].second;
    }
  }
};

TEST(StragglerRank, WithoutCollectivesIsTheOneThatWaitsLeastInTheBackwardPass) {
  GivenHostJob given({{4'000'000, 41'000'000}, {17'000'000, 28'000'000}, {4'200'000, 40'800'000}});
  const auto f = given.said("straggler-rank");
  ASSERT_TRUE(f);
  EXPECT_EQ(f->ranks, (std::vector<int>{1}));
  EXPECT_EQ(f->what, "rank 1 works longer than the others, which wait for it in the backward pass");
  EXPECT_EQ(f->cost_ns, kJobSteps * 12'800'000);
  given.evidence.ranks[1].measure.loading_pct = 25;
  EXPECT_EQ(given.said("straggler-rank")->what,
            "rank 1 loads data longer than the others, which wait for it in the backward pass");
}

TEST(StragglerRank, WithoutCollectivesEvenRanksAndOnesThatNobodyWaitsForAreSilent) {
  EXPECT_FALSE(GivenHostJob({{4'000'000, 41'000'000}, {5'000'000, 40'000'000}}).said("straggler-rank"));
  EXPECT_FALSE(GivenHostJob({{4'000'000, 20'000'000}, {17'000'000, 20'000'000}}).said("straggler-rank"));
  GivenHostJob sharded({{4'000'000, 41'000'000}, {17'000'000, 28'000'000}});
  for (RankDiagnosis& r : sharded.evidence.ranks) r.measure.with.seen[static_cast<size_t>(Framework::kFsdp2)] = true;
  EXPECT_FALSE(sharded.said("straggler-rank"));
}

TEST(StragglerRank, OfAnAmdDeviceNamesItsTools) {
  GivenJob given(4);
  given.late(3, "slow_compute", 15'000'000);
  const auto names = [&](std::string_view tool) {
    return std::ranges::any_of(given.said("straggler-rank")->fix, [&](const std::string& fix) { return tells(fix, tool); });
  };
  EXPECT_TRUE(names("nvidia-smi -q"));
  for (RankDiagnosis& r : given.evidence.ranks) r.measure.device.name = "AMD Instinct MI300X";
  EXPECT_TRUE(names("amd-smi metric --clock"));
  EXPECT_FALSE(names("nvidia-smi"));
}

std::optional<double> check_value(const GivenJob& given, std::string_view id) {
  for (const Check& c : diagnose(given.evidence).checklist)
    if (c.id == id) return c.value;
  return std::nullopt;
}

TEST(ExposedCommunication, ItsCheckLeavesOutWaitingForLateRanksAsTheRuleDoes) {
  GivenJob given(2);
  for (RankDiagnosis& r : given.evidence.ranks)
    r.measure.device.window_ns = r.measure.wall_ns, r.measure.exposed_communication_pct = 26;
  EXPECT_EQ(check_value(given, "communication"), 26);
  given.job.wait_ns[0] = given.job.wait_ns[1] = given.evidence.ranks[0].measure.wall_ns / 5;
  EXPECT_NEAR(*check_value(given, "communication"), 6, 1e-9);
}

TEST(Verdict, NamesCommunicationThatTakesMoreThanItsCause) {
  GivenJob given(2);
  given.finding(0, "host-bound-launches", 13, 10'000'000);
  const std::string_view words = "Exposed communication takes more, 19 % of the time";
  EXPECT_FALSE(tells(diagnose(given.evidence).verdict.text, words));
  for (RankDiagnosis& r : given.evidence.ranks) r.measure.exposed_communication_pct = 19;
  given.finding(0, "host-bound-launches", 13, kStep_ns / 10);
  EXPECT_TRUE(tells(diagnose(given.evidence).verdict.text, words)) << diagnose(given.evidence).verdict.text;
}

}  // namespace
}  // namespace profgpu
