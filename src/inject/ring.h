// A bounded queue from any threads to our own one, without locks. All zero is empty. A writer that is stopped in the
// middle of a row holds up the rows behind it, not the other writers, until the queue is full.
//
// Budget: 15 ns a row where no other thread writes.
#pragma once

#include <atomic>

#include "wire/format.h"

namespace profgpu::inject {

template <class Row, uint32_t kRows>
class Ring {
  static_assert((kRows & (kRows - 1)) == 0);

 public:
  /// False: full. `wake` becomes true where half a ring was filled since it last did.
  bool put(const Row& row, bool& wake) {
    uint64_t at = tail_.load(std::memory_order_relaxed);
    for (;;) {
      Slot& slot = slots_[at % kRows];
      // A slot's turn counts twice a lap: free, then filled.
      const auto turn = static_cast<int64_t>(slot.turn.load(std::memory_order_acquire) - 2 * (at / kRows));
      if (turn < 0) return false;
      if (turn > 0) {
        at = tail_.load(std::memory_order_relaxed);
      } else if (tail_.compare_exchange_weak(at, at + 1, std::memory_order_relaxed)) {
        slot.row = row;
        slot.turn.store(2 * (at / kRows) + 1, std::memory_order_release);
        wake = at % (kRows / 2) == kRows / 2 - 1;
        return true;
      }
    }
  }

  /// For one thread at a time.
  uint32_t take(Row* rows, uint32_t most) {
    uint32_t count = 0;
    for (; count < most; ++count, ++head_) {
      Slot& slot = slots_[head_ % kRows];
      const uint64_t lap = head_ / kRows;
      if (slot.turn.load(std::memory_order_acquire) != 2 * lap + 1) break;
      rows[count] = slot.row;
      slot.turn.store(2 * lap + 2, std::memory_order_release);
    }
    return count;
  }

 private:
  struct Slot {
    std::atomic<uint64_t> turn;
    Row row;
  };
  alignas(64) std::atomic<uint64_t> tail_;
  alignas(64) uint64_t head_;
  alignas(64) Slot slots_[kRows];
};

}  // namespace profgpu::inject
