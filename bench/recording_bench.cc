// Reading a recording: chunks alone, rows of chunks, and the whole way to a Trace.
#include <benchmark/benchmark.h>
#include <unistd.h>

#include <cstdio>
#include <string>

#include "record/wire/chunk_reader.h"
#include "tests/support/sample_recording.h"
#include "trace/import/importer.h"

namespace {

using namespace profgpu;

const std::string& recording() {
  static const std::string bytes = sample_recording({.steps = 2000, .kernels = 500}).bytes();
  return bytes;
}

void chunks(benchmark::State& state) {
  for (auto _ : state) {
    wire::ChunkReader reader(recording().data(), recording().size());
    int64_t rows = 0;
    for (wire::ChunkView chunk; reader.next(chunk);) rows += chunk.rows();
    benchmark::DoNotOptimize(rows);
  }
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(recording().size()));
}
BENCHMARK(chunks);

template <class Row>
void decode(benchmark::State& state) {
  int64_t rows = 0, bytes = 0;
  std::vector<Row> out;
  for (auto _ : state) {
    wire::ChunkReader reader(recording().data(), recording().size());
    for (wire::ChunkView chunk; reader.next(chunk);) {
      if (chunk.kind != Row::kKind) continue;
      out.assign(chunk.rows(), Row{});
      if (!wire::read_rows(chunk, out.data())) state.SkipWithError("damaged");
      rows += chunk.rows();
      bytes += static_cast<int64_t>(chunk.length);
    }
  }
  state.SetItemsProcessed(rows);
  state.SetBytesProcessed(bytes);
  state.counters["bytes/row"] = static_cast<double>(bytes) / static_cast<double>(rows);
}
BENCHMARK_TEMPLATE(decode, wire::Kernel);
BENCHMARK_TEMPLATE(decode, wire::Call);

void whole_trace(benchmark::State& state) {
  const std::string path = "/tmp/profgpu-recording-bench-" + std::to_string(::getpid()) + ".pgt";
  if (std::FILE* f = std::fopen(path.c_str(), "wb")) {
    std::fwrite(recording().data(), 1, recording().size(), f);
    std::fclose(f);
  }
  ImportOptions options;
  options.threads = static_cast<int>(state.range(0));
  int64_t events = 0;
  for (auto _ : state) {
    auto imported = import_file(path, options);
    if (!imported) state.SkipWithError("unreadable");
    else events += imported->trace.events;
  }
  std::remove(path.c_str());
  state.SetItemsProcessed(events);
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(recording().size()));
}
BENCHMARK(whole_trace)->Arg(1)->Arg(2)->Unit(benchmark::kMillisecond);

}  // namespace
