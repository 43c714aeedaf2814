// Interning: names that are known already (nearly all of a trace's) and names that are new.
#include <benchmark/benchmark.h>

#include <string>
#include <vector>

#include "trace/string_pool.h"

namespace {

std::vector<std::string> names(size_t count) {
  std::vector<std::string> all;
  for (size_t i = 0; i < count; ++i)
    all.push_back("void at::native::vectorized_elementwise_kernel<4, functor_" + std::to_string(i * 2654435761U) + ">");
  return all;
}

void intern_known(benchmark::State& state) {
  const auto all = names(static_cast<size_t>(state.range(0)));
  profgpu::StringPool pool;
  for (const auto& n : all) pool.intern(n);
  size_t i = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(pool.intern(all[i]));
    if (++i == all.size()) i = 0;
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(intern_known)->Arg(100)->Arg(10'000);

void intern_new(benchmark::State& state) {
  const auto all = names(10'000);
  for (auto _ : state) {
    profgpu::StringPool pool;
    for (const auto& n : all) benchmark::DoNotOptimize(pool.intern(n));
  }
  state.SetItemsProcessed(state.iterations() * static_cast<int64_t>(all.size()));
}
BENCHMARK(intern_new);

}  // namespace
