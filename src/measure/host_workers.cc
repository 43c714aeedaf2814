#include "measure/host_workers.h"

#include <sched.h>

namespace profgpu {

HostWorkers::HostWorkers() {
  cpu_set_t ours;
  CPU_ZERO(&ours);
  const int cores = ::sched_getaffinity(0, sizeof ours, &ours) == 0 ? CPU_COUNT(&ours) : 1;
  for (int i = 1; i < cores; ++i) threads_.emplace_back([this] { work(); });
}

HostWorkers::~HostWorkers() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  begun_.notify_all();
  for (std::thread& t : threads_) t.join();
}

void HostWorkers::take_parts(std::unique_lock<std::mutex>& lock) {
  while (part_ && next_ < parts_) {
    const int64_t mine = next_++;
    const auto& part = *part_;
    lock.unlock();
    part(mine);
    lock.lock();
    if (--open_ == 0) done_.notify_all();
  }
}

void HostWorkers::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    begun_.wait(lock, [&] { return ends_ || (part_ && next_ < parts_); });
    if (ends_) return;
    take_parts(lock);
  }
}

void HostWorkers::run(int64_t parts, const std::function<void(int64_t)>& part) {
  if (parts <= 0) return;
  std::unique_lock lock(mutex_);
  part_ = &part, next_ = 0, parts_ = open_ = parts;
  if (parts > 1) begun_.notify_all();
  take_parts(lock);
  done_.wait(lock, [&] { return open_ == 0; });
  part_ = nullptr;
}

}  // namespace profgpu
