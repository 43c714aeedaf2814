// Schemas are kept beside the recorder's memory, as the program goes on using their numbers in a forked child, whose
// file has to have them too.
#include <string.h>

#include "inject/nvtx_payloads.h"
#include "inject/system_call.h"

namespace profgpu::inject::nvtx {
namespace {

constexpr size_t kMaxFields = 128;  // of one schema
constexpr size_t kMemoryBytes = 4 << 20;

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

std::atomic<char*> memory;
std::atomic<size_t> used;
std::atomic<Schema*> schemas[kMaxSchemas];
std::atomic<uint32_t> schema_count;
std::atomic<uint32_t> published;  // generation of the recorder that has all of them

const Handle* handle(const char* text) {
  return text != nullptr ? handle_of(text, strnlen(text, kMaxNameBytes)) : nullptr;
}

void* take_memory(size_t size) {
  char* base = memory.load(std::memory_order_acquire);
  if (base == nullptr) {
    void* const mapped =
        map_memory(nullptr, kMemoryBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE);
    if (is_failure(mapped)) return nullptr;
    if (memory.compare_exchange_strong(base, static_cast<char*>(mapped)))
      base = static_cast<char*>(mapped);
    else
      system_call(SYS_munmap, as_word(mapped), kMemoryBytes);
  }
  const size_t at = used.fetch_add(size, std::memory_order_relaxed);
  return at + size <= kMemoryBytes ? base + at : nullptr;
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
  void* const at = place < kMaxSchemas ? take_memory(sizeof(Schema) + fields * sizeof(Field)) : nullptr;
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

// Fields that are too many are left out, which is counted.
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
