#include "analyse/kernels.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/trace_rows.h"

namespace profgpu {
namespace {

TEST(Kernels, AreCountedByDeviceAndName) {
  test::TraceRows t;
  for (const int64_t d : {10, 20, 30, 40}) t.kernel("volta_sgemm_128x64_nn", 1000 * d, d);
  t.kernel("ncclKernel_AllReduce_RING_LL_Sum_float", 60'000, 60);
  t.copy("Memcpy HtoD (Pinned -> Device)", 70'000, 40);
  t.kernel("volta_sgemm_128x64_nn", 80'000, 7, 0, 1);
  const Trace trace = t.finish();
  const Facts facts(trace, {});
  const Kernels& k = facts.get<Kernels>();
  ASSERT_EQ(k.rows.size(), 4u);
  const KernelRow& gemm = k.rows[0];
  EXPECT_EQ(gemm.device, 0);
  EXPECT_EQ(trace.strings[gemm.name], "volta_sgemm_128x64_nn");
  EXPECT_EQ(gemm.count, 4);
  EXPECT_EQ(gemm.total_ns, 100);
  EXPECT_EQ(gemm.min_ns, 10);
  EXPECT_EQ(gemm.max_ns, 40);
  EXPECT_DOUBLE_EQ(gemm.mean_ns, 25);
  EXPECT_DOUBLE_EQ(gemm.median_ns, 25);
  EXPECT_DOUBLE_EQ(gemm.p95_ns, 38.5);
  EXPECT_DOUBLE_EQ(gemm.stddev_ns, std::sqrt(500.0 / 3));
  EXPECT_DOUBLE_EQ(gemm.kernel_pct, 50);
  EXPECT_EQ(gemm.category, KernelCategory::kGemm);
  EXPECT_FALSE(gemm.tensor_cores);
  EXPECT_EQ(k.rows[1].kind, WorkKind::kCommunication);
  EXPECT_EQ(k.rows[1].category, KernelCategory::kCommunication);
  EXPECT_DOUBLE_EQ(k.rows[1].stddev_ns, 0);
  EXPECT_EQ(k.rows[2].kind, WorkKind::kMemory);
  EXPECT_EQ(k.rows[2].category, KernelCategory::kCopy);
  EXPECT_EQ(k.rows[3].device, 1);
  EXPECT_DOUBLE_EQ(k.rows[3].kernel_pct, 100);
  EXPECT_EQ(k.category[gemm.name.value], KernelCategory::kGemm);
}

TEST(Kernels, EqualTotalsAreInOrderOfName) {
  test::TraceRows t;
  t.kernel("b", 0, 10).kernel("a", 20, 10).kernel("c", 40, 11).kernel("d", 60, 0);
  const Trace trace = t.finish();
  const Facts facts(trace, {});
  std::string names;
  for (const KernelRow& r : facts.get<Kernels>().rows) names += trace.strings[r.name];
  EXPECT_EQ(names, "cabd");
}

TEST(Kernels, NoneWithoutActivity) {
  test::TraceRows t;
  t.op("aten::mm", 0, 10);
  const Trace trace = t.finish();
  const Facts facts(trace, {});
  EXPECT_TRUE(facts.get<Kernels>().rows.empty());
}

}  // namespace
}  // namespace profgpu
