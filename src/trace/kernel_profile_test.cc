#include "trace/kernel_profile.h"

#include <gtest/gtest.h>

#include "trace/trace_builder.h"

namespace profgpu {
namespace {

TEST(KernelProfile, a_kernels_function_is_its_name_without_the_rest) {
  EXPECT_EQ(kernel_function("void at::native::vectorized_elementwise_kernel<4, at::native::F<float> >(int, T2)"),
            "vectorized_elementwise_kernel");
  EXPECT_EQ(kernel_function("void at::native::(anonymous namespace)::norm<float>(float*)"), "norm");
  EXPECT_EQ(kernel_function("void (anonymous namespace)::f(int)"), "f");
  EXPECT_EQ(kernel_function("<unnamed>::g<int>(int)"), "g");
  EXPECT_EQ(kernel_function("(anonymous namespace)::h(int)"), "h");
  EXPECT_EQ(kernel_function("void ns::<unnamed>::g<int>(int)"), "g");
  EXPECT_EQ(kernel_function("std::enable_if<!(false), void>::type internal::gemvx::kernel<int, float, (bool)1>(T1)"),
            "kernel");
  EXPECT_EQ(kernel_function("triton_poi_fused_add_0"), "triton_poi_fused_add_0");
  EXPECT_EQ(kernel_function("ampere_sgemm_128x64_nn"), "ampere_sgemm_128x64_nn");
  EXPECT_EQ(kernel_function(""), "");
  EXPECT_EQ(kernel_function("(anonymous namespace)::"), "(anonymous namespace)::");
}

void add(Shard& shard, std::string_view name, int64_t start_ns, int32_t grid) {
  ActivityArgs args;
  args.grid[0] = grid, args.grid[1] = args.grid[2] = 1;
  ActivityRow row;
  row.start_ns = start_ns, row.duration_ns = 5;
  row.name = shard.strings.intern(name);
  row.queue = shard.queue({0, 7, 0});
  row.args = shard.activity_args(args);
  shard.activity.push_back(row);
}

TEST(KernelProfile, launches_are_matched_by_name_grid_and_order) {
  TraceBuilder builder;
  Shard& shard = builder.shard();
  add(shard, "void f<float>(float*)", 30, 4);
  add(shard, "void f<float>(float*)", 10, 4);
  add(shard, "void f<float>(float*)", 20, 5);
  const Trace trace = builder.finish(1);
  KernelProfile profile;
  for (const int32_t grid : {4, 5, 4, 6}) {
    ProfiledLaunch& launch = profile.launches.emplace_back();
    launch.kernel = "f<float>(float *)", launch.grid = {grid, 1, 1};
  }
  const std::vector<ProfiledKernel> found = match_profile(profile, trace);
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(found[0].by, ProfiledKernel::By::kName);
  EXPECT_EQ(found[0].profiled, (std::vector<size_t>{0, 2}));
  ASSERT_EQ(found[0].launches.size(), 2u);
  EXPECT_EQ(trace.activity.start_ns[found[0].launches[0].value], 10);
  EXPECT_EQ(trace.activity.start_ns[found[0].launches[1].value], 30);
  EXPECT_EQ(found[1].launches.size(), 1u);
  EXPECT_EQ(found[2].by, ProfiledKernel::By::kNone);
  EXPECT_FALSE(found[2].ambiguous);
}

TEST(KernelProfile, among_many_names_only_the_whole_name_counts) {
  TraceBuilder builder;
  Shard& shard = builder.shard();
  for (int i = 0; i < 300; ++i) add(shard, "f<" + std::to_string(i) + ">(int)", i, 4);
  add(shard, "g<1>(int)", 400, 4);
  add(shard, "g<2>(int)", 500, 4);
  const Trace trace = builder.finish(1);
  KernelProfile profile;
  for (const char* name : {"void f<(int)7>(int)", "f<7>(T1)", "g<2>(T1)"}) {
    ProfiledLaunch& launch = profile.launches.emplace_back();
    launch.kernel = name, launch.grid = {4, 1, 1};
  }
  const std::vector<ProfiledKernel> found = match_profile(profile, trace);
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(found[0].by, ProfiledKernel::By::kName);
  ASSERT_EQ(found[0].launches.size(), 1u);
  EXPECT_EQ(trace.activity.start_ns[found[0].launches[0].value], 7);
  EXPECT_TRUE(found[1].ambiguous);
  EXPECT_TRUE(found[1].launches.empty());
  EXPECT_EQ(found[2].by, ProfiledKernel::By::kFunction);
  ASSERT_EQ(found[2].launches.size(), 1u);
  EXPECT_EQ(trace.activity.start_ns[found[2].launches[0].value], 500);
}

}  // namespace
}  // namespace profgpu
