// The extension's functions: NVTX hands its tables over when the program first calls one of them.
#include "inject/nvtx_payloads.h"

#include <string.h>

namespace profgpu::inject::nvtx {
namespace {

constexpr uint64_t kText = 75, kUtf8Text = 76;  // NVTX_PAYLOAD_ENTRY_TYPE_CSTRING, _UTF8

// Where the program does not give the size: text says where it ends, and some schemas have one size.
uint32_t kept_bytes(const Handle* domain, const PayloadData& data) {
  size_t size = data.size;
  if (size == SIZE_MAX && (data.schema == kText || data.schema == kUtf8Text))
    size = strnlen(static_cast<const char*>(data.payload), kMaxPayloadBytes);
  else if (size == SIZE_MAX)
    size = schema_bytes(domain, data.schema);
  return size < kMaxPayloadBytes ? static_cast<uint32_t>(size) : kMaxPayloadBytes;
}

// The name comes with the payload, where there is one.
void send(wire::RangeOp op, const Handle* domain, uint64_t range, const PayloadData* data, size_t count) {
  if (!recording_here()) return;
  wire::RangeEvent row;
  row.time_ns = host_now();
  row.thread = thread_id();
  row.domain = name_of(domain);
  row.op = op;
  row.range = range;
  attach_payloads(row, domain, data, count);
  post(row);
}

void mark_payload(const Handle* domain, const PayloadData* data, size_t count) {
  send(wire::RangeOp::kMark, domain, 0, data, count);
}
int push_payload(const Handle* domain, const PayloadData* data, size_t count) {
  send(wire::RangeOp::kPush, domain, 0, data, count);
  return kNoTracking;
}
int pop_payload(const Handle* domain, const PayloadData* data, size_t count) {
  send(wire::RangeOp::kPop, domain, 0, data, count);
  return kNoTracking;
}
uint64_t start_payload(const Handle* domain, const PayloadData* data, size_t count) {
  const uint64_t range = next_range();
  send(wire::RangeOp::kStart, domain, range, data, count);
  return range;
}
void end_payload(const Handle* domain, uint64_t range, const PayloadData* data, size_t count) {
  send(wire::RangeOp::kEnd, domain, range, data, count);
}

template <class F>
intptr_t slot(F* function) {
  return reinterpret_cast<intptr_t>(function);
}

}  // namespace

void attach_payloads(wire::RangeEvent& row, const Handle* domain, const PayloadData* data, size_t count) {
  // Counts on in a forked child, as ranges do.
  static std::atomic<uint64_t> last_event;
  row.payload = 0;
  row.payload_type = wire::PayloadType::kNone;
  if (data == nullptr || count == 0 || count > INT32_MAX) return;
  if (count > kMostPayloads) {
    drop(wire::ChunkKind::kPayloads, wire::DropReason::kRecorderFull, count - kMostPayloads);
    count = kMostPayloads;
  }
  publish_schemas();
  row.payload = last_event.fetch_add(1, std::memory_order_relaxed) + 1;
  row.payload_type = wire::PayloadType::kExtended;
  for (size_t i = 0; i < count; ++i) {
    if (data[i].payload == nullptr) continue;
    post(wire::PayloadRef{row.payload, name_of(domain), data[i].schema, data[i].size, kept_bytes(domain, data[i]),
                          static_cast<const char*>(data[i].payload)});
  }
}

namespace {

bool attach(const ModuleInfo& info) {
  if (info.struct_size < sizeof info || info.segment_count == 0 || info.segments == nullptr) return false;
  const intptr_t functions[] = {slot(register_schema), slot(register_enumeration), slot(mark_payload),
                                slot(push_payload),    slot(pop_payload),          slot(start_payload),
                                slot(end_payload)};
  static_assert(sizeof functions / sizeof *functions == kRangeEndPayload + 1);
  const Segment& segment = info.segments[0];
  for (size_t i = 0; i < sizeof functions / sizeof *functions && i < segment.slot_count; ++i)
    segment.slots[i] = functions[i];
  return true;
}

}  // namespace
}  // namespace profgpu::inject::nvtx

/// Called by every copy of NVTX at its first use of an extension. 0: that extension switches itself off for good.
extern "C" __attribute__((visibility("default"))) int InitializeInjectionNvtxExtension(
    profgpu::inject::nvtx::ModuleInfo* info) {
  using namespace profgpu::inject;
  if (info == nullptr || info->module != nvtx::kPayloadModule || !nvtx::is_wanted()) return 0;
  if (!start_recorder("nvtx")) return 0;
  return nvtx::attach(*info) ? 1 : 0;
}
