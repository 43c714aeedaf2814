// Threads of the process to numbers, for any thread, without locks or allocation.
#pragma once

#include "inject/log.h"
#include "wire/rows.h"

namespace profgpu::inject {

class Names;

class Threads {
 public:
  static constexpr uint32_t kMaxRows = 1u << 16;

  /// The number of a kernel thread id; 0: too many.
  uint32_t id(uint32_t pid, uint32_t tid, Names& names);
  /// Of the calling thread, which may be a new one under the number of one that ended: then it has its own name.
  uint32_t own_id(uint32_t pid, Names& names);
  void rename(uint32_t pid, uint32_t tid, uint32_t name, Names& names);

  Log<wire::ThreadRow, kMaxRows> log;

 private:
  static constexpr uint32_t kEntries = 2 * kMaxRows;
  std::atomic<uint64_t> entries_[kEntries];  ///< tid << 32 | id; 0: free
};

}  // namespace profgpu::inject
