// Exact numbers from decimal text, as a trace writes its times.
#include <benchmark/benchmark.h>

#include <vector>

#include "base/decimal.h"

static void microseconds(benchmark::State& state) {
  static constexpr char kTimes[][32] = {"4458676388996.375",    "14.115", "1623142623460947", "0.896",
                                        "1718000000000000.123", "3"};
  std::vector<std::string_view> times(std::begin(kTimes), std::end(kTimes));
  size_t i = 0;
  for (auto _ : state) benchmark::DoNotOptimize(profgpu::padded_scaled_decimal(times[i++ % times.size()], 3));
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(microseconds);

static void whole_numbers(benchmark::State& state) {
  constexpr const char* kNumbers[] = {"0", "7", "41200", "123456", "4294967295"};
  size_t i = 0;
  for (auto _ : state) benchmark::DoNotOptimize(profgpu::whole_number(kNumbers[i++ % std::size(kNumbers)]));
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(whole_numbers);
