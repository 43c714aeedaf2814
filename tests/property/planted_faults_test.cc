// Every fault that the simulator can plant is found, nothing else is, and what it is said to cost is what the same job
// takes less without it.
#include <gtest/gtest.h>

#include <set>

#include "analyse/rank/devices.h"
#include "analyse/rank/steps.h"
#include "tests/property/simulated_job.h"

namespace profgpu {
namespace {

int ranks_for(const std::string& fault) {
  const sim::Fault* known = sim::find_fault(fault);
  return known != nullptr && known->min_ranks > 1 ? 4 : 1;
}

std::set<std::string> said(const SimulatedJob& job) {
  std::set<std::string> rules;
  for (const Finding& f : job.findings) rules.insert(f.rule);
  return rules;
}

// What must be said is said; what is neither expected nor tolerated is not.
void expect_diagnosis(const SimulatedJob& job, const std::string& what) {
  ASSERT_EQ(job.error, "") << what;
  const std::set<std::string> rules = said(job);
  for (const std::string& rule : job.truth.expected_rules) EXPECT_TRUE(rules.contains(rule)) << what << ": no " << rule;
  for (const std::string& rule : rules) {
    const auto in = [&](const std::vector<std::string>& list) {
      return std::find(list.begin(), list.end(), rule) != list.end();
    };
    EXPECT_TRUE(in(job.truth.expected_rules) || in(job.truth.tolerated_rules)) << what << ": false " << rule;
  }
}

TEST(PlantedFaults, EachAloneIsFoundAndNothingElse) {
  for (const sim::Fault& fault : sim::faults()) {
    for (const uint64_t seed : {1, 2}) {
      sim::SimOptions options;
      options.faults = {{std::string(fault.name), 1.0}};
      options.ranks = ranks_for(std::string(fault.name));
      options.steps = 10;
      options.seed = seed;
      expect_diagnosis(SimulatedJob(options), std::string(fault.name) + ", seed " + std::to_string(seed));
    }
  }
}

std::optional<Finding> found(sim::SimOptions options, const char* fault) {
  options.faults = {{fault, 1.0}};
  options.steps = 8;
  const SimulatedJob job(options);
  const Finding* f = job.finding(fault);
  return f != nullptr ? std::optional(*f) : std::nullopt;
}

TEST(PlantedFaults, AGraphBreakIsCountedWhereThereAreStacks) {
  sim::SimOptions stacks;
  stacks.python_stacks = true;
  const std::optional<Finding> f = found(stacks, "graph-breaks");
  ASSERT_TRUE(f);
  EXPECT_EQ(f->severity, Severity::kWarning);
  EXPECT_EQ(*f->value, 3);
  ASSERT_FALSE(f->where.empty());
  EXPECT_EQ(f->where[0].file, "train.py");
}

// Although gradients are clipped by a norm of all tensors in one kernel.
TEST(PlantedFaults, TheChecklistSaysWhatTheFindingSays) {
  sim::SimOptions options;
  options.faults = {{"unfused-optimizer", 1.0}};
  const SimulatedJob slow(options);
  options.faults.clear();
  const SimulatedJob healthy(options);
  const auto verdict = [](const SimulatedJob& job) {
    return std::ranges::find(job.checklist, "fused-optimizer", &Check::id)->verdict;
  };
  EXPECT_EQ(verdict(slow), Verdict::kFail);
  EXPECT_EQ(verdict(healthy), Verdict::kPass);
}

TEST(PlantedFaults, AnEngineThatReplaysGraphsIsNotEager) {
  sim::SimOptions replays;
  replays.graph = true;
  EXPECT_FALSE(found(replays, "eager-inference"));
}

TEST(PlantedFaults, HealthyRunsAreSilent) {
  for (const sim::Gpu gpu : {sim::Gpu::h100, sim::Gpu::a100, sim::Gpu::mi300x}) {
    for (const int ranks : {1, 4}) {
      for (const uint64_t seed : {1, 2, 3}) {
        sim::SimOptions options;
        options.gpu = gpu;
        options.ranks = ranks;
        options.seed = seed;
        options.steps = 8;
        const SimulatedJob job(options);
        for (const Finding& f : job.findings)
          EXPECT_EQ(f.severity, Severity::kInfo) << f.rule << ", ranks " << ranks << ", seed " << seed;
      }
    }
  }
}

// A cost predicts what the job takes without its cause, within a tenth of the step.
TEST(PlantedFaults, CostsPredictTheStepWithoutTheFault) {
  for (const char* name : {"data-loading-bound", "host-bound-launches", "device-waits", "excessive-synchronization",
                           "exposed-communication", "straggler-rank", "pageable-copies", "allocator-churn",
                           "checkpoint-stall", "first-use", "exposed-copies", "python-gc", "layout-copies",
                           "late-copy", "unfused-attention"}) {
    for (const double severity : {0.7, 1.0, 1.5}) {
      sim::SimOptions options;
      options.faults = {{name, severity}};
      options.ranks = ranks_for(name);
      options.steps = 10;
      const SimulatedJob job(options);
      ASSERT_EQ(job.error, "");
      const Finding* f = job.finding(name);
      if (f == nullptr) continue;  // too mild to fire
      ASSERT_TRUE(f->cost_pct) << name;
      ASSERT_EQ(job.truth.without.size(), 1U);
      const auto actual = static_cast<double>(job.truth.actual.measured_ns);
      const double saved = 100 * (actual - static_cast<double>(job.truth.without[0].second.measured_ns)) / actual;
      EXPECT_NEAR(*f->cost_pct, saved, 5) << name << " at severity " << severity;
    }
  }
}

int64_t measured_ns(const SimulatedJob& job) { return job.truth.actual.measured_ns; }

sim::SimOptions data_parallel(std::vector<sim::FaultUse> faults) {
  sim::SimOptions options;
  options.ranks = 4;
  options.steps = 8;
  options.faults = std::move(faults);
  return options;
}

// Buckets of gradients overlap with compute that goes on beside them.
TEST(PlantedFaults, KernelsCostTheSameBesideOverlappedCommunication) {
  const SimulatedJob healthy(data_parallel({}));
  for (const char* name : {"unfused-attention", "layout-copies"}) {
    const SimulatedJob job(data_parallel({{name, 1.0}}));
    const Finding* f = job.finding(name);
    ASSERT_NE(f, nullptr) << name;
    const auto saved = static_cast<double>(measured_ns(job) - measured_ns(healthy));
    EXPECT_NEAR(static_cast<double>(f->cost_ns.value_or(0)), saved, saved * 0.15) << name;
  }
}

// What all ranks do costs, although three of them wait for the fourth; what makes a rank late is the late rank's cost.
TEST(PlantedFaults, KernelsCostOnTopOfALateRank) {
  const SimulatedJob healthy(data_parallel({})), unfused(data_parallel({{"unfused-attention", 1.0}}));
  const SimulatedJob job(data_parallel({{"unfused-attention", 1.0}, {"straggler-rank", 1.0}}));
  const Finding* f = job.finding("unfused-attention");
  ASSERT_NE(f, nullptr);
  ASSERT_NE(job.finding("straggler-rank"), nullptr);
  const auto saved = static_cast<double>(measured_ns(unfused) - measured_ns(healthy));
  EXPECT_NEAR(static_cast<double>(f->cost_ns.value_or(0)), saved, saved * 0.15);
}

TEST(PlantedFaults, PairsAreFoundTogetherAndBlameNoTimeTwice) {
  const char* names[] = {"data-loading-bound", "excessive-synchronization", "allocator-churn", "checkpoint-stall",
                         "pageable-copies",    "device-waits",              "memory-growth",   "memory-near-capacity"};
  for (size_t i = 0; i < std::size(names); ++i) {
    for (size_t j = i + 1; j < std::size(names); ++j) {
      sim::SimOptions options;
      options.faults = {{names[i], 1.0}, {names[j], 1.0}};
      options.steps = 8;
      options.layers = 6;
      const SimulatedJob job(options);
      expect_diagnosis(job, std::string(names[i]) + " with " + names[j]);
      const DeviceTime& d = job.facts[0]->get<Devices>().devices.at(0);
      int64_t cost = 0;
      for (const Finding& f : job.findings) cost += f.cost_ns.value_or(0);
      int64_t outside = 0;   // steps idle before the device's first activity and after its last, too
      for (const Step* step : job.facts[0]->get<Steps>().measured())
        outside += total_length(subtract({step->interval()}, d.spans));
      EXPECT_LE(cost, d.idle_ns + outside + d.exposed_communication_ns + d.exposed_memory_ns);
    }
  }
}

}  // namespace
}  // namespace profgpu
