// HostWorkers: threads that wait for parts of work, one for each core that this process may use.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace profgpu {

class HostWorkers {
 public:
  HostWorkers();
  ~HostWorkers();
  HostWorkers(const HostWorkers&) = delete;
  HostWorkers& operator=(const HostWorkers&) = delete;

  /// Calls `part(i)` for each i below `parts` on all threads, this one too, and returns when all are done.
  void run(int64_t parts, const std::function<void(int64_t)>& part);
  [[nodiscard]] int64_t threads() const { return static_cast<int64_t>(threads_.size()) + 1; }

 private:
  void work();
  void take_parts(std::unique_lock<std::mutex>& lock);

  std::mutex mutex_;
  std::condition_variable begun_, done_;
  const std::function<void(int64_t)>* part_ = nullptr;   // null: there is no work
  int64_t next_ = 0, parts_ = 0, open_ = 0;              // open: parts that are not done yet
  bool ends_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace profgpu
