// A stand-in for libcublasLt.so: products take as long as the scenario's rates say. README.md says how it is driven.
#include <cstring>
#include <string>

#include "measure/cublas_library.h"
#include "model.h"

using namespace profgpu::cublas;

namespace {

constexpr int kNotSupported = 15;

struct ModelProduct {
  int compute, scale;
  bool transposed = false;
};
struct ModelMatrix {
  int type;
  uint64_t rows, columns;
  int32_t batch = 1;

  [[nodiscard]] uint64_t bytes() const {
    const uint64_t each = type == kR64F                                     ? 8
                          : type == kR32F || type == kR32I                  ? 4
                          : type == kR16F || type == kR16BF                 ? 2
                                                                            : 1;
    return each * rows * columns * static_cast<uint64_t>(batch);
  }
};

// The setting that has the rate; empty: no such products.
std::string precision_of(const ModelProduct& product, const ModelMatrix& factor) {
  switch (factor.type) {
    case kR64F: return product.compute == kCompute64F && product.scale == kR64F ? "fp64" : "";
    case kR32F: return product.compute == kCompute32FFastTf32 ? "tf32" : product.compute == kCompute32F ? "fp32" : "";
    case kR16BF: return "bf16";
    case kR16F: return "fp16";
    case kR8FE4M3: return product.transposed ? "fp8" : "";
    case kR8I: return product.compute == kCompute32I && product.scale == kR32I && product.transposed ? "int8" : "";
    default: return "";
  }
}

}  // namespace

MODEL_EXPORT const char* cublasLtGetStatusString(int status) {
  return status == kNotSupported ? "CUBLAS_STATUS_NOT_SUPPORTED" : "CUBLAS_STATUS_SIMULATED";
}
MODEL_EXPORT int cublasLtCreate(void** handle) {
  if (const int failed = model_enter("cublasLtCreate")) return failed;
  static int one;
  return *handle = &one, 0;
}
MODEL_EXPORT int cublasLtDestroy(void*) { return 0; }
MODEL_EXPORT int cublasLtMatmulDescCreate(ModelProduct** product, int compute, int scale) {
  return *product = new ModelProduct{compute, scale}, 0;
}
MODEL_EXPORT int cublasLtMatmulDescSetAttribute(ModelProduct* product, int attribute, const void* value, size_t) {
  if (attribute == kTransposeA) product->transposed = *static_cast<const int32_t*>(value) == kTransposed;
  return 0;
}
MODEL_EXPORT int cublasLtMatmulDescDestroy(ModelProduct* product) { return delete product, 0; }
MODEL_EXPORT int cublasLtMatrixLayoutCreate(ModelMatrix** matrix, int type, uint64_t rows, uint64_t columns, int64_t) {
  return *matrix = new ModelMatrix{type, rows, columns}, 0;
}
MODEL_EXPORT int cublasLtMatrixLayoutSetAttribute(ModelMatrix* matrix, int attribute, const void* value, size_t) {
  if (const int failed = model_enter("cublasLtMatrixLayoutSetAttribute")) return failed;
  if (attribute == kBatchCount) matrix->batch = *static_cast<const int32_t*>(value);
  return 0;
}
MODEL_EXPORT int cublasLtMatrixLayoutDestroy(ModelMatrix* matrix) { return delete matrix, 0; }
MODEL_EXPORT int cublasLtMatmulPreferenceCreate(void** preference) { return *preference = new uint64_t(0), 0; }
MODEL_EXPORT int cublasLtMatmulPreferenceSetAttribute(uint64_t* preference, int, const void* value, size_t size) {
  return std::memcpy(preference, value, size), 0;
}
MODEL_EXPORT int cublasLtMatmulPreferenceDestroy(uint64_t* preference) { return delete preference, 0; }
MODEL_EXPORT int cublasLtMatmulAlgoGetHeuristic(void*, ModelProduct* product, ModelMatrix* a, ModelMatrix*,
                                                ModelMatrix*, ModelMatrix*, uint64_t*, int, HeuristicResult* result,
                                                int* found) {
  if (const int failed = model_enter("cublasLtMatmulAlgoGetHeuristic")) return failed;
  const std::string precision = precision_of(*product, *a);
  if (precision.empty() || model_setting(precision.c_str(), model_device(), 100) <= 0) return kNotSupported;
  return *result = {}, *found = 1, 0;
}
MODEL_EXPORT int cublasLtMatmul(void*, ModelProduct* product, const void*, uint64_t a_at, ModelMatrix* a, uint64_t b_at,
                                ModelMatrix* b, const void*, uint64_t, ModelMatrix*, uint64_t d_at, ModelMatrix* d,
                                const Algorithm*, uint64_t, size_t, void* stream) {
  if (const int failed = model_enter("cublasLtMatmul")) return failed;
  const double flops = 2.0 * static_cast<double>(a->rows) * static_cast<double>(a->columns) *
                       static_cast<double>(b->columns) * a->batch;
  // Matrices that the cache could hold and does not have to be fetched.
  const int device = model_stream_device(stream);
  const bool fits = static_cast<double>(a->bytes() + b->bytes() + d->bytes()) <= model_setting("l2", device, 50 << 20);
  bool there = true;
  for (const auto& [at, matrix] : {std::pair{a_at, a}, {b_at, b}, {d_at, d}})
    there = model_touch(device, at, matrix->bytes()) != 0 && there;
  const double slowdown = fits && !there ? model_setting("cold_product", device, 1) : 1;
  return model_product(stream, slowdown * flops / 1e3 /
                                   model_setting(precision_of(*product, *a).c_str(), model_device(), 100));
}
