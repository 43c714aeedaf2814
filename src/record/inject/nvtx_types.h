// NVTX 3's interface to a tool, declared from its documentation: each copy of NVTX in the process hands us its tables
// of function pointers. A test compares these numbers with NVIDIA's headers where they are installed.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace profgpu::inject::nvtx {

struct EventAttributes {
  uint16_t version;
  uint16_t size;
  uint32_t category;
  int32_t color_type;
  uint32_t color;
  int32_t payload_type;
  int32_t payloads;  ///< kExtended: how many PayloadData `payload` points to
  uint64_t payload;
  int32_t message_type;
  const void* message;
};
static_assert(sizeof(EventAttributes) == 48);

struct ResourceAttributes {
  uint16_t version;
  uint16_t size;
  int32_t identifier_type;
  uint64_t identifier;
  int32_t message_type;
  const void* message;
};
static_assert(sizeof(ResourceAttributes) == 32);
inline constexpr int32_t kResourceNativeThread = 1 << 16 | 3;

enum MessageType : int32_t { kNoMessage = 0, kAscii = 1, kUnicode = 2, kRegistered = 3 };
enum PayloadType : int32_t {
  kNoPayload = 0,
  kUnsigned64 = 1,
  kSigned64 = 2,
  kDouble = 3,
  kUnsigned32 = 4,
  kSigned32 = 5,
  kFloat = 6,
  kExtended = static_cast<int32_t>(0xdfbd0009),
};

/// What push and pop return where a tool does not count levels.
inline constexpr int kNoTracking = -2;

enum Module : int32_t { kModuleCore = 1, kModuleCore2 = 5 };
enum Core : uint32_t {
  kMarkEx = 1, kMarkA, kMarkW, kRangeStartEx, kRangeStartA, kRangeStartW, kRangeEnd, kRangePushEx, kRangePushA,
  kRangePushW, kRangePop, kNameCategoryA, kNameCategoryW, kNameOsThreadA, kNameOsThreadW,
};
enum Core2 : uint32_t {
  kDomainMarkEx = 1, kDomainRangeStartEx, kDomainRangeEnd, kDomainRangePushEx, kDomainRangePop, kDomainResourceCreate,
  kDomainResourceDestroy, kDomainNameCategoryA, kDomainNameCategoryW, kDomainRegisterStringA, kDomainRegisterStringW,
  kDomainCreateA, kDomainCreateW, kDomainDestroy, kInitialize,
};

using Function = void (*)();
struct CallbacksTable {
  size_t struct_size;
  int (*function_table)(Module module, Function*** table, unsigned int* size);
};
inline constexpr uint32_t kCallbacksTable = 1;
using GetExportTable = const void* (*)(uint32_t id);

// The payload extension, of NVTX 3.1 and later.
inline constexpr uint16_t kPayloadModule = 2;
enum Extension : uint32_t {
  kSchemaRegister = 0, kEnumRegister, kMarkPayload, kRangePushPayload, kRangePopPayload, kRangeStartPayload,
  kRangeEndPayload,
};
struct Segment {
  size_t id;
  size_t slot_count;
  intptr_t* slots;
};
struct ModuleInfo {
  uint16_t version;
  uint16_t struct_size;
  uint16_t module;
  uint16_t compatibility;
  size_t segment_count;
  Segment* segments;
  void* export_function;
  const void* details;
};

struct PayloadData {
  uint64_t schema;
  size_t size;  ///< SIZE_MAX: the tool is to find out
  const void* payload;
};
inline constexpr uint64_t kFirstStaticSchema = 1u << 24, kFirstDynamicSchema = uint64_t{1} << 32;

struct SchemaEntry {
  uint64_t flags;
  uint64_t type;
  const char* name;
  const char* description;
  uint64_t detail;
  uint64_t offset;
  const void* semantics;
  const void* reserved;
};
/// `fields` says which members are set: bit n, counted from 1, of the nth member after it.
struct SchemaAttributes {
  uint64_t fields;
  const char* name;
  uint64_t type;
  uint64_t flags;
  const SchemaEntry* entries;
  size_t entry_count;
  size_t static_size;
  size_t pack;
  uint64_t schema;
  void* extension;
};
struct EnumEntry {
  const char* name;
  uint64_t value;
  int8_t is_flag;
};
struct EnumAttributes {
  uint64_t fields;
  const char* name;
  const EnumEntry* entries;
  size_t entry_count;
  size_t size;
  uint64_t schema;
  void* extension;
};

}  // namespace profgpu::inject::nvtx
