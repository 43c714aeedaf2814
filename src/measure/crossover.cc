// crossover: from which size on the GPU is faster than all cores, its data being there, and with copies there and back.
#include <fmt/format.h>

#include <algorithm>
#include <random>
#include <span>

#include "base/clock.h"
#include "measure/benchmark.h"
#include "measure/cublas_library.h"
#include "measure/host_work.h"
#include "measure/kernels.h"

namespace profgpu {
namespace {

using cuda::Device, cuda::DeviceMemory, cuda::PinnedMemory;

constexpr int64_t kElements[] = {1 << 10, 1 << 12, 1 << 14, 1 << 16, 1 << 18, 1 << 20, 1 << 22, 1 << 24};
constexpr int64_t kProducts[] = {8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096};
constexpr size_t kShortStep = 2, kShortCount = 4;      // without --full: each second size, and so many
constexpr int64_t kWord = 4;                           // bytes of an element

/// Buffers of one size, on the host and on the device: two that are read, one that is written.
struct Side {
  std::vector<PinnedMemory> host;
  std::vector<DeviceMemory> device;
  int64_t count;                                       // elements of each

  template <class T>
  [[nodiscard]] std::span<T> on_host(size_t i) const {
    return {static_cast<T*>(host[i].data()), static_cast<size_t>(count)};
  }
  [[nodiscard]] cuda::Address on_device(size_t i) const { return device[i].address(); }
  [[nodiscard]] size_t bytes() const { return static_cast<size_t>(count * kWord); }
};

Result<Side> side_of(const Device& d, int64_t count) {
  Side s{{}, {}, count};
  for (int i = 0; i < 3; ++i) {
    auto pinned = PinnedMemory::allocate(d, count * kWord);
    if (!pinned) return pinned.error();
    auto memory = DeviceMemory::allocate(d, count * kWord);
    if (!memory) return memory.error();
    s.host.push_back(std::move(*pinned)), s.device.push_back(std::move(*memory));
  }
  std::mt19937 random(1);
  for (size_t i = 0; i < 2; ++i)
    for (float& x : s.on_host<float>(i)) x = static_cast<float>(random() >> 8) * 0x1p-24F;
  return s;
}

/// One kind of work: how the CPU does it, what goes there and back, and how the GPU does it.
struct Contest {
  const char *name, *label;
  std::span<const int64_t> sizes;
  int64_t (*elements)(int64_t size);
  size_t inputs;                                       // buffers that are copied there: 1 or 2
  size_t output;                                       // the buffer that is copied back
  int64_t result;                                      // its bytes; 0: all
  void (*cpu)(HostWork& work, const Side& s, int64_t size);
  /// What it needs beside the buffers is made here, once for a size.
  Result<std::function<Status()>> (*gpu)(const Device& d, const Side& s, int64_t size);
};

int64_t as_many(int64_t size) { return size; }

// A kernel of ours with these parameters.
Result<std::function<Status()>> kernel_call(const Device& d, const char* name, std::vector<uint64_t> parameters) {
  const cuda::Function kernel = d.kernel(name);
  if (!kernel) return d.kernels() ? Error{"the driver does not find the kernel"} : d.kernels().error();
  return std::function<Status()>([&d, kernel, parameters] { return d.launch(kernel, parameters); });
}

Result<std::function<Status()>> product_on_gpu(const Device& d, const Side&, int64_t size) {
  const auto library = cublas::Library::open(d.hip());
  if (!library) return library.error();
  auto made = cublas::Product::make(*library, d, *cublas::product_kind("fp32"), {size, size, size});
  if (!made) return made.error();
  return std::function<Status()>([product = std::shared_ptr(*std::move(made))] { return product->multiply(); });
}

// Bitonic: every stage compares at falling distances.
Result<std::function<Status()>> sort_on_gpu(const Device& d, const Side& s, int64_t size) {
  const cuda::Function kernel = d.kernel("profgpu_sort");
  if (!kernel) return d.kernels() ? Error{"the driver does not find the kernel"} : d.kernels().error();
  return std::function<Status()>([&d, &s, kernel, count = static_cast<uint64_t>(size)] {
    Status status = ok();
    for (uint64_t block = 2; block <= count; block *= 2)
      for (uint64_t stride = block / 2; stride > 0 && status; stride /= 2)
        status = d.launch(kernel, {s.on_device(0), count, stride, block});
    return status;
  });
}

Result<std::function<Status()>> butterflies_on_gpu(const Device& d, const Side& s, int64_t size) {
  const cuda::Function kernel = d.kernel("profgpu_butterfly");
  if (!kernel) return d.kernels() ? Error{"the driver does not find the kernel"} : d.kernels().error();
  return std::function<Status()>([&d, &s, kernel, count = static_cast<uint64_t>(size)] {
    Status status = ok();
    for (uint64_t stride = 1; stride < count && status; stride *= 2)
      status = d.launch(kernel, {s.on_device(0), count, stride, 0});
    return status;
  });
}

uint64_t blocks_of(int64_t size) { return static_cast<uint64_t>(size * kWord / kKernelElementBytes); }

const Contest kContests[] = {
    {"product", "GEMM in FP32", kProducts, [](int64_t n) { return n * n; }, 2, 2, 0,
     [](HostWork& w, const Side& s, int64_t n) {
       w.product(s.on_host<float>(0), s.on_host<float>(1), s.on_host<float>(2), n);
     },
     product_on_gpu},
    {"elementwise", "a + 3 b in FP32", kElements, as_many, 2, 2, 0,
     [](HostWork& w, const Side& s, int64_t) {
       w.triad(s.on_host<float>(0), s.on_host<float>(1), s.on_host<float>(2));
     },
     [](const Device& d, const Side& s, int64_t size) {
       return kernel_call(d, "profgpu_triad", {s.on_device(0), s.on_device(1), s.on_device(2), blocks_of(size)});
     }},
    {"reduction", "sum of 32-bit numbers", kElements, as_many, 1, 2, kWord,
     [](HostWork& w, const Side& s, int64_t) { s.on_host<uint32_t>(2)[0] = w.sum(s.on_host<uint32_t>(0)); },
     [](const Device& d, const Side& s, int64_t size) {
       return kernel_call(d, "profgpu_sum", {s.on_device(0), s.on_device(2), blocks_of(size)});
     }},
    {"sort", "sort of 32-bit numbers", kElements, as_many, 1, 0, 0,
     [](HostWork& w, const Side& s, int64_t) {
       // From the same order each time; the copy counts, it is a small part.
       std::ranges::copy(s.on_host<uint32_t>(1), s.on_host<uint32_t>(0).begin());
       w.sort(s.on_host<uint32_t>(0), s.on_host<uint32_t>(2));
     },
     sort_on_gpu},
    {"fft_passes", "passes of a transform in FP32", kElements, as_many, 1, 0, 0,
     [](HostWork& w, const Side& s, int64_t) { w.butterflies(s.on_host<float>(0)); }, butterflies_on_gpu},
};

// By the host's clock until the device has done it: what a program waits for.
TimedRun on_device(const Device& d, const std::function<Status()>& work) {
  return [&d, &work](int64_t calls) -> Result<double> {
    const int64_t begin_ns = d.now_ns();
    Status status = ok();
    for (int64_t i = 0; i < calls && status; ++i) {
      status = work();
      if (status) status = d.api.wait_for_stream(d.stream());
    }
    if (!status) return status.error();
    return static_cast<double>(d.now_ns() - begin_ns);
  };
}

void contest(Bench& bench, const Device& d, HostWork& work, const Contest& c, int64_t size) {
  const auto figure = [&](const char* how, const char* label, const Device* device) {
    Figure f = bench.figure(fmt::format("{}_{}_{}", c.name, how, size), fmt::format("{}, {}, {}", c.label, size, label),
                            device);
    f.size = size;
    return f;
  };
  const Figure there = figure("gpu", "GPU", &d);
  bench.begin(there);
  auto side = side_of(d, c.elements(size));
  if (!side) return bench.miss(there, side.error());
  const auto gpu = c.gpu(d, *side, size);
  if (!gpu) return bench.miss(there, gpu.error());
  bench.measure(figure("cpu", "CPU", nullptr), 0,
                [&](int64_t calls) -> Result<double> {
                  const int64_t begin_ns = monotonic_ns();
                  for (int64_t i = 0; i < calls; ++i) c.cpu(work, *side, size);
                  return static_cast<double>(monotonic_ns() - begin_ns);
                },
                Bench::Clock::kHost);
  bench.measure(there, 0, on_device(d, *gpu));
  const std::function<Status()> with_copies = [&] {
    Status status = ok();
    for (size_t i = 0; i < c.inputs && status; ++i)
      status = d.api.to_device(side->on_device(i), side->host[i].data(), side->bytes(), d.stream());
    if (status) status = (*gpu)();
    const size_t back = c.result > 0 ? static_cast<size_t>(c.result) : side->bytes();
    return status ? d.api.to_host(side->host[c.output].data(), side->on_device(c.output), back, d.stream()) : status;
  };
  bench.measure(figure("gpu_with_copies", "GPU with copies", &d), 0, on_device(d, with_copies));
}

void run_crossover(Bench& bench) {
  HostWork work;
  bench.note("crossover: GEMMs on the CPU by " + work.product_by());
  const bool full = bench.options.full;
  bool first = true;
  bench.each_device([&](BenchDevice& d) {
    if (!std::exchange(first, false)) return;   // one device stands for all
    for (const Contest& c : kContests)
      for (size_t i = 0; i < (full ? c.sizes.size() : kShortStep * kShortCount); i += full ? 1 : kShortStep)
        if (!d.lost) contest(bench, *d.cuda, work, c, c.sizes[i]);
  });
}

}  // namespace

extern const Benchmark kCrossover{
    .name = "crossover",
    .summary = "from which size on the GPU is faster than all cores, with copies and without",
    .only_named = true,
    .run = run_crossover,
};

}  // namespace profgpu
