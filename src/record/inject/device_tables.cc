#include "record/inject/device_tables.h"

#include <string.h>

namespace profgpu::inject {
namespace {

// Finds or adds a row in an index; 0: full. `is_same` compares without ids.
template <class Row, uint32_t kRows, class Same>
uint32_t number(Index<Row, kRows>& index, uint32_t hash, const Row& row, Same is_same) {
  for (uint32_t probe = 0;; ++probe) {
    uint32_t& entry = index.entries[(hash + probe) % (2 * kRows)];
    if (entry != 0 && is_same(index.log.at(entry - 1))) return entry;
    if (entry != 0) continue;
    const uint32_t place = index.log.reserve();
    if (place == Log<Row, kRows>::kNone) return 0;
    entry = place + 1;
    index.log.at(place) = row;
    index.log.at(place).id = entry;
    index.log.publish(place);
    return entry;
  }
}

uint32_t mix(uint32_t hash, uint32_t word) {
  hash = (hash ^ word) * 0x9e3779b1u;
  return hash ^ hash >> 15;
}

}  // namespace

uint32_t DeviceTables::queue_id(uint32_t device, uint32_t context, uint32_t stream) {
  wire::QueueRow row;
  row.device = device;
  row.context = context;
  row.stream = stream;
  return number(queues, mix(mix(mix(0, device), context), stream), row, [=](const wire::QueueRow& known) {
    return known.stream == stream && known.context == context && known.device == device;
  });
}

uint32_t DeviceTables::shape_id(const wire::LaunchShape& shape) {
  uint32_t hash = 0;
  for (int i = 0; i < 3; ++i) {
    hash = mix(hash, static_cast<uint32_t>(shape.grid[i]));
    hash = mix(hash, static_cast<uint32_t>(shape.block[i]));
  }
  hash = mix(hash, static_cast<uint32_t>(shape.registers));
  hash = mix(hash, static_cast<uint32_t>(shape.static_shared_bytes));
  hash = mix(hash, static_cast<uint32_t>(shape.dynamic_shared_bytes));
  return number(shapes, hash, shape, [&](const wire::LaunchShape& known) {
    return memcmp(known.grid, shape.grid, sizeof shape.grid) == 0 &&
           memcmp(known.block, shape.block, sizeof shape.block) == 0 && known.registers == shape.registers &&
           known.static_shared_bytes == shape.static_shared_bytes &&
           known.dynamic_shared_bytes == shape.dynamic_shared_bytes;
  });
}

DeviceTables::Encoded DeviceTables::take() {
  tables_.each([this](auto& table) { encode(table); });
  const Encoded encoded{buffers_[active_], used_};
  active_ ^= 1;
  used_ = 0;
  return encoded;
}

}  // namespace profgpu::inject
