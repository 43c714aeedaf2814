// The pull reader over the text of a simulated trace: every key of every event, values skipped.
#include <benchmark/benchmark.h>

#include <string>

#include "base/json_reader.h"
#include "tests/support/simulator.h"

namespace {

using profgpu::JsonReader;

// Followed by the padding that the reader wants; made once.
const std::string& simulated_text() {
  static const std::string text = [] {
    auto job = profgpu::sim::simulate({});
    return profgpu::sim::kineto_text(job->traces.front(), {}) + std::string(profgpu::kJsonPadding, ' ');
  }();
  return text;
}

void skip_whole_text(benchmark::State& state) {
  const std::string& text = simulated_text();
  const char* end = text.data() + text.size() - profgpu::kJsonPadding;
  for (auto _ : state) {
    JsonReader reader(text.data(), end);
    if (!reader.skip_value()) state.SkipWithError("the text was not read");
  }
  state.SetBytesProcessed(state.iterations() * (end - text.data()));
}
BENCHMARK(skip_whole_text);

void visit_every_key(benchmark::State& state) {
  const std::string& text = simulated_text();
  const char* end = text.data() + text.size() - profgpu::kJsonPadding;
  for (auto _ : state) {
    JsonReader reader(text.data(), end);
    size_t keys = 0;
    const bool ok = profgpu::read_object(reader, [&](std::string_view name) {
      if (name != "traceEvents") return reader.skip_value();
      return profgpu::read_array(reader, [&] {
        return profgpu::read_object(reader, [&](std::string_view) {
          ++keys;
          return reader.skip_value();
        });
      });
    });
    if (!ok) state.SkipWithError("the text was not read");
    benchmark::DoNotOptimize(keys);
  }
  state.SetBytesProcessed(state.iterations() * (end - text.data()));
}
BENCHMARK(visit_every_key);

}  // namespace
