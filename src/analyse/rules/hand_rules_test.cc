// Rules on traces written by hand: each is named where its cause is planted, and silent where it is not.
#include <gtest/gtest.h>

#include "analyse/rank/frameworks.h"
#include "analyse/rules/measure.h"
#include "base/text.h"
#include "tests/support/hand_steps.h"
#include "tests/support/memory_snapshot_builder.h"

namespace profgpu {
namespace {

ReportVerdict verdict_of(HandTrace& hand) { return diagnosed(hand.build()).verdict; }

TEST(Verdict, IsInconclusiveOfTooLittleWork) {
  const auto with = [](int64_t kernels) {
    HandTrace hand;
    hand.range("ProfilerStep#1", 0, 20'000);
    for (int64_t i = 0; i < kernels; ++i) hand.kernel("k", 1000 * i + 500, 1000 * i + 510, 1000 * i + 520, 1000 * i + 530);
    return hand;
  };
  const auto kind = [](HandTrace hand) { return verdict_of(hand).kind; };
  const auto severity = [](HandTrace hand) { return found(hand, "host-bound-launches")->severity; };
  EXPECT_EQ(kind(with(9)), VerdictKind::kInconclusive);
  EXPECT_EQ(severity(with(9)), Severity::kInfo);
  EXPECT_EQ(kind(with(10)), VerdictKind::kBottleneck);
  EXPECT_EQ(severity(with(10)), Severity::kCritical);
}

TEST(Verdict, NamesWhatTheHostDoesWhereNoDeviceWasRecorded) {
  HandTrace cpu;
  cpu.range("ProfilerStep#1", 0, 1000).op("aten::mm", 100, 900);
  const ReportVerdict first = verdict_of(cpu);
  EXPECT_EQ(first.kind, VerdictKind::kInconclusive);
  EXPECT_NE(first.text.find("aten::mm"), std::string::npos) << first.text;
  EXPECT_NE(first.text.find("ProfilerActivity.CUDA"), std::string::npos) << first.text;
}

// A step's thread that mostly loads: what is known of a host alone is in the checklist, and the question about the
// device comes before what the host does.
TEST(Verdict, OfAHostAloneFirstAsksForTheDevice) {
  const auto loads = [](HandTrace& hand, int64_t t) {
    hand.range("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", t, t + 600);
    hand.op("aten::mm", t + 700, t + 900);
  };
  HandTrace cpu = steps_of(loads);
  ASSERT_TRUE(found(cpu, "data-loading-bound"));
  HandTrace again = steps_of(loads);
  const Diagnosis of = diagnosed(again.build());
  const std::string_view question = "This trace has no GPU activity: was ProfilerActivity.CUDA on? The loop waits";
  EXPECT_TRUE(of.verdict.text.starts_with(question)) << of.verdict.text;
  const auto check = [&](std::string_view id) { return *std::ranges::find(of.checklist, id, &Check::id); };
  EXPECT_EQ(check("data-loading").verdict, Verdict::kFail);
  EXPECT_NEAR(*check("data-loading").value, 60, 1);
  EXPECT_TRUE(check("gpu-utilization").record.starts_with("GPU activity"));
  EXPECT_TRUE(check("memory-headroom").record.starts_with("memory"));
  EXPECT_EQ(check("communication").record, "") << "of one rank no recording tells";
}

TEST(Checklist, OfOneRankOfSeveralAsksForTheOthers) {
  HandTrace one = steps_of([](HandTrace& h, int64_t t) { h.kernel("gemm_a", t, t + 5, t + 10, t + 900); });
  Trace trace = one.build();
  trace.distributed.world_size = 16;
  trace.devices.push_back({.id = 0, .name = "Some GPU"});
  const Diagnosis of = diagnosed(trace);
  const Check& communication = *std::ranges::find(of.checklist, "communication", &Check::id);
  EXPECT_EQ(communication.verdict, Verdict::kUnknown);
  EXPECT_TRUE(contains(communication.record, "all ranks")) << communication.record;
  EXPECT_FALSE(contains(communication.brief, "one rank")) << communication.brief;
  const Check& precision = *std::ranges::find(of.checklist, "mixed-precision", &Check::id);
  EXPECT_EQ(precision.verdict, Verdict::kUnknown) << "the name tells neither data nor units";
}

// The device that only communicates is the one that idles most.
TEST(Checklist, TheLeastBusyDeviceIsNamed) {
  HandTrace two = steps_of([](HandTrace& h, int64_t t) {
    h.kernel_on(0, "gemm_a", t, t + 5, t + 10, t + 610);
    h.kernel_on(1, "ncclDevKernel_AllReduce_Sum_f32_RING_LL", t + 20, t + 25, t + 40, t + 440);
  });
  const auto f = found(two, "low-gpu-utilization");
  ASSERT_TRUE(f);
  EXPECT_TRUE(contains(f->what, "GPU 1")) << f->what;
}

TEST(Checklist, OfUnknownPhasesTellsNothingOfLoading) {
  HandTrace cpu;
  cpu.range("ProfilerStep#1", 0, 1000).range("Memory Allocation", 0, 1000);
  const Diagnosis of = diagnosed(cpu.build());
  EXPECT_EQ(std::ranges::find(of.checklist, "data-loading", &Check::id)->verdict, Verdict::kUnknown);
}

// A sample of the stack each millisecond, all in load() but for those between two steps: they count for no step.
TEST(Verdict, OfSampledStacksNeedsEnoughSamples) {
  const auto with = [](int64_t samples) {
    HandTrace cpu;
    cpu.range("ProfilerStep#1", 0, 1000 * samples).range("forward", 0, 900 * samples);
    cpu.sampled("train.py(4): <module>", 0, 100'000);
    for (int64_t t = 0; t < samples; ++t)   // the last one lasts until the process ends
      cpu.sampled("train.py(9): load", 1000 * t, t + 1 < samples ? 1000 * (t + 1) : 100'000);
    return cpu;
  };
  HandTrace few = with(3), many = with(20);
  EXPECT_TRUE(contains(verdict_of(few).text, "forward")) << verdict_of(few).text;
  HandTrace again = with(20);
  EXPECT_TRUE(contains(verdict_of(many).text, "load (train.py:9) (20.0 ms per step)")) << verdict_of(again).text;
}

TEST(Verdict, OfHardwareCountersIsThatTimesAreNotThoseOfTheProgram) {
  HandTrace cold;
  cold.range("ProfilerStep#1", 0, 10'000).op("aten::mm", 100, 9000).call("cuModuleLoadData", 200, 4200);
  Trace trace = cold.build();
  trace.hardware_counters = true;
  const Diagnosis d = diagnosed(trace);
  EXPECT_EQ(d.verdict.kind, VerdictKind::kInconclusive);
  EXPECT_TRUE(contains(d.verdict.text, "Hardware counters")) << d.verdict.text;
  for (const Finding& f : d.findings) EXPECT_EQ(f.severity, Severity::kInfo) << f.rule;
  EXPECT_EQ(std::ranges::count(d.findings, "first-use", &Finding::rule), 0) << "its times are not those of the program";
}

TEST(FirstUse, IsFoundWithoutADevice) {
  HandTrace cold, warm;
  cold.range("ProfilerStep#1", 0, 10'000).op("aten::mm", 100, 9000).call("cuModuleLoadData", 200, 4200);
  warm.range("ProfilerStep#1", 0, 10'000).op("aten::mm", 100, 9000);
  const auto f = found(cold, "first-use");
  ASSERT_TRUE(f);
  EXPECT_EQ(f->cost_ns, 4'000'000);
  EXPECT_FALSE(found(warm, "first-use"));
}

TEST(FirstUse, ThatReturnsInEveryStepIsNotCuredByWarmingUp) {
  const auto with = [](int64_t cold_steps) {
    return steps_of([cold_steps](HandTrace& h, int64_t t) {
      if (t < cold_steps * 1000) h.call("cuModuleLoadData", t + 100, t + 700);
      h.kernel("k", t + 710, t + 720, t + 725, t + 990);
    });
  };
  HandTrace always = with(kSteps), once = with(2);
  const auto f = found(always, "first-use"), g = found(once, "first-use");
  ASSERT_TRUE(f && g);
  EXPECT_NE(f->what.find("again and again: in 12 of 12 steps"), std::string::npos) << f->what;
  EXPECT_EQ(f->fix[0].find("schedule("), std::string::npos) << f->fix[0];
  EXPECT_EQ(g->what.find("again"), std::string::npos) << g->what;
  EXPECT_NE(g->fix[0].find("schedule("), std::string::npos) << g->fix[0];
}

TEST(HostBoundLaunches, OfBroadcastBuffersNamesTheSettingFirst) {
  const auto with = [](const char* op) {
    return steps_of([op](HandTrace& h, int64_t t) {
      h.range("DistributedDataParallel.forward", t + 1, t + 990);
      h.op(op, t + 10, t + 700).kernel("k", t + 701, t + 710, t + 715, t + 950);
    });
  };
  HandTrace broadcast = with("aten::unflatten_dense_tensors"), other = with("aten::mm");
  const auto f = found(broadcast, "host-bound-launches"), g = found(other, "host-bound-launches");
  ASSERT_TRUE(f && g);
  EXPECT_NE(f->fix.front().find("broadcast_buffers=False"), std::string::npos) << f->fix.front();
  EXPECT_EQ(std::ranges::count_if(f->fix, [](auto& fix) { return contains(fix, "broadcast_buffers"); }), 1);
  EXPECT_EQ(g->fix.front().find("broadcast_buffers=False"), std::string::npos) << g->fix.front();
}

TEST(DataLoadingBound, IsFoundWithoutADevice) {
  HandTrace cpu;
  cpu.range("ProfilerStep#1", 0, 1000).range("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 10, 410);
  cpu.op("aten::mm", 420, 990);
  const auto f = found(cpu, "data-loading-bound");
  ASSERT_TRUE(f);
  EXPECT_EQ(f->cost_ns, 400'000);
  EXPECT_EQ(f->what.find("GPU"), std::string::npos) << f->what;
}

// Kernels of 10 us every 3 ms; meanwhile the host is in operators, or in nothing that was recorded.
TEST(HostBoundLaunches, TellCodeThatIsNotRecordedFromLateLaunches) {
  const auto with = [](bool recorded) {
    return steps_of([recorded](HandTrace& h, int64_t t) {
      h.kernel("k", 3 * t + 10, 3 * t + 20, 3 * t + 25, 3 * t + 35);
      if (recorded) h.op("aten::mm", 3 * t + 40, 3 * t + 2990);
    });
  };
  HandTrace hidden = with(false), shown = with(true);
  const auto f = found(hidden, "host-bound-launches"), late = found(shown, "host-bound-launches");
  ASSERT_TRUE(f && late);
  EXPECT_NE(f->fix[0].find("with_stack=True"), std::string::npos) << f->fix[0];
  EXPECT_NE(f->what.find("the trace does not show"), std::string::npos) << f->what;
  EXPECT_NE(late->what.find("does other work than launching"), std::string::npos) << late->what;
}

// 300 us of nothing that was recorded before each kernel are no launch overhead either.
TEST(HostBoundLaunches, TellShortCodeThatIsNotRecorded) {
  const auto with = [](bool recorded) {
    HandTrace h;
    for (int64_t t = 0; t < 40 * 330; t += 330) {
      if (recorded) h.op("aten::mm", t, t + 300);
      h.kernel("k", t + 301, t + 305, t + 308, t + 328);
    }
    return h;
  };
  HandTrace hidden = with(false), shown = with(true);
  const auto f = found(hidden, "host-bound-launches"), late = found(shown, "host-bound-launches");
  ASSERT_TRUE(f && late);
  EXPECT_NE(f->what.find("the trace does not show"), std::string::npos) << f->what;
  EXPECT_NE(late->what.find("launches too late"), std::string::npos) << late->what;
}

// The program names what it does before it launches: no work for torch.compile.
TEST(HostBoundLaunches, NameTheRangeInWhichTheHostIs) {
  HandTrace h = steps_of([](HandTrace& t, int64_t at) {
    t.range("preprocessing", 3 * at + 40, 3 * at + 2900);
    t.kernel("k", 3 * at + 2910, 3 * at + 2920, 3 * at + 2925, 3 * at + 2990);
  });
  const auto f = found(h, "host-bound-launches");
  ASSERT_TRUE(f);
  EXPECT_NE(f->what.find("mostly in preprocessing"), std::string::npos) << f->what;
  EXPECT_NE(f->fix[0].find("prepare inputs ahead"), std::string::npos) << f->fix[0];
}

TEST(UntracedWork, RecursBetweenTheSameKernels) {
  const auto trace = [](const char* call = "cudaEventRecord") {
    HandTrace hand;
    for (int64_t t = 0; t < 40'000; t += 4000) {
      hand.call(call, t, t + 1);
      hand.kernel("a", t + 1, t + 4, t + 10, t + 100).kernel("b", t + 20, t + 25, t + 2100, t + 3000);
      hand.call("cudaDeviceSynchronize", t + 30, t + 3001);
    }
    return hand;
  };
  HandTrace hand = trace();
  const auto f = found(hand, "untraced-work");
  ASSERT_TRUE(f);
  EXPECT_NE(f->what.find("although work is queued"), std::string::npos) << f->what;
  ASSERT_FALSE(f->evidence.empty());
  EXPECT_NE(f->evidence[0].find("10 gaps of 2.00 ms"), std::string::npos) << f->evidence[0];
  HandTrace again = trace();
  EXPECT_FALSE(found(again, "device-waits"));
  for (const std::string& fix : f->fix) EXPECT_FALSE(contains(fix, "graph")) << fix;
  HandTrace graphs = trace("cudaGraphLaunch");
  const auto of_graphs = found(graphs, "untraced-work");
  ASSERT_TRUE(of_graphs);
  EXPECT_TRUE(contains(of_graphs->fix.front(), "graph")) << of_graphs->fix.front();
}

// Of what was launched before the recording began, nothing is left in later steps.
TEST(UntracedWork, InLaterStepsWasNotLaunchedBeforeTheRecording) {
  const auto with = [](bool always) {
    return steps_of([always](HandTrace& h, int64_t t) {
      if (t == 0 || always) h.call("cudaDeviceSynchronize", t + 101, t + 800);
      h.kernel("k", t + 810, t + 820, t + 825, t + 990);
    });
  };
  HandTrace first = with(false), every = with(true);
  const auto once = found(first, "untraced-work"), always = found(every, "untraced-work");
  ASSERT_TRUE(once && always);
  EXPECT_TRUE(contains(once->what, "launched before the recording began")) << once->what;
  EXPECT_TRUE(contains(always->what, "that the recording lacks")) << always->what;
}

TEST(StepTimeVariance, ComparesStepsOfOneKind) {
  const auto with = [](std::string_view odd) {
    HandTrace h;
    for (int64_t i = 0, t = 0; i < 30; ++i) {
      const bool is_odd = i % 5 == 4;
      const int64_t end = t + (is_odd ? 9000 : 1000);
      h.range(is_odd ? odd : "execute_context_0(0)_generation_32(32)", t, end);
      h.kernel("k", t + 10, t + 20, t + 25, end - 10);
      t = end;
    }
    return h;
  };
  HandTrace prefills = with("execute_context_1(512)_generation_0(0)"), slow = with("execute_context_0(0)_generation_32(32)");
  EXPECT_FALSE(found(prefills, "step-time-variance"));
  EXPECT_TRUE(found(slow, "step-time-variance"));
}

TEST(DominantKernel, IsNoGraphOfUnknownKernels) {
  const auto with = [](std::string_view name) {
    return steps_of([name](HandTrace& h, int64_t t) { h.kernel(name, t + 1, t + 5, t + 10, t + 990); });
  };
  HandTrace graph = with("CUDA graph 7"), kernel = with("my_kernel");
  EXPECT_FALSE(found(graph, "dominant-kernel"));
  const auto f = found(kernel, "dominant-kernel");
  ASSERT_TRUE(f);
  EXPECT_TRUE(contains(f->fix.front(), "--kernel-name my_kernel ")) << f->fix.front();
  HandTrace suffixed = with("$attn_fwd.kd");
  EXPECT_TRUE(contains(found(suffixed, "dominant-kernel")->fix.front(), "--kernel-name regex:attn_fwd "));
}

// A device that works all the time, on fp32 products, at 1400 of 2000 MHz or at nearly all of them.
TEST(Verdict, SaysHowMuchOfSlowKernelsIsTheClock) {
  const auto report = [](double clock_mhz) {
    HandTrace hand = steps_of([](HandTrace& h, int64_t t) { h.kernel("ampere_sgemm_128x64_nn", t, t + 5, t + 10, t + 1005); });
    const Trace trace = hand.build();
    const Facts facts(trace, {});
    Evidence evidence;
    evidence.ranks.push_back(diagnose_rank({0, &facts}, {}));
    DeviceTelemetry& device = evidence.telemetry.emplace_back();
    device.series[Metric::kSmClock].mean = clock_mhz;
    device.constants[Metric::kSmClockMax] = 2000;
    device.throttle.push_back({"sw_power_cap", "the power limit", static_cast<uint32_t>(ClockReason::kSwPowerCap), 0, 60, "counter"});
    return diagnose(evidence);
  };
  const Diagnosis slow = report(1400), fast = report(1980);
  EXPECT_NE(slow.verdict.text.find("1400 of 2000 MHz, reduced by the power limit: compute-bound kernels could take up to "
                                   "30 % less"),
            std::string::npos)
      << slow.verdict.text;
  EXPECT_EQ(fast.verdict.text.find("MHz"), std::string::npos) << fast.verdict.text;
  const auto gemm = std::ranges::find(slow.findings, "dominant-kernel", &Finding::rule);
  ASSERT_NE(gemm, slow.findings.end());
  EXPECT_NE(gemm->evidence.back().find("MHz"), std::string::npos);
}

// Two kernels in each step, of these operators and sizes.
// It is pasted into a shell: the start of a long name tells it.
TEST(DominantKernel, IsProfiledByAWordThatCanBePasted) {
  HandTrace hand;
  for (int64_t t = 0; t < kSteps * 1000; t += 1000)
    hand.range("ProfilerStep#" + std::to_string(t / 1000), t, t + 1000)
        .op("aten::mm", t + 10, t + 20)
        .kernel("Cijk_Ailk_Bljk_BBS_BH_MT256x128x64_MI16x16x16x1_SN_1LDSB0_APM1_ABV0_ACED0_AF0EM8_AF1EM8_AMAS3", t + 11,
                t + 12, t + 30, t + 900);
  const auto f = found(hand, "dominant-kernel");
  ASSERT_TRUE(f);
  // No device is named, but the kernel is of AMD's library.
  EXPECT_EQ(f->fix.at(0),
            "profile it: rocprof-compute profile -n run -k Cijk_Ailk_Bljk_BBS_BH_MT256x128x64_MI16x16x16x1_SN_1LDSB0 -- "
            "python SCRIPT.py");
}

TEST(FusableElementwise, EndsWhereDataCannotFlow) {
  constexpr const char* kKernel = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>";
  const auto said = [&](const char* first, const char* second, const char* size) {
    HandTrace h = steps_of([&](HandTrace& t, int64_t at) {
      t.shaped_op(first, at + 10, at + 20, "[[64, 100]]", "[\"float\"]").kernel(kKernel, at + 11, at + 12, at + 30, at + 500);
      t.shaped_op(second, at + 30, at + 40, size, "[\"float\"]").kernel(kKernel, at + 31, at + 32, at + 501, at + 980);
    });
    return found(h, "fusable-elementwise").has_value();
  };
  EXPECT_TRUE(said("aten::pow", "aten::mul", "[[64, 100]]"));
  EXPECT_TRUE(said("aten::pow", "aten::mul", "[[64, 1]]"));
  EXPECT_FALSE(said("aten::pow", "aten::mul", "[[64, 77]]"));
  EXPECT_FALSE(said("aten::copy_", "aten::copy_", "[[64, 100]]"));
  HandTrace alone = steps_of([&](HandTrace& t, int64_t at) {
    t.shaped_op(at % 2000 == 0 ? "aten::pow" : "aten::mul", at + 10, at + 20, "[[64, 100]]", "[\"float\"]")
        .kernel(kKernel, at + 11, at + 12, at + 30, at + 980);
  });
  EXPECT_FALSE(found(alone, "fusable-elementwise"));
}

TEST(GraphBreaks, AreWhereDynamoResumes) {
  HandTrace broken = steps_of([](HandTrace& h, int64_t t) {
    h.op("Torch-Compiled Region: 0/0", t + 10, t + 100).kernel("k", t + 20, t + 25, t + 30, t + 600);
    h.python("train.py(7): torch_dynamo_resume_in_f_at_7", t + 110, t + 200);
    h.op("Torch-Compiled Region: 1/0", t + 120, t + 190);
  });
  const auto f = found(broken, "graph-breaks");
  ASSERT_TRUE(f);
  EXPECT_EQ(f->value, 1);
  EXPECT_EQ(f->severity, Severity::kWarning);
  ASSERT_FALSE(f->where.empty());
  EXPECT_EQ(f->where[0].line, 7);
  HandTrace whole = steps_of([](HandTrace& h, int64_t t) {
    for (int64_t layer = 0; layer < 3; ++layer)
      h.op("Torch-Compiled Region: 0/0", t + 10 + 100 * layer, t + 100 + 100 * layer);
    h.kernel("k", t + 20, t + 25, t + 30, t + 600);
  });
  EXPECT_FALSE(found(whole, "graph-breaks"));
}

TEST(GraphBreaks, WithoutStacksTheyMayBeFunctionsOfTheirOwn) {
  HandTrace hand = steps_of([](HandTrace& h, int64_t t) {
    h.op("Torch-Compiled Region: 0/0", t + 10, t + 100).op("Torch-Compiled Region: 1/0", t + 120, t + 190);
    h.kernel("k", t + 200, t + 205, t + 230, t + 600);
  });
  const auto f = found(hand, "graph-breaks");
  ASSERT_TRUE(f);
  EXPECT_EQ(f->severity, Severity::kInfo);
}

TEST(Recompiles, AreVersionsOfOneFunction) {
  const auto with = [](int64_t versions) {
    return steps_of([versions](HandTrace& h, int64_t t) {
      h.op("_compile.compile_inner (dynamo_timed)", t + 1, t + 9);
      h.op("Torch-Compiled Region: 0/" + std::to_string(t / 1000 % versions), t + 10, t + 100);
      h.kernel("k", t + 20, t + 25, t + 30, t + 600);
    });
  };
  HandTrace many = with(4), usual = with(2);
  const auto f = found(many, "recompiles");
  ASSERT_TRUE(f);
  EXPECT_EQ(f->value, 4);
  EXPECT_EQ(f->severity, Severity::kWarning);
  EXPECT_FALSE(found(usual, "recompiles"));
}

TEST(Recompiles, NamesThatAreCutAreNone) {
  for (const char* name : {"Torch-Compiled Region: ", "Torch-Compiled Region: 0", "Torch-Compiled Region: 0/",
                           "Torch-Compiled Region: x/9", "Torch-Compiled Region: 99999999999999999999/9"}) {
    for (const char* rule : {"recompiles", "graph-breaks"}) {
      HandTrace hand = steps_of([&](HandTrace& h, int64_t t) { h.op(name, t + 10, t + 100); });
      EXPECT_FALSE(found(hand, rule)) << rule << ": " << name;
    }
  }
}

TEST(EagerInference, IsDecodingWithoutGraphs) {
  const auto engine = [](std::string_view launch) {
    HandTrace hand;
    for (int64_t t = 0; t < 4000; t += 1000) {
      hand.range("execute_context_0(0)_generation_32(32)", t, t + 900).call(launch, t + 10, t + 20);
      hand.kernel("k", t + 30, t + 35, t + 40, t + 600);
    }
    return hand;
  };
  HandTrace eager = engine("cudaLaunchKernel"), replayed = engine("cudaGraphLaunch");
  const auto f = found(eager, "eager-inference");
  ASSERT_TRUE(f);
  EXPECT_EQ(f->value, 100);
  EXPECT_NE(f->fix[0].find("--enforce-eager"), std::string::npos);
  EXPECT_FALSE(found(replayed, "eager-inference"));
}

TEST(Fixes, SpeakTheFrameworksSettings) {
  // The GPU runs dry after each kernel, as the host launches late.
  const auto late = [](std::initializer_list<std::string_view> signs) {
    return steps_of([signs](HandTrace& h, int64_t t) {
      for (const std::string_view sign : signs) h.op(sign, t, t + 1);
      h.op("aten::mm", t + 2, t + 990);
      for (int64_t k = 0; k < 9; ++k) h.kernel("k", t + 10 + k * 100, t + 15 + k * 100, t + 20 + k * 100, t + 60 + k * 100);
    });
  };
  const auto fixes = [&](std::initializer_list<std::string_view> signs) {
    HandTrace hand = late(signs);
    const auto f = found(hand, "host-bound-launches");
    return f ? f->fix : std::vector<std::string>{};
  };
  const auto has = [](const std::vector<std::string>& all, std::string_view part) {
    return std::ranges::any_of(all, [&](const std::string& fix) { return fix.find(part) != std::string::npos; });
  };
  const auto plain = fixes({});
  ASSERT_FALSE(plain.empty());
  EXPECT_EQ(plain.front().rfind("model = torch.compile", 0), 0u) << plain.front();
  const auto trainer = fixes({"transformers/trainer.py(2470): _inner_training_loop"});
  EXPECT_EQ(trainer.front(), "Trainer: TrainingArguments(torch_compile=True)");
  EXPECT_GT(trainer.size(), 2u);
  const auto compiled = fixes({"Torch-Compiled Region: 0/0", "cudaGraphLaunch"});
  EXPECT_FALSE(has(compiled, "torch.compile(model")) << "it is in use";
  const auto ddp = fixes({"DistributedDataParallel.forward"});
  EXPECT_TRUE(ddp.back().starts_with("DDP: broadcast_buffers")) << ddp.back();
  for (const std::string& fix : fixes({"vllm/v1/worker/gpu_model_runner.py(1): execute_model"}))
    EXPECT_TRUE(fix.starts_with("vLLM: ")) << fix;
}

TEST(Fixes, LeaveOutWhatIsDone) {
  const auto loading = [](std::string_view iterator) {
    HandTrace h = steps_of([=](HandTrace& hand, int64_t t) {
      hand.range("enumerate(DataLoader)#" + std::string(iterator) + ".__next__", t, t + 500);
      hand.python("transformers/trainer.py(2470): _inner_training_loop", t, t + 500);
      hand.kernel("k", t + 510, t + 515, t + 520, t + 990).call("cudaDeviceSynchronize", t + 516, t + 991);
    });
    return found(h, "data-loading-bound")->fix.front();
  };
  EXPECT_NE(loading("_SingleProcessDataLoaderIter").find("dataloader_num_workers=4"), std::string::npos);
  EXPECT_NE(loading("_MultiProcessingDataLoaderIter").find("more of them"), std::string::npos);
}

// A program's folder may have a package's name; what is installed or checked out is known by what is in it.
TEST(Frameworks, ArePackagesNotFolders) {
  const auto names = [](std::string_view frame) {
    HandTrace h;
    h.op("aten::mm", 0, 10).kernel("k", 1, 2, 3, 9).python(frame, 0, 10);
    const Trace trace = h.build();
    const Facts facts(trace, {});
    return joined(facts.get<Frameworks>().names());
  };
  EXPECT_EQ(names("/home/u/vllm/plain.py(3): step"), "eager PyTorch");
  EXPECT_EQ(names("/home/u/jax/train.py(3): step"), "eager PyTorch");
  EXPECT_EQ(names("/home/u/my-megatron/train.py(3): step"), "eager PyTorch");
  EXPECT_EQ(names("vllm/utils.py(3): step"), "eager PyTorch, vLLM");
  EXPECT_EQ(names("/usr/lib/python3/dist-packages/vllm/utils.py(3): step"), "eager PyTorch, vLLM");
  EXPECT_EQ(names("/workspace/vllm/vllm/utils.py(3): step"), "eager PyTorch, vLLM");
  EXPECT_EQ(names("/workspace/Megatron-LM/megatron/core/utils.py(3): step"), "eager PyTorch, Megatron");
}

// The recording begins with nothing queued; then each batch is loaded while the GPU works.
TEST(DataLoadingBound, IsSilentOfAColdStart) {
  const auto loop = [](bool hidden) {
    HandTrace h;
    for (int64_t t = 0; t < 4000; t += 1000) {
      h.range("ProfilerStep#" + std::to_string(t / 1000), t, t + 1000);
      h.range("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", t, t + 600);
      const int64_t start = hidden && t > 0 ? t : t + 620;
      h.kernel("k", hidden ? std::max<int64_t>(t - 300, 605) : t + 610, hidden ? std::max<int64_t>(t - 295, 610) : t + 615,
               start, hidden ? t + 995 : t + 980);
    }
    return found(h, "data-loading-bound").has_value();
  };
  EXPECT_FALSE(loop(true));
  EXPECT_TRUE(loop(false));
}

TEST(GraphCapture, IsNamedWhereNothingRuns) {
  HandTrace h;
  h.range("capture_32_DECODE", 0, 1000).call("cudaStreamBeginCapture", 1, 2).call("cudaStreamEndCapture", 990, 995);
  h.op("aten::mm", 10, 20).call("cudaLaunchKernel", 12, 15);
  const auto f = found(h, "graph-capture");
  EXPECT_TRUE(f);
  HandTrace again;
  again.range("capture_32_DECODE", 0, 1000).op("aten::mm", 10, 20);
  EXPECT_EQ(verdict_of(again).kind, VerdictKind::kCapture);
}

TEST(HostBoundLaunches, OfABarrierHasNoCost) {
  const auto frames = [](std::string_view frame) {
    HandTrace h;
    for (int64_t t = 0; t < 120'000; t += 10'000) {
      h.range("ProfilerStep#" + std::to_string(t / 10'000), t, t + 10'000);
      h.kernel("k", t + 1, t + 2, t + 5, t + 1000).python(frame, t + 10, t + 9000);
      h.kernel("k", t + 9200, t + 9205, t + 9300, t + 9990);
    }
    return h;
  };
  HandTrace barrier = frames("torch/distributed/distributed_c10d.py(4000): barrier");
  HandTrace saves = frames("safetensors/torch.py(280): save_file");
  HandTrace loads = frames("nvidia/dali/plugin/pytorch.py(200): __next__");
  for (HandTrace* h : {&barrier, &saves, &loads}) h->range("forward", 0, 1);
  const auto waits = found(barrier, "host-bound-launches"), writes = found(saves, "host-bound-launches");
  ASSERT_TRUE(waits && writes);
  EXPECT_FALSE(waits->cost_ns);
  EXPECT_NE(waits->fix.front().find("all ranks"), std::string::npos);
  EXPECT_NE(writes->fix.front().find("background"), std::string::npos);
  const Diagnosis of = diagnosed(loads.build());
  const Check& waiting = *std::ranges::find(of.checklist, "data-loading", &Check::id);
  EXPECT_EQ(waiting.verdict, Verdict::kFail);
}

TEST(StepTimeVariance, NamesWhatTheLongestStepDoesMore) {
  HandTrace h;
  int64_t t = 0;
  for (int64_t i = 0; i < 12; ++i) {
    const int64_t save = i == 9 ? 5000 : 0;
    h.range("ProfilerStep#" + std::to_string(i), t, t + 1000 + save).kernel("k", t + 10, t + 15, t + 20, t + 900);
    h.call("cudaDeviceSynchronize", t + 16, t + 901);
    if (save > 0) h.python("safetensors/torch.py(280): save_file", t + 950, t + 950 + save);
    t += 1000 + save;
  }
  const auto f = found(h, "step-time-variance");
  ASSERT_TRUE(f);
  ASSERT_EQ(f->where.size(), 1);
  EXPECT_EQ(f->where.front().name, "save_file");
  EXPECT_EQ(f->where.front().ns, 5'000'000);
  EXPECT_NE(f->fix.front().find("background"), std::string::npos);
}

TEST(Serving, WithoutRequestsIsNotEvaluated) {
  HandTrace h;
  h.op("vllm::attention", 0, 1).python("vllm/v1/engine/core.py(700): _process_input_queue", 10, 2'000'000);
  h.kernel("k", 2'000'010, 2'000'015, 2'000'020, 2'000'030);
  const ReportVerdict v = verdict_of(h);
  EXPECT_EQ(v.kind, VerdictKind::kInconclusive);
  EXPECT_NE(v.text.find("no requests"), std::string::npos) << v.text;
}

TEST(PythonGc, CountsCollectionsOnTheThreadOfTheSteps) {
  const auto collecting = [](int64_t us) {
    return steps_of([us](HandTrace& h, int64_t t) {
      h.kernel("k", t + 10, t + 15, t + 20, t + 300).call("cudaDeviceSynchronize", t + 16, t + 301);
      h.python("Python GC", t + 310, t + 310 + us).kernel("k", t + 320 + us, t + 325 + us, t + 330 + us, t + 700);
      h.call("cudaDeviceSynchronize", t + 550, t + 701);
    });
  };
  HandTrace much = collecting(200), little = collecting(10);
  const auto f = found(much, "python-gc");
  ASSERT_TRUE(f);
  EXPECT_NEAR(*f->value, 20, 0.1);
  EXPECT_GT(f->cost_ns.value_or(0), kSteps * 100'000);
  EXPECT_LE(*f->cost_ns, kSteps * 200'000);
  EXPECT_FALSE(found(little, "python-gc"));
}

TEST(PythonGc, AsksWhetherTheOneLineOfAllCollectionsCallsIt) {
  const auto collecting = [](bool at_one_line) {
    int64_t step = 0;
    return steps_of([&, at_one_line](HandTrace& h, int64_t t) {
      h.kernel("k", t + 10, t + 15, t + 20, t + 300).call("cudaDeviceSynchronize", t + 16, t + 301);
      const std::string line = std::to_string(at_one_line ? 7 : 7 + 3 * step++);
      h.python("train.py(" + line + "): part_" + line, t + 305, t + 515).python("Python GC", t + 310, t + 510);
      h.kernel("k", t + 520, t + 525, t + 530, t + 700).call("cudaDeviceSynchronize", t + 550, t + 701);
    });
  };
  HandTrace one = collecting(true), many = collecting(false);
  const auto called = found(one, "python-gc"), automatic = found(many, "python-gc");
  ASSERT_TRUE(called && automatic);
  EXPECT_NE(called->fix.at(0).find("if gc.collect() is called there, remove it"), std::string::npos) << called->fix[0];
  EXPECT_TRUE(automatic->fix.at(0).starts_with("gc.freeze()")) << automatic->fix[0];
}

TEST(MisalignedGemm, IsToldByShapes) {
  const auto with = [](std::string_view shapes, std::string_view types) {
    return steps_of([=](HandTrace& h, int64_t t) {
      h.shaped_op("aten::mm", t + 10, t + 60, shapes, types);
      h.kernel("ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_64x3_tn", t + 20, t + 25, t + 30, t + 900);
    });
  };
  constexpr std::string_view kHalf = R"(["c10::BFloat16", "c10::BFloat16"])";
  HandTrace odd = with("[[4096, 1024], [1024, 50257]]", kHalf), even = with("[[4096, 1024], [1024, 50304]]", kHalf);
  HandTrace wide = with("[[4096, 1024], [1024, 50257]]", R"(["float", "float"])"), cut = with("[[4096, 1024], [10", kHalf);
  const auto f = found(odd, "misaligned-gemm");
  ASSERT_TRUE(f);
  EXPECT_NE(f->evidence[0].find("50257"), std::string::npos);
  EXPECT_FALSE(found(even, "misaligned-gemm"));
  EXPECT_FALSE(found(wide, "misaligned-gemm"));
  EXPECT_FALSE(found(cut, "misaligned-gemm"));
}

TEST(LayoutCopies, AreTransposesAndContiguous) {
  const auto with = [](std::string_view op, std::string_view kernel) {
    return steps_of([=](HandTrace& h, int64_t t) {
      h.kernel("gemm", t + 1, t + 4, t + 10, t + 700);
      h.op(op, t + 10, t + 60).kernel(kernel, t + 20, t + 25, t + 700, t + 900);
      h.call("cudaDeviceSynchronize", t + 70, t + 992);
    });
  };
  constexpr std::string_view kCopy = "void at::native::elementwise_kernel<128, 4, at::native::direct_copy_kernel_cuda>";
  HandTrace library = with("aten::cudnn_convolution", "void cudnn::ops::nchwToNhwcKernel<__half, __half, float>");
  HandTrace contiguous = with("aten::contiguous", kCopy), cast = with("aten::to", kCopy);
  const auto of_library = found(library, "layout-copies");
  ASSERT_TRUE(of_library);
  EXPECT_NE(of_library->fix[0].find("channels_last"), std::string::npos);
  const auto f = found(contiguous, "layout-copies");
  ASSERT_TRUE(f);
  EXPECT_EQ(f->severity, Severity::kWarning);
  EXPECT_NEAR(*f->value, 100 * 200 / 890.0, 0.1);
  EXPECT_FALSE(found(cast, "layout-copies"));
}

TEST(LateCopy, WaitsBehindKernelsAndRunsAlone) {
  // Launched at once, behind 500 us of kernels, 200 us long; or on an idle stream, where it starts at once.
  const auto late = [] {
    return steps_of([](HandTrace& h, int64_t t) {
      h.kernel("a", t + 1, t + 4, t + 10, t + 500).copy("Memcpy HtoD (Pinned -> Device)", t + 5, t + 8, t + 501, t + 700);
      h.kernel("b", t + 9, t + 12, t + 701, t + 990).call("cudaDeviceSynchronize", t + 13, t + 992);
    });
  };
  const auto at_once = [] {
    return steps_of([](HandTrace& h, int64_t t) {
      h.copy("Memcpy HtoD (Pinned -> Device)", t + 5, t + 8, t + 10, t + 209).kernel("b", t + 9, t + 12, t + 210, t + 990);
    });
  };
  const auto said = [](HandTrace hand, std::string_view rule) { return found(hand, rule); };
  const auto f = said(late(), "late-copy");
  ASSERT_TRUE(f);
  EXPECT_NEAR(*f->value, 20, 0.5);
  EXPECT_NEAR(static_cast<double>(f->cost_ns.value_or(0)), kSteps * 199'000, kSteps * 30'000);
  EXPECT_FALSE(said(late(), "exposed-copies"));
  EXPECT_FALSE(said(at_once(), "late-copy"));
  EXPECT_TRUE(said(at_once(), "exposed-copies"));
}

TEST(RedundantSyncCopies, AreReadsThatCostNothingYet) {
  const auto with = [](int reads) {
    return steps_of([reads](HandTrace& h, int64_t t) {
      h.kernel("a", t + 1, t + 4, t + 10, t + 500).kernel("b", t + 5, t + 8, t + 501, t + 999, "main", 8);
      for (int i = 0; i < reads; ++i)
        h.op("aten::item", t + 20 + 50 * i, t + 60 + 50 * i).call("cudaStreamSynchronize", t + 25 + 50 * i, t + 55 + 50 * i);
    });
  };
  HandTrace many = with(6), few = with(2);
  const auto f = found(many, "redundant-sync-copies");
  ASSERT_TRUE(f);
  EXPECT_EQ(f->value, 6);
  EXPECT_EQ(f->where.at(0).name, "aten::item");
  EXPECT_FALSE(found(few, "redundant-sync-copies"));
}

// Copies back run beside kernels, uploads alone; another device's do not matter.
TEST(ExposedCopies, NamesThoseOfTheDeviceThatAreExposed) {
  HandTrace h = steps_of([](HandTrace& hand, int64_t t) {
    hand.kernel("k", t + 1, t + 5, t + 10, t + 700);
    hand.kernel("copy_engine", t + 6, t + 7, t + 10, t + 20, "main", 9);
    hand.copy("Memcpy HtoD (Pinned -> Device)", t + 705, t + 710, t + 720, t + 980);
  });
  Trace trace = h.build();
  for (uint32_t i = 0; i < trace.activity.size(); ++i)
    if (trace.name(ActivityId(i)) == "copy_engine") {
      trace.activity.kind[i] = ActivityKind::kMemcpy;
      trace.activity.name[i] = trace.strings.intern("Memcpy DtoH (Device -> Pinned)");
      trace.activity.duration_ns[i] = 680'000;
    }
  const Diagnosis d = diagnosed(trace);
  const Finding* f = finding(d.findings, "exposed-copies");
  ASSERT_NE(f, nullptr);
  EXPECT_NE(f->what.find("HtoD"), std::string::npos) << f->what;
  EXPECT_TRUE(std::ranges::any_of(f->evidence, [](const std::string& e) { return e.starts_with("12 copies"); }));
}

/// Steps of two devices with 100 GB; the memory that each has reserved, in GB.
Trace of_two_devices(int64_t first, int64_t second, int64_t reserved_before = 0) {
  HandTrace h = steps_of([](HandTrace& hand, int64_t t) {
    hand.kernel_on(0, "k", t + 1, t + 5, t + 10, t + 990).kernel_on(1, "k", t + 6, t + 9, t + 12, t + 900);
  });
  Trace trace = h.build();
  constexpr int64_t kGb = 1'000'000'000;
  for (const auto& [device, reserved] : {std::pair(0, first), std::pair(1, second)}) {
    trace.devices.push_back({.id = device, .name = "", .memory_bytes = 100 * kGb, .compute_major = 0});
    for (const int64_t gb : {reserved - reserved_before, reserved}) {
      MemoryEvent m;
      m.time_ns = 1000 * static_cast<int64_t>(trace.memory.size() + 1);
      m.device = device, m.device_type = 1;
      m.bytes = kGb, m.total_allocated = reserved / 4 * kGb, m.total_reserved = gb * kGb;
      trace.memory.push_back(m);
    }
  }
  return trace;
}

TEST(Memory, IsThatOfTheDeviceThatIsSpokenOf) {
  const Trace trace = of_two_devices(20, 98);
  const Facts facts(trace, {});
  EXPECT_NEAR(*reserved_pct(Measured(0, facts, 0)), 20, 1e-9);
  EXPECT_NEAR(*reserved_pct(Measured(0, facts, 1)), 98, 1e-9);
  const Diagnosis d = diagnosed(facts);
  const Finding* f = finding(d.findings, "memory-near-capacity");
  ASSERT_NE(f, nullptr);
  EXPECT_EQ(f->seen.device, 1);
  EXPECT_NE(f->what.find("memory of GPU 1 peaks"), std::string::npos) << f->what;
  EXPECT_EQ(f->severity, Severity::kInfo);   // three quarters of it are unused
  EXPECT_NE(f->why.find("a larger batch can use that"), std::string::npos) << f->why;
}

TEST(MemoryFragmentation, NeedsMoreMemoryReservedBesideWhatIsUnused) {
  const Trace before = of_two_devices(20, 98), meanwhile = of_two_devices(20, 98, 10);
  EXPECT_EQ(finding(diagnosed(before).findings, "memory-fragmentation"), nullptr);
  EXPECT_NE(finding(diagnosed(meanwhile).findings, "memory-fragmentation"), nullptr);
}

// A history of eight steps, of each of so many devices; each step keeps 512 bytes.
Trace growing_on(uint32_t devices) {
  SnapshotBuilder b;
  for (uint64_t device = 0; device < devices; ++device)
    for (uint64_t pass = 0; pass < 8; ++pass) {
      const uint64_t at = (device + 1) << 32;
      b.alloc(at, 4000, SnapshotBuilder::kForward);
      b.alloc(at + 0x20000, 1000, SnapshotBuilder::kBackward);
      b.free(at, 4000), b.free(at + 0x20000, 1000);
      b.alloc(at + 0x1000000 + 0x1000 * pass, 512, {{"keep", "/me/train.py", 55}, {"main", "/me/train.py", 9}});
    }
  MemorySnapshot snapshot = b.finish();
  const size_t each = snapshot.events.size() / devices;
  snapshot.traces.clear();
  for (uint32_t device = 0; device < devices; ++device)
    snapshot.traces.push_back({static_cast<int32_t>(device), device * each, each});
  Trace trace = HandTrace().build();
  trace.snapshots.push_back(std::make_shared<MemorySnapshot>(std::move(snapshot)));
  return trace;
}

TEST(MemoryGrowth, OfASnapshotIsOfOneDevice) {
  const Diagnosis one = diagnosed(growing_on(1)), two = diagnosed(growing_on(2));
  const Finding *of_one = finding(one.findings, "memory-growth"), *of_two = finding(two.findings, "memory-growth");
  ASSERT_TRUE(of_one != nullptr && of_two != nullptr);
  EXPECT_DOUBLE_EQ(*of_one->value, *of_two->value);
  EXPECT_NE(of_two->what.find("memory of GPU 0 grows"), std::string::npos) << of_two->what;
}

}  // namespace
}  // namespace profgpu
