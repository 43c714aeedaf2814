// A bounded queue from any threads to our own one, without locks. All zero is empty. A writer that is stopped in the
// middle of a row holds up the rows behind it, not the other writers, until the queue is full.
//
// Budget: 15 ns a row where no other thread writes.
#pragma once

#include <atomic>

#include "record/wire/format.h"

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

// Rows that others refer to, kept for the life of the process: added by any thread without a lock, brought to the file
// by our own thread, and once more where the disk was full. All zero is empty.

template <class Row, uint32_t kRows>
class Log {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;

  /// Place of a row of the caller's own, to be filled and published; kNone: full.
  uint32_t reserve() {
    if (next_.load(std::memory_order_relaxed) >= kRows) return kNone;
    const uint32_t at = next_.fetch_add(1, std::memory_order_relaxed);
    return at < kRows ? at : kNone;
  }
  Row& at(uint32_t place) { return slots_[place].row; }
  void publish(uint32_t place) { slots_[place].state.store(kReady, std::memory_order_release); }
  bool add(const Row& row) {
    const uint32_t place = reserve();
    if (place == kNone) return false;
    at(place) = row;
    publish(place);
    return true;
  }

  /// For our own thread. Copies rows that are not in the file, at most so many; settle() says what became of them.
  uint32_t take(Row* rows, uint32_t most) {
    const uint32_t end = count();
    while (first_ < end && slots_[first_].state.load(std::memory_order_acquire) == kWritten) ++first_;
    uint32_t found = 0;
    for (taken_end_ = first_; taken_end_ < end && found < most; ++taken_end_) {
      Slot& slot = slots_[taken_end_];
      if (slot.state.load(std::memory_order_acquire) != kReady) continue;
      slot.state.store(kTaken, std::memory_order_relaxed);
      rows[found++] = slot.row;
    }
    return found;
  }
  void settle(bool written) {
    for (uint32_t i = first_; i < taken_end_; ++i)
      if (slots_[i].state.load(std::memory_order_relaxed) == kTaken)
        slots_[i].state.store(written ? kWritten : kReady, std::memory_order_relaxed);
  }

 private:
  enum State : uint32_t { kUnready = 0, kReady = 1, kTaken = 2, kWritten = 3 };
  struct Slot {
    std::atomic<uint32_t> state;
    Row row;
  };
  uint32_t count() const {
    const uint32_t next = next_.load(std::memory_order_acquire);
    return next < kRows ? next : kRows;
  }

  std::atomic<uint32_t> next_;
  uint32_t first_, taken_end_;
  Slot slots_[kRows];
};

}  // namespace profgpu::inject
