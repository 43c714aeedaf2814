// Our kernels for AMD's devices, as source that ROCm's runtime compiler translates.
#include "measure/kernels.h"
#include "measure/vendor_call.h"

namespace profgpu {
namespace {

using Program = struct OpaqueProgram*;

constexpr const char* kSource = R"(
#define AT for (unsigned long i = blockIdx.x * (unsigned long)blockDim.x + threadIdx.x; i < count; \
                i += gridDim.x * (unsigned long)blockDim.x)
#define PAIR unsigned long low = i & (stride - 1), a = 2 * (i - low) + low, b = a + stride;
extern "C" {
__global__ void profgpu_empty() {}
__global__ void profgpu_read(const uint4* from, unsigned* sink, unsigned long count) {
  unsigned sum = 0;
  AT { uint4 x = from[i]; sum += x.x + x.y + x.z + x.w; }
  if (sum == 0x5bd1e995) *sink = sum;
}
__global__ void profgpu_reread(const uint4* from, unsigned* sink, unsigned long count, unsigned long mask) {
  unsigned sum = 0;
  AT { uint4 x = from[i & (mask / sizeof(uint4))]; sum += x.x + x.y + x.z + x.w; }
  if (sum == 0x5bd1e995) *sink = sum;
}
__global__ void profgpu_sum(const uint4* from, unsigned* sink, unsigned long count) {
  unsigned sum = 0;
  AT { uint4 x = from[i]; sum += x.x + x.y + x.z + x.w; }
  atomicAdd(sink, sum);
}
__global__ void profgpu_write(uint4* to, unsigned long count) { AT to[i] = make_uint4(0, 0, 0, 0); }
__global__ void profgpu_copy(const uint4* from, uint4* to, unsigned long count) { AT to[i] = from[i]; }
__global__ void profgpu_triad(const float4* a, const float4* b, float4* to, unsigned long count) {
  AT to[i] = make_float4(a[i].x + 3 * b[i].x, a[i].y + 3 * b[i].y, a[i].z + 3 * b[i].z, a[i].w + 3 * b[i].w);
}
__global__ void profgpu_sort(unsigned* data, unsigned long count, unsigned long stride, unsigned long block) {
  count /= 2;
  AT { PAIR unsigned x = data[a], y = data[b]; bool up = (a & block) == 0;
       data[a] = up ? min(x, y) : max(x, y); data[b] = up ? max(x, y) : min(x, y); }
}
__global__ void profgpu_butterfly(float* data, unsigned long count, unsigned long stride, unsigned long) {
  count /= 2;
  AT { PAIR float x = data[a], y = data[b]; data[a] = 0.70710678f * (x + y); data[b] = 0.70710678f * (x - y); }
}
})";

std::string words_of_compiler(const DynLib& library, int code) {
  const auto words = library.symbol<const char* (*)(int)>("hiprtcGetErrorString");
  const char* text = words ? words(code) : nullptr;
  return text ? text : fmt::format("error {} of hiprtc", code);
}

}  // namespace

Result<std::string> hip_kernels() {
  auto library = DynLib::open_first(vendor_library_names(
      "PROFGPU_HIPRTC_LIBRARY", {"libhiprtc.so.7", "libhiprtc.so.6", "libhiprtc.so.5", "libhiprtc.so"}));
  if (!library) return Error{"no compiler for our kernels: " + library.error().message, "ROCm has it: hip-runtime-amd"};
  const DynLib& l = *library;
  const VendorCall<Program*, const char*, const char*, int, const char**, const char**> create(
      l, words_of_compiler, "hiprtcCreateProgram");
  const VendorCall<Program, int, const char**> compile(l, words_of_compiler, "hiprtcCompileProgram");
  const VendorCall<Program, size_t*> code_size(l, words_of_compiler, "hiprtcGetCodeSize");
  const VendorCall<Program, char*> get_code(l, words_of_compiler, "hiprtcGetCode");
  const VendorCall<Program*> destroy(l, words_of_compiler, "hiprtcDestroyProgram");
  Program program = nullptr;
  Status status = create(&program, kSource, "profgpu.hip", 0, nullptr, nullptr);
  if (!status) return status.error();
  size_t size = 0;
  status = compile(program, 0, nullptr);
  if (status) status = code_size(program, &size);
  std::string code(size, '\0');
  if (status) status = get_code(program, code.data());
  (void)destroy(&program);
  library->leak();
  if (!status) return status.error();
  return code;
}

}  // namespace profgpu
