/* Every call of NVTX's core that the recorder takes, once, from C. */
#include <nvtx3/nvToolsExt.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static nvtxEventAttributes_t attributes(const char* text) {
  nvtxEventAttributes_t a;
  memset(&a, 0, sizeof a);
  a.version = NVTX_VERSION;
  a.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  a.messageType = NVTX_MESSAGE_TYPE_ASCII;
  a.message.ascii = text;
  return a;
}

static void payloads(void) {
  nvtxEventAttributes_t a = attributes("payload");
  a.category = 7;
  a.payloadType = NVTX_PAYLOAD_TYPE_UNSIGNED_INT64;
  a.payload.ullValue = 1ull << 40;
  nvtxMarkEx(&a);
  a.payloadType = NVTX_PAYLOAD_TYPE_INT64;
  a.payload.llValue = -5;
  nvtxMarkEx(&a);
  a.payloadType = NVTX_PAYLOAD_TYPE_INT32;
  a.payload.iValue = -6;
  nvtxMarkEx(&a);
  a.payloadType = NVTX_PAYLOAD_TYPE_UNSIGNED_INT32;
  a.payload.uiValue = 4000000000u;
  nvtxMarkEx(&a);
  a.payloadType = NVTX_PAYLOAD_TYPE_DOUBLE;
  a.payload.dValue = 2.5;
  nvtxMarkEx(&a);
  a.payloadType = NVTX_PAYLOAD_TYPE_FLOAT;
  a.payload.fValue = 0.5f;
  nvtxMarkEx(&a);
}

static void domains(void) {
  nvtxDomainHandle_t domain = nvtxDomainCreateA("library");
  nvtxDomainHandle_t same = nvtxDomainCreateW(L"library");
  nvtxStringHandle_t registered = nvtxDomainRegisterStringA(domain, "registered");
  nvtxStringHandle_t wide = nvtxDomainRegisterStringW(domain, L"gr\u00f6\u00dfer \u2265 \U0001f600");
  nvtxEventAttributes_t a = attributes(NULL);
  nvtxRangeId_t range;
  a.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
  a.message.registered = registered;
  nvtxDomainRangePushEx(domain, &a);
  a.message.registered = wide;
  nvtxDomainRangePushEx(same, &a);
  nvtxDomainRangePop(domain);
  nvtxDomainRangePop(domain);
  range = nvtxDomainRangeStartEx(domain, &a);
  nvtxDomainMarkEx(domain, &a);
  nvtxDomainRangeEnd(domain, range);
  nvtxDomainNameCategoryA(domain, 7, "seven");
  nvtxDomainNameCategoryW(domain, 8, L"eight");
  nvtxDomainDestroy(domain);
}

int main(void) {
  nvtxRangeId_t outer, inner;
  nvtxEventAttributes_t a;
  nvtxInitialize(NULL);
  nvtxRangePushA("ascii");
  nvtxRangePushW(L"wide");
  nvtxRangePop();
  nvtxRangePop();
  outer = nvtxRangeStartA("outer");
  inner = nvtxRangeStartW(L"inner");
  nvtxRangeEnd(outer);
  nvtxRangeEnd(inner);
  nvtxMarkA("mark");
  nvtxMarkW(L"wide mark");
  nvtxNameCategoryA(7, "default seven");
  nvtxNameOsThreadA((uint32_t)syscall(SYS_gettid), "the main one");
  payloads();
  domains();
  /* What a careless program does. */
  nvtxRangePushA(NULL);
  nvtxRangePop();
  nvtxMarkEx(NULL);
  a = attributes("too small");
  a.size = 8;
  nvtxMarkEx(&a);
  nvtxRangePop();
  nvtxRangeEnd(12345);
  return 0;
}
