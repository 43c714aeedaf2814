#include "analyse/rank/places.h"

#include <gtest/gtest.h>

#include "analyse/rank/frameworks.h"
#include "tests/support/hand_trace.h"

namespace profgpu {
namespace {

HostId range_named(const Trace& trace, std::string_view name) {
  for (uint32_t i = 0; i < trace.host.size(); ++i)
    if (trace.name(HostId(i)) == name) return HostId(i);
  return {};
}

Place place_of(HandTrace& hand, std::string_view range) {
  const Trace trace = hand.build();
  const Facts facts(trace, {});
  Places places(facts);
  places.add(range_named(trace, range), 7);
  const std::vector<Place> all = places.most_expensive();
  return all.empty() ? Place() : all.front();
}

TEST(Places, AFunctionStandsForThePlumbingThatItCalls) {
  HandTrace t;
  t.python("train.py(10): <module>", 0, 100).python("train.py(87): compute_loss", 1, 99);
  t.python("nn.Module: Linear_3", 2, 98).python("torch/nn/modules/module.py(1739): _wrapped_call_impl", 3, 97);
  t.python("<built-in function linear>", 4, 96).op("aten::linear", 5, 95).op("aten::addmm", 6, 90);
  const Place place = place_of(t, "aten::addmm");
  EXPECT_EQ(place.name, "compute_loss");
  EXPECT_EQ(place.file, "train.py");
  EXPECT_EQ(place.line, 87);
  EXPECT_EQ(place.ns, 7);
  EXPECT_EQ(place.count, 1);
}

TEST(Places, TheModuleIsTheInnermostAroundThatFunction) {
  HandTrace t;
  t.python("nn.Module: Net_0", 0, 100).python("net.py(5): forward", 1, 99).op("aten::relu", 2, 90);
  EXPECT_EQ(place_of(t, "aten::relu").module, "Net_0");
}

TEST(Places, WithoutStacksTheOutermostOpStandsForItself) {
  HandTrace t;
  t.range("ProfilerStep#1", 0, 100).op("aten::batch_norm", 1, 90).op("aten::view", 2, 80);
  EXPECT_EQ(place_of(t, "aten::view").name, "aten::batch_norm");
  EXPECT_EQ(place_of(t, "ProfilerStep#1").name, "");
}

// train() at 0 waits in wait() from 10 to 30, and works in work() from 40.
HandTrace sampled_loop() {
  HandTrace t;
  t.sampled("train.py(1): <module>", 0, 60).sampled("train.py(20): train", 0, 10);
  t.sampled("train.py(21): train", 10, 30).sampled("train.py(5): wait", 10, 20).sampled("train.py(5): wait", 20, 30);
  t.sampled("train.py(22): train", 30, 60).sampled("train.py(8): work", 30, 40).sampled("train.py(9): work", 40, 60);
  return t;
}

TEST(Places, OfASampledStackASampleStandsForTheTimeUntilTheNext) {
  HandTrace t = sampled_loop();
  t.call("cudaStreamSynchronize", 12, 29);
  const Trace trace = t.build();
  const Facts facts(trace, {});
  const ThreadId thread = trace.host.thread[range_named(trace, "cudaStreamSynchronize").value];
  Places places(facts);
  places.add_host_time(thread, {5'000, 45'000});
  places.add_host_time(thread, {46'000, 50'000});   // no sample was taken here
  std::vector<std::string> all;
  for (const Place& p : places.most_expensive())
    all.push_back(p.name + ":" + std::to_string(*p.line) + " " + std::to_string(p.ns / 1000));
  EXPECT_EQ(all, (std::vector<std::string>{"wait:5 20", "work:8 10", "work:9 5"}));
}

TEST(Places, ACallIsWhereASampleWasTakenInItOrTheSameFrameBeforeAndAfter) {
  const auto place = [](int64_t start, int64_t end) {
    HandTrace t = sampled_loop();
    t.range("forward", 0, 60).call("call", start, end);
    const Place p = place_of(t, "call");
    return p.name + (p.line ? ":" + std::to_string(*p.line) : "");
  };
  EXPECT_EQ(place(12, 29), "wait:5");    // sampled at 20
  EXPECT_EQ(place(13, 14), "wait:5");    // as at 10, so at 20
  EXPECT_EQ(place(33, 34), "train:22");  // another line of work(), which train() called all the time
  EXPECT_EQ(place(25, 26), "<module>:1");
  EXPECT_EQ(place(70, 71), "call");      // after the last: only the call itself is known
}

// train() calls backward() at line 21, in which another thread launches.
TEST(Places, WhatAutogradLaunchesIsAtTheLineThatStartedTheBackwardPass) {
  HandTrace t;
  t.sampled("train.py(20): train", 0, 10).sampled("train.py(21): train", 10, 30);
  t.sampled("torch/autograd/__init__.py(347): backward", 10, 20).sampled("torch/autograd/__init__.py(347): backward", 20, 30);
  t.range("forward", 0, 8).range("backward", 10, 30).kernel("k", 12, 13, 15, 19, "autograd").kernel("k", 40, 41, 42, 43, "autograd");
  const Trace trace = t.build();
  const Facts facts(trace, {});
  Places kernels(facts), host(facts);
  for (uint32_t i = 0; i < trace.activity.size(); ++i) kernels.add(ActivityId(i));
  ASSERT_EQ(kernels.most_expensive().size(), 1U) << "the one outside of the backward pass has no place";
  EXPECT_EQ(kernels.most_expensive()[0].name, "backward pass started in train");
  EXPECT_EQ(kernels.most_expensive()[0].line, 21);
  EXPECT_EQ(kernels.most_expensive()[0].ns, 4'000);
  const ThreadId autograd = trace.host.thread[trace.activity.launch[0].value];
  host.add_host_time(autograd, {5'000, 45'000});
  ASSERT_EQ(host.most_expensive().size(), 1U);
  EXPECT_EQ(host.most_expensive()[0].name, "backward pass started in train");
  EXPECT_EQ(host.most_expensive()[0].ns, 20'000);
}

TEST(Places, ABackwardOpIsAtTheFunctionThatCalledItsForwardOp) {
  HandTrace t;
  t.python("net.py(5): forward", 0, 50).op("aten::mm", 10, 20).kernel("k", 12, 13, 15, 19);
  t.op("autograd::engine::evaluate_function: MmBackward0", 60, 90, "autograd").kernel("k", 70, 75, 76, 80, "autograd");
  Trace trace = t.build();
  trace.backward_links.push_back(
      {range_named(trace, "aten::mm"), range_named(trace, "autograd::engine::evaluate_function: MmBackward0")});
  const Facts facts(trace, {});
  Places places(facts);
  places.add(ActivityId(size_t{1}));
  ASSERT_EQ(places.most_expensive().size(), 1U);
  EXPECT_EQ(places.most_expensive()[0].name, "backward of forward");
  EXPECT_EQ(places.most_expensive()[0].file, "net.py");
  EXPECT_EQ(places.most_expensive()[0].line, 5);
}

TEST(Places, OfOwnCodeALibraryStandsForWhatCallsIt) {
  HandTrace t;
  t.python("train.py(1): <module>", 0, 100).python("train.py(4): log", 1, 99).python("train.py(5): <listcomp>", 2, 98);
  t.python("torch/_tensor_str.py(155): __init__", 3, 97).op("aten::abs", 5, 95);
  const Trace trace = t.build();
  const Facts facts(trace, {});
  Places own(facts, PlaceOf::kOwnCode);
  own.add(range_named(trace, "aten::abs"), 7);
  const Place place = own.most_expensive().at(0);
  EXPECT_EQ(place.name, "log");
  EXPECT_EQ(own.calls_of(place).at(0), std::pair(std::string_view("train.py(5): <listcomp>"), int64_t{7}));
  Places any(facts);
  any.add(range_named(trace, "aten::abs"), 7);
  EXPECT_EQ(any.most_expensive().at(0).name, "__init__");
}

TEST(Places, OfSamplesTheScriptsOwnLinesAreItsCode) {
  HandTrace t;
  t.range("ProfilerStep#1", 0, 60).sampled("train.py(7): <module>", 0, 60).sampled("random.py(5): uniform", 0, 60);
  const Trace trace = t.build();
  const Facts facts(trace, {});
  Places own(facts, PlaceOf::kOwnCode);
  own.add_host_time(trace.host.thread[range_named(trace, "ProfilerStep#1").value], {0, 60'000});
  EXPECT_EQ(own.most_expensive().at(0).line, 7);
}

TEST(Places, HowManySamplesTimeIsOfDoesNotDependOnHowManyStayedTheSame) {
  HandTrace t;
  for (int64_t at = 0; at < 80; at += 20) t.sampled("train.py(" + std::to_string(at + 1) + "): f", at, at + 20);
  t.sampled("train.py(9): g", 80, 480);
  const Trace trace = t.build();
  EXPECT_EQ(samples_in(trace, ThreadId(size_t{0}), 400'000), 20);
}

TEST(Places, FramesWithoutALineOrFileAreNoPlaces) {
  for (const char* frame : {"(12): f", "a.py(x): f", "a.py(12) f", "a.py(99999999999999999999): f", "): ", ""}) {
    HandTrace t;
    t.python(frame, 0, 100).op("aten::relu", 2, 90);
    EXPECT_EQ(place_of(t, "aten::relu").name, "aten::relu") << frame;
  }
}

TEST(Places, EndlessNamesAreCutBetweenCharacters) {
  HandTrace t;
  std::string name = "a";
  for (int i = 0; i < 1000; ++i) name += "\xC3\xA9";
  t.range(name, 0, 100);
  const std::string cut = place_of(t, name).name;
  EXPECT_LT(cut.size(), 300U);
  EXPECT_TRUE(cut.ends_with("\xC3\xA9…"));
}

TEST(Places, HostTimeCountsForTheInnermostRange) {
  HandTrace t;
  t.python("a.py(1): outer", 0, 100).python("a.py(2): inner", 20, 60).range("prefetch", 0, 100, "other");
  const Trace trace = t.build();
  const Facts facts(trace, {});
  Places places(facts);
  places.add_host_time(trace.host.thread[range_named(trace, "a.py(1): outer").value], {10000, 70000});
  const std::vector<Place> all = places.most_expensive();
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0].name, "inner");
  EXPECT_EQ(all[0].ns, 40000);
  EXPECT_EQ(all[1].name, "outer");
  EXPECT_EQ(all[1].ns, 20000);
}

TEST(LibraryOf, TellsPackagesFromThePrograms) {
  EXPECT_EQ(library_of("diffusers/hooks/group_offloading.py"), "diffusers");
  EXPECT_EQ(library_of("/usr/lib/python3.11/site-packages/anything/inside/a.py"), "anything");
  EXPECT_EQ(library_of("/usr/lib/python3.11/site-packages/six.py"), "six");
  EXPECT_EQ(library_of("torchvision/transforms/functional.py"), "torchvision");
  EXPECT_EQ(library_of("/usr/lib/python3.11/asyncio/tasks.py"), "Python");
  EXPECT_EQ(library_of("copy.py"), "Python");
  for (const char* own : {"train.py", "/home/me/job/train.py", "my_models/transformer.py", "/home/me/transformers_study/a.py"})
    EXPECT_EQ(library_of(own), "") << own;
}

TEST(Places, TheCallerOfALibrarysFunctionIsTheProgramsOwn) {
  HandTrace t;
  t.python("train.py(1): <module>", 0, 1000).python("train.py(20): train", 1, 999);
  t.python("accelerate/hooks.py(5): new_forward", 10, 300).python("diffusers/models/a.py(7): norm", 20, 290);
  t.python("train.py(30): log", 400, 900).python("diffusers/models/a.py(7): norm", 410, 890);
  const Trace trace = t.build();
  const Facts facts(trace, {});
  const Places places(facts);
  const Place norm{"norm", "diffusers/models/a.py", 7, "", 0, 0};
  EXPECT_EQ(places.caller_of(norm, {{0, 1'000'000}})->name, "log");
  EXPECT_EQ(places.caller_of(norm, {{0, 350'000}})->name, "train") << "only within that time";
  EXPECT_FALSE(places.caller_of({"other", "diffusers/models/a.py", 7, "", 0, 0}, {{0, 1'000'000}}));
}

}  // namespace
}  // namespace profgpu
