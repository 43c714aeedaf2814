#include "app/compare/comparison.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "analyse/report/document.h"
#include "app/compare/gate.h"
#include "app/compare/memory_lines.h"

namespace profgpu {
namespace {

std::vector<int64_t> steps(std::mt19937_64& random, double mean_ns, double noise, int n) {
  std::vector<int64_t> out;
  for (int i = 0; i < n; ++i) {
    // Box-Muller, so that the numbers do not depend on the library.
    const double u = (static_cast<double>(random() >> 11) + 0.5) / 9007199254740992.0;
    const double v = static_cast<double>(random() >> 11) / 9007199254740992.0;
    out.push_back(std::llround(mean_ns * (1 + noise * std::sqrt(-2 * std::log(u)) * std::cos(6.283185307179586 * v))));
  }
  return out;
}

TEST(StepRatio, ARunIsNoFasterThanItselfWhateverTheOrder) {
  std::mt19937_64 random(1);
  const std::vector<int64_t> a = steps(random, 1e8, 0.015, 20);
  std::vector<int64_t> b = a;
  std::shuffle(b.begin(), b.end(), random);
  const StepRatio same = step_ratio(a, a), shuffled = step_ratio(a, b);
  EXPECT_EQ(same.change, Change::kNone);
  EXPECT_DOUBLE_EQ(same.mean.value, 1);
  EXPECT_EQ(shuffled.change, Change::kNone);
  EXPECT_EQ(*same.mean.low, *shuffled.mean.low);
  EXPECT_EQ(*same.mean.high, *shuffled.mean.high);
}

TEST(StepRatio, ItsIntervalHoldsTheTruthAsOftenAsItSays) {
  std::mt19937_64 random(2);
  for (const int n : {5, 20}) {
    int outside = 0;
    for (int i = 0; i < 300; ++i) {
      const StepRatio r = step_ratio(steps(random, 1e8, 0.015, n), steps(random, 1e8, 0.015, n));
      outside += *r.mean.low > 1 || *r.mean.high < 1;
    }
    EXPECT_LE(outside, 300 * 0.08) << n;   // 5 % and what 300 tries may add
    EXPECT_GE(outside, 1) << n;            // an interval that always holds it says nothing
  }
}

TEST(StepRatio, FivePercentAreSeenInTwentySteps) {
  std::mt19937_64 random(3);
  int seen = 0;
  for (int i = 0; i < 100; ++i)
    seen += step_ratio(steps(random, 1e8, 0.015, 20), steps(random, 1.05e8, 0.015, 20)).change == Change::kSlower;
  EXPECT_GE(seen, 95);
}

TEST(StepRatio, SaysHowManyStepsWouldTell) {
  std::mt19937_64 random(4);
  const auto after = steps(random, 1.02e8, 0.05, 6), before = steps(random, 1e8, 0.05, 6);
  const StepRatio r = step_ratio(before, after);
  ASSERT_EQ(r.change, Change::kNone);
  ASSERT_TRUE(r.steps_needed);
  EXPECT_GT(*r.steps_needed, 6);
}

TEST(StepRatio, OneStepTellsNothingOfChance) {
  const StepRatio r = step_ratio({100}, {150});
  EXPECT_EQ(r.change, Change::kNone);
  EXPECT_DOUBLE_EQ(r.mean.value, 1.5);
  EXPECT_FALSE(r.mean.low);
  EXPECT_FALSE(r.steps_needed);
}

// Two steps of 10 and 100 ms: the interval of their ratio goes over many orders of magnitude.
TEST(StepRatio, AnIntervalThatTellsNothingIsNone) {
  const StepRatio r = step_ratio({10, 100}, {10, 100});
  EXPECT_EQ(r.change, Change::kNone);
  EXPECT_DOUBLE_EQ(r.mean.value, 1);
  EXPECT_FALSE(r.mean.low);
  EXPECT_FALSE(r.median.low);
  EXPECT_FALSE(r.resolution_pct);
  EXPECT_TRUE(step_ratio({100, 101}, {100, 101}).mean.low);
}

TEST(StepRatio, StepsWithoutNoiseTellAnyChange) {
  EXPECT_EQ(step_ratio({100, 100, 100}, {101, 101, 101}).change, Change::kSlower);
  EXPECT_EQ(step_ratio({100, 100, 100}, {99, 99, 99}).change, Change::kFaster);
  EXPECT_EQ(step_ratio({100, 100, 100}, {100, 100, 100}).change, Change::kNone);
}

}  // namespace

namespace {

RunSummary run(std::string label, std::vector<int64_t> steps_ns, std::vector<StepMakeup> makeup) {
  RunSummary r;
  r.label = std::move(label);
  r.ranks = 1;
  r.steps_ns = std::move(steps_ns);
  r.step_count = static_cast<int64_t>(r.steps_ns.size());
  for (const int64_t ns : r.steps_ns) r.wall_ns += ns;
  r.makeup = std::move(makeup);
  return r;
}

Work work(std::string name, std::string op, std::string shapes, double calls, double ns, double stddev = 1) {
  return {name, name, "compute", "gemm", std::move(op), std::move(shapes), calls, {ns, stddev, 10}};
}

TEST(Waterfall, PartsAddUpToTheMeansToTheNanosecond) {
  // 1001 / 3 and 1000 / 7 leave remainders in every part.
  RunSummary a = run("a", {333, 334, 334},
                     {{"forward", "compute", 500}, {"backward", "idle: host_bound", 400}, {"other", "outside", 101}});
  RunSummary b = run("b", {142, 143, 143, 143, 143, 143, 143},
                     {{"forward", "compute", 333}, {"backward", "compute", 334}, {"other", "outside", 333}});
  const auto c = compare(a, b);
  ASSERT_TRUE(c);
  int64_t before = 0, after = 0;
  for (const WaterfallRow& row : c->waterfall) before += row.before_ns, after += row.after_ns;
  EXPECT_EQ(before, c->before_step_ns);
  EXPECT_EQ(after, c->after_step_ns);
  EXPECT_EQ(c->before_step_ns, 334);
  EXPECT_EQ(c->after_step_ns, 143);
}

// Two of eight steps save for 60: too few to tell from chance, yet nothing else differs.
TEST(Compare, RunsThatDifferBySavesAlone) {
  const auto saving = [](int64_t compute, int64_t save) {
    std::vector<int64_t> steps(8, compute);
    steps[2] += save, steps[6] += save;
    std::vector<StepMakeup> makeup = {{"forward", "compute", 8 * compute}};
    if (save > 0) makeup.push_back({"checkpoint", "idle: checkpoint", 2 * save});
    return run("saves", std::move(steps), std::move(makeup));
  };
  EXPECT_EQ(compare(saving(4000, 6000), saving(4000, 0))->saves_delta_ns, -1500);
  EXPECT_EQ(compare(saving(4000, 0), saving(4000, 6000))->saves_delta_ns, 1500);
  EXPECT_FALSE(compare(saving(4000, 6000), saving(3800, 0))->saves_delta_ns) << "all else differs, too";
  EXPECT_FALSE(compare(saving(4000, 100), saving(4000, 0))->saves_delta_ns) << "too little to matter";
  EXPECT_FALSE(compare(saving(4000, 0), saving(4100, 0))->saves_delta_ns);
}

// A log without timers has all of a step in one part: the other's parts are not gone.
TEST(Compare, ARunWithoutPhasesTellsNothingOfThem) {
  RunSummary timed = run("timed", {100, 110, 105}, {{"backward", "outside", 200}, {"other", "outside", 115}});
  RunSummary plain = run("plain", {100, 110, 105}, {{"other", "outside", 315}});
  timed.phases = {{"backward", {66, 1, 3}}, {"other", {39, 1, 3}}};
  plain.phases = {{"other", {105, 1, 3}}};
  const Comparison c = *compare(timed, plain);
  EXPECT_TRUE(c.waterfall.empty());
  EXPECT_EQ(check_gate(*parse_gate("phase:backward > +5%"), c).verdict, GateVerdict::kUnknown);
  EXPECT_TRUE(std::ranges::any_of(c.notes, [](const std::string& n) { return n.starts_with("plain does not tell"); }));
  EXPECT_FALSE(compare(timed, timed)->waterfall.empty());
}

// A finding is not gone where no device was recorded: most rules need one, and all know less without.
TEST(Compare, ARunWithoutADeviceTellsNothingOfIt) {
  const auto make = [](std::string no_device) {
    RunSummary r = run("x", {100, 110, 105}, {{"other", "outside", 315}});
    r.no_device = std::move(no_device);
    return r;
  };
  RunSummary seen = make(""), blind = make("no GPU activity in the file");
  seen.findings = {{"excessive-synchronization", "warning", "waits", 10}};
  seen.work = {work("gemm", "aten::mm", "", 1, 50)};
  blind.label = "blind";
  const Comparison c = *compare(seen, blind);
  EXPECT_EQ(c.without_device, "blind");
  EXPECT_EQ(c.findings.at(0).change, "not_seen");
  EXPECT_TRUE(c.kernels.empty());
  EXPECT_TRUE(std::ranges::any_of(c.notes, [](const std::string& n) { return n == "blind: no GPU activity in the file"; }));
  EXPECT_EQ(check_gate(*parse_gate("finding:excessive-synchronization"), c).verdict, GateVerdict::kUnknown);
  EXPECT_EQ(check_gate(*parse_gate("step_time > +3%"), c).verdict, GateVerdict::kUnknown);
  const Comparison back = *compare(blind, seen);
  EXPECT_EQ(back.findings.at(0).change, "not_seen_before");
  EXPECT_EQ(compare(seen, make(""))->findings.at(0).change, "gone");
  EXPECT_EQ(compare(blind, blind)->without_device, "") << "hosts alone are compared";
  RunSummary mended = blind;
  blind.findings = {{"host-code", "warning", "sleeps", 10}};
  EXPECT_EQ(compare(blind, mended)->findings.at(0).change, "gone") << "both see the same";
  EXPECT_EQ(compare(mended, blind)->findings.at(0).change, "new");
}

TEST(Compare, FunctionsOfTheProgramWhereBothRunsKnowThem) {
  RunSummary before = run("a", {100, 110, 105}, {{"other", "outside", 315}}), after = before;
  before.functions = {{"log_step (train.py)", {0, 80}}, {"train (train.py)", {0, 20}}};
  EXPECT_TRUE(compare(before, after)->functions.empty()) << "the run after has no stacks";
  after.functions = {{"train (train.py)", {0, 25}}};
  const std::vector<Difference> rows = compare(before, after)->functions;
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].name, "log_step (train.py)");
  EXPECT_EQ(rows[0].change, "gone");
  EXPECT_EQ(rows[0].delta_ns(), -80);
  EXPECT_EQ(rows[1].change, "slower");
}

TEST(MatchedWork, ByNameThenByWhatLaunchedIt) {
  RunSummary a, b;
  a.work = {work("volta_gemm", "aten::mm", "[[8, 8]]", 4, 400), work("relu_old", "aten::relu", "", 2, 50),
            work("both", "aten::add", "", 1, 30), work("only_a", "", "", 1, 10)};
  b.work = {work("sm90_gemm", "aten::mm", "[[8, 8]]", 4, 200), work("relu_new", "aten::relu", "", 2, 60),
            work("both", "aten::add", "", 1, 30), work("only_b", "", "", 3, 20)};
  const std::vector<Difference> all = matched_work(a, b);
  const auto named = [&](std::string_view name) {
    return *std::find_if(all.begin(), all.end(), [&](const Difference& d) { return d.name == name; });
  };
  ASSERT_EQ(all.size(), 5u);
  EXPECT_EQ(named("volta_gemm").matched_by, "op and shapes");
  EXPECT_EQ(named("volta_gemm").name_after, "sm90_gemm");
  EXPECT_EQ(named("volta_gemm").change, "faster");
  EXPECT_EQ(named("volta_gemm").op + " " + named("volta_gemm").shapes, "aten::mm [[8, 8]]");
  EXPECT_EQ(named("relu_old").matched_by, "op");
  EXPECT_EQ(named("both").change, "same");
  EXPECT_EQ(named("only_a").change, "gone");
  EXPECT_EQ(named("only_b").change, "added");
  double delta = 0;
  for (const Difference& d : all) delta += d.delta_ns();
  EXPECT_DOUBLE_EQ(delta, 310 - 490);   // nothing is counted twice or lost
  a.work.push_back(work("volta_gemm", "aten::mm", "[[16, 16]]", 1, 100));   // of one name, but other sizes
  b.work.push_back(work("volta_gemm", "aten::mm", "[[32, 32]]", 1, 100));
  const std::vector<Difference> several = matched_work(a, b);
  const auto gemm = std::ranges::find(several, "volta_gemm", &Difference::name);
  EXPECT_EQ(gemm->op + gemm->shapes, "aten::mm");
}

Work work_in(std::string range, Work work) {
  work.within = {std::move(range), "model"};
  return work;
}

// Four kernels of a layer became one; beside the layer is a kernel that only one of the runs has.
TEST(MatchedWork, FusedKernelsTakeThePlaceOfThoseInTheirRange) {
  RunSummary a, b;
  a.work = {work_in("moe", work("sort", "a::sort", "", 1, 120)), work_in("moe", work("up", "a::up", "", 1, 480)),
            work_in("moe", work("down", "a::down", "", 1, 470)), work_in("moe", work("add", "a::add", "", 1, 80)),
            work_in("rest", work("gemm", "aten::mm", "", 9, 2000)), work_in("rest", work("only_a", "x", "", 1, 5))};
  b.work = {work_in("moe", work("fused", "b::moe", "", 1, 800)), work_in("rest", work("gemm", "aten::mm", "", 9, 2000))};
  const std::vector<Difference> all = matched_work(a, b);
  ASSERT_EQ(all.size(), 3u);
  const auto moe = std::ranges::find(all, "range", &Difference::matched_by);
  ASSERT_NE(moe, all.end());
  EXPECT_EQ(moe->within, "moe");
  EXPECT_EQ(moe->names_before, (std::vector<std::string>{"up", "down", "sort", "add"}));
  EXPECT_EQ(moe->names_after, std::vector<std::string>{"fused"});
  EXPECT_EQ(moe->before_ns, 1150);
  EXPECT_EQ(moe->after_ns, 800);
  EXPECT_EQ(moe->calls_before, 4);
  EXPECT_EQ(std::ranges::find(all, "only_a", &Difference::name)->change, "gone");
}

// What is left of a whole model is no replacement of each other.
TEST(MatchedWork, ARangeAroundMostOfTheStepTellsNothing) {
  RunSummary a, b;
  a.work = {work_in("model", work("gemm", "aten::mm", "", 9, 2000)), work_in("model", work("only_a", "x", "", 1, 50))};
  b.work = {work_in("model", work("gemm", "aten::mm", "", 9, 2000)), work_in("model", work("only_b", "y", "", 1, 60))};
  const std::vector<Difference> all = matched_work(a, b);
  ASSERT_EQ(all.size(), 3u);
  for (const Difference& d : all) EXPECT_TRUE(d.within.empty()) << d.within;
}

TEST(Compare, WorkWithoutALaunchIsANote) {
  RunSummary a = run("a", {100, 100, 100}, {{"forward", "compute", 300}}), b = a;
  b.label = "b", b.without_launch = "device records without a launching call in the file: 509 (30.1 % of busy time)";
  const auto c = compare(a, b);
  ASSERT_TRUE(c);
  ASSERT_EQ(c->notes.size(), 1u);
  EXPECT_TRUE(c->notes[0].starts_with("b: device records without a launching call in the file: 509 (30.1 % of busy time); "
                                      "they count in its kernels"))
      << c->notes[0];
}

TEST(MatchedWork, MoreCallsAreNotSlowerOnes) {
  RunSummary a, b;
  a.work = {work("k", "", "", 10, 1000)};
  b.work = {work("k", "", "", 20, 2010)};
  EXPECT_EQ(matched_work(a, b).front().change, "more_calls");
  b.work = {work("k", "", "", 10, 2000)};
  EXPECT_EQ(matched_work(a, b).front().change, "slower");
}

TEST(Compare, SaysWhichPartOfTheDistanceClosed) {
  RunSummary a = run("a", {400, 400}, {{"other", "compute", 800}}), b = run("b", {300, 300}, {{"other", "compute", 600}});
  a.distance_ns = {{"necessary_work", 100}, {"products", 250}, {"idle: host_bound", 50}};
  a.times_limit = 4;
  EXPECT_TRUE(compare(a, b)->distance.empty());   // of one run it is not known
  b.distance_ns = {{"necessary_work", 100}, {"products", 150}, {"memory_bound", 50}};
  b.times_limit = 3;
  const auto c = compare(a, b);
  ASSERT_EQ(c->distance.size(), 4U);
  EXPECT_EQ(c->distance[0].name, "products");
  EXPECT_EQ(c->distance[0].delta_ns(), -100);
  EXPECT_EQ(c->before_times_limit, 4);
  EXPECT_EQ(c->after_times_limit, 3);
}

TEST(RunSummary, TakesDistanceAndEnergyFromTheDocument) {
  const auto summary = [](std::string more, const char* times, int known_pct = 90) {
    const std::string text =
        R"({"schema": "profgpu.analysis.v1", "ranks": [{"rank": 0, "measured": {"steps": 2, "wall_ns": 600},
            "distance": {"wall_ns": 600, "limit_ns": 200, "known_pct": )" + std::to_string(known_pct) + R"(, "times_limit": )" + times +
        R"(, "parts": [{"part": "necessary_work", "total_ns": 200}, {"part": "products", "total_ns": 400}]}}])" + more +
        "}";
    return *run_summary(*value_from_json(text), "a");
  };
  const RunSummary known = summary(R"(, "job": {"energy": {"ranks": 1, "known_ranks": 1, "energy_per_step_j": 2.5}})", "3");
  EXPECT_EQ(known.distance_ns, (std::map<std::string, double>{{"necessary_work", 100}, {"products", 200}}));
  EXPECT_EQ(known.times_limit, 3);
  EXPECT_EQ(known.telemetry.at("energy_per_step_j"), 2.5);
  const RunSummary part = summary(R"(, "job": {"energy": {"ranks": 2, "known_ranks": 1, "energy_per_step_j": 2.5}})", "null");
  EXPECT_TRUE(part.distance_ns.empty());
  EXPECT_FALSE(part.times_limit);
  EXPECT_TRUE(part.telemetry.empty());
  EXPECT_TRUE(summary("", "3", 60).distance_ns.empty());   // of less than 70 % the report says nothing either
}

TEST(RunSummary, NumbersThatBeginAnewInEachEpochAreStepsOfTheirOwn) {
  std::string steps;
  for (const int ns : {100, 110, 300, 310})
    steps += std::string(steps.empty() ? "" : ", ") + R"({"index": )" + std::to_string(ns % 100 / 10) + R"(, "name": "step", "duration_ns": )" +
             std::to_string(ns) + "}";
  const std::string text = R"({"schema": "profgpu.analysis.v1", "ranks": [{"rank": 0, "measured": {"steps": 4, "wall_ns": 820}, "steps": [)" +
                           steps + "]}]}";
  EXPECT_EQ(run_summary(*value_from_json(text), "a")->steps_ns, (std::vector<int64_t>{100, 110, 300, 310}));
}

TEST(Compare, NothingInCommonIsAnError) {
  RunSummary steps = run("a", {100, 100}, {{"other", "outside", 200}}), samples;
  samples.label = "b";
  samples.telemetry["power_w"] = 300;
  const auto c = compare(steps, samples);
  ASSERT_FALSE(c);
  EXPECT_NE(c.error().message.find("nothing in common"), std::string::npos);
  EXPECT_TRUE(compare(samples, samples));
}

class Gates : public ::testing::Test {
 protected:
  GateResult check(const std::string& text, std::vector<int64_t> before, std::vector<int64_t> after) {
    a_ = run("a", std::move(before), {});
    b_ = run("b", std::move(after), {});
    comparison_ = *compare(a_, b_);
    return check_gate(*parse_gate(text), comparison_);
  }
  RunSummary a_, b_;
  Comparison comparison_;
};

TEST_F(Gates, FailOnlyOnRealChangesBeyondTheLimit) {
  const std::vector<int64_t> base = {1000, 1010, 990, 1005, 995}, slow = {1100, 1110, 1090, 1105, 1095};
  EXPECT_EQ(check("step_time > +3%", base, slow).verdict, GateVerdict::kFail);
  EXPECT_EQ(check("step_time > +20%", base, slow).verdict, GateVerdict::kPass);
  EXPECT_EQ(check("step_time > +3%", base, base).verdict, GateVerdict::kPass);
  EXPECT_EQ(check("step_time < -3%", slow, base).verdict, GateVerdict::kFail);
  EXPECT_EQ(check("step_time > 1.05us", base, slow).verdict, GateVerdict::kFail);
  EXPECT_EQ(check("step_time > +50ns", base, slow).verdict, GateVerdict::kFail);
  EXPECT_EQ(check("step_time > +200ns", base, slow).verdict, GateVerdict::kPass);
  const std::vector<int64_t> wild = {500, 1900, 700, 1400, 900};
  EXPECT_EQ(check("step_time > +3%", base, wild).verdict, GateVerdict::kPass);   // 8 % more, but chance
  EXPECT_EQ(check("step_time > +3%", {1000}, {1100}).verdict, GateVerdict::kUnknown);
  EXPECT_EQ(check("peak_memory > +3%", base, slow).verdict, GateVerdict::kUnknown);
}

TEST_F(Gates, OfAFindingAreOfItsCost) {
  Comparison c;
  c.findings = {{"host-bound-launches", "dearer", "warning", "", 3e6, 63e6}};
  const auto verdict = [&](const char* text) { return check_gate(*parse_gate(text), c).verdict; };
  EXPECT_EQ(verdict("finding:host-bound-launches > +10ms"), GateVerdict::kFail);
  EXPECT_EQ(verdict("finding:host-bound-launches > +70ms"), GateVerdict::kPass);
  EXPECT_EQ(verdict("finding:host-bound-launches > 50ms"), GateVerdict::kFail);
  EXPECT_EQ(verdict("finding:host-bound-launches > 100ms"), GateVerdict::kPass);
  EXPECT_EQ(verdict("finding:host-bound-launches > +10%"), GateVerdict::kFail);
}

TEST_F(Gates, MemoryThatDidNotGrowHasNoPercentage) {
  Comparison c;
  c.memory = {{"growth_bytes_per_step", -512, 1e8}};
  EXPECT_EQ(check_gate(*parse_gate("memory_growth > +5%"), c).verdict, GateVerdict::kFail);
  c.memory = {{"growth_bytes_per_step", -512, -100}};
  EXPECT_EQ(check_gate(*parse_gate("memory_growth > +5%"), c).verdict, GateVerdict::kPass);
}

Difference kernel_change(std::string name, double before_ns, double after_ns, std::optional<bool> real) {
  Difference d;
  d.name = std::move(name), d.before_ns = before_ns, d.after_ns = after_ns, d.real = real;
  return d;
}

// One that got faster for certain doesn't make it certain that another, which seems slower, is.
TEST_F(Gates, OfSeveralKernelsNeedACertainChangeOfTheirSum) {
  Comparison c;
  const auto verdict = [&] { return check_gate(*parse_gate("kernel:gemm > +2%"), c).verdict; };
  c.kernels = {kernel_change("gemmA", 100, 90, true), kernel_change("gemmB", 100, 120, false)};
  EXPECT_EQ(verdict(), GateVerdict::kPass);
  c.kernels = {kernel_change("gemmA", 100, 130, true), kernel_change("gemmB", 100, 99, false)};
  EXPECT_EQ(verdict(), GateVerdict::kFail);
  c.kernels = {kernel_change("gemmA", 100, 130, std::nullopt)};
  EXPECT_EQ(verdict(), GateVerdict::kUnknown);
}

TEST(StepRatio, InstantsHaveNone) {
  const StepRatio none = step_ratio({1000, 1010, 990}, {0, 0, 0});
  EXPECT_FALSE(none.mean.low);
  EXPECT_EQ(none.change, Change::kNone);
  const StepRatio some = step_ratio({0, 0, 0, 0, 1000, 1010, 990}, {2000, 2010, 1990});
  EXPECT_NEAR(some.mean.value, 2, 0.01);
  EXPECT_EQ(some.change, Change::kSlower);
}

TEST(MatchedWork, WhatIsNewTookNoTimeBefore) {
  RunSummary before = run("a", {1000, 1010, 990, 1005}, {}), after = run("b", {1500, 1510, 1490, 1505}, {});
  Work added;
  added.name = "added", added.calls = 1, added.ns = {500, 5, 4};
  after.work.push_back(added);
  const std::vector<Difference> found = matched_work(before, after);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].change, "added");
  EXPECT_EQ(found[0].real, true);
}

TEST(ParseGate, SaysWhatItDoesNotUnderstand) {
  for (const char* text : {"", "step_time", "step_time > fast", "steptime > +3%", "kernel > +3%", "step_time:x > 3%",
                           "peak_memory > +5ms", "finding", "step_time > nan%"})
    EXPECT_FALSE(parse_gate(text)) << text;
  const auto kernel = parse_gate("kernel:void f<int>(a) > +10%");
  ASSERT_TRUE(kernel);
  EXPECT_EQ(kernel->name, "void f<int>(a)");
  EXPECT_FALSE(parse_gate("finding:exposed-communication")->limited);
}

TEST(DiffRecord, KeepsTheContract) {
  Diff diff;
  diff.runs = {run("a", {100, 110}, {{"other", "outside", 210}}), run("b", {100, 120}, {{"other", "compute", 220}})};
  diff.comparisons = {*compare(diff.runs[0], diff.runs[1])};
  const Record r = diff_record(diff);
  EXPECT_EQ(*r.at("schema").text(), "profgpu.diff.v1");
  for (const char* key : {"a", "b", "verdict", "ratio", "ratio_low", "ratio_high", "steps_a", "steps_b", "waterfall",
                          "kernels", "ops", "findings", "gates"})
    EXPECT_TRUE(std::any_of(r.fields.begin(), r.fields.end(), [&](const auto& f) { return f.first == key; })) << key;
}

TEST(Compare, OperatorsAreToldFromChanceByTheirStepsAsKernelsAre) {
  RunSummary before = run("a", {1000, 1010, 990, 1005}, {{"other", "outside", 4005}}), after = before;
  before.ops = {{"aten::mm", {1, {30, 1, 4}}}, {"aten::add", {1, {30, 9, 4}}}};
  after.ops = {{"aten::mm", {1, {40, 1, 4}}}, {"aten::add", {1, {33, 9, 4}}}, {"aten::new", {1, {20, 1, 4}}}};
  const Comparison c = *compare(before, after);
  const auto real = [&](std::string_view name) { return std::ranges::find(c.ops, name, &Difference::name)->real; };
  EXPECT_EQ(real("aten::mm"), true);
  EXPECT_EQ(real("aten::add"), false);
  EXPECT_EQ(real("aten::new"), true) << "it took no time in any step before";
  EXPECT_EQ(check_gate(*parse_gate("op:aten::mm > +5%"), c).verdict, GateVerdict::kFail);
  EXPECT_EQ(check_gate(*parse_gate("op:aten::add > +5%"), c).verdict, GateVerdict::kPass);
}

// Side by side in full these would need gigabytes.
TEST(MemoryLines, ThousandsOfOneFunctionArePairedByTheirNumbers) {
  RunSummary before, after;
  constexpr int64_t kMany = 30'000;
  for (int64_t line = 1; line <= kMany; ++line) {
    before.memory_lines[{"", "forward", "model.py", "activation", "", line}] = 1;
    after.memory_lines[{"", "forward", "model.py", "activation", "", line + 1}] = 2;
  }
  const std::vector<NumberChange> rows = memory_line_changes(before, after);
  ASSERT_EQ(rows.size(), static_cast<size_t>(kMany) + 1);
  EXPECT_EQ(std::ranges::count(rows, 1.0, [](const NumberChange& n) { return *n.after - *n.before; }), kMany - 1);
}

}  // namespace
}  // namespace profgpu
