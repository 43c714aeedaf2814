// Gzip'd trace text, streamed in pieces of 256 KB on one core with its checksum: our reader (which takes
// ISA-L's igzip where libisal.so.2 is found, else zlib), zlib alone, igzip alone, and libdeflate, which wants the whole
// text in memory.
#include <benchmark/benchmark.h>
#include <dlfcn.h>
#include <libdeflate.h>
#include <zlib.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "base/text_source.h"
#include "tests/support/simulator.h"

namespace {

constexpr size_t kPiece = 256 << 10;

struct Sample {
  std::string path, packed;
  size_t text_bytes = 0;
};

// About 30 MB of text; made once.
const Sample& sample() {
  static const Sample made = [] {
    Sample s;
    profgpu::sim::SimOptions options;
    options.steps = 300;
    const std::string text = profgpu::sim::kineto_text(profgpu::sim::simulate(options)->traces.front(), {});
    s.text_bytes = text.size();
    s.packed.resize(text.size());
    z_stream z{};
    deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
    z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data())), z.avail_in = static_cast<uInt>(text.size());
    z.next_out = reinterpret_cast<Bytef*>(s.packed.data()), z.avail_out = static_cast<uInt>(s.packed.size());
    deflate(&z, Z_FINISH);
    s.packed.resize(z.total_out);
    deflateEnd(&z);
    s.path = std::filesystem::temp_directory_path() / "profgpu-inflate-bench.json.gz";
    std::ofstream(s.path, std::ios::binary) << s.packed;
    return s;
  }();
  return made;
}

void report(benchmark::State& state, size_t bytes) {
  if (bytes != sample().text_bytes) state.SkipWithError("it is not the text");
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(bytes));
}

void ours(benchmark::State& state) {
  size_t bytes = 0;
  std::string piece(kPiece, '\0');
  sample();
  for (auto _ : state) {
    auto source = profgpu::open_text(sample().path);
    bytes = 0;
    while ((*source)->end() == profgpu::TextSource::End::kOpen) bytes += (*source)->read(piece.data(), piece.size());
  }
  report(state, bytes);
}
BENCHMARK(ours)->UseRealTime();

void with_zlib(benchmark::State& state) {
  size_t bytes = 0;
  std::string piece(kPiece, '\0');
  const std::string& packed = sample().packed;
  for (auto _ : state) {
    z_stream z{};
    inflateInit2(&z, 15 + 16);
    z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data())),
    z.avail_in = static_cast<uInt>(packed.size());
    int rc = Z_OK;
    while (rc == Z_OK) {
      z.next_out = reinterpret_cast<Bytef*>(piece.data()), z.avail_out = kPiece;
      rc = inflate(&z, Z_NO_FLUSH);
    }
    bytes = z.total_out;
    inflateEnd(&z);
  }
  report(state, bytes);
}
BENCHMARK(with_zlib)->UseRealTime();

void with_libdeflate(benchmark::State& state) {
  size_t bytes = 0;
  std::string text(sample().text_bytes, '\0');
  for (auto _ : state) {
    libdeflate_decompressor* d = libdeflate_alloc_decompressor();
    libdeflate_gzip_decompress(d, sample().packed.data(), sample().packed.size(), text.data(), text.size(), &bytes);
    libdeflate_free_decompressor(d);
  }
  report(state, bytes);
}
BENCHMARK(with_libdeflate)->UseRealTime();

// As igzip_lib.h of ISA-L 2.30 has it, as far as it is used; the rest of the state is room.
struct IsalState {
  uint8_t* next_out;
  uint32_t avail_out, total_out;
  uint8_t* next_in;
  uint64_t read_in;
  uint32_t avail_in;
  int32_t read_in_length;
  char rest[512 << 10];
};

void with_igzip(benchmark::State& state) {
  void* const library = dlopen("libisal.so.2", RTLD_NOW);
  const auto init = library ? reinterpret_cast<void (*)(IsalState*)>(dlsym(library, "isal_inflate_init")) : nullptr;
  const auto run = library ? reinterpret_cast<int (*)(IsalState*)>(dlsym(library, "isal_inflate")) : nullptr;
  const auto skip =
      library ? reinterpret_cast<int (*)(IsalState*, void*)>(dlsym(library, "isal_read_gzip_header")) : nullptr;
  if (!init || !run || !skip) return state.SkipWithError("libisal.so.2 is not installed");
  size_t bytes = 0;
  std::string piece(kPiece, '\0');
  const std::string& packed = sample().packed;
  auto isal = std::make_unique<IsalState>();
  for (auto _ : state) {
    std::memset(isal.get(), 0, sizeof *isal);
    init(isal.get());
    isal->next_in = reinterpret_cast<uint8_t*>(const_cast<char*>(packed.data())) + 10;   // behind a plain header
    isal->avail_in = static_cast<uint32_t>(packed.size()) - 10;
    uint32_t checksum = 0;
    for (bytes = 0;;) {
      isal->next_out = reinterpret_cast<uint8_t*>(piece.data()), isal->avail_out = kPiece;
      if (run(isal.get()) != 0) break;
      const size_t got = kPiece - isal->avail_out;
      checksum = libdeflate_crc32(checksum, piece.data(), got);
      if (got == 0) break;
      bytes += got;
    }
    benchmark::DoNotOptimize(checksum);
  }
  report(state, bytes);
  dlclose(library);
}
BENCHMARK(with_igzip)->UseRealTime();

}  // namespace
