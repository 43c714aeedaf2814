#include <gtest/gtest.h>

#include "analyse/rules/measure.h"
#include "tests/support/diagnosed.h"
#include "tests/support/trace_rows.h"

namespace profgpu {
namespace {

bool says_graph_capture(test::TraceRows& rows) {
  Trace trace = rows.finish();
  trace.windows = {{0, 1000}};
  if (trace.activity.size() > 1) trace.windows.push_back({5000, 6000});
  return finding(diagnosed(trace).findings, "graph-capture") != nullptr;
}

void capture(test::TraceRows& t) {
  t.annotation("capture_32_DECODE", 0, 1000).call("cudaLaunchKernel", 1, 2, 1).kernel("fill", 4, 5, 1);
  t.call("cudaStreamBeginCapture", 10, 5).op("aten::mm", 20, 30).call("cudaLaunchKernel", 25, 5, 2);
  t.call("cudaStreamEndCapture", 900, 5);
}

TEST(GraphCapture, IsSaidOfACaptureAlone) {
  test::TraceRows t;
  capture(t);
  EXPECT_TRUE(says_graph_capture(t));
}

TEST(GraphCapture, IsNotSaidWithItsReplayBeside) {
  test::TraceRows t;
  capture(t);
  t.annotation("step[DECODE bs=32]", 5000, 1000).call("cudaGraphLaunch", 5010, 20, 3).kernel("gemm", 5100, 800, 3);
  EXPECT_FALSE(says_graph_capture(t));
}

}  // namespace
}  // namespace profgpu
