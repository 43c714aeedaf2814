// The ring in which the kernel tells of one processor: PERF_RECORD_SWITCH and its like, each with a TID and a TIME
// behind it, as open_switch_event() asks for. Nothing in it is believed: what cannot be is a loss.
//
// Budget: 15 ns a record.
#pragma once

#include <linux/perf_event.h>

#include <cstddef>
#include <cstdint>
#include <utility>

namespace profgpu {

struct SwitchRecord {
  enum Kind : uint8_t {
    kGot,        ///< a processor
    kBlocked,    ///< and left it
    kPreempted,  ///< and had to leave it
    kEnded,
    kLost,       ///< `lost` records before this one, of any thread
  };
  Kind kind = kLost;
  uint32_t pid = 0, tid = 0;
  int64_t time_ns = 0;   ///< CLOCK_MONOTONIC
  uint64_t lost = 0;
};

class SwitchRing {
 public:
  /// `data`: where `size` bytes of records lie, a power of two. Both stay until the ring is gone.
  SwitchRing(perf_event_mmap_page* page, const uint8_t* data, uint64_t size) : page_(page), data_(data), size_(size) {}

  /// Looks how far the kernel has come.
  void look();
  /// The oldest record that was there at the last look and was not taken yet; null: there is none.
  const SwitchRecord* front();
  void pop() { full_ = false, ++popped_; }
  /// Records that were taken since the last call.
  uint64_t popped() { return std::exchange(popped_, 0); }
  /// Gives the kernel the room of what was taken.
  void release();

 private:
  [[nodiscard]] bool read_one();
  void give_up();
  template <class T>
  [[nodiscard]] T at(uint64_t place) const;

  perf_event_mmap_page* page_;
  const uint8_t* data_;
  uint64_t size_;
  uint64_t head_ = 0, tail_ = 0;   // bytes since the beginning; front_ lies before tail_
  uint64_t taken_ = 0;             // what the kernel may write over
  uint64_t popped_ = 0;
  SwitchRecord front_;
  bool full_ = false;              // there is a front_
};

}  // namespace profgpu
