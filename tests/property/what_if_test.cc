// What-if against a simulator that runs the same job with and without a cause, over strategies, faults and seeds.
#include "analyse/job/what_if.h"

#include <gtest/gtest.h>

#include "analyse/job/job_lanes.h"
#include "tests/property/simulated_job.h"

namespace profgpu {
namespace {

/// The lanes of a simulated job.
struct SimulatedLanes {
  explicit SimulatedLanes(const SimulatedJob& job) {
    for (size_t i = 0; i < job.facts.size(); ++i) ranks.push_back(rank_digest(job.job.ranks[i], *job.facts[i]));
    met = matched_calls(ranks);
    clocks = align_clocks(ranks, met);
    meet = matched_collectives({ranks, met, clocks});
    lanes = join_lanes({ranks, met, clocks, meet});
  }
  std::vector<RankDigest> ranks;
  MatchedCalls met;
  std::vector<RankClock> clocks;
  std::vector<MatchedCollective> meet;
  JobLanes lanes;
};

sim::SimOptions options_for(sim::Strategy strategy, const std::string& fault, double severity, int ranks,
                            uint64_t seed) {
  sim::SimOptions o;
  o.strategy = strategy;
  if (!fault.empty()) o.faults = {{fault, severity}};
  o.ranks = ranks;
  o.hosts = 1;
  if (strategy >= sim::Strategy::tp) o.group = 2, o.micro_batches = 2;
  o.seed = seed;
  o.steps = 8;
  o.layers = 6;
  return o;
}

int64_t length(const std::vector<PathSegment>& segments) {
  int64_t sum = 0;
  for (size_t i = 0; i < segments.size(); ++i) {
    EXPECT_GT(segments[i].length_ns(), 0);
    EXPECT_EQ(segments[i].start_ns, i > 0 ? segments[i - 1].end_ns : segments[i].start_ns);
    sum += segments[i].length_ns();
  }
  return sum;
}

TEST(WhatIf, NothingChangedIsTheRecordingAndPathsAddUp) {
  for (const sim::Strategy strategy : {sim::Strategy::ddp, sim::Strategy::fsdp, sim::Strategy::pp}) {
    for (const char* fault :
         {"", "straggler-rank", "straggler-loading", "exposed-communication", "host-bound-launches"}) {
      for (const uint64_t seed : {1, 2}) {
        sim::SimOptions options = options_for(strategy, fault, 1.0, seed == 1 ? 2 : 6, seed);
        options.clock_skew_ns = seed == 1 ? 0 : 7'654'321;
        options.windows = seed == 1 ? 1 : 2;
        const SimulatedJob job(options);
        ASSERT_EQ(job.error, "");
        const SimulatedLanes s(job);
        const std::string what = std::string(fault) + ", seed " + std::to_string(seed);
        EXPECT_TRUE(s.lanes.ranks_without.empty()) << what;
        EXPECT_EQ(s.lanes.job_steps.size(), static_cast<size_t>(s.ranks[0].measured_steps())) << what;
        const std::vector<Interval> bounds = replayed(s.lanes, {});
        for (size_t i = 0; i < bounds.size(); ++i) {
          EXPECT_EQ(bounds[i].start, s.lanes.steps[i].begin_ns) << what << ", step " << i;
          EXPECT_EQ(bounds[i].end, s.lanes.steps[i].end_ns) << what << ", step " << i;
        }
        for (size_t i = 0; i < s.lanes.job_steps.size(); ++i) {
          const StepPath path = critical_path(s.lanes, i);
          EXPECT_EQ(length(path.segments), path.duration_ns) << what << ", step " << i;
        }
      }
    }
  }
}

double share_saved(const sim::WallTime& actual, const sim::WallTime& without) {
  const auto saved = static_cast<double>(actual.measured_ns - without.measured_ns);
  return 100.0 * saved / static_cast<double>(actual.measured_ns);
}

// Within 5 points of the step.
TEST(WhatIf, PredictsTheStepWithoutTheCause) {
  const std::pair<const char*, const char*> causes[] = {{"straggler-rank", "straggler_median"},
                                                        {"straggler-loading", "straggler_median"},
                                                        {"data-loading-bound", "input_free"},
                                                        {"host-bound-launches", "host_bound_free"}};
  for (const sim::Strategy strategy : {sim::Strategy::ddp, sim::Strategy::fsdp, sim::Strategy::tp, sim::Strategy::pp}) {
    for (const auto& [fault, change] : causes) {
      for (const double severity : {0.7, 1.5}) {
        const sim::SimOptions options = options_for(strategy, fault, severity, 4, 1);
        const SimulatedJob job(options);
        ASSERT_EQ(job.error, "");
        const bool straggler = std::string_view(change) == "straggler_median";
        const SimulatedLanes s(job);
        const std::vector<int> late = {3};
        const std::vector<WhatIf> answers = what_if(s.lanes, {.ranks = late});
        const WhatIf* w = find_what_if(answers, change, straggler ? 3 : -1);
        ASSERT_NE(w, nullptr) << fault;
        EXPECT_NEAR(w->saved_pct, share_saved(job.truth.actual, job.truth.without[0].second), 5)
            << fault << " at severity " << severity << ", strategy " << static_cast<int>(strategy);
      }
    }
  }
}

// Links that are 250 times as fast leave each collective the 9 µs that it takes to begin.
TEST(WhatIf, PredictsTheStepWithFreeCommunication) {
  for (const sim::Strategy strategy : {sim::Strategy::ddp, sim::Strategy::fsdp}) {
    for (const char* fault : {"", "exposed-communication", "low-bus-bandwidth", "straggler-rank"}) {
      sim::SimOptions options = options_for(strategy, fault, 1.0, 4, 3);
      const SimulatedJob job(options);
      ASSERT_EQ(job.error, "");
      if (std::string_view(fault) == "low-bus-bandwidth") options.faults.clear();
      options.faults.push_back({"low-bus-bandwidth", 0.001});
      const auto free = sim::simulate(options);
      ASSERT_TRUE(free);
      const sim::Truth truth = sim::make_truth(options, *free, {});
      const WhatIf* w = find_what_if(job.job.what_if, "communication_free");
      ASSERT_NE(w, nullptr) << fault;
      EXPECT_NEAR(w->saved_pct, share_saved(job.truth.actual, truth.actual), 5)
          << fault << ", strategy " << static_cast<int>(strategy);
      EXPECT_FALSE(w->lower_bound);
    }
  }
}

}  // namespace
}  // namespace profgpu
