// cuBLASLt as its library exports it, in declarations of our own (cublasLt.h 11 to 13): as much as one product needs.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "measure/cuda_library.h"

namespace profgpu::cublas {

using Handle = struct OpaqueHandle*;
using Description = struct OpaqueDescription*;
using MatrixLayout = struct OpaqueMatrixLayout*;
using Preference = struct OpaquePreference*;

/// cudaDataType.
enum DataType : int { kR32F = 0, kR64F = 1, kR16F = 2, kR8I = 3, kR32I = 10, kR16BF = 14, kR8FE4M3 = 28 };
/// cublasComputeType_t.
enum ComputeType : int { kCompute32F = 68, kCompute64F = 70, kCompute32I = 72, kCompute32FFastTf32 = 77 };
enum DescriptionAttribute : int { kTransposeA = 3 };
enum LayoutAttribute : int { kBatchCount = 5, kBatchStride = 6 };
enum PreferenceAttribute : int { kMaxWorkspaceBytes = 1 };
constexpr int32_t kTransposed = 1, kHipTransposed = 112;

struct Algorithm {
  std::array<uint64_t, 8> data;
};
struct HeuristicResult {
  Algorithm algorithm;
  size_t workspace_bytes;
  int state;
  float waves;
  std::array<int, 4> reserved;
  std::array<uint64_t, 20> longer;   ///< hipBLASLt's may be: its algorithm alone has up to 136 bytes
};
static_assert(offsetof(HeuristicResult, longer) == 96);

/// Numbers that differ between cuBLASLt and hipBLASLt (hipblaslt.h of ROCm 6).
struct Dialect {
  int compute_32f, compute_64f, compute_32i, compute_tf32;
  int transpose_a;
  int32_t transposed;
  int batch_count, batch_stride;
};

std::string words_of(const DynLib& library, int code);

class Api {
  const DynLib& library_;   // what the calls are initialised from
  template <class... P>
  using Call = VendorCall<P...>;
#define PROFGPU_CALL(member, name) member{library_, words_of, "cu" name, "hip" name}

 public:
  explicit Api(const DynLib& library) : library_(library) {}

  Call<Handle*> PROFGPU_CALL(create, "blasLtCreate");
  Call<Handle> PROFGPU_CALL(destroy, "blasLtDestroy");
  Call<Description*, int, int> PROFGPU_CALL(create_description, "blasLtMatmulDescCreate");
  Call<Description, int, const void*, size_t> PROFGPU_CALL(set_description, "blasLtMatmulDescSetAttribute");
  Call<Description> PROFGPU_CALL(destroy_description, "blasLtMatmulDescDestroy");
  Call<MatrixLayout*, int, uint64_t, uint64_t, int64_t> PROFGPU_CALL(create_layout, "blasLtMatrixLayoutCreate");
  Call<MatrixLayout, int, const void*, size_t> PROFGPU_CALL(set_layout, "blasLtMatrixLayoutSetAttribute");
  Call<MatrixLayout> PROFGPU_CALL(destroy_layout, "blasLtMatrixLayoutDestroy");
  Call<Preference*> PROFGPU_CALL(create_preference, "blasLtMatmulPreferenceCreate");
  Call<Preference, int, const void*, size_t> PROFGPU_CALL(set_preference, "blasLtMatmulPreferenceSetAttribute");
  Call<Preference> PROFGPU_CALL(destroy_preference, "blasLtMatmulPreferenceDestroy");
  Call<Handle, Description, MatrixLayout, MatrixLayout, MatrixLayout, MatrixLayout, Preference, int, HeuristicResult*,
       int*>
      PROFGPU_CALL(choose, "blasLtMatmulAlgoGetHeuristic");
  Call<Handle, Description, const void*, cuda::Address, MatrixLayout, cuda::Address, MatrixLayout, const void*,
       cuda::Address, MatrixLayout, cuda::Address, MatrixLayout, const Algorithm*, cuda::Address, size_t, cuda::Stream>
      PROFGPU_CALL(multiply, "blasLtMatmul");
#undef PROFGPU_CALL
};

class Library : public VendorLibrary<Api> {
 public:
  /// Of devices of AMD hipBLASLt, by PROFGPU_HIPBLASLT_LIBRARY or ROCm's names. Else cuBLASLt by
  /// PROFGPU_CUBLASLT_LIBRARY where it is set, else the toolkit's, else that of a Python environment.
  static Result<std::shared_ptr<Library>> open(bool hip);
  [[nodiscard]] const Dialect& dialect() const;

 private:
  Library(DynLib library, bool hip) : VendorLibrary(std::move(library)), hip_(hip) {}
  bool hip_;
};

/// A precision of products, with the types of their matrices.
struct ProductKind {
  const char* name;                ///< "bf16"
  ComputeType compute;
  DataType scale, factor, result;
  int64_t factor_bytes, result_bytes;   ///< of an element
};

/// All kinds, in the order in which they are measured.
std::span<const ProductKind> product_kinds();
/// Null: the library has no such products.
const ProductKind* product_kind(std::string_view name);

/// A has k rows and m columns, B has k rows and n columns, D has m rows and n columns; a batch of each.
struct ProductShape {
  int64_t m, n, k, batch = 1;

  [[nodiscard]] double operations() const {
    return 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k) * static_cast<double>(batch);
  }
};

/// D = Aᵀ B, by the algorithm that the library takes for the best: the layout that has kernels in all precisions.
class Product {
 public:
  static Result<std::unique_ptr<Product>> make(const std::shared_ptr<Library>& library, const cuda::Device& device,
                                               const ProductKind& kind, const ProductShape& shape);
  ~Product();
  Product(const Product&) = delete;
  Product& operator=(const Product&) = delete;

  Status multiply() const { return multiply(device_.stream()); }
  Status multiply(cuda::Stream stream) const;
  [[nodiscard]] cuda::Address result() const { return memory_[2].address(); }
  static constexpr int64_t kWorkspaceBytes = int64_t{32} << 20;   // what NVIDIA recommends for Hopper and later

 private:
  Product(std::shared_ptr<Library> library, const cuda::Device& device, const ProductKind& kind)
      : library_(std::move(library)), api_(library_->api), device_(device), kind_(kind) {}
  Status describe(const ProductShape& shape);
  Status create_layout(MatrixLayout* layout, DataType type, int64_t rows, int64_t columns, int64_t batch) const;
  Status allocate(const ProductShape& shape);

  std::shared_ptr<Library> library_;
  const Api& api_;
  const cuda::Device& device_;
  const ProductKind& kind_;
  Handle handle_ = nullptr;
  Description description_ = nullptr;
  MatrixLayout a_ = nullptr, b_ = nullptr, d_ = nullptr;
  HeuristicResult chosen_{};
  std::vector<cuda::DeviceMemory> memory_;   // A, B, D, workspace
};

}  // namespace profgpu::cublas
