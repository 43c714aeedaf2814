#include "trace/import/log/log_builder.h"

#include <gtest/gtest.h>

#include "trace/import/log/log_text_test.h"

namespace profgpu {
namespace {

// Launchers that count on each node, and Ray's workers, which have a process number alone.
TEST(Ranks, AreToldApartByNodeAndProcess) {
  std::string nodes, workers;
  for (int i = 1; i <= 5; ++i)
    for (int p = 0; p < 4; ++p) {
      const std::string step = "step " + std::to_string(i) + " | loss: 2.3 | dt: " + std::to_string(100 + p) + "ms\n";
      nodes += "node" + std::to_string(p < 2 ? 2 : 10) + ": [default" + std::to_string(p % 2) + "]: " + step;
      workers += "(RayTrainWorker pid=" + std::to_string(70 + p) + ", ip=10.0.0.1) " + step;
    }
  const RunLog of_nodes = log_of(nodes + "node10: [default1]: Traceback (most recent call last):\nnode10: [default1]: ValueError: seven\n");
  ASSERT_EQ(of_nodes.ranks.size(), 4u);
  for (int p = 0; p < 4; ++p) {
    EXPECT_EQ(of_nodes.ranks[static_cast<size_t>(p)].rank, p);
    EXPECT_EQ(of_nodes.ranks[static_cast<size_t>(p)].steps[0].duration_ns, (100 + p) * 1'000'000);
  }
  EXPECT_EQ(of_nodes.events.at(0).rank, 3);
  EXPECT_EQ(log_of(workers).ranks.size(), 4u);
}

// What comes behind the most lines of one kind is not lost.
TEST(LogBuilder, AnEndBehindManyEventsAndAPeakBehindManyRowsAreKept) {
  std::string text;
  for (int i = 0; i < 21'000; ++i) text += "[deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 1, reducing to 1\n";
  const RunLog log = log_of(text + "CUDA out of memory. Tried to allocate 2.00 GiB\n");
  EXPECT_EQ(log.events.back().kind, LogEventKind::kOutOfMemory);
  EXPECT_EQ(log.event_lines.at(LogEventKind::kSkipped), 21'000);
  EXPECT_EQ(log.events_left_out(), 1'000);
  LogBuilder rows;
  LogMemory row;
  for (int i = 0; i < 200'100; ++i) row.max_reserved_bytes = i, rows.memory(row, LogLine{});
  EXPECT_EQ(rows.log().memory.back().max_reserved_bytes, 200'099);
  EXPECT_EQ(rows.log().memory.size(), 200'001u);
}

}  // namespace
}  // namespace profgpu
