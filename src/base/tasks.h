// Independent pieces of work, shared by a few threads.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

namespace profgpu {

/// Threads take the pieces in the order in which they were added. What a piece computes must not depend on when it
/// runs.
class Tasks {
 public:
  void add(std::function<void()> task) { tasks_.push_back(std::move(task)); }
  [[nodiscard]] size_t size() const { return tasks_.size(); }

  /// Does all of them, the calling thread and up to `threads` - 1 others.
  void run(int threads) {
    std::atomic<size_t> next = 0;
    const auto work = [&] {
      for (size_t i = next++; i < tasks_.size(); i = next++) tasks_[i]();
    };
    std::vector<std::thread> others;
    for (size_t t = 1; t < std::min(static_cast<size_t>(threads), tasks_.size()); ++t) others.emplace_back(work);
    work();
    for (std::thread& other : others) other.join();
    tasks_.clear();
  }

 private:
  std::vector<std::function<void()>> tasks_;
};

}  // namespace profgpu
