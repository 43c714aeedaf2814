// Ranks that are made late are named, with the reason that was planted, and no others are. bench/job.py does the same
// over more sizes, severities and seeds.
#include <gtest/gtest.h>

#include "tests/property/simulated_job.h"

namespace profgpu {
namespace {

sim::SimOptions small_job(int ranks, uint64_t seed) {
  sim::SimOptions options;
  options.ranks = ranks;
  options.seed = seed;
  options.steps = 6;
  options.layers = 4;
  options.end_jitter_ns = 2'000;
  return options;
}

// The fault makes the job's steps `excess_pct` longer.
sim::SimOptions with_fault(sim::SimOptions options, const char* fault, double excess_pct) {
  options.faults = {{fault, 1.0}};
  const auto severity = sim::severity_for(options, excess_pct);
  EXPECT_TRUE(severity) << fault;
  if (severity) options.faults[0].severity = *severity;
  return options;
}

std::string said(const SimulatedJob& job) {
  std::string text = job.error;
  for (const Straggler& s : job.job.stragglers)
    text += std::to_string(s.rank) + " " + s.kind + " " + std::to_string(s.excess_pct) + " %; ";
  return text;
}

void expect_planted(const SimulatedJob& job, const std::string& what) {
  ASSERT_EQ(job.job.stragglers.size(), job.truth.stragglers.size()) << what << ": " << said(job);
  for (const sim::StragglerTruth& planted : job.truth.stragglers) {
    const auto& all = job.job.stragglers;
    const auto found = std::find_if(all.begin(), all.end(), [&](const Straggler& s) { return s.rank == planted.rank; });
    ASSERT_NE(found, all.end()) << what << ": " << said(job);
    EXPECT_EQ(found->kind, planted.kind) << what << ": " << said(job);
  }
}

TEST(JobStragglers, ThePlantedRankAndReasonAreNamed) {
  for (const char* fault :
       {"straggler-rank", "straggler-clocks", "straggler-loading", "straggler-work", "straggler-host"}) {
    for (const int ranks : {2, 8}) {
      for (const double excess_pct : {10, 30}) {
        sim::SimOptions options = small_job(ranks, static_cast<uint64_t>(ranks) + 1);
        options.slow_ranks = {ranks / 2};
        expect_planted(SimulatedJob(with_fault(options, fault, excess_pct)),
                       std::string(fault) + ", " + std::to_string(ranks) + " ranks, " + std::to_string(excess_pct) + " %");
      }
    }
  }
}

TEST(JobStragglers, HealthyJobsHaveNone) {
  for (const int ranks : {2, 4, 16}) {
    for (const uint64_t seed : {1, 2}) {
      for (const sim::Strategy strategy : {sim::Strategy::ddp, sim::Strategy::fsdp}) {
        sim::SimOptions options = small_job(ranks, seed);
        options.strategy = strategy;
        options.step_noise_permille = 20;
        const SimulatedJob job(options);
        EXPECT_EQ(job.error, "");
        EXPECT_TRUE(job.job.stragglers.empty()) << ranks << " ranks, seed " << seed << ": " << said(job);
      }
    }
  }
}

// Under the threshold of 5 % of the step.
TEST(JobStragglers, WhatIsTooLittleIsNotNamed) {
  for (const char* fault : {"straggler-rank", "straggler-loading", "straggler-work"}) {
    const SimulatedJob job(with_fault(small_job(4, 3), fault, 2.5));
    EXPECT_EQ(job.error, "");
    EXPECT_TRUE(job.job.stragglers.empty()) << fault << ": " << said(job);
  }
}

TEST(JobStragglers, AHostIsLateAsOne) {
  sim::SimOptions options = small_job(8, 1);
  options.hosts = 4;
  options.clock_error_ns = 3'000'000;
  options.slow_ranks = {2};
  const SimulatedJob job(with_fault(options, "straggler-host", 20));
  ASSERT_EQ(job.truth.stragglers.size(), 2u);   // both ranks of node-1
  expect_planted(job, "one host of four");
}

// Both hosts count their devices from 0, and their clocks are apart: samples are told apart by the host that they name.
TEST(JobStragglers, LowClocksOfOneHostOfTwo) {
  for (const int slow : {1, 5}) {
    for (const int64_t ahead_ns : {int64_t{0}, int64_t{3'600'000'000'000}}) {
      sim::SimOptions options = small_job(8, static_cast<uint64_t>(slow));
      options.hosts = 2;
      options.clock_offsets = {{1, ahead_ns}};
      options.slow_ranks = {slow};
      expect_planted(SimulatedJob(with_fault(options, "straggler-clocks", 20)),
                     "rank " + std::to_string(slow) + ", " + std::to_string(ahead_ns) + " ns ahead");
    }
  }
}

// The slow rank's device on the one host, and the same number on the other.
TEST(JobStragglers, SamplesOfAnotherHostExplainNothing) {
  sim::SimOptions options = small_job(8, 3);
  options.hosts = 2;
  options.slow_ranks = {5};
  options = with_fault(options, "straggler-clocks", 20);
  for (const char* names : {"", "elsewhere-0 elsewhere-1", "node-0 elsewhere"}) {
    const SimulatedJob job(options, {}, names);
    ASSERT_EQ(job.error, "") << names;
    ASSERT_EQ(job.job.stragglers.size(), 1u) << names << ": " << said(job);
    EXPECT_EQ(job.job.stragglers[0].rank, 5) << names;
    EXPECT_EQ(job.job.stragglers[0].kind, "slow_compute") << names;
  }
}

TEST(JobStragglers, TheStepsInWhichItIsLateAreNamed) {
  sim::SimOptions options = small_job(4, 2);
  options.slow_ranks = {1};
  options.slow_every = 3;
  options.faults = {{"straggler-loading", 2.0}};
  const SimulatedJob job(options);
  expect_planted(job, "every third step");
  ASSERT_EQ(job.job.stragglers.size(), 1u);
  EXPECT_EQ(job.job.stragglers[0].late_steps, (std::vector<int64_t>{7, 10}));   // the first is number 5
}

}  // namespace
}  // namespace profgpu
