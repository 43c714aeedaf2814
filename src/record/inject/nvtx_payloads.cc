#include "record/inject/nvtx_payloads.h"

#include <string.h>

#include "record/inject/names.h"
#include "record/inject/recorder.h"
#include "record/inject/system_call.h"

namespace profgpu::inject::nvtx {

struct Handle {
  mutable std::atomic<uint64_t> known;  ///< generation of the recorder << 32 | number
  uint32_t length;
  char text[];
};

namespace {

// Zeroed memory that is mapped at its first use and never freed.
template <size_t kBytes>
class Arena {
 public:
  // Null: full, or no memory.
  void* take(size_t size) {
    size = (size + 7) / 8 * 8;
    char* const base = mapped();
    if (base == nullptr || used_.load(std::memory_order_relaxed) + size > kBytes) return nullptr;
    const size_t at = used_.fetch_add(size, std::memory_order_relaxed);
    return at + size <= kBytes ? base + at : nullptr;
  }

 private:
  char* mapped() {
    char* at = base_.load(std::memory_order_acquire);
    if (at != nullptr) return at;
    void* const memory = map_memory(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE);
    if (is_failure(memory)) return nullptr;
    if (base_.compare_exchange_strong(at, static_cast<char*>(memory))) return static_cast<char*>(memory);
    system_call(SYS_munmap, as_word(memory), static_cast<long>(kBytes));
    return at;
  }

  std::atomic<char*> base_;
  std::atomic<size_t> used_;
};

constexpr uint32_t kTableEntries = 1u << 15;
constexpr uint32_t kMaxProbes = 64;

Arena<16 << 20> handle_memory;
std::atomic<Handle*> entries[kTableEntries];

Handle* make(const char* text, size_t length) {
  auto* const handle = static_cast<Handle*>(handle_memory.take(sizeof(Handle) + length));
  if (handle == nullptr) return nullptr;
  handle->length = static_cast<uint32_t>(length);
  memcpy(handle->text, text, length);
  return handle;
}

}  // namespace

const Handle* handle_of(const char* text, size_t length) {
  const uint64_t hash = hash_of(text, length) >> 16;
  Handle* made = nullptr;
  for (uint32_t probe = 0; probe < kMaxProbes; ++probe) {
    std::atomic<Handle*>& entry = entries[(hash + probe) % kTableEntries];
    Handle* seen = entry.load(std::memory_order_acquire);
    if (seen == nullptr) {
      if (made == nullptr && (made = make(text, length)) == nullptr) break;
      if (entry.compare_exchange_strong(seen, made, std::memory_order_acq_rel)) return made;
    }
    if (seen->length == length && memcmp(seen->text, text, length) == 0) return seen;
  }
  if (made == nullptr) drop(wire::ChunkKind::kStrings, wire::DropReason::kNamesFull, 1);
  return made;
}

const char* text_of(const Handle* handle, size_t& length) {
  length = handle != nullptr ? handle->length : 0;
  return handle != nullptr ? handle->text : "";
}

uint32_t name_of(const Handle* handle) {
  if (handle == nullptr) return 0;
  const uint64_t known = handle->known.load(std::memory_order_relaxed);
  const uint32_t generation = recorder_generation();
  if (known >> 32 == generation) return static_cast<uint32_t>(known);
  const uint32_t id = intern(handle->text, handle->length);
  handle->known.store(uint64_t{generation} << 32 | id, std::memory_order_relaxed);
  return id;
}

}  // namespace profgpu::inject::nvtx

// The extension's functions: NVTX passes its tables when the program first calls one of them.

namespace profgpu::inject::nvtx {
namespace {

constexpr uint64_t kText = 75, kUtf8Text = 76;  // NVTX_PAYLOAD_ENTRY_TYPE_CSTRING, _UTF8

// Where the program does not give the size: text ends at its NUL, and some schemas have a fixed size.
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
  if (count > kMaxPayloads) {
    drop(wire::ChunkKind::kPayloads, wire::DropReason::kRecorderFull, count - kMaxPayloads);
    count = kMaxPayloads;
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

/// Called by every copy of NVTX at its first use of an extension. 0: that extension disables itself for good.
PROFGPU_EXPORT int InitializeInjectionNvtxExtension(
    profgpu::inject::nvtx::ModuleInfo* info) {
  using namespace profgpu::inject;
  if (info == nullptr || info->module != nvtx::kPayloadModule || !nvtx::is_wanted()) return 0;
  if (!start_recorder("nvtx")) return 0;
  return nvtx::attach(*info) ? 1 : 0;
}

namespace profgpu::inject::nvtx {

// Schemas are kept outside the recorder's memory: the program keeps using their numbers in a forked child, whose file
// needs them too.

namespace {

constexpr size_t kMaxFields = 128;  // of one schema

struct Field {
  const Handle* name;
  uint64_t flags, type, detail, offset;
};
struct Schema {
  std::atomic<uint32_t> written;  ///< generation of the recorder that has it
  const Handle* domain;
  const Handle* name;
  wire::SchemaKind kind;
  uint32_t id;  ///< from 1 on
  uint64_t number, size, pack;
  uint32_t field_count;
  Field fields[];
};

Arena<4 << 20> schema_memory;
std::atomic<Schema*> schemas[kMaxSchemas];
std::atomic<uint32_t> schema_count;
std::atomic<uint32_t> published;  // generation of the recorder that has all of them

const Handle* handle(const char* text) {
  return text != nullptr ? handle_of(text, strnlen(text, kMaxNameBytes)) : nullptr;
}

void publish(Schema& schema) {
  const uint32_t generation = recorder_generation();
  if (generation == 0 || schema.written.exchange(generation, std::memory_order_acq_rel) == generation) return;
  wire::PayloadField fields[kMaxFields];
  for (uint32_t i = 0; i < schema.field_count; ++i) {
    const Field& f = schema.fields[i];
    fields[i] = {schema.id, i, name_of(f.name), f.flags, f.type, f.detail, f.offset};
  }
  add_schema({schema.id, name_of(schema.domain), schema.number, name_of(schema.name), schema.kind, schema.size,
              schema.pack},
             fields, schema.field_count);
}

Schema* find(const Handle* domain, uint64_t number) {
  const uint32_t count = schema_count.load(std::memory_order_acquire);
  for (uint32_t i = 0; i < count && i < kMaxSchemas; ++i) {
    Schema* const schema = schemas[i].load(std::memory_order_acquire);
    if (schema != nullptr && schema->number == number && schema->domain == domain) return schema;
  }
  return nullptr;
}

bool is_static(uint64_t number) { return number >= kFirstStaticSchema && number < kFirstDynamicSchema; }

// A new schema without its fields; null where there is no room, which is counted.
Schema* begin_schema(const Handle* domain, uint64_t number, size_t fields) {
  const uint32_t place = schema_count.load(std::memory_order_relaxed) < kMaxSchemas
                             ? schema_count.fetch_add(1, std::memory_order_relaxed)
                             : kMaxSchemas;
  void* const at = place < kMaxSchemas ? schema_memory.take(sizeof(Schema) + fields * sizeof(Field)) : nullptr;
  if (at == nullptr) {
    drop(wire::ChunkKind::kPayloadSchemas, wire::DropReason::kRecorderFull, 1);
    return nullptr;
  }
  auto* const schema = static_cast<Schema*>(at);
  schema->domain = domain;
  schema->id = place + 1;
  schema->number = is_static(number) ? number : kFirstDynamicSchema + place;
  schema->field_count = static_cast<uint32_t>(fields);
  return schema;
}

uint64_t finish_schema(Schema& schema) {
  schemas[schema.id - 1].store(&schema, std::memory_order_release);
  publish(schema);
  return schema.number;
}

bool has(uint64_t fields, int member) { return (fields >> member & 1) != 0; }

// Too many fields are dropped, which is counted.
size_t bounded(size_t fields) {
  if (fields <= kMaxFields) return fields;
  drop(wire::ChunkKind::kPayloadFields, wire::DropReason::kRecorderFull, fields - kMaxFields);
  return kMaxFields;
}

}  // namespace

uint64_t register_schema(const Handle* domain, const SchemaAttributes* a) {
  enum { kName = 1, kType, kFlags, kEntries, kEntryCount, kStaticSize, kPack, kNumber };
  if (a == nullptr || !has(a->fields, kType) || !has(a->fields, kEntries) || !has(a->fields, kEntryCount)) return 0;
  if (a->type < static_cast<uint64_t>(wire::SchemaKind::kStatic) ||
      a->type > static_cast<uint64_t>(wire::SchemaKind::kOwnUnion) || a->entries == nullptr || a->entry_count == 0)
    return 0;
  const uint64_t number = has(a->fields, kNumber) ? a->schema : 0;
  if (is_static(number) && find(domain, number) != nullptr) return number;
  Schema* const schema = begin_schema(domain, number, bounded(a->entry_count));
  if (schema == nullptr) return 0;
  schema->name = has(a->fields, kName) ? handle(a->name) : nullptr;
  schema->kind = static_cast<wire::SchemaKind>(a->type);
  schema->size = has(a->fields, kStaticSize) ? a->static_size : 0;
  schema->pack = has(a->fields, kPack) ? a->pack : 0;
  for (uint32_t i = 0; i < schema->field_count; ++i) {
    const SchemaEntry& e = a->entries[i];
    schema->fields[i] = {handle(e.name), e.flags, e.type, e.detail, e.offset};
  }
  return finish_schema(*schema);
}

uint64_t register_enumeration(const Handle* domain, const EnumAttributes* a) {
  enum { kName = 1, kEntries, kEntryCount, kSize, kNumber };
  if (a == nullptr || !has(a->fields, kEntries) || !has(a->fields, kEntryCount) || a->entries == nullptr) return 0;
  const uint64_t number = has(a->fields, kNumber) ? a->schema : 0;
  if (is_static(number) && find(domain, number) != nullptr) return number;
  Schema* const schema = begin_schema(domain, number, bounded(a->entry_count));
  if (schema == nullptr) return 0;
  schema->name = has(a->fields, kName) ? handle(a->name) : nullptr;
  schema->kind = wire::SchemaKind::kEnumeration;
  schema->size = has(a->fields, kSize) ? a->size : sizeof(int);
  for (uint32_t i = 0; i < schema->field_count; ++i) {
    const EnumEntry& e = a->entries[i];
    schema->fields[i] = {handle(e.name), e.is_flag != 0, 0, 0, e.value};
  }
  return finish_schema(*schema);
}

size_t schema_bytes(const Handle* domain, uint64_t number) {
  const Schema* const schema = find(domain, number);
  return schema != nullptr && schema->kind != wire::SchemaKind::kDynamic ? schema->size : 0;
}

void publish_schemas() {
  const uint32_t generation = recorder_generation();
  if (published.exchange(generation, std::memory_order_acq_rel) == generation) return;
  const uint32_t count = schema_count.load(std::memory_order_acquire);
  for (uint32_t i = 0; i < count && i < kMaxSchemas; ++i)
    if (Schema* const schema = schemas[i].load(std::memory_order_acquire); schema != nullptr) publish(*schema);
}

}  // namespace profgpu::inject::nvtx
