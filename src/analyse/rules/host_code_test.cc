// What findings say of programs whose time goes on the host, without a device.
#include <gtest/gtest.h>

#include "tests/support/diagnosed.h"
#include "tests/support/hand_trace.h"

namespace profgpu {
namespace {

constexpr int64_t kHostSteps = 40, kHostStep_us = 20'000;

/// Steps with 2 ms of training; `work` fills the rest, from 2 to 20 ms.
template <class Work>
HandTrace host_loop(Work work) {
  HandTrace h;
  for (int64_t i = 0, t = 0; i < kHostSteps; ++i, t += kHostStep_us) {
    h.range("ProfilerStep#" + std::to_string(i), t, t + kHostStep_us);
    h.range("forward", t, t + 500).range("backward", t + 500, t + 1'000).range("optimizer", t + 1'000, t + 2'000);
    work(h, t);
  }
  return h;
}

// In few rows: samples that stay the same are one.
HandTrace logging_loop(int64_t until) {
  HandTrace h = host_loop([](HandTrace&, int64_t) {});
  h.sampled("train.py(40): <module>", 0, kHostSteps * kHostStep_us);
  for (int64_t i = 0, t = 0; i < kHostSteps; ++i, t += kHostStep_us) {
    h.sampled("train.py(30): main", t, t + 2'000).sampled("torch/optim/adam.py(5): step", t, t + 2'000);
    h.sampled("train.py(31): main", t + 2'000, t + until).sampled("train.py(4): log", t + 2'000, t + until);
    h.sampled("torch/nn/parameter.py(86): __repr__", t + 2'000, t + until);
    h.sampled(i % 2 ? "torch/_tensor_str.py(155): __init__" : "torch/_tensor_str.py(9): _str", t + 2'000, t + until);
    h.sampled("train.py(32): main", t + until, t + kHostStep_us);
    for (int64_t at = t + until; at < t + kHostStep_us; at += 1'000)
      h.sampled("model_" + std::to_string(at % 7) + ".py(1): f", at, at + 1'000);
  }
  return h;
}

TEST(HostCode, IsTheProgramsFunctionThatCallsALibrary) {
  const Diagnosis d = diagnosed(logging_loop(18'000).build());
  const Finding* f = finding(d.findings, "host-code");
  ASSERT_NE(f, nullptr);
  ASSERT_EQ(f->where.size(), 1U);
  EXPECT_EQ(f->where[0].name, "log");
  EXPECT_EQ(f->where[0].file, "train.py");
  EXPECT_EQ(f->where[0].line, 4);
  EXPECT_NEAR(*f->value, 80, 0.01);
  EXPECT_EQ(f->cost_ns, kHostSteps * 16'000'000);
  EXPECT_NE(f->fix.at(0).find("log every 50 to 100 steps"), std::string::npos) << f->fix[0];
  EXPECT_EQ(d.verdict.kind, VerdictKind::kBottleneck);
  EXPECT_NE(d.verdict.text.find("log (train.py:4) prints or logs for 80 % of each step."), std::string::npos) << d.verdict.text;
}

TEST(HostCode, IsNamedByWords) {
  const auto said_of = [](const std::string& function) {
    HandTrace h = host_loop([&](HandTrace& t, int64_t at) {
      t.sampled("train.py(31): main", at + 2'000, at + 18'000).sampled("train.py(4): " + function, at + 2'000, at + 18'000);
    });
    const Diagnosis d = diagnosed(h.build());
    const Finding* f = finding(d.findings, "host-code");
    return f == nullptr ? "" : f->what;
  };
  EXPECT_EQ(said_of("log_metrics"), "log_metrics (train.py:4) prints or logs for 80 % of the step");
  EXPECT_EQ(said_of("compute_logits"), "compute_logits (train.py:4) takes 80 % of the step");
  EXPECT_EQ(said_of("tokenize_batch"), "tokenize_batch (train.py:4) tokenizes or parses text for 80 % of the step");
}

TEST(HostCode, IsSilentAboutALittle) {
  EXPECT_EQ(finding(diagnosed(logging_loop(5'000).build()).findings, "host-code"), nullptr);
}

TEST(HostCode, LeavesTheTimeOfTrainingAlone) {
  HandTrace h = host_loop([](HandTrace& t, int64_t at) { t.range("forward", at + 2'000, at + kHostStep_us); });
  for (int64_t t = 0; t < kHostSteps * kHostStep_us; t += 10'000)
    h.sampled("net_" + std::to_string(t % 3) + ".py(9): forward", t, t + 10'000);
  EXPECT_EQ(finding(diagnosed(h.build()).findings, "host-code"), nullptr);
}

TEST(HostCode, ButNotAnEvaluationInEachStep) {
  HandTrace h = host_loop([](HandTrace& t, int64_t at) {
    t.range("forward", at + 3'000, at + kHostStep_us);
    t.sampled("train.py(30): main", at, at + 2'000).sampled("train.py(31): main", at + 2'000, at + kHostStep_us);
    t.sampled("train.py(8): validate", at + 2'000, at + kHostStep_us);
  });
  const Diagnosis d = diagnosed(h.build());
  const Finding* f = finding(d.findings, "host-code");
  ASSERT_NE(f, nullptr);
  EXPECT_NE(f->what.find("validate (train.py:8) evaluates the model for 90 %"), std::string::npos) << f->what;
}

TEST(HostCode, OfASleepIsRecognizedByItsSystemCall) {
  HandTrace h = host_loop([](HandTrace& t, int64_t at) {
    t.sampled("train.py(30): main", at, at + 2'000).sampled("train.py(9): on_step_end", at + 2'000, at + kHostStep_us);
  });
  Trace trace = h.build();
  for (int64_t t = 5'000; t < kHostSteps * kHostStep_us; t += kHostStep_us) {
    ThreadSample s;
    s.time_ns = t * 1000, s.thread = ThreadId(size_t{0}), s.state = 'S', s.system_call = 230;   // clock_nanosleep
    trace.thread_samples.push_back(s);
  }
  const Diagnosis d = diagnosed(trace);
  const Finding* f = finding(d.findings, "host-code");
  ASSERT_NE(f, nullptr);
  EXPECT_NE(f->what.find("on_step_end (train.py:9) sleeps for 90 %"), std::string::npos) << f->what;
}

TEST(HostCode, OfStepsThatGrowSaysSo) {
  HandTrace h;
  for (int64_t i = 0, t = 0; i < kHostSteps; ++i) {
    const int64_t end = t + 2'000 + 500 * i;
    h.range("ProfilerStep#" + std::to_string(i), t, end);
    h.range("forward", t, t + 500).range("backward", t + 500, t + 1'000);
    h.sampled("train.py(30): main", t, end).sampled("train.py(6): running_mean", t + 1'000, end);
    t = end;
  }
  const Diagnosis d = diagnosed(h.build());
  const Finding* f = finding(d.findings, "host-code");
  ASSERT_NE(f, nullptr);
  EXPECT_NE(f->verdict.find("Steps get longer with their number, from 4.00 ms to 19.0 ms"), std::string::npos)
      << f->verdict;
  EXPECT_TRUE(f->fix.front().starts_with("something grows with each step")) << f->fix.front();
}

TEST(HostCode, IsNoWaitForACollective) {
  HandTrace h = host_loop([](HandTrace& t, int64_t at) {
    t.range("gloo:all_reduce", at + 1'900, at + kHostStep_us, "gloo");
    t.sampled("train.py(30): main", at, at + 2'000).sampled("train.py(31): main", at + 2'000, at + kHostStep_us);
  });
  EXPECT_EQ(finding(diagnosed(h.build()).findings, "host-code"), nullptr);
}

// As the program ends, the interpreter collects what it holds.
TEST(PythonGc, IsNoneAfterTheLoop) {
  const auto requests = [](int64_t collection) {
    HandTrace h;
    for (int64_t t = 0; t < 100'000; t += 1'000) h.range("forward", t, t + 300);
    h.range("Python GC", collection, collection + 90'000);
    return h.build();
  };
  EXPECT_EQ(finding(diagnosed(requests(106'000)).findings, "python-gc"), nullptr);
  HandTrace inside;
  inside.range("forward", 0, 300).range("Python GC", 400, 90'000).range("forward", 90'100, 90'400);
  EXPECT_NE(finding(diagnosed(inside.build()).findings, "python-gc"), nullptr);
}

TEST(Recompiles, InEachStepAreNotDoneOnce) {
  HandTrace h = host_loop([](HandTrace& t, int64_t at) {
    t.sampled("train.py(30): main", at, at + 2'000).sampled("train.py(31): main", at + 2'000, at + kHostStep_us);
    t.sampled("torch/_dynamo/convert_frame.py(2102): _compile", at + 3'000, at + kHostStep_us);
  });
  const Diagnosis d = diagnosed(h.build());
  const Finding* f = finding(d.findings, "recompiles");
  ASSERT_NE(f, nullptr);
  EXPECT_EQ(f->what, "code is compiled again in 40 of 40 steps");
  EXPECT_EQ(f->cost_ns, (kHostSteps - 1) * 17'000'000);   // The first one is needed.
  EXPECT_EQ(finding(d.findings, "first-use"), nullptr);
  EXPECT_NE(d.verdict.text.find("Code is compiled again in 40 of 40 steps, which takes 83 % of the time."), std::string::npos)
      << d.verdict.text;
}

TEST(FirstUse, WithoutADeviceReturnsInMostSteps) {
  const Diagnosis d = diagnosed(host_loop([](HandTrace& t, int64_t at) {
                                       t.python("triton/compiler/compiler.py(80): compile", at + 3'000, at + 19'000);
                                     }).build());
  const Finding* f = finding(d.findings, "first-use");
  ASSERT_NE(f, nullptr);
  EXPECT_NE(f->what.find("again and again: in 40 of 40 steps"), std::string::npos) << f->what;
}

TEST(Verdict, OfOperatorsAloneSaysHowLongNoneRuns) {
  HandTrace h;
  for (int64_t t = 0; t < 100'000; t += 10'000)
    h.op("aten::mm", t, t + 1'000).op("AddmmBackward0", t + 1'000, t + 1'900).op("aten::add_", t + 1'900, t + 2'000);
  h.op("aten::mm", 100'000, 100'010);
  const Diagnosis d = diagnosed(h.build());
  EXPECT_NE(d.verdict.text.find("On the host no operator runs for 80 % of the time"), std::string::npos) << d.verdict.text;
  EXPECT_NE(d.verdict.text.find("To see its lines, use "), std::string::npos) << d.verdict.text;
}

TEST(Verdict, ASmallRangeIsNotWhereMostTimeGoes) {
  HandTrace h;
  for (int64_t t = 0; t < 100'000; t += 10'000)
    h.op("aten::mm", t, t + 1'000).range("Optimizer.step#Adam.step", t + 1'000, t + 1'500);
  h.op("aten::mm", 100'000, 100'010);
  const Diagnosis d = diagnosed(h.build());
  EXPECT_NE(d.verdict.text.find("no operator runs for 90 % of the time"), std::string::npos) << d.verdict.text;
}

HandTrace loading_loop() {
  return host_loop([](HandTrace& t, int64_t at) {
    t.range("data_loading", at + 2'000, at + kHostStep_us);
    t.sampled("train.py(30): main", at, at + 2'000).sampled("train.py(31): main", at + 2'000, at + kHostStep_us);
    t.sampled("torch/utils/data/dataloader.py(7): __next__", at + 2'001, at + kHostStep_us - 1);
    t.sampled("data.py(6): __getitem__", at + 2'002, at + kHostStep_us - 2);
    t.sampled("PIL/Image.py(9): resize", at + 2'003, at + kHostStep_us - 3);
  });
}

TEST(DataLoadingBound, WithoutADeviceNamesTheLineThatLoads) {
  const Diagnosis d = diagnosed(loading_loop().build());
  const Finding* f = finding(d.findings, "data-loading-bound");
  ASSERT_NE(f, nullptr);
  ASSERT_FALSE(f->where.empty());
  EXPECT_EQ(f->where[0].name, "__getitem__");
  EXPECT_EQ(f->where[0].line, 6);
  EXPECT_EQ(finding(d.findings, "host-code"), nullptr);   // has its rule
}

TEST(DataLoadingBound, AdvisesNoMoreWorkersThanProcessors) {
  Trace trace = loading_loop().build();
  EXPECT_NE(finding(diagnosed(trace).findings, "data-loading-bound")->fix.at(0).find("num_workers=4,"), std::string::npos);
  trace.metadata.emplace_back("processors", "2");
  EXPECT_NE(finding(diagnosed(trace).findings, "data-loading-bound")->fix.at(0).find("num_workers=2,"), std::string::npos);
}

TEST(CheckpointStall, IsSeenByTheFramesOfTorchSave) {
  const Diagnosis d = diagnosed(host_loop([](HandTrace& t, int64_t at) {
                                       t.python("torch/serialization.py(940): save", at + 4'000, at + 18'000);
                                       t.python("torch/serialization.py(1183): _save", at + 4'100, at + 17'900);
                                     }).build());
  const Finding* f = finding(d.findings, "checkpoint-stall");
  ASSERT_NE(f, nullptr);
  EXPECT_NEAR(*f->value, 70, 0.01);
}

}  // namespace
}  // namespace profgpu
