#include "analyse/rank/collectives.h"

#include <gtest/gtest.h>

#include <chrono>

#include "tests/support/trace_rows.h"

namespace profgpu {
namespace {

using test::TraceRows;

std::vector<CollectiveRow> rows_of(TraceRows& t) {
  const Trace trace = t.finish();
  const Facts facts(trace, {});
  return facts.get<Collectives>().rows;
}

TEST(Collectives, NamesAreThoseOfNcclTests) {
  const std::pair<std::string_view, std::string_view> known[] = {
      {"allreduce", "all_reduce"}, {"_allgather_base", "all_gather"}, {"nccl:all_gather", "all_gather"},
      {"_reduce_scatter_base", "reduce_scatter"}, {"reduce_scatter_tensor_coalesced", "reduce_scatter"},
      {"all_to_allv", "all_to_all"}, {"alltoall_base", "all_to_all"}, {"broadcast", "broadcast"}, {"reduce", "reduce"},
      {"gather", "gather"}, {"scatter", "scatter"}, {"send", "send"}, {"recv 0<-1", "recv"}, {"barrier", "barrier"},
      {"ncclDevKernel_SendRecv", "send_recv"}, {"ncclDevKernel_AllReduce_Sum_bf16_TREE_LL", "all_reduce"},
      {"vllm::cross_device_reduce_1stage", "all_reduce"}, {"wait", ""}, {"ncclDevKernel_Generic", ""}};
  for (const auto& [recorded, name] : known) EXPECT_EQ(collective_name(recorded), name) << recorded;
}

TEST(Collectives, ElementSizes) {
  const std::pair<std::string_view, int> known[] = {{"Float", 4}, {"float32", 4}, {"c10::Half", 2}, {"BFloat16", 2},
                                                    {"Double", 8}, {"Long", 8}, {"Int", 4}, {"Byte", 1}, {"Bool", 1},
                                                    {"Float8_e4m3fn", 1}, {"", 0}, {"Mystery", 0}};
  for (const auto& [type, bytes] : known) EXPECT_EQ(dtype_bytes(type), bytes) << type;
}

// PERFORMANCE.md of nccl-tests.
TEST(Collectives, BusFactors) {
  EXPECT_DOUBLE_EQ(bus_factor("all_reduce", 8), 1.75);
  EXPECT_DOUBLE_EQ(bus_factor("all_gather", 8), 0.875);
  EXPECT_DOUBLE_EQ(bus_factor("reduce_scatter", 4), 0.75);
  EXPECT_DOUBLE_EQ(bus_factor("all_to_all", 2), 0.5);
  for (const char* one : {"broadcast", "reduce", "send", "recv"}) EXPECT_DOUBLE_EQ(bus_factor(one, 8), 1);
  EXPECT_DOUBLE_EQ(bus_factor("all_reduce", 1), 0);
}

std::optional<int64_t> bytes(std::string_view name, int64_t in, int64_t out, int32_t n,
                             std::string_view type = "Float") {
  Collective c{};
  c.in_elements = in;
  c.out_elements = out;
  c.group_size = n;
  return message_bytes(c, name, type);
}

TEST(Collectives, MessageSizesAreThoseOfNcclTests) {
  EXPECT_EQ(bytes("all_reduce", 100, 100, 8), 400);
  EXPECT_EQ(bytes("all_gather", 100, 800, 8), 3200);          // the whole
  EXPECT_EQ(bytes("all_gather", 100, -1, 8), 3200);
  EXPECT_EQ(bytes("reduce_scatter", 800, 100, 8), 3200);
  EXPECT_EQ(bytes("reduce_scatter", -1, 100, 8), 3200);
  EXPECT_EQ(bytes("all_to_all", 800, 800, 8, "BFloat16"), 1600);
  EXPECT_EQ(bytes("broadcast", 10, 10, 8, "Long"), 80);
  EXPECT_EQ(bytes("send", 10, 0, 8), 40);
  EXPECT_EQ(bytes("recv", 0, 10, 8), 40);
  EXPECT_EQ(bytes("all_reduce", -1, -1, 8), std::nullopt);
  EXPECT_EQ(bytes("all_reduce", 100, 100, 8, "Mystery"), std::nullopt);
  EXPECT_EQ(bytes("all_reduce", INT64_MAX / 2, 0, 8), std::nullopt);
  EXPECT_EQ(bytes("all_gather", INT64_MAX / 2, -1, 8), std::nullopt);
}

TEST(Collectives, AreGroupedByNameTypeGroupAndSize) {
  TraceRows t;
  t.kernel("gemm", 0, 100);
  t.collective({.name = "allreduce", .in = 1000, .out = 1000}, 50, 100);    // exposed 100..150
  t.collective({.name = "allreduce", .in = 1000, .out = 1000}, 200, 30);
  t.collective({.name = "allreduce", .in = 500, .out = 500}, 300, 10);
  t.collective({.name = "allreduce", .group = "1", .in = 1000, .out = 1000}, 400, 20);
  t.collective({.name = "wait"}, 500, 1);
  const std::vector<CollectiveRow> rows = rows_of(t);
  ASSERT_EQ(rows.size(), 4u);
  EXPECT_EQ(rows[0].name, "all_reduce");
  EXPECT_EQ(rows[0].dtype, "Float");
  EXPECT_EQ(rows[0].group_size, 2);
  EXPECT_EQ(rows[0].process_group, "0");
  EXPECT_EQ(rows[0].calls, 2);
  EXPECT_EQ(rows[0].message_bytes, 4000);
  EXPECT_EQ(rows[0].total_ns, 130);
  EXPECT_EQ(rows[0].exposed_ns, 80);
  EXPECT_EQ(rows[0].algbw_gbps, std::nullopt);   // the other rank is not here
  EXPECT_EQ(rows[0].busbw_gbps, std::nullopt);
  EXPECT_EQ(rows[0].wait_ns, std::nullopt);
  EXPECT_EQ(rows[1].process_group, "1");
  EXPECT_EQ(rows[2].message_bytes, 2000);
}

TEST(Collectives, AGroupOfOneWaitsForNobody) {
  TraceRows t;
  t.collective({.name = "allreduce", .ranks = "[0]", .in = 1000, .out = 1000, .size = 1}, 0, 200);
  t.collective({.name = "_allgather_base", .ranks = "[0]", .in = 1000, .out = 1000, .size = 1}, 300, 400);
  const std::vector<CollectiveRow> rows = rows_of(t);
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].wait_ns, 0);
  EXPECT_EQ(rows[0].algbw_gbps, 10);
  EXPECT_EQ(rows[0].busbw_gbps, 0);
  EXPECT_EQ(rows[1].algbw_gbps, 20);
}

TEST(Collectives, SizesBeyondReasonGiveNoNegativeRate) {
  TraceRows t;
  for (int i = 0; i < 6; ++i)
    t.collective({.name = "allreduce", .ranks = "[0]", .in = int64_t{1} << 59, .out = int64_t{1} << 59, .size = 1},
                 i * 1000, 100);
  const std::vector<CollectiveRow> rows = rows_of(t);
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_GT(rows[0].algbw_gbps.value_or(0), 1e15);
}

TEST(Collectives, TimeGrowsWithTheNumberOfGroups) {
  constexpr int kGroups = 30'000;
  TraceRows t;
  for (int i = 0; i < kGroups; ++i)
    t.collective({.name = "allreduce", .group = std::to_string(i), .ranks = "[0, 1]", .in = 9, .out = 9, .size = 2},
                 i * 1000, 100);
  const Trace trace = t.finish();
  const Facts facts(trace, {});
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(facts.get<CollectiveCalls>().kinds.size(), size_t{kGroups});
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10)) << "its square takes a minute";
}

TEST(Collectives, ComputeOfAnotherDeviceHidesNothing) {
  TraceRows t;
  t.kernel("gemm", 0, 1000, 0, 1);
  t.collective({.name = "allreduce", .in = 1, .out = 1}, 0, 100, 0, 20, 0);
  t.collective({.name = "allreduce", .in = 1, .out = 1}, 0, 100, 0, 20, 1);
  const std::vector<CollectiveRow> rows = rows_of(t);
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].calls, 2);
  EXPECT_EQ(rows[0].total_ns, 200);
  EXPECT_EQ(rows[0].exposed_ns, 100);
}

TEST(Collectives, TheKernelsNameHasToDoWithoutArguments) {
  TraceRows t;
  t.kernel("ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)", 0, 100);
  t.kernel("ncclDevKernel_AllGather_RING_LL", 200, 50)
      .kernel("ncclDevKernel_Generic(ncclDevKernelArgsStorage<4096ul>)", 300, 10);
  const std::vector<CollectiveRow> rows = rows_of(t);
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0].name, "all_reduce");
  EXPECT_EQ(rows[0].dtype, "float32");
  EXPECT_EQ(rows[0].message_bytes, std::nullopt);
  EXPECT_EQ(rows[0].total_ns, 100);
  EXPECT_EQ(rows[1].name, "all_gather");
  EXPECT_EQ(rows[2].name, "unknown");
}

TEST(Collectives, TheOpDescribesAKernelWithoutArguments) {
  TraceRows t;
  t.collective_op({.name = "allreduce", .in = 8, .out = 8, .sequence = 4}, 0, 50).call("cudaLaunchKernelExC", 10, 5, 3);
  t.kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 20, 90, 3);
  const std::vector<CollectiveRow> rows = rows_of(t);
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].calls, 1);
  EXPECT_EQ(rows[0].message_bytes, 32);
  EXPECT_EQ(rows[0].total_ns, 90);
}

TEST(Collectives, WithoutADeviceTheHostsCallsCount) {
  TraceRows t;
  t.collective_op({.name = "allreduce", .in = 8, .out = 8}, 0, 50)
      .collective_op({.name = "allreduce", .in = 8, .out = 8}, 100, 50);
  const std::vector<CollectiveRow> rows = rows_of(t);
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].calls, 2);
  EXPECT_EQ(rows[0].total_ns, 0);
}

// A call of MPI blocks the program: all of its time is exposed, and other ranks' calls can be matched with it.
TEST(Collectives, CallsOfMpiTakeTheirTimeOnTheHost) {
  TraceRows t;
  for (const int64_t i : {0, 1})
    t.mpi_call({.name = "Allreduce", .dtype = "byte", .in = 8, .out = 8, .sequence = i}, 100 * i, 50);
  TraceFacts of{t.finish(), {}};
  const CollectiveCalls& calls = of.facts.get<CollectiveCalls>();
  ASSERT_EQ(calls.rows.size(), 1u);
  EXPECT_EQ(calls.rows[0].total_ns, 100);
  EXPECT_EQ(calls.rows[0].exposed_ns, 100);
  ASSERT_EQ(calls.calls.size(), 2u);
  EXPECT_EQ(calls.calls[1].start_ns, 100);
  EXPECT_EQ(calls.calls[1].exposed_ns, 50);
  EXPECT_EQ(calls.calls[1].number, 1);
  EXPECT_FALSE(calls.calls[1].activity.valid());
  const CallTimings timings{{{{}, 20, 30, true, 1, 0, calls.calls[0].host}, {{}, 10, 40, true, 0, 1, calls.calls[1].host}}};
  EXPECT_EQ(rated(calls, timings)[0].wait_ns, 30);
}

}  // namespace
}  // namespace profgpu
