// A lock for threads that are ours or work for us. All zero is unlocked; a forked child finds it so.
#pragma once

#include <atomic>

#include "inject/system_call.h"

namespace profgpu::inject {

class Lock {
 public:
  void lock() {
    uint32_t expected = 0;
    if (word_.compare_exchange_strong(expected, 1, std::memory_order_acquire)) return;
    // 2: somebody may sleep.
    while (word_.exchange(2, std::memory_order_acquire) != 0) wait_on(&word_, 2, 100'000'000);
  }
  bool try_lock() {
    uint32_t expected = 0;
    return word_.compare_exchange_strong(expected, 1, std::memory_order_acquire);
  }
  void unlock() {
    if (word_.exchange(0, std::memory_order_release) == 2) wake_all(&word_);
  }

 private:
  std::atomic<uint32_t> word_;
};

class Locked {
 public:
  explicit Locked(Lock& lock) : lock_(lock) { lock_.lock(); }
  ~Locked() { lock_.unlock(); }
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;

 private:
  Lock& lock_;
};

}  // namespace profgpu::inject
