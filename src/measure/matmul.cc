// matmul: what products of square matrices reach, by precision and size, through the library that frameworks use.
#include <fmt/format.h>

#include <span>

#include "measure/benchmark.h"
#include "measure/cublas_library.h"

namespace profgpu {
namespace {

// FP8 results are BF16, since frameworks take those; INT8 sums are 32 bits.
constexpr cublas::ProductKind kKinds[] = {
    {"fp64", cublas::kCompute64F, cublas::kR64F, cublas::kR64F, cublas::kR64F, 8, 8},
    {"fp32", cublas::kCompute32F, cublas::kR32F, cublas::kR32F, cublas::kR32F, 4, 4},
    {"tf32", cublas::kCompute32FFastTf32, cublas::kR32F, cublas::kR32F, cublas::kR32F, 4, 4},
    {"bf16", cublas::kCompute32F, cublas::kR32F, cublas::kR16BF, cublas::kR16BF, 2, 2},
    {"fp16", cublas::kCompute32F, cublas::kR32F, cublas::kR16F, cublas::kR16F, 2, 2},
    {"fp8", cublas::kCompute32F, cublas::kR32F, cublas::kR8FE4M3, cublas::kR16BF, 1, 2},
    {"int8", cublas::kCompute32I, cublas::kR32I, cublas::kR8I, cublas::kR32I, 1, 4},
};
constexpr int64_t kShortSizes[] = {2048, 8192}, kFullSizes[] = {512, 1024, 2048, 4096, 8192, 16384};

void product(Bench& bench, const std::shared_ptr<cublas::Library>& library, const cuda::Device& d,
             const cublas::ProductKind& kind, int64_t size) {
  Figure f = bench.figure(fmt::format("{}_{}", kind.name, size), fmt::format("{} {}³", kind.name, size), &d,
                          kind.factor == cublas::kR8I ? "TOP/s" : "TFLOP/s");
  f.precision = kind.name;
  bench.begin(f);
  const auto made = cublas::Product::make(library, d, kind, size);
  if (!made) return bench.miss(f, made.error());
  const double tera_ns = 2.0 * static_cast<double>(size) * static_cast<double>(size) * static_cast<double>(size) / 1e3;
  bench.measure(f, tera_ns, [&](int64_t calls) {
    return d.device_ns([&] {
      Status status = ok();
      for (int64_t i = 0; i < calls && status; ++i) status = (*made)->multiply();
      return status;
    });
  });
}

void run_matmul(Bench& bench) {
  bench.begin(bench.figure("", "opening cuBLASLt"));
  const auto library = cublas::Library::open();
  if (!library) return bench.miss(bench.figure("", ""), library.error());
  const auto sizes = bench.options.full ? std::span<const int64_t>(kFullSizes) : std::span<const int64_t>(kShortSizes);
  bench.each_device([&](BenchDevice& d) {
    for (const cublas::ProductKind& kind : kKinds)
      for (const int64_t size : sizes)
        if (!d.lost) product(bench, *library, *d.cuda, kind, size);
  });
}

}  // namespace

extern const Benchmark kMatmul;
const Benchmark kMatmul{
    .name = "matmul",
    .summary = "products of matrices by precision and size, through cuBLASLt",
    .run = run_matmul,
};

}  // namespace profgpu
