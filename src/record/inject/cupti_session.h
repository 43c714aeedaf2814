// Recording of the device through CUPTI's activity interface: the enabled kinds, the windows, and conflicts with other
// profilers.
#pragma once

#include <atomic>

#include "record/inject/cupti_types.h"

namespace profgpu::inject::cupti {

/// Starts it where the recorder runs and wants it; a second call changes nothing. Called within the driver's cuInit:
/// whatever fails, the process continues, and the recording reports what is missing.
void start_session();

/// Gives CUPTI's callbacks to another profiler: our records are collected, the window is closed with the other's name.
/// Called on the other's thread, before its own call proceeds.
void yield_to(const char* whom);
/// The other profiler is done; our own thread resumes recording after a while. `finalized`: CUPTI lost our settings.
void resume_after(bool finalized);
/// Whether another profiler, known because this library is preloaded, records now.
bool rival_records();
/// The functions of the libcupti in use; null where there is none.
const Calls* session_calls();

// The memory that CUPTI writes records to: buffers, taken and given back without a lock.
//
// CUPTI before 12.9 may crash where it is denied a buffer, so it always gets one: records in buffers beyond the bound
// are dropped unread, which is so much faster than reading that CUPTI's thread catches up.

class Buffers {
 public:
  static constexpr size_t kBytes = 1u << 20;  ///< of a buffer
  static constexpr size_t kMaxBound = 1024;

  /// Sets the bound in bytes, at least four buffers. False: no memory. Called once.
  bool reserve(size_t bytes);

  /// A buffer of kBytes zeroes, or null where there is none and `must` is false.
  uint8_t* take(bool must);
  enum class Origin : uint8_t { kBound, kBeyond, kForeign };
  /// The owner of the memory: another profiler's buffers may come to us where it replaced us or we replaced it.
  Origin origin(const uint8_t* buffer) const;
  /// Not for a foreign one. Clears the whole buffer: CUPTI may write anywhere in it.
  void give_back(uint8_t* buffer);

  size_t taken() const { return taken_.load(std::memory_order_relaxed); }
  size_t count() const { return count_; }
  /// Buffers beyond the bound that CUPTI holds now.
  size_t beyond() const { return beyond_.load(std::memory_order_relaxed); }

 private:
  struct Slot {
    std::atomic<bool> in_use;
    std::atomic<uint8_t*> buffer;  // of those beyond the bound only while in use
  };
  static constexpr size_t kSlots = 2 * kMaxBound;
  /// kSlots: of none.
  size_t slot_of(const uint8_t* buffer) const;

  size_t count_ = 0;
  std::atomic<size_t> taken_{0}, beyond_{0};
  Slot slots_[kSlots] = {};  ///< those of the bound, then those beyond
};

}  // namespace profgpu::inject::cupti
