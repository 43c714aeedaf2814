// What the CPU does in the place of a GPU, with all cores.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/dyn_lib.h"
#include "measure/host_workers.h"

namespace profgpu {

class HostWork {
 public:
  /// Products by a BLAS where the system has one: PROFGPU_BLAS_LIBRARY, else OpenBLAS, MKL, BLIS or any other.
  HostWork();

  /// c = a b, square, row by row.
  void product(std::span<const float> a, std::span<const float> b, std::span<float> c, int64_t size);
  /// a + 3 b.
  void triad(std::span<const float> a, std::span<const float> b, std::span<float> to);
  uint32_t sum(std::span<const uint32_t> data);
  /// `scratch` is as large as `data`.
  void sort(std::span<uint32_t> data, std::span<uint32_t> scratch);
  /// The passes of a fast Fourier transform without its factors: sums and differences at distances 1, 2, 4 …, of a
  /// power of two of elements.
  void butterflies(std::span<float> data);
  /// "libopenblas.so.0", "own loop".
  [[nodiscard]] const std::string& product_by() const { return product_by_; }

 private:
  // Cuts `count` elements in parts that are worth a thread.
  void cut(int64_t count, const std::function<void(int64_t begin, int64_t end)>& part);
  void own_product(std::span<const float> a, std::span<const float> b, std::span<float> c, int64_t size);

  HostWorkers workers_;
  DynLib blas_;
  std::string product_by_ = "own loop";
  void (*gemm_)(int, int, int, int, int, int, float, const float*, int, const float*, int, float, float*,
                int) = nullptr;
};

}  // namespace profgpu
