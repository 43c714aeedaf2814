// TraceBuilder::finish(): sorting, nesting and linking of rows that come in order, and of rows that do not.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <string>
#include <vector>

#include "trace/trace_builder.h"

namespace {

constexpr uint32_t kLaunches = 100'000;   // each with an op around it and a kernel

// Row i of the order in which rows are given.
std::vector<uint32_t> order_of(bool shuffled) {
  std::vector<uint32_t> order(kLaunches);
  for (uint32_t i = 0; i < kLaunches; ++i) order[i] = i;
  uint64_t seed = 1;
  for (size_t i = shuffled ? order.size() : 1; i-- > 1;) {
    seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
    std::swap(order[i], order[(seed >> 33) % (i + 1)]);
  }
  return order;
}

void fill(profgpu::Shard& shard, const std::vector<uint32_t>& order) {
  const auto thread = static_cast<uint16_t>(shard.thread("1", "1"));
  const uint16_t queue = shard.queue({0, 7, 0});
  profgpu::StringId names[64];
  for (size_t i = 0; i < 64; ++i) names[i] = shard.strings.intern("name " + std::to_string(i));
  for (const uint32_t i : order) {
    const int64_t at = int64_t{i} * 10'000;
    profgpu::HostRow op;
    op.start_ns = at, op.duration_ns = 9'000, op.name = names[i % 64], op.link = i + 1, op.thread = thread;
    profgpu::HostRow call = op;
    call.start_ns = at + 1'000, call.duration_ns = 4'000, call.kind = profgpu::HostKind::kRuntime;
    profgpu::ActivityRow kernel;
    kernel.start_ns = at + 20'000, kernel.duration_ns = 8'000, kernel.name = names[i % 64], kernel.correlation = i + 1;
    kernel.queue = queue;
    shard.host.push_back(op);
    shard.host.push_back(call);
    shard.activity.push_back(kernel);
  }
}

void finish(benchmark::State& state, bool shuffled, int threads) {
  const auto order = order_of(shuffled);
  for (auto _ : state) {
    state.PauseTiming();
    auto builder = std::make_unique<profgpu::TraceBuilder>();
    fill(builder->shard(), order);
    state.ResumeTiming();
    profgpu::Trace trace = builder->finish(threads);
    benchmark::DoNotOptimize(trace.launched.data());
  }
  state.SetItemsProcessed(state.iterations() * 3 * kLaunches);
}
BENCHMARK_CAPTURE(finish, in_order, false, 1)->UseRealTime();
BENCHMARK_CAPTURE(finish, in_order_two_threads, false, 2)->UseRealTime();
BENCHMARK_CAPTURE(finish, shuffled, true, 1)->UseRealTime();

}  // namespace
