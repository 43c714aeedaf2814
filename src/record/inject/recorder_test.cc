#include "record/inject/recorder.h"

#include <gtest/gtest.h>

#include <string>

namespace profgpu::inject {
namespace {

Options parsed(const char* text, std::string expected_complaint = "") {
  Options options;
  Text<256> complaint;
  parse_options(text, options, complaint);
  EXPECT_EQ(complaint.c_str(), expected_complaint) << text;
  return options;
}

TEST(RecordOptions, NothingSaid) {
  for (const char* text : {static_cast<const char*>(nullptr), "", ",", ",,"}) {
    const Options o = parsed(text);
    EXPECT_EQ(o.window, WindowKind::kAll);
    EXPECT_EQ(o.flush_ns, 250'000'000);
    EXPECT_EQ(o.memory_bytes, size_t{256} << 20);
    EXPECT_TRUE(o.nvtx && o.nccl && o.cuda && o.graph_nodes);
  }
}

TEST(RecordOptions, Switches) {
  const Options o = parsed("nvtx=0,nccl=0,cuda=0,graphs=graph,flush_ms=100,memory_mb=512");
  EXPECT_FALSE(o.nvtx || o.nccl || o.cuda || o.graph_nodes);
  EXPECT_EQ(o.flush_ns, 100'000'000);
  EXPECT_EQ(o.memory_bytes, size_t{512} << 20);
  EXPECT_EQ(parsed("flush_ms=0").flush_ns, 10'000'000);
  EXPECT_EQ(parsed("memory_mb=1").memory_bytes, size_t{96} << 20);
}

TEST(RecordOptions, Windows) {
  EXPECT_EQ(parsed("window=cudaProfilerApi").window, WindowKind::kCudaProfilerApi);
  EXPECT_EQ(parsed("window=manual").window, WindowKind::kManual);
  const Options steps = parsed("window=steps:10:20");
  EXPECT_EQ(steps.window, WindowKind::kSteps);
  EXPECT_EQ(steps.first, 10);
  EXPECT_EQ(steps.end, 20);
  EXPECT_EQ(parsed("window=steps::5").first, 0);
  EXPECT_EQ(parsed("window=steps:5:").end, INT64_MAX);
  const Options range = parsed("window=range:a:b%2C c%zz:2:4");
  EXPECT_EQ(range.window, WindowKind::kRange);
  EXPECT_STREQ(range.range, "a:b, c%zz");
  EXPECT_EQ(range.first, 2);
  EXPECT_EQ(range.end, 4);
  const Options time = parsed("window=time:1500:250");
  EXPECT_EQ(time.delay_ns, 1'500'000'000);
  EXPECT_EQ(time.duration_ns, 250'000'000);
  EXPECT_EQ(parsed("window=time:5:").duration_ns, INT64_MAX);
}

TEST(RecordOptions, WhatIsNotUnderstoodIsNamedAndChangesNothing) {
  for (const char* text :
       {"window=steps:9:3", "window=steps:a:3", "window=range::1:2", "window=range:x", "window=time:-1:2",
        "window=", "window=steps:5:5", "flush_ms=", "flush_ms=99999999999999999999", "nvtx=yes", "x", "=",
        "memory_mb=9999999999", "graphs=all"}) {
    const Options o = parsed(text, text);
    EXPECT_EQ(o.window, WindowKind::kAll) << text;
    EXPECT_TRUE(o.nvtx);
  }
  EXPECT_FALSE(parsed(("nvtx=0,window=range:" + std::string(300, 'x') + ":1:2").c_str(),
                      ("window=range:" + std::string(300, 'x') + ":1:2").substr(0, 255)).nvtx);
}

}  // namespace
}  // namespace profgpu::inject
