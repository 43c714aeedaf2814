// The data loader's part of storage: many files in random order, decoding, sequences of tokens; in samples a second.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <filesystem>
#include <random>

#include "base/clock.h"
#include "base/descriptor.h"
#include "base/text.h"
#include "measure/host_workers.h"
#include "measure/loader.h"
#include "measure/sample_files.h"

namespace profgpu {
namespace {

constexpr size_t kLeastFiles = 16;                     // fewer are shards, and no samples
constexpr size_t kMaxImages = 256;                     // that are decoded
constexpr int64_t kMaxHeld = int64_t{256} << 20;       // bytes of them
constexpr int64_t kSequence = 2048 * 2;                // bytes of a sequence: 2048 tokens of 16 bits
constexpr int64_t kSequences = 4096;                   // of one run
constexpr size_t kMaxShards = 256;                     // that are open at once
constexpr int64_t kMaxSample = int64_t{256} << 20;     // bytes of a file that is one sample

// A file's bytes, up to kMaxSample; empty: it cannot be read.
std::string bytes_of(const std::string& path) {
  std::error_code error;
  const auto size = std::filesystem::file_size(path, error);
  if (error || size == 0 || size > static_cast<uintmax_t>(kMaxSample)) return "";
  std::string bytes(size, '\0');
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  return file && read_at(file.get(), 0, bytes.data(), bytes.size()) ? bytes : std::string();
}

// `count` samples a call, shared by the workers, or by one of them.
std::optional<Figure> samples(Bench& bench, Figure figure, int64_t count, HostWorkers* workers,
                              const std::function<Status(int64_t)>& one) {
  return bench.measure(std::move(figure), static_cast<double>(count) * 1e9,
                       [&](int64_t calls) -> Result<double> {
                         std::atomic<bool> failed = false;
                         Status why = ok();
                         const auto take = [&](int64_t i) {
                           const Status done = one(i);
                           if (!done && !failed.exchange(true)) why = done;
                         };
                         const int64_t begin_ns = monotonic_ns();
                         for (int64_t c = 0; c < calls && !failed; ++c)
                           if (workers) workers->run(count, take);
                           else for (int64_t i = 0; i < count && !failed; ++i) take(i);
                         const int64_t end_ns = monotonic_ns();
                         if (failed) return why.error();
                         return static_cast<double>(end_ns - begin_ns);
                       },
                       Bench::Clock::kHost);
}

void many_files(Bench& bench, std::vector<std::string> paths, HostWorkers& workers) {
  // Larger ones are no samples.
  std::erase_if(paths, [](const std::string& path) {
    std::error_code error;
    const auto size = std::filesystem::file_size(path, error);
    return !error && size > static_cast<uintmax_t>(kMaxSample);
  });
  if (paths.size() < kLeastFiles) return;
  std::ranges::shuffle(paths, std::mt19937(1));
  samples(bench, bench.figure("read_files", "files in random order, all cores", nullptr, "samples/s"),
          std::ssize(paths), &workers, [&](int64_t i) -> Status {
            const std::string& path = paths[static_cast<size_t>(i)];
            const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
            if (!file) return Error{path + ": " + std::strerror(errno)};
            std::string block(1 << 16, '\0');
            for (ssize_t got = 1; got != 0;)
              if (got = ::read(file.get(), block.data(), block.size()); got < 0 && errno != EINTR)
                return Error{path + ": " + std::strerror(errno)};
            return ok();
          });
}

void images(Bench& bench, const std::vector<std::string>& paths, const ImageFormat& format, HostWorkers& workers) {
  std::vector<std::string> held;
  int64_t bytes = 0;
  for (const std::string& path : paths) {
    const std::string name = lower_case(base_name(path));
    if (std::ranges::none_of(format.endings, [&](std::string_view end) { return name.ends_with(end); })) continue;
    if (held.size() >= kMaxImages || bytes > kMaxHeld) break;
    if (std::string image = bytes_of(path); !image.empty())
      bytes += std::ssize(image), held.push_back(std::move(image));
  }
  if (held.empty()) return;
  const std::string name = lower_case(format.name);
  const auto figure = [&](const char* how, const char* label) {
    return bench.figure(fmt::format("decode_{}_{}", name, how), fmt::format("decode {}, {}", format.name, label),
                        nullptr, "samples/s");
  };
  const auto decoder = format.open();
  if (!decoder) return bench.miss(figure("all", "all cores"), decoder.error());
  bench.begin(figure("all", "all cores"));
  std::erase_if(held, [&](const std::string& image) { return !(*decoder)->decode(image); });
  if (held.empty())
    return bench.miss(figure("all", "all cores"),
                      {fmt::format("no file is a {} image that can be decoded", format.name)});
  const auto one = [&](int64_t i) { return (*decoder)->decode(held[static_cast<size_t>(i)]); };
  samples(bench, figure("one", "one core"), std::ssize(held), nullptr, one);
  samples(bench, figure("all", "all cores"), std::ssize(held), &workers, one);
}

struct Shard {
  Descriptor file;
  int64_t size;
};

void tokens(Bench& bench, const std::vector<std::string>& paths, HostWorkers& workers) {
  std::vector<Shard> shards;
  for (const std::string& path : paths) {
    if (!is_token_shard(path) || shards.size() >= kMaxShards) continue;
    std::error_code error;
    const auto size = std::filesystem::file_size(path, error);
    Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!error && file && size > static_cast<uintmax_t>(kSequence))
      shards.push_back({std::move(file), static_cast<int64_t>(size)});
  }
  if (shards.empty()) return;
  std::mt19937_64 random(1);
  std::vector<std::pair<const Shard*, int64_t>> begins;
  for (int64_t i = 0; i < kSequences; ++i) {
    const Shard& shard = shards[random() % shards.size()];
    begins.emplace_back(&shard, static_cast<int64_t>(random() % static_cast<uint64_t>(shard.size - kSequence)));
  }
  samples(bench, bench.figure("token_sequences", "sequences of 2048 tokens at random, all cores", nullptr, "samples/s"),
          kSequences, &workers, [&](int64_t i) -> Status {
            thread_local std::vector<char> sequence(kSequence);
            const auto& [shard, at] = begins[static_cast<size_t>(i)];
            if (!read_at(shard->file.get(), at, sequence.data(), sequence.size()))
              return Error{"a shard became shorter meanwhile"};
            return ok();
          });
}

}  // namespace

void measure_loader(Bench& bench, const std::vector<std::string>& paths) {
  HostWorkers workers;
  many_files(bench, paths, workers);
  for (const ImageFormat& format : image_formats()) images(bench, paths, format, workers);
  tokens(bench, paths, workers);
}

}  // namespace profgpu
