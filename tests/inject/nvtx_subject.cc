// NVTX from C++, and in a forked child with the handles of its parent. Also compares our declarations with NVIDIA's.
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <nvtx3/nvtx3.hpp>
#if __has_include(<nvtx3/nvToolsExtPayload.h>)
#include <nvtx3/nvToolsExtPayload.h>
#endif

#include "record/inject/nvtx_types.h"

namespace ours = profgpu::inject::nvtx;
#define SAME_MEMBER(a, b) \
  static_assert(offsetof(ours::EventAttributes, a) == offsetof(nvtxEventAttributes_t, b))
static_assert(sizeof(ours::EventAttributes) == sizeof(nvtxEventAttributes_t));
SAME_MEMBER(size, size);
SAME_MEMBER(category, category);
SAME_MEMBER(payload_type, payloadType);
SAME_MEMBER(payload, payload);
SAME_MEMBER(message_type, messageType);
SAME_MEMBER(message, message);
static_assert(sizeof(ours::ResourceAttributes) == sizeof(nvtxResourceAttributes_t));
static_assert(offsetof(ours::ResourceAttributes, identifier) == offsetof(nvtxResourceAttributes_t, identifier));
static_assert(offsetof(ours::ResourceAttributes, message) == offsetof(nvtxResourceAttributes_t, message));
static_assert(uint32_t{ours::kResourceNativeThread} == uint32_t{NVTX_RESOURCE_TYPE_GENERIC_THREAD_NATIVE});
static_assert(int{ours::kRegistered} == NVTX_MESSAGE_TYPE_REGISTERED && int{ours::kFloat} == NVTX_PAYLOAD_TYPE_FLOAT);
static_assert(ours::kNoTracking == NVTX_NO_PUSH_POP_TRACKING);
static_assert(int{ours::kNameOsThreadW} == NVTX_CBID_CORE_NameOsThreadW);
static_assert(int{ours::kInitialize} == NVTX_CBID_CORE2_Initialize);
static_assert(int{ours::kDomainRegisterStringA} == NVTX_CBID_CORE2_DomainRegisterStringA);
static_assert(int{ours::kModuleCore2} == NVTX_CB_MODULE_CORE2 && ours::kCallbacksTable == NVTX_ETID_CALLBACKS);
static_assert(sizeof(ours::CallbacksTable) == sizeof(NvtxExportTableCallbacks));

#ifdef NVTX_PAYLOAD_ENTRY_FLAGS_V1
static_assert(sizeof(ours::PayloadData) == sizeof(nvtxPayloadData_t));
static_assert(sizeof(ours::SchemaEntry) == sizeof(nvtxPayloadSchemaEntry_t));
static_assert(offsetof(ours::SchemaEntry, offset) == offsetof(nvtxPayloadSchemaEntry_t, offset));
static_assert(sizeof(ours::SchemaAttributes) == sizeof(nvtxPayloadSchemaAttr_t));
static_assert(offsetof(ours::SchemaAttributes, schema) == offsetof(nvtxPayloadSchemaAttr_t, schemaId));
static_assert(sizeof(ours::EnumEntry) == sizeof(nvtxPayloadEnum_t));
static_assert(sizeof(ours::EnumAttributes) == sizeof(nvtxPayloadEnumAttr_t));
static_assert(offsetof(ours::EnumAttributes, schema) == offsetof(nvtxPayloadEnumAttr_t, schemaId));
static_assert(sizeof(ours::ModuleInfo) == sizeof(nvtxExtModuleInfo_t));
static_assert(sizeof(ours::Segment) == sizeof(nvtxExtModuleSegment_t));
static_assert(offsetof(ours::ModuleInfo, segments) == offsetof(nvtxExtModuleInfo_t, segments));
static_assert(int{ours::kExtended} == NVTX_PAYLOAD_TYPE_EXT && ours::kPayloadModule == NVTX_EXT_PAYLOAD_MODULEID);
static_assert(int{ours::kRangeEndPayload} == NVTX3EXT_CBID_nvtxRangeEndPayload);
static_assert(ours::kFirstStaticSchema == NVTX_PAYLOAD_SCHEMA_ID_STATIC_START);
static_assert(ours::kFirstDynamicSchema == NVTX_PAYLOAD_SCHEMA_ID_DYNAMIC_START);
#endif

namespace {
struct Domain {
  static constexpr const char* name{"c++ domain"};
};
struct Message {
  static constexpr const char* message{"registered in C++"};
};
}  // namespace

int main() {
  nvtx3::scoped_range outer{"scoped"};
  nvtx3::mark_in<Domain>("in a domain", nvtx3::payload{42});
  const auto& registered = nvtx3::registered_string_in<Domain>::get<Message>();
  { nvtx3::scoped_range_in<Domain> inner{registered}; }
  const pid_t child = fork();
  if (child == 0) {
    nvtx3::mark_in<Domain>("another name first, so that numbers differ");
    nvtx3::mark_in<Domain>(registered);
    return 0;
  }
  int status = 0;
  waitpid(child, &status, 0);
  return status != 0;
}
