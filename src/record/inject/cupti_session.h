// Recording of the device through CUPTI's activity interface: what is enabled, the windows, and who else wants the
// same.
#pragma once

#include <atomic>

#include "record/inject/cupti_types.h"

namespace profgpu::inject::cupti {

/// Starts it where the recorder runs and wants it; a second call changes nothing. Called within the driver's cuInit:
/// whatever goes wrong, the process goes on, and the recording says what is missing.
void start_session();

/// Gives CUPTI's callbacks to another profiler: what is ours is brought in, the window is closed with its name. Called
/// on the other's thread, before its own call is carried out.
void yield_to(const char* whom);
/// The other one is done; our own thread takes up recording again after a while. `finalized`: CUPTI has forgotten us.
void resume_after(bool finalized);
/// Whether another one, of whom we know because this library is preloaded, records now.
bool rival_records();
/// The functions of the libcupti that we use; null where we use none.
const Calls* session_calls();

// The memory that CUPTI writes records to: one region, cut in buffers, taken and given back without a lock.
//
// CUPTI before 12.9 may crash where it is refused a buffer, so there always is one: beyond the bound it comes from the
// system and what is in it is dropped unread, which is so much faster than reading that CUPTI's thread catches up.

class Buffers {
 public:
  static constexpr size_t kBytes = 1u << 20;  ///< of a buffer
  static constexpr size_t kMost = 1024;

  /// Reserves so many bytes, at least four buffers. False: no memory. Called once.
  bool reserve(size_t bytes);

  /// A buffer of kBytes zeroes, or null where there is none and `must` is false.
  uint8_t* take(bool must);
  enum class Origin : uint8_t { kBound, kBeyond, kForeign };
  /// Whose memory it is: another profiler's buffers may come to us where it took our place or we took its.
  Origin origin(const uint8_t* buffer) const;
  /// Not of a foreign one. Clears the buffer whole: CUPTI does not promise to write nowhere but where it says.
  void give_back(uint8_t* buffer);

  size_t taken() const { return taken_.load(std::memory_order_relaxed); }
  size_t count() const { return count_; }
  /// Buffers beyond the bound that CUPTI holds now.
  size_t beyond() const { return beyond_.load(std::memory_order_relaxed); }

 private:
  uint8_t* take_beyond();

  uint8_t* region_ = nullptr;
  size_t count_ = 0;
  std::atomic<size_t> taken_{0}, beyond_{0};
  std::atomic<bool> in_use_[kMost] = {};
  std::atomic<uint8_t*> mapped_[kMost] = {};  // those beyond the bound
};

}  // namespace profgpu::inject::cupti
