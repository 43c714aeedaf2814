#include "record/inject/names.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <map>
#include <string>
#include <thread>
#include <vector>

#include "record/inject/ring.h"

namespace profgpu::inject {
namespace {

// Zeroed memory, as the recorder has it.
template <class T>
class Mapped {
 public:
  Mapped() {
    void* const zeros = mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    object_ = static_cast<T*>(zeros);
  }
  ~Mapped() { munmap(object_, sizeof(T)); }
  T* operator->() { return object_; }
  T& operator*() { return *object_; }

 private:
  T* object_;
};

std::string text_of(Names& names, uint32_t id) {
  uint32_t length = 0;
  const char* const text = names.text_of(id, length);
  return {text, length};
}

TEST(RecordedNames, ThreadsAgreeOnNumbers) {
  Mapped<Names> names;
  std::vector<char> memory(1 << 20);
  names->set_text(memory.data(), memory.size());
  constexpr int kThreads = 4, kNames = 3000;
  std::vector<std::vector<uint32_t>> ids(kThreads);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < kNames; ++i) {
        const std::string name = "name " + std::to_string(i);
        ids[t].push_back(names->intern(name.data(), name.size()));
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (int i = 0; i < kNames; ++i)
    for (int t = 0; t < kThreads; ++t) EXPECT_EQ(text_of(*names, ids[t][i]), "name " + std::to_string(i));
  std::vector<Name> taken(kThreads * kNames);
  const uint32_t count = names->log.take(taken.data(), static_cast<uint32_t>(taken.size()));
  EXPECT_GE(count, static_cast<uint32_t>(kNames));
  EXPECT_EQ(names->take_refused(), 0u);
}

TEST(RecordedNames, NoRoomIsCounted) {
  Mapped<Names> names;
  std::vector<char> memory(10);
  names->set_text(memory.data(), memory.size());
  EXPECT_NE(names->intern("12345", 5), 0u);
  EXPECT_EQ(names->intern("1234567", 7), 0u);
  EXPECT_EQ(names->intern("1234567", 7), 0u);
  EXPECT_EQ(names->intern("", 0), 0u);
  EXPECT_NE(names->intern("12345", 5), 0u);
  EXPECT_EQ(names->take_refused(), 2u);
}

TEST(RecordedNames, WhatWasNotWrittenComesAgain) {
  Mapped<Names> names;
  std::vector<char> memory(100);
  names->set_text(memory.data(), memory.size());
  Name taken[4];
  names->intern("a", 1);
  EXPECT_EQ(names->log.take(taken, 4), 1u);
  names->log.settle(false);
  names->intern("b", 1);
  EXPECT_EQ(names->log.take(taken, 4), 2u);
  names->log.settle(true);
  EXPECT_EQ(names->log.take(taken, 4), 0u);
}

TEST(Ring, EveryRowComesOnceAndInItsThreadsOrder) {
  struct Row {
    uint32_t thread, number;
  };
  Mapped<Ring<Row, 256>> ring;
  constexpr uint32_t kThreads = 4, kEach = 20'000;
  std::atomic<uint32_t> refused{0};
  std::vector<std::thread> threads;
  for (uint32_t t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      bool wake = false;
      for (uint32_t i = 0; i < kEach; ++i)
        if (!ring->put({t, i}, wake)) ++refused;
    });
  std::map<uint32_t, int64_t> last;
  uint32_t taken = 0;
  const auto take = [&] {
    Row rows[64];
    const uint32_t count = ring->take(rows, 64);
    for (uint32_t i = 0; i < count; ++i) {
      const int64_t before = last.contains(rows[i].thread) ? last[rows[i].thread] : -1;
      EXPECT_GT(int64_t{rows[i].number}, before);
      last[rows[i].thread] = rows[i].number;
    }
    taken += count;
    return count;
  };
  while (taken + refused < kThreads * kEach) take();
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(taken + refused, kThreads * kEach);
  EXPECT_EQ(take(), 0u);
}

}  // namespace
}  // namespace profgpu::inject
