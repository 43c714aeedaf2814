#include "base/tasks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <latch>
#include <vector>

namespace profgpu {
namespace {

TEST(Tasks, OneThreadDoesThemInOrder) {
  std::vector<int> done;
  Tasks tasks;
  for (int i = 0; i < 5; ++i) tasks.add([&done, i] { done.push_back(i); });
  tasks.run(1);
  EXPECT_EQ(done, (std::vector{0, 1, 2, 3, 4}));
}

TEST(Tasks, EachIsDoneOnce) {
  for (const int threads : {1, 2, 7}) {
    std::vector<std::atomic<int>> done(100);
    Tasks tasks;
    for (std::atomic<int>& d : done) tasks.add([&d] { ++d; });
    tasks.run(threads);
    EXPECT_TRUE(std::ranges::all_of(done, [](const std::atomic<int>& d) { return d == 1; })) << threads;
  }
}

TEST(Tasks, TwoThreadsWorkAtOnce) {
  std::latch both(2);   // neither ends before the other has begun
  Tasks tasks;
  for (int i = 0; i < 2; ++i) tasks.add([&both] { both.arrive_and_wait(); });
  tasks.run(2);
  EXPECT_TRUE(both.try_wait());
}

TEST(Tasks, AreGoneOnceDone) {
  int done = 0;
  Tasks tasks;
  tasks.add([&done] { ++done; });
  tasks.run(1);
  EXPECT_EQ(tasks.size(), 0U);
  tasks.run(1);
  EXPECT_EQ(done, 1);
}

}  // namespace
}  // namespace profgpu
