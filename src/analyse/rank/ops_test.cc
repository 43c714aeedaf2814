#include "analyse/rank/ops.h"

#include <gtest/gtest.h>

#include "tests/support/trace_rows.h"

namespace profgpu {
namespace {

using test::TraceRows;

struct Row {
  int64_t calls, cpu_total, cpu_self, device_total, device_self;
  bool operator==(const Row&) const = default;
};

std::ostream& operator<<(std::ostream& out, const Row& r) {
  return out << r.calls << " " << r.cpu_total << " " << r.cpu_self << " " << r.device_total << " " << r.device_self;
}

class OpsTest : public testing::Test {
 protected:
  void run(TraceRows& rows) {
    trace_ = rows.finish();
    facts_ = std::make_unique<Facts>(trace_, AnalysisOptions{});
    ops_ = &facts_->get<Ops>();
  }
  const OpRow* find(std::string_view name, bool annotation = false) const {
    for (const OpRow& r : ops_->rows)
      if (r.text == name && r.annotation == annotation) return &r;
    return nullptr;
  }
  std::optional<Row> row(std::string_view name, bool annotation = false) const {
    const OpRow* r = find(name, annotation);
    if (r == nullptr) return std::nullopt;
    return Row{r->calls, r->cpu_total_ns, r->cpu_self_ns, r->device_total_ns, r->device_self_ns};
  }
  Trace trace_;
  std::unique_ptr<Facts> facts_;
  const Ops* ops_ = nullptr;
};

TEST_F(OpsTest, ChildrenAndCallsAreTakenFromSelfTime) {
  TraceRows t;
  t.op("aten::linear", 0, 100).op("aten::addmm", 10, 60).call("cudaLaunchKernel", 20, 15, 1).kernel("gemm", 50, 200, 1);
  t.op("aten::addmm", 200, 40).call("cudaLaunchKernel", 210, 5, 2).kernel("gemm", 300, 30, 2);
  run(t);
  EXPECT_EQ(row("aten::linear"), (Row{1, 100, 40, 200, 0}));
  EXPECT_EQ(row("aten::addmm"), (Row{2, 100, 80, 230, 230}));
  EXPECT_EQ(row("cudaLaunchKernel"), (Row{2, 20, 20, 0, 0}));
  EXPECT_EQ(trace_.name(ops_->of_activity[0]), "aten::addmm");
}

TEST_F(OpsTest, AnOnlyChildOfItsParentsNameIsTheSameCall) {
  TraceRows t;
  t.op("aten::add_", 0, 100).op("aten::add_", 10, 50).call("cudaLaunchKernel", 20, 10, 1).kernel("add", 40, 7, 1);
  t.op("aten::add_", 200, 100).op("aten::add_", 210, 20).op("aten::to", 240, 20);   // two children: stays
  run(t);
  EXPECT_EQ(row("aten::add_"), (Row{3, 100 + 100 + 20, 90 + 60 + 20, 7, 7}));
  EXPECT_EQ(row("aten::to"), (Row{1, 20, 20, 0, 0}));
}

TEST_F(OpsTest, StepsAreOneRowAndWhatTheProfilerHidesIsNone) {
  TraceRows t;
  t.annotation("ProfilerStep#3", 0, 100).op("aten::is_leaf", 10, 30).op("aten::mm", 50, 10);
  t.annotation("ProfilerStep#4", 100, 100);
  run(t);
  EXPECT_EQ(row("ProfilerStep*", true), (Row{2, 200, 190, 0, 0}));
  EXPECT_EQ(row("aten::is_leaf"), std::nullopt);
  EXPECT_EQ(row("aten::mm"), (Row{1, 10, 10, 0, 0}));
}

TEST_F(OpsTest, AnAnnotationIsARowOfItsOwnAndOwnsOnlyWhatNoOpLaunched) {
  TraceRows t;
  t.annotation("mine", 0, 100).op("aten::mm", 10, 30).call("cudaLaunchKernel", 20, 5, 1).kernel("gemm", 30, 11, 1);
  t.call("cudaLaunchKernel", 60, 5, 2).kernel("custom", 70, 13, 2);
  t.op("aten::mm", 200, 50).annotation("aten::mm", 210, 20).op("aten::t", 215, 5);
  t.op("record_param_comms", 300, 50).annotation("nccl:all_reduce", 310, 30).call("cudaLaunchKernel", 315, 5, 3);
  t.kernel("ncclKernel", 320, 17, 3);
  run(t);
  EXPECT_EQ(row("mine", true), (Row{1, 100, 65, 24, 13}));
  EXPECT_EQ(row("record_param_comms"), (Row{1, 50, 20, 17, 17}));
  EXPECT_EQ(row("nccl:all_reduce", true), (Row{1, 30, 25, 0, 0}));
  EXPECT_EQ(trace_.name(ops_->of_activity[2]), "nccl:all_reduce");
  // The annotation has its op's name and is its only child, so it is folded into it.
  EXPECT_EQ(row("aten::mm"), (Row{2, 80, 25 + 45, 11, 11}));
  EXPECT_EQ(row("aten::mm", true), std::nullopt);
}

TEST_F(OpsTest, PythonFramesChangeNothing) {
  TraceRows t;
  t.annotation("step", 0, 100).python("train.py(3): step", 1, 120).op("aten::mm", 10, 30).python("nn.Module", 12, 5);
  run(t);
  EXPECT_EQ(row("step", true), (Row{1, 100, 70, 0, 0}));   // the frame that outlasts it does not come between
  EXPECT_EQ(row("aten::mm"), (Row{1, 30, 30, 0, 0}));
  EXPECT_EQ(ops_->rows.size(), 2u);
}

TEST_F(OpsTest, ThreadsDoNotNestAndPartialOverlapIsNoChild) {
  TraceRows t;
  t.op("a", 0, 100, "1").op("b", 10, 20, "2").op("c", 90, 20, "1").op("d", 100, 5, "1").op("e", 150, 0, "1");
  run(t);
  EXPECT_EQ(row("a"), (Row{1, 100, 100, 0, 0}));
  EXPECT_EQ(row("c"), (Row{1, 20, 15, 0, 0}));
  EXPECT_EQ(row("e"), (Row{1, 0, 0, 0, 0}));
}

TEST_F(OpsTest, GraphReplaysCountAllTheirKernels) {
  TraceRows t;
  t.op("replay", 0, 100).call("cudaGraphLaunch", 10, 5, 9);
  for (int i = 0; i < 4; ++i) t.kernel("k", 100 + 10 * i, 10, 9);
  t.flops(0);
  run(t);
  EXPECT_EQ(row("replay"), (Row{1, 100, 95, 40, 40}));
}

TEST_F(OpsTest, FlopsAreSummedAndOrderIsBySelfTimeThenName) {
  TraceRows t;
  t.op("z", 0, 10).flops(5).op("z", 20, 10).flops(7).op("b", 40, 30).op("a", 80, 30);
  run(t);
  EXPECT_EQ(find("z")->flops, 12);
  EXPECT_EQ(find("a")->flops, std::nullopt);
  std::vector<std::string_view> names;
  for (const OpRow& r : ops_->rows) names.push_back(r.text);
  EXPECT_EQ(names, (std::vector<std::string_view>{"a", "b", "z"}));
}

TEST_F(OpsTest, AnEmptyTraceHasNoRows) {
  TraceRows t;
  run(t);
  EXPECT_TRUE(ops_->rows.empty());
}

// Each step's sum, over both threads: 30, 50 and 10.
TEST_F(OpsTest, TimeVariesFromStepToStep) {
  TraceRows t;
  for (int64_t i = 0; i < 3; ++i) t.annotation("ProfilerStep#" + std::to_string(i), 1000 * i, 990);
  t.op("aten::mm", 10, 20).op("aten::mm", 40, 5).op("aten::mm", 1010, 50).op("aten::mm", 2010, 10);
  t.op("aten::mm", 100, 5, "2");
  run(t);
  EXPECT_EQ(find("aten::mm")->measured_self_ns, 90);
  EXPECT_NEAR(find("aten::mm")->step_stddev_ns, 20, 1e-9);
}

}  // namespace
}  // namespace profgpu
