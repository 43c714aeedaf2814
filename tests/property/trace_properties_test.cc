// What must hold of every trace, however it was written.
#include <gtest/gtest.h>

#include "analyse/job/report.h"
#include "analyse/rank/devices.h"
#include "analyse/rank/distance.h"
#include "analyse/rank/idle.h"
#include "analyse/rank/phases.h"
#include "analyse/rank/replay.h"
#include "analyse/rank/steps.h"
#include "tests/property/simulated_job.h"
#include "view/registry.h"

namespace profgpu {
namespace {

std::vector<sim::SimOptions> jobs() {
  std::vector<sim::SimOptions> all;
  const auto add = [&](auto&& change) {
    sim::SimOptions o;
    o.steps = 4;
    o.layers = 4;
    change(o);
    all.push_back(o);
  };
  add([](sim::SimOptions&) {});
  add([](sim::SimOptions& o) { o.faults = {{"data-loading-bound", 1.0}, {"warm-up", 1.0}}; });
  add([](sim::SimOptions& o) { o.ranks = 3; });
  add([](sim::SimOptions& o) { o.ranks = 2, o.strategy = sim::Strategy::fsdp; });
  add([](sim::SimOptions& o) { o.graph = true; });
  add([](sim::SimOptions& o) { o.compiled = true, o.micro_batches = 3; });
  add([](sim::SimOptions& o) { o.cpu_only = true; });
  add([](sim::SimOptions& o) { o.windows = 3; });
  add([](sim::SimOptions& o) { o.python_stacks = true, o.sync_rows = true; });
  add([](sim::SimOptions& o) { o.drop_pct = 10; });
  add([](sim::SimOptions& o) { o.gpu = sim::Gpu::mi300x; });
  return all;
}

// The report as JSON, without what tells where and in which order it was written.
std::string document(const SimulatedJob& job) {
  Report report;
  for (const RankFacts& r : job.ranks) {
    report.ranks.push_back(rank_report(*r.facts));
    report.ranks.back().rank = r.rank;
    report.ranks.back().collectives = r.facts->get<Collectives>().rows;
    report.ranks.back().steps = {};
  }
  report.findings = job.findings;
  return find_presenter("json")->write(report, {});
}

TEST(TraceProperties, PartsAddUpToTotals) {
  for (const sim::SimOptions& options : jobs()) {
    const SimulatedJob job(options);
    ASSERT_EQ(job.error, "");
    for (const auto& facts : job.facts) {
      const auto& devices = facts->get<Devices>().devices;
      for (size_t d = 0; d < devices.size(); ++d) {
        int64_t idle = 0;
        for (const int64_t ns : facts->get<Idle>().devices[d].total_ns) idle += ns;
        EXPECT_EQ(idle, devices[d].idle_ns);
        EXPECT_EQ(devices[d].busy_ns + devices[d].idle_ns, devices[d].span_ns);
      }
      int64_t phases = 0;
      for (const int64_t ns : facts->get<Phases>().wall_ns) phases += ns;
      EXPECT_EQ(phases, facts->get<Steps>().total_wall_ns());
      const Distance& distance = facts->get<Distance>();
      int64_t parts = 0;
      for (const DistancePart& p : distance.parts) {
        EXPECT_GE(p.total_ns, 0) << p.name;
        parts += p.total_ns;
      }
      EXPECT_EQ(parts, distance.wall_ns);
      EXPECT_EQ(distance.steps_ns(), facts->get<Steps>().measured_wall_ns());
      EXPECT_EQ(facts->get<Replay>().saved_by({}).most_ns, 0);
    }
  }
}

// The simulator counts device time independently.
TEST(TraceProperties, DeviceTimesAreTheSimulatorsTruth) {
  for (const sim::SimOptions& options : jobs()) {
    if (options.windows > 1) continue;
    const SimulatedJob job(options);
    for (const sim::DeviceTruth& t : job.truth.devices) {
      const Facts& facts = *job.facts.at(static_cast<size_t>(t.rank));
      const auto& devices = facts.get<Devices>().devices;
      const auto it = std::find_if(devices.begin(), devices.end(), [&](const DeviceTime& d) { return d.id == t.device; });
      if (options.cpu_only) continue;
      ASSERT_NE(it, devices.end());
      EXPECT_EQ(it->span_ns, t.span_ns);
      EXPECT_EQ(it->busy_ns, t.busy_ns);
      EXPECT_EQ(it->compute_ns, t.compute_ns);
      EXPECT_EQ(it->communication_ns, t.communication_ns);
      EXPECT_EQ(it->memory_ns, t.memory_ns);
      EXPECT_EQ(it->exposed_communication_ns, t.exposed_communication_ns);
    }
  }
}

TEST(TraceProperties, TheOrderOfEventsDoesNotMatter) {
  for (const sim::SimOptions& options : jobs()) {
    sim::KinetoStyle shuffled;
    shuffled.shuffle_seed = 7;
    EXPECT_EQ(document(SimulatedJob(options)), document(SimulatedJob(options, shuffled)));
  }
}

// Times move together: nothing that is measured changes.
TEST(TraceProperties, ShiftingTimesChangesNoDuration) {
  for (const sim::SimOptions& options : jobs()) {
    sim::KinetoStyle shifted;
    shifted.time_shift_ns = 123'456'789;
    const SimulatedJob a(options), b(options, shifted);
    for (size_t r = 0; r < a.facts.size(); ++r) {
      EXPECT_EQ(a.facts[r]->get<Phases>().wall_ns, b.facts[r]->get<Phases>().wall_ns);
      for (size_t d = 0; d < a.facts[r]->get<Idle>().devices.size(); ++d)
        EXPECT_EQ(a.facts[r]->get<Idle>().devices[d].total_ns, b.facts[r]->get<Idle>().devices[d].total_ns);
    }
    ASSERT_EQ(a.findings.size(), b.findings.size());
    for (size_t i = 0; i < a.findings.size(); ++i) {
      EXPECT_EQ(a.findings[i].rule, b.findings[i].rule);
      EXPECT_EQ(a.findings[i].cost_ns, b.findings[i].cost_ns);
    }
  }
}

TEST(TraceProperties, OldTracesAndBareArraysAreReadTheSameWay) {
  sim::SimOptions options;
  options.steps = 4;
  options.faults = {{"data-loading-bound", 1.0}};
  sim::KinetoStyle old, array;
  old.generation = sim::KinetoGeneration::v1_8;
  array.array = true;
  for (const sim::KinetoStyle& style : {old, array}) {
    const SimulatedJob job(options, style);
    ASSERT_EQ(job.error, "");
    EXPECT_EQ(job.facts[0]->get<Steps>().steps.size(), 4U);
    EXPECT_NE(job.finding("data-loading-bound"), nullptr);
  }
}

TEST(TraceProperties, WindowsAreMeasuredOneByOne) {
  sim::SimOptions options;
  options.steps = 4;
  options.windows = 3;
  const SimulatedJob job(options);
  ASSERT_EQ(job.error, "");
  ASSERT_EQ(job.facts.size(), 1U);
  EXPECT_EQ(job.facts[0]->get<Steps>().steps.size(), 12U);
  int64_t span = 0;
  for (const sim::DeviceTruth& t : job.truth.devices) span += t.span_ns;
  EXPECT_EQ(job.facts[0]->get<Devices>().devices.at(0).span_ns, span);
}

}  // namespace
}  // namespace profgpu
