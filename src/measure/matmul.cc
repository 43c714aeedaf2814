// matmul: what products of matrices reach, by precision and size, through the library that frameworks use. Of a job
// (--from) its own products, each alone.
#include <fmt/format.h>

#include <span>

#include "measure/benchmark.h"
#include "measure/cache_flush.h"
#include "measure/cublas_library.h"

namespace profgpu {
namespace {

constexpr int64_t kShortMatmul[] = {2048, 8192}, kFullMatmul[] = {512, 1024, 2048, 4096, 8192, 16384};

void product(Bench& bench, const std::shared_ptr<cublas::Library>& library, const cuda::Device& d,
             const cublas::ProductKind& kind, const cublas::ProductShape& shape, Figure f, const CacheFlush* flush) {
  f.unit = kind.factor == cublas::kR8I ? "TOP/s" : "TFLOP/s";
  bench.begin(f);
  const auto made = cublas::Product::make(library, d, kind, shape);
  if (!made) return bench.miss(f, made.error());
  const auto multiply = [&] { return (*made)->multiply(); };
  // Back to back each product finds what the one before left in the cache.
  f.cache = "warm";
  bench.measure(f, shape.operations() / 1e3, [&](int64_t calls) {
    return d.device_ns([&] { return times(calls, multiply); });
  });
  if (!flush) return;
  // It is no peak, so that it names no precision.
  f.cache = "cold", f.precision.clear();
  f.name = fmt::format("{}_cold_{}", kind.name, shape.m), f.label += ", cold cache";
  bench.measure(f, shape.operations() / 1e3, [&](int64_t calls) { return flush->cold_ns(calls, multiply); });
}

// The job's products on the first device: what each reaches alone. They are no peaks, so that they name no precision.
void wanted_products(Bench& bench, const std::shared_ptr<cublas::Library>& library, const cuda::Device& d) {
  for (const WantedProduct& w : bench.options.products) {
    const std::string batch = w.batch > 1 ? fmt::format("{}×", w.batch) : "";
    Figure f = bench.figure(fmt::format("from_{}_{}x{}x{}x{}", w.precision, w.batch, w.m, w.n, w.k),
                            fmt::format("{} {}({}×{}) by ({}×{})", w.precision, batch, w.m, w.k, w.k, w.n), &d);
    const cublas::ProductShape shape{w.m, w.n, w.k, w.batch};
    if (w.device_ns > 0)
      f.in_trace = shape.operations() * static_cast<double>(w.calls) / 1e3 / static_cast<double>(w.device_ns);
    const cublas::ProductKind* kind = cublas::product_kind(w.precision);
    if (kind) product(bench, library, d, *kind, shape, f, nullptr);
    else bench.miss(f, {"bench has no GEMMs in " + w.precision});
  }
}

// In the short set with a cold cache only what a cache can hold.
void all_products(Bench& bench, const std::shared_ptr<cublas::Library>& library, const BenchDevice& d,
                  std::span<const int64_t> sizes) {
  bench.begin(bench.figure("", "allocating buffers", d.cuda.get()));
  const auto memory = CacheFlush::allocate(*d.cuda);
  std::optional<CacheFlush> flush;
  if (memory) flush.emplace(*d.cuda, *memory);
  else
    bench.miss(bench.figure("", "GEMMs with a cold cache", d.cuda.get()), memory.error(), MissKind::kSkipped);
  for (const cublas::ProductKind& kind : cublas::product_kinds())
    for (const int64_t size : sizes) {
      if (d.lost) continue;
      Figure f = bench.figure(fmt::format("{}_{}", kind.name, size), fmt::format("{} {}³", kind.name, size),
                              d.cuda.get());
      f.precision = kind.name, f.size = size;
      const bool cold = flush && (bench.options.full || size == sizes.front());
      product(bench, library, *d.cuda, kind, {size, size, size}, f, cold ? &*flush : nullptr);
    }
}

void run_matmul(Bench& bench) {
  bench.begin(bench.figure("", "opening cuBLASLt"));
  const auto library = cublas::Library::open(bench.hip());
  if (!library) return bench.miss(bench.figure("", ""), library.error());
  const auto sizes = bench.options.full ? std::span<const int64_t>(kFullMatmul) : std::span<const int64_t>(kShortMatmul);
  bool wanted = !bench.options.products.empty();
  bench.each_device([&](BenchDevice& d) {
    if (!bench.options.products.empty()) {
      if (wanted) wanted_products(bench, *library, *d.cuda);
      wanted = false;
      return;
    }
    all_products(bench, *library, d, sizes);
  });
}

}  // namespace

extern const Benchmark kMatmul{
    .name = "matmul",
    .summary = "GEMMs by precision and size, through cuBLASLt",
    .run = run_matmul,
};

}  // namespace profgpu
