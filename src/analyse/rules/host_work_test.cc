// What findings say of the host's work while the device waits.
#include "analyse/rules/host_work.h"

#include <gtest/gtest.h>

#include "tests/support/diagnosed.h"
#include "tests/support/hand_trace.h"

namespace profgpu {
namespace {

Diagnosis diagnosed(HandTrace&& hand) { return diagnosed(hand.build()); }

constexpr int64_t kSteps = 6, kStep_us = 30'000;

/// Each step reads a value after its first kernel; `after` fills the time until 25 ms, when the next kernel is launched.
template <class After>
HandTrace reading_steps(After after, std::string_view launching_thread = "main") {
  HandTrace h;
  for (int64_t t = 0; t < kSteps * kStep_us; t += kStep_us) {
    h.range("ProfilerStep#" + std::to_string(t / kStep_us), t, t + kStep_us);
    h.kernel("k", t + 10, t + 20, t + 25, t + 10'000);
    h.python("train.py(40): log_metrics", t + 30, t + 10'050).op("aten::item", t + 35, t + 10'010);
    h.call("cudaStreamSynchronize", t + 40, t + 10'005);
    after(h, t);
    h.kernel("k", t + 25'010, t + 25'020, t + 25'025, t + 29'990, launching_thread);
  }
  return h;
}

TEST(ExcessiveSynchronization, NamesTheWorkAfterTheWait) {
  const Diagnosis d = diagnosed(reading_steps([](HandTrace& h, int64_t t) {
    h.python("sklearn/metrics.py(120): accuracy_score", t + 10'060, t + 25'000);
  }));
  const Finding* f = finding(d.findings, "excessive-synchronization");
  ASSERT_NE(f, nullptr);
  ASSERT_GE(f->where.size(), 2U);
  EXPECT_EQ(f->where[0].name, "accuracy_score");
  EXPECT_EQ(f->where[0].ns, kSteps * 14'940'000);
  EXPECT_EQ(f->where[1].name, "log_metrics");
  EXPECT_NE(d.verdict.text.find("mostly while the host is in accuracy_score (sklearn/metrics.py:120)"), std::string::npos)
      << d.verdict.text;
}

TEST(ExcessiveSynchronization, NamesTheWaitWhereLaunchesFollow) {
  const Diagnosis d = diagnosed(reading_steps([](HandTrace& h, int64_t t) {
    for (int64_t at = t + 10'060; at < t + 24'900; at += 100) h.op("aten::view", at, at + 95);
  }));
  const Finding* f = finding(d.findings, "excessive-synchronization");
  ASSERT_NE(f, nullptr);
  EXPECT_EQ(f->where.at(0).name, "log_metrics");
  EXPECT_NE(f->fix[0].find(".item()"), std::string::npos) << f->fix[0];
}

TEST(ExcessiveSynchronization, SaysThatTheWorkIsNotRecorded) {
  const Diagnosis d = diagnosed(reading_steps([](HandTrace&, int64_t) {}));
  const Finding* f = finding(d.findings, "excessive-synchronization");
  ASSERT_NE(f, nullptr);
  EXPECT_EQ(f->where.at(0).name, "log_metrics");
  EXPECT_NE(f->evidence.back().find("the host runs code that the trace does not show, 15.0 ms per step"), std::string::npos)
      << f->evidence.back();
}

// Autograd's thread launches what the loop's thread starts.
TEST(ExcessiveSynchronization, IsOfTheThreadThatWorks) {
  const Diagnosis d = diagnosed(reading_steps(
      [](HandTrace& h, int64_t t) { h.python("augment.py(7): augment", t + 10'060, t + 25'000); }, "autograd"));
  const Finding* f = finding(d.findings, "excessive-synchronization");
  if (f == nullptr) f = finding(d.findings, "host-bound-launches");
  ASSERT_NE(f, nullptr);
  EXPECT_EQ(f->where.at(0).name, "augment");
}

TEST(ProfilerOverhead, IsInNoOtherFindingsCost) {
  const Diagnosis d = diagnosed(
      reading_steps([](HandTrace& h, int64_t t) { h.overhead("Buffer Flush", t + 10'060, t + 25'000); }));
  EXPECT_EQ(finding(d.findings, "excessive-synchronization"), nullptr);
  const Finding* f = finding(d.findings, "profiler-overhead");
  ASSERT_NE(f, nullptr);
  EXPECT_EQ(f->severity, Severity::kWarning);
  EXPECT_NE(d.verdict.text.find("The profiler's own work takes 50 % of the time"), std::string::npos) << d.verdict.text;
}

TEST(PythonGc, IsInNoOtherFindingsCostAndNamesItsCaller) {
  const Diagnosis d = diagnosed(reading_steps([](HandTrace& h, int64_t t) {
    h.python("train.py(71): end_of_step", t + 10'060, t + 25'000);
    h.python("<built-in function collect>", t + 10'065, t + 24'995);
  }));
  EXPECT_EQ(finding(d.findings, "excessive-synchronization"), nullptr);
  const Finding* f = finding(d.findings, "python-gc");
  ASSERT_NE(f, nullptr);
  EXPECT_EQ(f->where.at(0).name, "end_of_step");
  EXPECT_EQ(f->fix.at(0), "remove gc.collect() in end_of_step (train.py:71), or call it every few hundred steps");
  EXPECT_NEAR(static_cast<double>(f->cost_ns.value_or(0)), kSteps * 14'930'000.0, kSteps * 100'000.0);
}

// Ranges mark 10 of 30 ms; the next batch is loaded between them.
TEST(DataLoadingBound, CountsWhatTheLoopLoadsBetweenItsSteps) {
  HandTrace h;
  for (int64_t t = 0; t < kSteps * kStep_us; t += kStep_us) {
    h.range("train_step_" + std::to_string(t / kStep_us), t, t + 10'000).kernel("k", t + 10, t + 20, t + 25, t + 9'990);
    h.range("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", t + 10'010, t + 29'990);
  }
  const Diagnosis d = diagnosed(std::move(h));
  const Finding* f = finding(d.findings, "data-loading-bound");
  ASSERT_NE(f, nullptr);
  EXPECT_GT(*f->value, 55);
  EXPECT_GT(f->cost_pct.value_or(0), 50);
}

// The host loads for most of its steps, which end long before the device's work.
TEST(DataLoadingBound, IsNoneWhereTheHostLoadsAhead) {
  HandTrace h;
  int64_t device = 100;
  for (int64_t i = 0; i < 20; ++i) {
    const int64_t t = 1000 * i;
    h.range("ProfilerStep#" + std::to_string(i), t, t + 1000);
    h.range("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", t + 1, t + 800);
    h.kernel("k", t + 810, t + 820, std::max(device, t + 830), std::max(device, t + 830) + 20'000);
    device = std::max(device, t + 830) + 20'000;
  }
  const Diagnosis d = diagnosed(std::move(h));
  const Check* check = first_where(d.checklist, [](const Check& c) { return c.id == "data-loading"; });
  ASSERT_NE(check, nullptr);
  EXPECT_EQ(check->verdict, Verdict::kPass);
  const Finding* f = finding(d.findings, "data-loading-bound");
  EXPECT_TRUE(f == nullptr || f->severity == Severity::kInfo);
}

TEST(Verdict, IsInconclusiveWhereMostRecordsOfTheDeviceAreMissing) {
  const auto kind = [](int64_t lost) {
    HandTrace h;
    h.range("ProfilerStep#1", 0, 100'000);
    for (int64_t i = 0; i < 50; ++i) h.kernel("k", 1000 * i + 1, 1000 * i + 5, 1000 * i + 10, 1000 * i + 1000);
    for (int64_t i = 0; i < lost; ++i) h.call("cudaLaunchKernel", 50'000 + 400 * i, 50'005 + 400 * i);
    return diagnosed(std::move(h)).verdict;
  };
  EXPECT_EQ(kind(100).kind, VerdictKind::kInconclusive);
  EXPECT_NE(kind(100).text.find("For 67 % of the launched kernels"), std::string::npos) << kind(100).text;
  EXPECT_EQ(kind(10).text.find("launched kernels"), std::string::npos) << kind(10).text;
}

// Names that show no tensor cores: in float, in bfloat16, and of an engine, which says nothing.
TEST(FullPrecisionGemm, NeedsAWordOfIt) {
  const auto fires = [](const char* kernel) {
    HandTrace h;
    for (int64_t t = 0; t < kSteps * 1000; t += 1000)
      h.range("ProfilerStep#" + std::to_string(t / 1000), t, t + 1000).kernel(kernel, t + 10, t + 20, t + 25, t + 990);
    Trace trace = h.build();
    DeviceProperties device;
    device.name = "NVIDIA H100 80GB HBM3", device.compute_major = 9, device.multiprocessors = 132;
    trace.devices.push_back(device);
    return finding(diagnosed(trace).findings, "full-precision-gemm") != nullptr;
  };
  EXPECT_TRUE(fires("ampere_sgemm_128x64_tn"));
  EXPECT_TRUE(fires("void gemv2T_kernel_val<int, int, float, float, float, float, 128, 16, 4, 4, false>"));
  EXPECT_FALSE(fires("void gemv2T_kernel_val<int, int, __nv_bfloat16, __nv_bfloat16, __nv_bfloat16, float, 128, 16>"));
  EXPECT_FALSE(fires("fused_moe_kernel"));
  EXPECT_FALSE(fires("gemm_fusion_dot_57"));
}

/// Each step launches one kernel, then the host is in these frames, outer first, for most of it.
HandTrace busy_host(const std::vector<std::string>& frames) {
  HandTrace h;
  for (int64_t t = 0; t < kSteps * kStep_us; t += kStep_us) {
    h.range("ProfilerStep#" + std::to_string(t / kStep_us), t, t + kStep_us);
    h.kernel("k", t + 10, t + 20, t + 25, t + 10'000);
    int64_t inside = 0;
    for (const std::string& frame : frames) h.python(frame, t + 30 + inside, t + 25'000 - inside), ++inside;
    h.kernel("k", t + 25'010, t + 25'020, t + 25'025, t + 29'990);
  }
  return h;
}

TEST(HostBoundLaunches, OfALibrarysFunctionNamesItsCaller) {
  const auto first_fix = [](std::vector<std::string> frames) {
    const Diagnosis d = diagnosed(busy_host(frames));
    const Finding* f = finding(d.findings, "host-bound-launches");
    return f != nullptr ? f->fix.at(0) : "";
  };
  const std::string hook = "diffusers/hooks/group_offloading.py(916): find_hook";
  EXPECT_EQ(first_fix({"draw.py(3): <module>", "draw.py(40): draw", "diffusers/pipelines/flux.py(652): __call__", hook}),
            "find_hook is part of diffusers, which draw (draw.py:40) calls: call it less often");
  EXPECT_EQ(first_fix({"/app/xfuser/model_executor/runner.py(114): run", "diffusers/pipelines/flux.py(652): __call__", hook}),
            "find_hook is part of diffusers, which run (/app/xfuser/model_executor/runner.py:114) calls: call it less often");
  EXPECT_EQ(first_fix({hook}), "find_hook is part of diffusers: call it less often");
  EXPECT_TRUE(first_fix({"draw.py(40): find_hook"}).starts_with("move the work of find_hook (draw.py:40) out of the step"));
}

TEST(HostBoundLaunches, OfStacksThatSlowTheHostIsTheMostThatItCosts) {
  const Diagnosis with = diagnosed(busy_host({"train.py(40): log_step"})), without = diagnosed(busy_host({}));
  ASSERT_NE(finding(with.findings, "host-bound-launches"), nullptr);
  EXPECT_NE(with.verdict.text.find(" at best, at most "), std::string::npos) << with.verdict.text;
  EXPECT_NE(with.verdict.text.find("recording slowed the host"), std::string::npos) << with.verdict.text;
  EXPECT_EQ(without.verdict.text.find("at best"), std::string::npos) << without.verdict.text;
}

TEST(DataLoadingCheck, NamesWhatWasMeasured) {
  const auto brief = [](HandTrace&& hand) {
    const Diagnosis d = diagnosed(std::move(hand));
    return first_where(d.checklist, [](const Check& c) { return c.id == "data-loading"; })->brief;
  };
  EXPECT_TRUE(brief(busy_host({"images.py(40): normalize"})).starts_with("preparing inputs "));
  EXPECT_TRUE(brief(busy_host({"train.py(40): log_step"})).starts_with("waiting for data "));
}

// Two calls in each: the copy, then the wait for it.
TEST(RedundantSyncCopies, SaysForHowLongTheHostIsBlocked) {
  const auto reading = [](int64_t each_us, int64_t busy_us) {
    HandTrace h;
    for (int64_t t = 0; t < kSteps * kStep_us; t += kStep_us) {
      h.range("ProfilerStep#" + std::to_string(t / kStep_us), t, t + kStep_us);
      for (int64_t i = 0, at = t + 100; i < 6; ++i, at += 4000) {
        h.kernel("k", at - 60, at - 55, at - 50, at - 50 + busy_us).kernel("other", at - 40, at - 35, at + 200, at + 3'800, "main", 8);
        h.op("aten::to", at, at + each_us + 20).copy("Memcpy DtoH (Device -> Pageable)", at + 1, at + each_us, at + 90, at + 100);
        h.call("cudaStreamSynchronize", at + each_us + 2, at + each_us + 10);
      }
    }
    return diagnosed(std::move(h));
  };
  const Diagnosis d = reading(2'500, 50), brief = reading(400, 50);
  const Finding *f = finding(d.findings, "redundant-sync-copies"), *less = finding(brief.findings, "redundant-sync-copies");
  ASSERT_NE(f, nullptr);
  EXPECT_EQ(*f->value, 6) << "an op that copies and waits reads once";
  EXPECT_NE(f->what.find("6 times per step, and is blocked for 50 % of it"), std::string::npos) << f->what;
  ASSERT_NE(less, nullptr);
  EXPECT_EQ(less->what.find("blocked"), std::string::npos) << less->what;
  EXPECT_EQ(less->severity, Severity::kInfo);
}

}  // namespace
}  // namespace profgpu
