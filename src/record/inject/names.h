// Names to numbers, for any thread, without locks or allocation: a table that only grows, and the texts.
//
// Budget: 20 ns for a name of 30 bytes that is known.
#pragma once

#include "record/inject/ring.h"
#include "record/wire/rows.h"

namespace profgpu::inject {

struct Name {
  uint32_t length;
  uint32_t id;
  uint64_t offset;  ///< in the text
};

/// Of a text, eight bytes at a time. Never 0.
uint64_t hash_of(const char* text, size_t length);

class Names {
 public:
  static constexpr uint32_t kMaxNames = wire::kMaxStrings;

  void set_text(char* text, size_t size) {
    text_ = text;
    text_size_ = size;
  }
  /// 0 where the name is empty, or new without room for it.
  uint32_t intern(const char* text, size_t length);
  /// Of an id that intern() gave.
  [[nodiscard]] const char* text_of(uint32_t id, uint32_t& length) {
    const Name& name = log.at(id - 1);
    length = name.length;
    return text_ + name.offset;
  }
  [[nodiscard]] const char* text_of(const Name& name) const { return text_ + name.offset; }
  [[nodiscard]] uint64_t take_refused() { return refused_.exchange(0, std::memory_order_relaxed); }

  Log<Name, kMaxNames> log;

 private:
  static constexpr uint32_t kEntries = 2 * kMaxNames;
  static constexpr uint32_t kMaxProbes = 64;
  struct Entry {
    std::atomic<uint64_t> hash;  ///< 0: free
    std::atomic<uint32_t> id;    ///< 0: its name is being written
  };
  uint32_t add(Entry& entry, const char* text, size_t length);
  uint32_t refuse() {
    refused_.fetch_add(1, std::memory_order_relaxed);
    return 0;
  }
  bool is(uint32_t id, const char* text, size_t length);

  char* text_;
  size_t text_size_;
  std::atomic<uint64_t> text_used_;
  std::atomic<uint64_t> refused_;
  Entry entries_[kEntries];
};

// Threads of the process to numbers, for any thread, without locks or allocation.

class Threads {
 public:
  static constexpr uint32_t kMaxRows = 1u << 16;

  /// The number of a kernel thread id; 0: too many.
  uint32_t id(uint32_t pid, uint32_t tid, Names& names);
  /// Of the calling thread, which may have the id of one that ended: then it gets its own name.
  uint32_t own_id(uint32_t pid, Names& names);
  void rename(uint32_t pid, uint32_t tid, uint32_t name, Names& names);

  Log<wire::ThreadRow, kMaxRows> log;

 private:
  static constexpr uint32_t kEntries = 2 * kMaxRows;
  std::atomic<uint64_t> entries_[kEntries];  ///< tid << 32 | id; 0: free
};

}  // namespace profgpu::inject
