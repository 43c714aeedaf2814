// Interval sweeps over as many intervals as a long trace has kernels.
#include <benchmark/benchmark.h>

#include "trace/intervals.h"

namespace {

profgpu::Intervals every(int64_t count, int64_t step, int64_t length) {
  profgpu::Intervals all;
  for (int64_t i = 0; i < count; ++i) all.push_back({i * step, i * step + length});
  return all;
}

void merge_in_order(benchmark::State& state) {
  const auto all = every(state.range(0), 10, 8);
  for (auto _ : state) benchmark::DoNotOptimize(profgpu::merged(all));
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(merge_in_order)->Arg(1'000'000);

void merge_shuffled(benchmark::State& state) {
  auto all = every(state.range(0), 10, 8);
  uint64_t seed = 1;
  for (size_t i = all.size(); i-- > 1;) {
    seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
    std::swap(all[i], all[(seed >> 33) % (i + 1)]);
  }
  for (auto _ : state) benchmark::DoNotOptimize(profgpu::merged(all));
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(merge_shuffled)->Arg(1'000'000);

void subtract(benchmark::State& state) {
  const auto a = every(state.range(0), 10, 8), b = every(state.range(0), 13, 5);
  for (auto _ : state) benchmark::DoNotOptimize(profgpu::subtract(a, b));
  state.SetItemsProcessed(state.iterations() * state.range(0) * 2);
}
BENCHMARK(subtract)->Arg(1'000'000);

void overlap_in_many_windows(benchmark::State& state) {
  const auto all = every(1'000'000, 10, 8);
  int64_t at = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(profgpu::overlap_length(all, {at, at + 500}));
    at = (at + 7919) % 9'000'000;
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(overlap_in_many_windows);

}  // namespace
