// storage: how fast the files of a data set can be read, from the disk and from the page cache.
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <random>
#include <set>

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
  int64_t unreadable = 0;                          // files and folders
};

/// The files of a folder and its subfolders, links followed. What cannot be read is counted and left out.
class FileWalk {
 public:
  explicit FileWalk(Files& files) : files_(files) {}
  void add(const std::filesystem::path& path) {
    std::error_code error;
    if (std::filesystem::is_directory(path, error)) return add_folder(path);
    if (!std::filesystem::is_regular_file(path, error)) return;
    const auto size = std::filesystem::file_size(path, error);
    if (error || size == 0) return;
    if (::access(path.c_str(), R_OK) != 0) ++files_.unreadable;
    else files_.paths.push_back(path.string()), files_.bytes += static_cast<int64_t>(size);
  }

 private:
  [[nodiscard]] bool enough() const { return files_.bytes >= kMaxRead || files_.paths.size() >= kMaxFiles; }
  void add_folder(const std::filesystem::path& path) {
    struct stat is{};
    if (::stat(path.c_str(), &is) != 0 || !seen_.emplace(is.st_dev, is.st_ino).second) return;
    std::error_code error;
    std::vector<std::filesystem::path> entries;
    for (std::filesystem::directory_iterator at(path, error), end; !error && at != end; at.increment(error))
      entries.push_back(at->path());
    if (error) ++files_.unreadable;
    std::ranges::sort(entries);
    for (const std::filesystem::path& entry : entries) {
      if (enough()) return;
      add(entry);
    }
  }

  Files& files_;
  std::set<std::pair<dev_t, ino_t>> seen_;         // folders: links can lead back
};

Result<Files> files_of(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error))
    return Error{fmt::format("{}: {}", path, error ? error.message() : "No such file or directory")};
  Files files;
  FileWalk(files).add(path);
  if (files.paths.empty() && files.unreadable > 0)
    return Error{fmt::format("{}: {} cannot be read", path, files.unreadable == 1 ? "it" : "what is in it")};
  if (files.paths.empty()) return Error{path + ": no files with content"};
  return files;
}

/// How reads go past the page cache.
enum class DiskAccess { kDirect, kDropped, kMemory };

// Of the file system that the file lies on. Where it cannot be known that a read comes from the disk, it is kMemory.
DiskAccess disk_access(const std::string& path) {
  struct statfs system{};
  constexpr long kInMemory[] = {TMPFS_MAGIC, RAMFS_MAGIC, HUGETLBFS_MAGIC};
  if (::statfs(path.c_str(), &system) == 0 && std::ranges::count(kInMemory, static_cast<long>(system.f_type)) > 0)
    return DiskAccess::kMemory;
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_DIRECT));
  return file ? DiskAccess::kDirect : DiskAccess::kDropped;
}

// From the page cache; pages that wait to be written would stay.
void drop_pages(int file) {
  (void)::fdatasync(file);
  (void)::posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
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
      if (file.get() >= 0) drop_pages(file.get());
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
    if (!direct) drop_pages(file.get());
    const int64_t begin_ns = monotonic_ns();
    for (int64_t i = 0; i < calls; ++i) {
      const auto at = static_cast<int64_t>(random() % blocks * kAlignment);
      if (!read_at(file.get(), at, block.get(), kAlignment)) return Error{*largest + ": " + std::strerror(errno)};
    }
    return static_cast<double>(monotonic_ns() - begin_ns);
  });
}

// How the files are read from the disk; kMemory: they are not, and it is noted.
DiskAccess checked_access(Bench& bench, const Files& files, const std::vector<Figure>& of_disk) {
  const DiskAccess access = disk_access(files.paths.front());
  if (access == DiskAccess::kMemory)
    for (const Figure& f : of_disk)
      bench.miss(f, {bench.options.path + " lies in memory: no disk is read", "name files that lie on a disk"},
                 MissKind::kSkipped);
  if (access == DiskAccess::kDropped)
    bench.note(fmt::format("{}: the file system has no O_DIRECT: files are dropped from the page cache before each "
                           "read, and what stays there counts as read from the disk", bench.options.path));
  return access;
}

void run_storage(Bench& bench) {
  const auto files = files_of(bench.options.path);
  if (!files) return bench.miss(bench.figure("", ""), files.error());
  if (files->unreadable > 0)
    bench.note(fmt::format("{}: left out, as it cannot be read: {} {}", bench.options.path, files->unreadable,
                           files->unreadable == 1 ? "file or folder" : "files and folders"));
  const Figure disk = bench.figure("read_disk", "sequential reads from the disk", nullptr, "GB/s");
  const Figure cached = bench.figure("read_cached", "sequential reads from the page cache", nullptr, "GB/s");
  const Figure random = bench.figure("read_random", "read 4 KiB at a random place of the disk");
  const bool on_disk = checked_access(bench, *files, {disk, random}) != DiskAccess::kMemory;
  if (files->bytes >= kMinRead) {
    if (on_disk) reading(bench, *files, disk, true);
    reading(bench, *files, cached, false);
  } else {
    const Error few = {fmt::format("{} holds {} bytes: too little to measure a rate", bench.options.path, files->bytes),
                       "name a file or a folder of 1 MiB or more"};
    if (on_disk) bench.miss(disk, few);
    bench.miss(cached, few);
  }
  if (on_disk) random_reading(bench, *files, random);
  measure_loader(bench, files->paths);
}

}  // namespace

extern const Benchmark kStorage{
    .name = "storage",
    .summary = "the files of --path: reads from disk and page cache, random reads, decoding, sequences of tokens",
    .of_devices = false,
    .needs_path = true,
    .run = run_storage,
};

}  // namespace profgpu
