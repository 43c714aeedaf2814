#include "analyse/rank/mpi.h"

#include <gtest/gtest.h>

#include "tests/support/trace_rows.h"

namespace profgpu {
namespace {

using test::TraceRows;

TEST(Mpi, TimeInCallsByFunctionAndBetweenThem) {
  TraceRows t;
  t.mpi_call({.name = "Init", .dtype = "byte"}, 0, 100);
  t.annotation("solve", 100, 500);
  for (const int64_t i : {0, 1, 2})
    t.mpi_call({.name = "Recv", .dtype = "byte", .in = 64, .out = 64}, 200 + 100 * i, 40);
  t.mpi_call({.name = "Wait", .dtype = "byte"}, 700, 30);
  t.op("aten::mm", 760, 30);
  t.mpi_call({.name = "Finalize", .dtype = "byte"}, 900, 100);
  const TraceFacts of{t.finish(), {}};
  const auto mpi = MpiTime::compute(of.facts);
  ASSERT_TRUE(mpi);
  EXPECT_EQ(mpi->wall_ns, 1000);
  EXPECT_EQ(mpi->total_ns, 250);
  EXPECT_EQ(mpi->outside_ns, 650);
  ASSERT_EQ(mpi->functions.size(), 4u);
  const MpiFunction* longest = mpi->longest();
  ASSERT_NE(longest, nullptr);
  EXPECT_EQ(longest->name, "MPI_Recv");
  EXPECT_EQ(longest->calls, 3);
  EXPECT_EQ(longest->total_ns, 120);
  EXPECT_EQ(longest->pct, 12);
  EXPECT_EQ(longest->bytes, 192);
  EXPECT_EQ(longest->median_bytes, 64);
  EXPECT_EQ(longest->where, "solve");
  const MpiFunction& wait = mpi->functions.back();
  EXPECT_EQ(wait.name, "MPI_Wait");
  EXPECT_FALSE(wait.bytes);
  EXPECT_EQ(wait.where, "");
}

TEST(Mpi, NothingWithoutItsCalls) {
  TraceRows t;
  t.op("aten::mm", 0, 100);
  EXPECT_FALSE(MpiTime::compute(TraceFacts{t.finish(), {}}.facts));
}

}  // namespace
}  // namespace profgpu
