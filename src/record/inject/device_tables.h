// Rows of device activity: collected by kind, encoded when a table is full or at a flush, and handed to our own thread,
// which writes them while the next ones are collected.
//
// Budget: 40 ns a kernel row, encoding included.
#pragma once

#include "record/inject/recorder.h"
#include "record/inject/ring.h"
#include "record/inject/system_call.h"
#include "record/wire/chunk_writer.h"

namespace profgpu::inject {

inline constexpr uint32_t kTableRows = 4096;

template <class Row>
struct Table {
  uint32_t count;
  Row rows[kTableRows];
};
template <class... Rows>
struct Tables : Table<Rows>... {
  void each(auto f) { (f(static_cast<Table<Rows>&>(*this)), ...); }
};

// Numbers of small rows by their content. For one thread at a time.
template <class Row, uint32_t kRows>
struct Index {
  uint32_t entries[2 * kRows];  ///< id; 0: free
  Log<Row, kRows> log;
};

class DeviceTables {
 public:
  static constexpr uint32_t kMaxQueues = wire::kMaxQueues;
  static constexpr uint32_t kMaxShapes = wire::kMaxShapes;

  void set_buffers(uint8_t* first, uint8_t* second, size_t size) {
    buffers_[0] = first;
    buffers_[1] = second;
    buffer_size_ = size;
  }

  // All of these with `lock` held.
  template <class Row>
  void append(const Row& row) {
    Table<Row>& table = tables_;
    table.rows[table.count] = row;
    if (++table.count == kTableRows) encode(table);
  }
  uint32_t queue_id(uint32_t device, uint32_t context, uint32_t stream);
  /// By everything but its id.
  uint32_t shape_id(const wire::LaunchShape& shape);

  struct Encoded {
    uint8_t* data;
    size_t size;
  };
  /// Encodes all rows. The bytes stay valid until the next call.
  Encoded take();
  [[nodiscard]] bool is_half_full() const { return used_ > buffer_size_ / 2; }

  Lock lock;
  Log<wire::DeviceRow, 256> devices;
  Index<wire::QueueRow, kMaxQueues> queues;
  Index<wire::LaunchShape, kMaxShapes> shapes;

 private:
  template <class Row>
  void encode(Table<Row>& table) {
    if (table.count == 0) return;
    if (buffer_size_ - used_ >= wire::max_chunk_bytes<Row>(table.count)) {
      const bool was_half_full = is_half_full();
      used_ += wire::put_chunk(table.rows, table.count, buffers_[active_] + used_);
      if (!was_half_full && is_half_full()) wake_recorder();
    } else {
      drop(Row::kKind, wire::DropReason::kRecorderFull, table.count);
    }
    table.count = 0;
  }

  Tables<wire::Kernel, wire::Copy, wire::Set, wire::Call, wire::Sync, wire::Overhead, wire::Allocation,
         wire::GraphLaunch, wire::ExternalId>
      tables_;
  uint8_t* buffers_[2];
  size_t buffer_size_, used_;
  uint32_t active_;
};

/// Locks the tables of device rows, for threads that collect for us; the writing of the file never holds this lock.
/// Keep it for a whole buffer of records, and call nothing of CUPTI meanwhile. Rows that do not fit because the disk is
/// too slow are counted as drops.
class Collecting {
 public:
  Collecting();
  ~Collecting() { tables_.lock.unlock(); }
  Collecting(const Collecting&) = delete;
  Collecting& operator=(const Collecting&) = delete;

  DeviceTables* operator->() const { return &tables_; }

 private:
  DeviceTables& tables_;
};

}  // namespace profgpu::inject
