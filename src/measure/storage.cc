// storage: how fast the files of a data set can be read, from the disk and from the page cache.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <random>

#include "base/clock.h"
#include "base/descriptor.h"
#include "measure/benchmark.h"
#include "measure/loader.h"

namespace profgpu {
namespace {

constexpr size_t kBlock = 1 << 20, kAlignment = 4096;
constexpr int64_t kMaxRead = int64_t{1} << 30;    // of one run
constexpr int64_t kMinRead = 1 << 20;              // fewer take no time beside opening the files
constexpr size_t kMaxFiles = 10'000;
constexpr uint64_t kLeastBlocks = 64;              // of a file that is read at random

struct FreeAligned {
  void operator()(char* p) const { std::free(p); }
};
using Block = std::unique_ptr<char, FreeAligned>;

struct Files {
  std::vector<std::string> paths;
  int64_t bytes = 0;
};

// The file, or the files of the folder and its subfolders, in order of their names.
Result<Files> files_of(const std::string& path) {
  std::error_code error;
  Files files;
  const auto add = [&](const std::filesystem::path& file) {
    const auto size = std::filesystem::file_size(file, error);
    if (!error && size > 0)
      files.paths.push_back(file.string()), files.bytes += static_cast<int64_t>(size);
  };
  if (std::filesystem::is_regular_file(path, error)) add(path);
  else
    for (std::filesystem::recursive_directory_iterator at(path, error), end;
         !error && at != end && files.bytes < kMaxRead && files.paths.size() < kMaxFiles; at.increment(error))
      if (at->is_regular_file(error)) add(at->path());
  if (files.paths.empty())
    return Error{error ? fmt::format("{}: {}", path, error.message()) : path + ": no files with content"};
  std::ranges::sort(files.paths);
  return files;
}

// All files to their end, or until kMaxRead; returns the bytes. `direct`: past the page cache, by O_DIRECT where the
// file system has it, else by dropping the file's pages first.
Result<int64_t> read_all(const Files& files, char* block, bool direct) {
  int64_t sum = 0;
  for (const std::string& path : files.paths) {
    constexpr int flags = O_RDONLY | O_CLOEXEC;
    Descriptor file(::open(path.c_str(), direct ? flags | O_DIRECT : flags));
    if (file.get() < 0 && direct) {
      file = Descriptor(::open(path.c_str(), flags));
      if (file.get() >= 0) ::posix_fadvise(file.get(), 0, 0, POSIX_FADV_DONTNEED);
    }
    if (file.get() < 0) return Error{path + ": " + std::strerror(errno)};
    for (ssize_t got = 1; got > 0 && sum < kMaxRead; sum += std::max<ssize_t>(got, 0)) {
      got = ::read(file.get(), block, kBlock);
      if (got < 0 && errno != EINTR) return Error{path + ": " + std::strerror(errno)};
    }
  }
  return sum;
}

void reading(Bench& bench, const Files& files, Figure figure, bool direct) {
  const Block block(static_cast<char*>(std::aligned_alloc(kAlignment, kBlock)));
  bench.measure(std::move(figure), static_cast<double>(std::min(files.bytes, kMaxRead)),
                [&](int64_t calls) -> Result<double> {
                  const int64_t begin_ns = monotonic_ns();
                  int64_t bytes = 0;
                  for (int64_t i = 0; i < calls; ++i) {
                    const auto got = read_all(files, block.get(), direct);
                    if (!got) return got.error();
                    bytes += *got;
                  }
                  // In proportion, should a file have changed meanwhile.
                  const double expected = static_cast<double>(std::min(files.bytes, kMaxRead) * calls);
                  const auto took_ns = static_cast<double>(monotonic_ns() - begin_ns);
                  return took_ns * expected / static_cast<double>(std::max<int64_t>(bytes, 1));
                });
}

// Blocks at random places past the page cache, one after the other: what a loader that picks samples waits for.
void random_reading(Bench& bench, const Files& files, Figure figure) {
  const std::string* largest = nullptr;
  std::error_code error;
  uintmax_t size = 0;
  for (const std::string& path : files.paths)
    if (const auto own = std::filesystem::file_size(path, error); !error && own > size) largest = &path, size = own;
  const uint64_t blocks = size / kAlignment;
  if (!largest || blocks < kLeastBlocks) return;   // all of it is in one read
  constexpr int flags = O_RDONLY | O_CLOEXEC;
  Descriptor file(::open(largest->c_str(), flags | O_DIRECT));
  const bool direct = bool(file);
  if (!direct) file = Descriptor(::open(largest->c_str(), flags));
  if (!file) return bench.miss(figure, {*largest + ": " + std::strerror(errno)});
  const Block block(static_cast<char*>(std::aligned_alloc(kAlignment, kAlignment)));
  std::mt19937_64 random(1);
  bench.measure(std::move(figure), 0, [&](int64_t calls) -> Result<double> {
    if (!direct) ::posix_fadvise(file.get(), 0, 0, POSIX_FADV_DONTNEED);
    const int64_t begin_ns = monotonic_ns();
    for (int64_t i = 0; i < calls; ++i) {
      const auto at = static_cast<int64_t>(random() % blocks * kAlignment);
      if (!read_at(file.get(), at, block.get(), kAlignment)) return Error{*largest + ": " + std::strerror(errno)};
    }
    return static_cast<double>(monotonic_ns() - begin_ns);
  });
}

void run_storage(Bench& bench) {
  const auto files = files_of(bench.options.path);
  if (!files) return bench.miss(bench.figure("", ""), files.error());
  const Figure disk = bench.figure("read_disk", "sequential reads from the disk", nullptr, "GB/s");
  const Figure cached = bench.figure("read_cached", "sequential reads from the page cache", nullptr, "GB/s");
  if (files->bytes >= kMinRead) {
    reading(bench, *files, disk, true);
    reading(bench, *files, cached, false);
  } else {
    const Error few = {fmt::format("{} holds {} bytes: too little to measure a rate", bench.options.path, files->bytes),
                       "name a file or a folder of 1 MiB or more"};
    bench.miss(disk, few), bench.miss(cached, few);
  }
  random_reading(bench, *files, bench.figure("read_random", "read 4 KiB at a random place of the disk"));
  measure_loader(bench, files->paths);
}

}  // namespace

extern const Benchmark kStorage;
const Benchmark kStorage{
    .name = "storage",
    .summary = "the files of --path: reads from disk and page cache, random reads, decoding, sequences of tokens",
    .of_devices = false,
    .needs_path = true,
    .run = run_storage,
};

}  // namespace profgpu
