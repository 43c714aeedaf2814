// Calls of cuBLAS, cuBLASLt and cuDNN that queue work, as ranges with their names, in processes into which this library
// is preloaded: the products and convolutions, as frameworks call them.
#include "record/inject/interposed.h"

namespace profgpu::inject::cuda_libraries {

namespace {

constexpr int kNotInitialized = 1;   // CUBLAS_STATUS_NOT_INITIALIZED, CUDNN_STATUS_NOT_INITIALIZED

// `at`: a wrapper's own memory of the library's function.
template <typename... Words>
int pass_on(const char* name, std::atomic<void*>& at, const void* caller, Words... words) {
  const Word arguments[] = {words...};
  void* function = at.load(std::memory_order_acquire);
  if (function == nullptr) {
    function = function_of_callers_libraries(name, caller);
    if (function == nullptr) return kNotInitialized;
    at.store(function, std::memory_order_release);
  }
  const auto call = [&] {
    return call_with_words(function, arguments, std::make_index_sequence<sizeof...(Words)>());
  };
  if (!recording_here() && !start_recorder("library")) return call();
  const int64_t start = host_now();
  const int result = call();
  post_library_call(name, start, host_now());
  return result;
}

}  // namespace

}  // namespace profgpu::inject::cuda_libraries

using namespace profgpu::inject;
using profgpu::inject::cuda_libraries::pass_on;

#define PROFGPU_LIBRARY_CALL(count, function_name)                                            \
  PROFGPU_EXPORT int function_name(PROFGPU_WORDS_##count) {                                   \
    static std::atomic<void*> at;                                                             \
    return pass_on(#function_name, at, __builtin_return_address(0), PROFGPU_NAMES_##count);   \
  }

PROFGPU_LIBRARY_CALL(14, cublasSgemm_v2)
PROFGPU_LIBRARY_CALL(14, cublasDgemm_v2)
PROFGPU_LIBRARY_CALL(14, cublasCgemm_v2)
PROFGPU_LIBRARY_CALL(14, cublasZgemm_v2)
PROFGPU_LIBRARY_CALL(14, cublasHgemm)
PROFGPU_LIBRARY_CALL(12, cublasSgemv_v2)
PROFGPU_LIBRARY_CALL(12, cublasDgemv_v2)
PROFGPU_LIBRARY_CALL(18, cublasSgemmStridedBatched)
PROFGPU_LIBRARY_CALL(18, cublasDgemmStridedBatched)
PROFGPU_LIBRARY_CALL(15, cublasSgemmBatched)
PROFGPU_LIBRARY_CALL(15, cublasDgemmBatched)
PROFGPU_LIBRARY_CALL(19, cublasGemmEx)
PROFGPU_LIBRARY_CALL(23, cublasGemmStridedBatchedEx)
PROFGPU_LIBRARY_CALL(16, cublasLtMatmul)

PROFGPU_LIBRARY_CALL(3, cudnnBackendExecute)
PROFGPU_LIBRARY_CALL(13, cudnnConvolutionForward)
PROFGPU_LIBRARY_CALL(13, cudnnConvolutionBackwardData)
PROFGPU_LIBRARY_CALL(13, cudnnConvolutionBackwardFilter)
PROFGPU_LIBRARY_CALL(9, cudnnSoftmaxForward)
PROFGPU_LIBRARY_CALL(11, cudnnSoftmaxBackward)
PROFGPU_LIBRARY_CALL(8, cudnnPoolingForward)
PROFGPU_LIBRARY_CALL(8, cudnnActivationForward)
