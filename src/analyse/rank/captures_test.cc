#include "analyse/rank/captures.h"

#include <gtest/gtest.h>

#include <memory>

#include "analyse/rank/measured.h"
#include "analyse/rank/ops.h"
#include "analyse/rank/places.h"
#include "analyse/rank/steps.h"
#include "tests/support/trace_rows.h"

namespace profgpu {
namespace {

using test::TraceRows;

struct Node {
  const char *op, *call;
};

// A capture of `nodes` from `start` on: 100 ns each, all in a step of the engine's.
void capture(TraceRows& t, int64_t start, int batch, const std::vector<Node>& nodes) {
  const auto end = start + 100 * static_cast<int64_t>(nodes.size() + 2);
  t.annotation("capture_" + std::to_string(batch) + "_DECODE", start, end - start);
  t.call("hipStreamBeginCapture", start + 50, 10);
  for (size_t i = 0; i < nodes.size(); ++i) {
    const int64_t at = start + 100 * static_cast<int64_t>(i + 1);
    t.op(nodes[i].op, at, 90).call(nodes[i].call, at + 10, 10, static_cast<uint32_t>(start + 1) + static_cast<uint32_t>(i));
  }
  t.call("hipStreamEndCapture", end - 50, 10);
}

struct Ran {
  TraceRows& rows;
  int64_t at;
  uint32_t correlation;

  Ran& kernel(const char* name, int64_t ns = 50, int64_t stream = 7) {
    rows.kernel(name, at, ns, correlation, 0, stream);
    at += ns;
    return *this;
  }
  Ran& copy(int64_t ns = 50) {
    rows.copy("Memcpy DtoD", at, ns, correlation);
    at += ns;
    return *this;
  }
};

Ran replay(TraceRows& t, int64_t start, int batch, uint32_t correlation) {
  t.annotation("step[DECODE bs=" + std::to_string(batch) + "]", start, 1000);
  t.call("hipGraphLaunch", start + 10, 20, correlation);
  return {t, start + 100, correlation};
}

const std::vector<Node> kLayer = {{"aten::mm", "hipExtModuleLaunchKernel"}, {"aten::add", "hipLaunchKernel"}};
const std::vector<Node> kOtherLayer = {{"aten::bmm", "hipExtModuleLaunchKernel"}, {"aten::mul", "hipLaunchKernel"}};

class CapturesTest : public testing::Test {
 protected:
  void run(TraceRows& rows, std::vector<Interval> windows = {}) {
    trace_ = rows.finish();
    if (!windows.empty()) trace_.windows = std::move(windows);
    facts_ = std::make_unique<Facts>(trace_, AnalysisOptions{});
    captures_ = &facts_->get<Captures>();
  }
  [[nodiscard]] std::string op(uint32_t activity) const {
    const HostId op = facts_->get<Ops>().of_activity[activity];
    return op.valid() ? std::string(trace_.name(op)) : "";
  }
  [[nodiscard]] int64_t on_device(std::string_view name) const {
    for (const OpRow& r : facts_->get<Ops>().rows)
      if (r.text == name) return r.device_self_ns;
    return -1;
  }
  Trace trace_;
  std::unique_ptr<Facts> facts_;
  const Captures* captures_ = nullptr;
};

TEST_F(CapturesTest, WhatAGraphReplaysHasTheOpsOfItsCapture) {
  TraceRows t;
  capture(t, 0, 32, kLayer);
  replay(t, 10'000, 32, 90).kernel("gemm", 70).kernel("add", 30);
  replay(t, 20'000, 32, 91).kernel("gemm", 50).kernel("add", 10);
  run(t);
  EXPECT_EQ(captures_->named, 4);
  EXPECT_EQ(captures_->replayed, 4);
  EXPECT_EQ(op(0), "aten::mm");
  EXPECT_EQ(op(1), "aten::add");
  EXPECT_EQ(op(3), "aten::add");
  EXPECT_EQ(on_device("aten::mm"), 120);
  EXPECT_EQ(on_device("aten::add"), 40);
  EXPECT_EQ(on_device("capture_32_DECODE"), 0);
  EXPECT_EQ(trace_.name(trace_.activity.launch[0]), "hipGraphLaunch");
  Places places(*facts_);
  places.add(ActivityId(0));
  EXPECT_EQ(places.most_expensive().front().name, "aten::mm");
}

TEST_F(CapturesTest, TheStepsOfACaptureAreNotMeasuredBesideOthers) {
  TraceRows t;
  capture(t, 0, 32, kLayer);
  replay(t, 10'000, 32, 90).kernel("gemm", 70).kernel("add", 30);
  run(t);
  const Steps& steps = facts_->get<Steps>();
  ASSERT_EQ(steps.measured().size(), 1u);
  EXPECT_EQ(steps.measured().front()->name, "step[DECODE bs=32]");
  const MeasuredSteps& measured = facts_->get<MeasuredSteps>();
  ASSERT_EQ(measured.work.size(), 2u);
  EXPECT_EQ(measured.work[0].op, "aten::mm");
}

TEST_F(CapturesTest, AWindowThatIsACaptureIsSetAside) {
  TraceRows t;
  t.annotation("ProfilerStep#3", 0, 410);
  capture(t, 5, 32, kLayer);
  replay(t, 10'000, 32, 90).kernel("gemm", 70).kernel("add", 30);
  run(t, {{0, 410}, {10'000, 11'000}});
  EXPECT_EQ(captures_->set_aside, (std::vector<bool>{true, false}));
  const Steps& steps = facts_->get<Steps>();
  ASSERT_EQ(steps.steps.size(), 1u);
  EXPECT_EQ(steps.steps[0].name, "step[DECODE bs=32]");
  EXPECT_EQ(op(0), "aten::mm");
}

TEST_F(CapturesTest, ACaptureAloneIsWhatWasRecorded) {
  TraceRows t;
  capture(t, 0, 32, kLayer);
  run(t);
  EXPECT_EQ(captures_->set_aside, std::vector<bool>{false});
  EXPECT_EQ(captures_->time[0], (Intervals{{0, 400}}));
  EXPECT_EQ(facts_->get<Steps>().measured().size(), 1u);
}

TEST_F(CapturesTest, OtherCountsAndKindsAreOfAnotherGraph) {
  TraceRows t;
  capture(t, 0, 32, kLayer);
  replay(t, 10'000, 32, 90).kernel("gemm").kernel("add").kernel("add");
  replay(t, 20'000, 32, 91).kernel("gemm").copy();
  run(t);
  EXPECT_EQ(captures_->named, 0);
  EXPECT_EQ(captures_->replayed, 5);
  EXPECT_EQ(op(0), "step[DECODE bs=32]");
}

TEST_F(CapturesTest, BatchSizesTellCapturesApart) {
  TraceRows t;
  capture(t, 0, 32, kLayer);
  capture(t, 1000, 16, kOtherLayer);
  replay(t, 10'000, 16, 90).kernel("gemm").kernel("add");
  replay(t, 20'000, 32, 91).kernel("gemm").kernel("add");
  replay(t, 30'000, 12, 92).kernel("gemm").kernel("add");   // padded, to one of the two
  run(t);
  EXPECT_EQ(op(0), "aten::bmm");
  EXPECT_EQ(op(2), "aten::mm");
  EXPECT_EQ(op(4), "step[DECODE bs=12]");
}

// Engines capture the same model for many batch sizes, and not all mark which.
TEST_F(CapturesTest, CapturesWithTheSameOperatorsNameThemAndNoSizes) {
  TraceRows t;
  capture(t, 0, 32, kLayer);
  capture(t, 1000, 16, kLayer);
  replay(t, 10'000, 12, 90).kernel("gemm").kernel("add");
  replay(t, 20'000, 32, 91).kernel("gemm").kernel("add");
  run(t);
  EXPECT_EQ(op(0), "aten::mm");
  EXPECT_EQ(op(1), "aten::add");
  EXPECT_EQ(captures_->sizes_uncertain, (std::vector<bool>{true, true, false, false}));
}

TEST_F(CapturesTest, ABatchThatIsTooLargeForTheGraphIsOfAnother) {
  TraceRows t;
  capture(t, 0, 16, kLayer);
  replay(t, 10'000, 32, 90).kernel("gemm").kernel("add");
  run(t);
  EXPECT_EQ(captures_->named, 0);
}

TEST_F(CapturesTest, BranchesOfAGraphHaveNoKnownOrder) {
  TraceRows t;
  capture(t, 0, 32, kLayer);
  replay(t, 10'000, 32, 90).kernel("gemm").kernel("add", 50, 8);
  run(t);
  EXPECT_EQ(captures_->named, 0);
}

TEST_F(CapturesTest, RocmCopiesByAKernel) {
  TraceRows t;
  capture(t, 0, 32, {{"aten::copy_", "hipMemcpyAsync"}, {"aten::zero_", "hipMemsetAsync"}});
  replay(t, 10'000, 32, 90).kernel("__amd_rocclr_copyBuffer").kernel("__amd_rocclr_fillBufferAligned");
  run(t);
  EXPECT_EQ(op(0), "aten::copy_");
  EXPECT_EQ(op(1), "aten::zero_");
}

TEST_F(CapturesTest, WhatRanWhileAStepCapturedIsNoNode) {
  TraceRows t;
  t.annotation("capture_8_DECODE", 0, 400);
  t.op("aten::zero_", 10, 50).call("cudaLaunchKernel", 20, 10, 1).kernel("fill", 40, 10, 1);
  t.op("aten::mm", 100, 50).call("cudaLaunchKernel", 110, 10, 2);
  replay(t, 10'000, 8, 90).kernel("gemm");
  run(t);
  EXPECT_EQ(op(0), "aten::zero_");
  EXPECT_EQ(op(1), "aten::mm");
}

}  // namespace
}  // namespace profgpu
