// Rows of device activity: collected a kind at a time, encoded when a table is full or at a flush, and handed to our
// own thread, which writes them while the next ones are collected.
//
// Budget: 40 ns a kernel row, encoding included.
#pragma once

#include "record/inject/ring.h"
#include "record/inject/system_call.h"
#include "record/wire/chunk_writer.h"
#include "record/wire/rows.h"

namespace profgpu::inject {

inline constexpr uint32_t kTableRows = 4096;

template <class Row>
struct Table {
  uint32_t count;
  Row rows[kTableRows];
};

// Numbers of small things by what they are made of. For one thread at a time.
template <class Row, uint32_t kRows>
struct Index {
  uint32_t entries[2 * kRows];  ///< id; 0: free
  Log<Row, kRows> log;
};

class DeviceTables {
 public:
  static constexpr uint32_t kMaxQueues = 1u << 13;
  static constexpr uint32_t kMaxShapes = 1u << 15;

  void set_buffers(uint8_t* first, uint8_t* second, size_t size) {
    buffers_[0] = first;
    buffers_[1] = second;
    buffer_size_ = size;
  }

  // All of these with `lock` held.
  template <class Row>
  void append(const Row& row) {
    Table<Row>& table = table_of(row);
    table.rows[table.count] = row;
    if (++table.count == kTableRows) encode(table);
  }
  uint32_t queue_id(uint32_t device, uint32_t context, uint32_t stream);
  uint32_t shape_id(const wire::LaunchShape& shape);

  struct Encoded {
    uint8_t* data;
    size_t size;
  };
  /// Encodes what there is. The bytes stay as they are until the next call.
  Encoded take();
  [[nodiscard]] bool is_half_full() const { return used_ > buffer_size_ / 2; }

  Lock lock;
  Log<wire::DeviceRow, 256> devices;
  Index<wire::QueueRow, kMaxQueues> queues;
  Index<wire::LaunchShape, kMaxShapes> shapes;

 private:
  Table<wire::Kernel>& table_of(const wire::Kernel&) { return kernels_; }
  Table<wire::Copy>& table_of(const wire::Copy&) { return copies_; }
  Table<wire::Set>& table_of(const wire::Set&) { return sets_; }
  Table<wire::Call>& table_of(const wire::Call&) { return calls_; }
  Table<wire::Sync>& table_of(const wire::Sync&) { return syncs_; }
  Table<wire::Overhead>& table_of(const wire::Overhead&) { return overheads_; }
  Table<wire::Allocation>& table_of(const wire::Allocation&) { return allocations_; }
  Table<wire::GraphLaunch>& table_of(const wire::GraphLaunch&) { return graph_launches_; }
  Table<wire::ExternalId>& table_of(const wire::ExternalId&) { return external_ids_; }
  template <class Row>
  void encode(Table<Row>& table);

  Table<wire::Kernel> kernels_;
  Table<wire::Copy> copies_;
  Table<wire::Set> sets_;
  Table<wire::Call> calls_;
  Table<wire::Sync> syncs_;
  Table<wire::Overhead> overheads_;
  Table<wire::Allocation> allocations_;
  Table<wire::GraphLaunch> graph_launches_;
  Table<wire::ExternalId> external_ids_;
  uint8_t* buffers_[2];
  size_t buffer_size_, used_;
  uint32_t active_;
};

}  // namespace profgpu::inject
