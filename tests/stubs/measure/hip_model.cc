// Stand-ins for libamdhip64.so, libhiprtc.so and libhipblaslt.so in one: names and numbers of AMD's before the model of
// the others.
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "measure/cublas_library.h"
#include "model.h"

#define FORWARD(hip, cuda, parameters, arguments) \
  extern "C" int cuda parameters;                 \
  MODEL_EXPORT int hip parameters { return cuda arguments; }

using Address = uint64_t;
FORWARD(hipInit, cuInit, (unsigned flags), (flags))
FORWARD(hipGetDeviceCount, cuDeviceGetCount, (int* n), (n))
FORWARD(hipDeviceGet, cuDeviceGet, (int* device, int index), (device, index))
FORWARD(hipDeviceGetName, cuDeviceGetName, (char* text, int size, int device), (text, size, device))
FORWARD(hipDeviceGetPCIBusId, cuDeviceGetPCIBusId, (char* text, int size, int device), (text, size, device))
FORWARD(hipDeviceTotalMem, cuDeviceTotalMem_v2, (size_t* bytes, int device), (bytes, device))
FORWARD(hipDeviceCanAccessPeer, cuDeviceCanAccessPeer, (int* can, int a, int b), (can, a, b))
FORWARD(hipDeviceSynchronize, cuCtxSynchronize, (), ())
FORWARD(hipMalloc, cuMemAlloc_v2, (Address* to, size_t bytes), (to, bytes))
FORWARD(hipFree, cuMemFree_v2, (Address at), (at))
FORWARD(hipHostMalloc, cuMemHostAlloc, (void** to, size_t bytes, unsigned flags), (to, bytes, flags))
FORWARD(hipHostFree, cuMemFreeHost, (void* at), (at))
FORWARD(hipMemsetD8Async, cuMemsetD8Async, (Address at, unsigned char b, size_t n, void* s), (at, b, n, s))
FORWARD(hipMemcpyHtoDAsync, cuMemcpyHtoDAsync_v2, (Address to, const void* from, size_t n, void* s), (to, from, n, s))
FORWARD(hipMemcpyDtoHAsync, cuMemcpyDtoHAsync_v2, (void* to, Address from, size_t n, void* s), (to, from, n, s))
FORWARD(hipMemcpyDtoDAsync, cuMemcpyDtoDAsync_v2, (Address to, Address from, size_t n, void* s), (to, from, n, s))
FORWARD(hipStreamCreateWithFlags, cuStreamCreate, (void** s, unsigned flags), (s, flags))
FORWARD(hipStreamDestroy, cuStreamDestroy_v2, (void* s), (s))
FORWARD(hipStreamSynchronize, cuStreamSynchronize, (void* s), (s))
FORWARD(hipStreamWaitEvent, cuStreamWaitEvent, (void* s, void* e, unsigned flags), (s, e, flags))
FORWARD(hipEventCreateWithFlags, cuEventCreate, (void** e, unsigned flags), (e, flags))
FORWARD(hipEventDestroy, cuEventDestroy_v2, (void* e), (e))
FORWARD(hipEventRecord, cuEventRecord, (void* e, void* s), (e, s))
FORWARD(hipEventElapsedTime, cuEventElapsedTime, (float* ms, void* a, void* b), (ms, a, b))
FORWARD(hipModuleLoadData, cuModuleLoadData, (void** m, const void* image), (m, image))
FORWARD(hipModuleUnload, cuModuleUnload, (void* m), (m))
FORWARD(hipModuleGetFunction, cuModuleGetFunction, (const char** f, void* m, const char* name), (f, m, name))
FORWARD(hipModuleLaunchKernel, cuLaunchKernel,
        (const char* f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
         void* s, void** p, void** extra),
        (f, gx, gy, gz, bx, by, bz, shared, s, p, extra))
FORWARD(hipStreamBeginCapture, cuStreamBeginCapture_v2, (void* s, int mode), (s, mode))
FORWARD(hipStreamEndCapture, cuStreamEndCapture, (void* s, void** graph), (s, graph))
FORWARD(hipGraphInstantiateWithFlags, cuGraphInstantiateWithFlags, (void** e, void* g, unsigned long long f), (e, g, f))
FORWARD(hipGraphLaunch, cuGraphLaunch, (void* e, void* s), (e, s))
FORWARD(hipGraphExecDestroy, cuGraphExecDestroy, (void* e), (e))
FORWARD(hipGraphDestroy, cuGraphDestroy, (void* g), (g))

extern "C" {
int cuDevicePrimaryCtxRetain(void**, int);
int cuCtxSetCurrent(void*);
int cuMemcpyPeerAsync(Address, void*, Address, void*, size_t, void*);
}

MODEL_EXPORT const char* hipGetErrorString(int code) { return code == 2 ? "out of memory" : "simulated error"; }
MODEL_EXPORT const char* hipGetErrorName(int code) { return code == 2 ? "hipErrorOutOfMemory" : "hipErrorUnknown"; }
MODEL_EXPORT int hipDriverGetVersion(int* version) { return *version = 60'241'134, 0; }
MODEL_EXPORT int hipDeviceGetUuid(char* bytes, int device) {
  std::memcpy(bytes, "00000000000000a0", 16);
  return bytes[15] = static_cast<char>('0' + device), 0;
}
MODEL_EXPORT int hipDeviceGetAttribute(int* value, int attribute, int device) {
  if (attribute == 19) return *value = static_cast<int>(model_setting("l2", device, 4 << 20)), 0;
  *value = attribute == 63 ? 304 : attribute == 23 ? 9 : attribute == 61 ? 4 : -1;
  return *value < 0;
}
MODEL_EXPORT int hipSetDevice(int device) {
  void* context = nullptr;
  if (const int failed = model_enter("hipSetDevice")) return failed;
  static void* contexts[64];
  if (!contexts[device])
    if (const int failed = cuDevicePrimaryCtxRetain(&contexts[device], device)) return failed;
  context = contexts[device];
  return cuCtxSetCurrent(context);
}
MODEL_EXPORT int hipDeviceEnablePeerAccess(int, unsigned) { return 0; }
MODEL_EXPORT int hipMemcpyPeerAsync(Address to, int, Address from, int, size_t bytes, void* stream) {
  return cuMemcpyPeerAsync(to, nullptr, from, nullptr, bytes, stream);
}

MODEL_EXPORT int hiprtcCreateProgram(void** program, const char* source, const char*, int, const char**, const char**) {
  return *program = const_cast<char*>(source), 0;
}
MODEL_EXPORT int hiprtcCompileProgram(void*, int, const char**) { return model_enter("hiprtcCompileProgram"); }
MODEL_EXPORT int hiprtcGetCodeSize(void* program, size_t* size) {
  return *size = std::strlen(static_cast<char*>(program)) + 1, 0;
}
MODEL_EXPORT int hiprtcGetCode(void* program, char* to) { return std::strcpy(to, static_cast<char*>(program)), 0; }
MODEL_EXPORT int hiprtcDestroyProgram(void**) { return 0; }

using namespace profgpu::cublas;
FORWARD(hipblasLtCreate, cublasLtCreate, (void** h), (h))
FORWARD(hipblasLtDestroy, cublasLtDestroy, (void* h), (h))
FORWARD(hipblasLtMatmulDescDestroy, cublasLtMatmulDescDestroy, (void* p), (p))
FORWARD(hipblasLtMatrixLayoutCreate, cublasLtMatrixLayoutCreate,
        (void** m, int type, uint64_t rows, uint64_t columns, int64_t lead), (m, type, rows, columns, lead))
FORWARD(hipblasLtMatrixLayoutDestroy, cublasLtMatrixLayoutDestroy, (void* m), (m))
FORWARD(hipblasLtMatmulPreferenceCreate, cublasLtMatmulPreferenceCreate, (void** p), (p))
FORWARD(hipblasLtMatmulPreferenceSetAttribute, cublasLtMatmulPreferenceSetAttribute,
        (void* p, int attribute, const void* value, size_t size), (p, attribute, value, size))
FORWARD(hipblasLtMatmulPreferenceDestroy, cublasLtMatmulPreferenceDestroy, (void* p), (p))
FORWARD(hipblasLtMatmulAlgoGetHeuristic, cublasLtMatmulAlgoGetHeuristic,
        (void* h, void* p, void* a, void* b, void* c, void* d, void* preference, int most, void* results, int* found),
        (h, p, a, b, c, d, preference, most, results, found))
FORWARD(hipblasLtMatmul, cublasLtMatmul,
        (void* h, void* p, const void* alpha, Address a, void* la, Address b, void* lb, const void* beta, Address c,
         void* lc, Address d, void* ld, const void* algorithm, Address space, size_t bytes, void* stream),
        (h, p, alpha, a, la, b, lb, beta, c, lc, d, ld, algorithm, space, bytes, stream))
extern "C" {
int cublasLtMatmulDescCreate(void**, int, int);
int cublasLtMatmulDescSetAttribute(void*, int, const void*, size_t);
int cublasLtMatrixLayoutSetAttribute(void*, int, const void*, size_t);
}
MODEL_EXPORT int hipblasLtMatmulDescCreate(void** product, int compute, int scale) {
  const int ours = compute == 7   ? kCompute64F
                   : compute == 9 ? kCompute32I
                   : compute == 6 ? kCompute32FFastTf32
                                  : kCompute32F;
  return cublasLtMatmulDescCreate(product, ours, scale);
}
MODEL_EXPORT int hipblasLtMatmulDescSetAttribute(void* product, int attribute, const void* value, size_t size) {
  if (attribute != 0 || *static_cast<const int32_t*>(value) != kHipTransposed) return 1;
  return cublasLtMatmulDescSetAttribute(product, kTransposeA, &kTransposed, size);
}
MODEL_EXPORT int hipblasLtMatrixLayoutSetAttribute(void* matrix, int attribute, const void* value, size_t size) {
  return cublasLtMatrixLayoutSetAttribute(matrix, attribute == 0 ? kBatchCount : kBatchStride, value, size);
}
