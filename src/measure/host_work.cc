#include "measure/host_work.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "base/text.h"
#include "measure/vendor_call.h"

namespace profgpu {
namespace {

constexpr int64_t kLeastPart = 1 << 14;                // elements that are worth waking a thread
constexpr int64_t kTile = 64;                          // three tiles of floats fit the first-level cache of any CPU
// Vectors that any CPU has; the compiler need not find them.
constexpr int64_t kLanes = 4;
using Lanes = float __attribute__((vector_size(kLanes * sizeof(float))));
constexpr int kRowMajor = 101, kNotTransposed = 111;   // of CBLAS

// to += factor row, of `count` elements.
void add_scaled(float* to, const float* row, float factor, int64_t count) {
  int64_t j = 0;
  for (; j + kLanes <= count; j += kLanes) {
    Lanes sum, part;
    std::memcpy(&sum, to + j, sizeof sum);
    std::memcpy(&part, row + j, sizeof part);
    sum += factor * part;
    std::memcpy(to + j, &sum, sizeof sum);
  }
  for (; j < count; ++j) to[j] += factor * row[j];
}

}  // namespace

HostWork::HostWork() {
  auto opened = DynLib::open_first(vendor_library_names(
      "PROFGPU_BLAS_LIBRARY", {"libopenblas.so.0", "libopenblas.so", "libmkl_rt.so.2", "libmkl_rt.so", "libblis.so.4",
                               "libcblas.so.3", "libblas.so.3"}));
  if (!opened) return;
  gemm_ = opened->first_symbol({"cblas_sgemm"});
  if (!gemm_) return;
  product_by_ = base_name(opened->path());
  blas_ = *std::move(opened);
  blas_.leak();   // its threads do not expect to be unloaded
}

void HostWork::cut(int64_t count, const std::function<void(int64_t, int64_t)>& part) {
  const int64_t parts = std::clamp<int64_t>(count / kLeastPart, 1, 4 * workers_.threads());
  workers_.run(parts, [&](int64_t i) { part(count * i / parts, count * (i + 1) / parts); });
}

void HostWork::product(std::span<const float> a, std::span<const float> b, std::span<float> c, int64_t size) {
  const auto n = static_cast<int>(size);
  if (gemm_) gemm_(kRowMajor, kNotTransposed, kNotTransposed, n, n, n, 1, a.data(), n, b.data(), n, 0, c.data(), n);
  else own_product(a, b, c, size);
}

void HostWork::own_product(std::span<const float> a, std::span<const float> b, std::span<float> c, int64_t size) {
  const int64_t tiles = (size + kTile - 1) / kTile;
  workers_.run(tiles, [&](int64_t tile) {
    const int64_t begin = tile * kTile, end = std::min(begin + kTile, size);
    std::fill(c.begin() + begin * size, c.begin() + end * size, 0.0F);
    for (int64_t k0 = 0; k0 < size; k0 += kTile)
      for (int64_t j0 = 0; j0 < size; j0 += kTile)
        for (int64_t i = begin; i < end; ++i)
          for (int64_t k = k0; k < std::min(k0 + kTile, size); ++k)
            add_scaled(c.data() + i * size + j0, b.data() + k * size + j0, a[static_cast<size_t>(i * size + k)],
                       std::min(kTile, size - j0));
  });
}

void HostWork::triad(std::span<const float> a, std::span<const float> b, std::span<float> to) {
  cut(std::ssize(to), [&](int64_t begin, int64_t end) {
    const float *from = a.data(), *other = b.data();
    for (int64_t i = begin; i < end; ++i) to.data()[i] = from[i] + 3 * other[i];
  });
}

uint32_t HostWork::sum(std::span<const uint32_t> data) {
  std::mutex mutex;
  uint32_t all = 0;
  cut(std::ssize(data), [&](int64_t begin, int64_t end) {
    uint32_t part = 0;
    for (int64_t i = begin; i < end; ++i) part += data.data()[i];
    const std::lock_guard lock(mutex);
    all += part;
  });
  return all;
}

void HostWork::sort(std::span<uint32_t> data, std::span<uint32_t> scratch) {
  const int64_t count = std::ssize(data);
  int64_t parts = 1;
  while (parts < workers_.threads() && count / (2 * parts) >= kLeastPart) parts *= 2;
  const auto at = [&](std::span<uint32_t> of, int64_t part, int64_t pieces) {
    return of.data() + count * part / pieces;
  };
  workers_.run(parts, [&](int64_t i) { std::sort(at(data, i, parts), at(data, i + 1, parts)); });
  std::span<uint32_t> from = data, to = scratch;
  for (; parts > 1; parts /= 2, std::swap(from, to))
    workers_.run(parts / 2, [&](int64_t i) {
      std::merge(at(from, 2 * i, parts), at(from, 2 * i + 1, parts), at(from, 2 * i + 1, parts),
                 at(from, 2 * i + 2, parts), at(to, 2 * i, parts));
    });
  if (from.data() != data.data()) std::copy(from.begin(), from.end(), data.begin());
}

void HostWork::butterflies(std::span<float> data) {
  constexpr float kHalfRoot = 0.70710678F;   // keeps the values as large as they are
  const int64_t half = std::ssize(data) / 2;
  for (int64_t stride = 1; stride <= half; stride *= 2)
    cut(half, [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t) {
        const int64_t low = t & (stride - 1), i = 2 * (t - low) + low;
        const float a = data.data()[i], b = data.data()[i + stride];
        data.data()[i] = kHalfRoot * (a + b), data.data()[i + stride] = kHalfRoot * (a - b);
      }
    });
}

}  // namespace profgpu
