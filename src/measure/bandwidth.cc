// bandwidth: how fast data moves between host and device, within a device and between devices. Figures that nvbandwidth
// has as well have its names.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <memory>
#include <vector>

#include "analyse/report/quantity.h"
#include "measure/benchmark.h"
#include "measure/cache_flush.h"
#include "measure/kernels.h"
#include "measure/memory_nodes.h"

namespace profgpu {
namespace {

using cuda::Device, cuda::DeviceMemory, cuda::PinnedMemory, cuda::SideStream, cuda::Stream;

constexpr int64_t kCopyBytes = int64_t{256} << 20;
// Far over any cache (an H200 has 50 MiB, a B200 126 MiB, an MI300X 256 MiB).
constexpr int64_t kLocalBytes = int64_t{1} << 30;
constexpr int64_t kLeastCached = 64 << 10;   // of a buffer that is read from the cache
constexpr int64_t kRereads = 4;
constexpr double kLonger = 2;             // than what is timed lasts what goes on beside it
constexpr int64_t kMaxShare = 8;   // of the device's memory, for one buffer

int64_t buffer_bytes(const Device& device, int64_t wanted) {
  return std::min(wanted, device.memory_bytes / kMaxShare / kKernelElementBytes * kKernelElementBytes);
}

// Of less, times would be those of starting a copy.
constexpr int64_t kLeastBytes = int64_t{16} << 20;

Error too_small(const Device& device) {
  if (device.memory_bytes <= 0) return {"the driver does not say how much memory the device has"};
  return {fmt::format("the device has {} of memory: buffers of an eighth of it are too small to measure rates",
                      format_bytes(static_cast<double>(device.memory_bytes)))};
}

// Times copies by the device's events.
template <class Copy>
TimedRun on_device(const Device& device, Copy copy) {
  return [&device, copy](int64_t calls) {
    return device.device_ns([&] { return times(calls, copy); });
  };
}

// By the host's clock, from the call to its end: for copies that block the host.
template <class Copy>
TimedRun on_host(const Device& device, Copy copy) {
  return [&device, copy](int64_t calls) -> Result<double> {
    const int64_t begin_ns = device.now_ns();
    Status status = times(calls, copy);
    if (status) status = device.api.wait_for_stream(device.stream());
    if (!status) return status.error();
    return static_cast<double>(device.now_ns() - begin_ns);
  };
}

// While it is there, the thread is on the device's own node; null: that is not known, or not ours to use.
std::unique_ptr<OnNode> near_node(const Device& d) {
  const auto number = node_of_device(d.pci_bus_id);
  for (const MemoryNode& node : memory_nodes())
    if (number == node.number) return std::make_unique<OnNode>(node);
  return nullptr;
}

void host_copies(Bench& bench, const Device& d, const DeviceMemory& there, int64_t bytes) {
  const auto size = static_cast<size_t>(bytes);
  const auto amount = static_cast<double>(bytes);
  const Figure to = bench.figure("host_to_device_memcpy_ce", "host to device, pinned", &d, "GB/s");
  const Figure from = bench.figure("device_to_host_memcpy_ce", "device to host, pinned", &d, "GB/s");
  bench.begin(to);
  // As nvbandwidth: of the node that the device is attached to, wherever this process runs.
  const std::unique_ptr<OnNode> near = near_node(d);
  if (auto pinned = PinnedMemory::allocate(d, bytes); pinned) {
    bench.measure(to, amount, on_device(d, [&] {
      return d.api.to_device(there.address(), pinned->data(), size, d.stream());
    }));
    bench.measure(from, amount, on_device(d, [&] {
      return d.api.to_host(pinned->data(), there.address(), size, d.stream());
    }));
  } else {
    bench.miss(to, pinned.error()), bench.miss(from, pinned.error());
  }
  std::vector<char> pageable(size);
  bench.measure(bench.figure("host_to_device_pageable", "host to device, pageable", &d, "GB/s"), amount,
                on_host(d, [&] { return d.api.to_device(there.address(), pageable.data(), size, d.stream()); }));
  bench.measure(bench.figure("device_to_host_pageable", "device to host, pageable", &d, "GB/s"), amount,
                on_host(d, [&] { return d.api.to_host(pageable.data(), there.address(), size, d.stream()); }));
}

// Where the host has several memory nodes: copies of memory that is pinned on each.
void copies_by_node(Bench& bench, const Device& d, const DeviceMemory& there, int64_t bytes) {
  const std::vector<MemoryNode> nodes = memory_nodes();
  if (!bench.options.full || nodes.size() < 2) return;
  const auto size = static_cast<size_t>(bytes);
  const auto own = node_of_device(d.pci_bus_id);
  for (const MemoryNode& node : nodes) {
    Figure to = bench.figure("host_to_device_memcpy_ce", fmt::format("host to device, pinned on node {}", node.number),
                             &d, "GB/s");
    Figure from = bench.figure("device_to_host_memcpy_ce",
                               fmt::format("device to host, pinned on node {}", node.number), &d, "GB/s");
    to.node = from.node = node.number;
    if (own) to.near = from.near = own == node.number;
    bench.begin(to);
    const OnNode here(node);
    auto pinned = PinnedMemory::allocate(d, bytes);
    if (!pinned) {
      bench.miss(to, pinned.error()), bench.miss(from, pinned.error());
      continue;
    }
    const auto amount = static_cast<double>(bytes);
    bench.measure(to, amount, on_device(d, [&] {
      return d.api.to_device(there.address(), pinned->data(), size, d.stream());
    }));
    bench.measure(from, amount, on_device(d, [&] {
      return d.api.to_host(pinned->data(), there.address(), size, d.stream());
    }));
  }
}

// `buffers`: a, b and the target. What kernels read and write counts, so that their rates are the memory's; of a copy
// by the driver the copied bytes count once, as nvbandwidth counts them.
void local_traffic(Bench& bench, const Device& d, const std::vector<DeviceMemory>& buffers, int64_t bytes) {
  const auto size = static_cast<size_t>(bytes);
  const uint64_t a = buffers[0].address(), b = buffers[1].address(), to = buffers[2].address();
  const auto count = static_cast<uint64_t>(bytes / kKernelElementBytes);
  const auto amount = static_cast<double>(bytes);
  bench.measure(bench.figure("device_local_copy", "within the device, cuMemcpy", &d, "GB/s"), amount,
                on_device(d, [&] { return d.api.within_device(to, a, size, d.stream()); }));
  const struct {
    const char *kernel, *name, *label;
    double traffic;
    std::vector<uint64_t> parameters;
  } kernels[] = {{"profgpu_read", "device_memory_read", "device memory, read", 1, {a, to, count}},
                 {"profgpu_write", "device_memory_write", "device memory, write", 1, {to, count}},
                 {"profgpu_copy", "device_memory_copy", "device memory, copy", 2, {a, to, count}},
                 {"profgpu_triad", "device_memory_triad", "device memory, triad", 3, {a, b, to, count}}};
  for (const auto& k : kernels) {
    const Figure f = bench.figure(k.name, k.label, &d, "GB/s");
    const cuda::Function kernel = d.kernel(k.kernel);
    if (!kernel) bench.miss(f, d.kernels() ? Error{"the driver does not find the kernel"} : d.kernels().error());
    else bench.measure(f, k.traffic * amount, on_device(d, [&] { return d.launch(kernel, k.parameters); }));
  }
}

// What half of the last cache holds: read over and over, and once after the cache was filled with something else.
// Elsewhere buffers are far larger than any cache. `buffers`: what is read, what is written to empty the cache, a sink.
void cached_reads(Bench& bench, const Device& d, const std::vector<DeviceMemory>& buffers, int64_t buffer) {
  Figure f = bench.figure("device_cache_read_warm", "read from the device's cache", &d, "GB/s");
  const int64_t bytes = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(d.cache_bytes / 2)));
  if (bytes < kLeastCached || bytes > buffer || CacheFlush::bytes_for(d) > buffer)
    return bench.miss(f, {d.cache_bytes > 0 ? "the device's memory is too small beside its cache"
                                            : "the driver does not say how large the device's cache is"},
                      MissKind::kSkipped);
  const cuda::Function kernel = d.kernel("profgpu_reread");
  if (!kernel)
    return bench.miss(f, d.kernels() ? Error{"the driver does not find the kernel"} : d.kernels().error());
  const auto read = [&](int64_t passes) {
    const auto count = static_cast<uint64_t>(passes * bytes / kKernelElementBytes);
    return d.launch(kernel, {buffers[0].address(), buffers[2].address(), count, static_cast<uint64_t>(bytes - 1)});
  };
  const std::string what = format_bytes(static_cast<double>(bytes)) + " read";
  // Enough passes that starting the kernel, and the first pass, are little of it.
  const int64_t passes = std::max<int64_t>(kLocalBytes / bytes, 1) * kRereads;
  f.label = what + ", warm cache", f.cache = "warm", f.size = bytes;
  bench.measure(f, static_cast<double>(passes * bytes), on_device(d, [&] { return read(passes); }));
  f.name = "device_cache_read_cold", f.label = what + ", cold cache", f.cache = "cold";
  const CacheFlush flush(d, buffers[1]);
  bench.measure(f, static_cast<double>(bytes),
                [&](int64_t calls) { return flush.cold_ns(calls, [&] { return read(1); }); });
}

// Both ways at once: the rate of one while the other goes on as well, as nvbandwidth defines it.
void both_ways(Bench& bench, const Device& d, const DeviceMemory& there, const DeviceMemory& back, int64_t bytes) {
  const Figure to = bench.figure("host_to_device_bidirectional_memcpy_ce", "host to device, both ways", &d,
                                 "GB/s");
  const Figure from = bench.figure("device_to_host_bidirectional_memcpy_ce", "device to host, both ways", &d,
                                   "GB/s");
  const auto size = static_cast<size_t>(bytes);
  bench.begin(to);
  const std::unique_ptr<OnNode> near = near_node(d);
  auto up = PinnedMemory::allocate(d, bytes);
  auto down = up ? PinnedMemory::allocate(d, bytes) : Result<PinnedMemory>(up.error());
  auto side = SideStream::make(d);
  for (const Status& status : {down ? ok() : Status(down.error()), side ? ok() : Status(side.error())})
    if (!status) return bench.miss(to, status.error()), bench.miss(from, status.error());
  const auto copy_up = [&](Stream s) { return d.api.to_device(there.address(), up->data(), size, s); };
  const auto copy_down = [&](Stream s) { return d.api.to_host(down->data(), back.address(), size, s); };
  // The other way begins first and makes one copy more, so that it outlasts the copies that are timed.
  const auto beside = [&](auto timed, auto other) {
    return [&d, timed, other, stream = side->get()](int64_t calls) -> Result<double> {
      Status status = ok();
      for (int64_t i = 0; i <= calls && status; ++i) status = other(stream);
      if (!status) return status.error();
      auto ns = d.device_ns([&] {
        Status copied = ok();
        for (int64_t i = 0; i < calls && copied; ++i) copied = timed(d.stream());
        return copied;
      });
      if (const Status done = d.api.wait_for_stream(stream); ns && !done) return done.error();
      return ns;
    };
  };
  bench.measure(to, static_cast<double>(bytes), beside(copy_up, copy_down));
  bench.measure(from, static_cast<double>(bytes), beside(copy_down, copy_up));
}

void within_device(Bench& bench, const Device& d) {
  const int64_t copied = buffer_bytes(d, kCopyBytes), local = buffer_bytes(d, kLocalBytes);
  if (copied < kLeastBytes) return bench.miss(bench.figure("", "copies", &d), too_small(d));
  bench.begin(bench.figure("", "allocating buffers", &d));
  std::vector<DeviceMemory> buffers;
  for (int i = 0; i < 3; ++i) {
    auto memory = DeviceMemory::allocate(d, local);
    if (!memory) return bench.miss(bench.figure("", "copies", &d), memory.error());
    buffers.push_back(std::move(*memory));
  }
  host_copies(bench, d, buffers[0], copied);
  copies_by_node(bench, d, buffers[0], copied);
  both_ways(bench, d, buffers[0], buffers[1], copied);
  local_traffic(bench, d, buffers, local);
  cached_reads(bench, d, buffers, local);
}

/// Two devices and buffers for copies both ways.
struct DevicePair {
  const BenchDevice *from, *to;
  int64_t bytes = 0;
  std::vector<DeviceMemory> sources, targets;   // of copies from `from`, and from `to`
  bool reachable = false;
};
enum class By { kSender, kReceiver };           // in whose stream a copy is put: it writes, or it reads

// A copy of the pair, there or back.
struct Way {
  const Device *sender, *receiver;
  uint64_t source, target;
  int64_t bytes;

  Status put(By by, int64_t count) const {
    const Device& owner = by == By::kSender ? *sender : *receiver;
    Status status = owner.use();
    for (int64_t i = 0; i < count && status; ++i)
      status = sender->copy_to(*receiver, target, source, static_cast<size_t>(bytes), owner.stream());
    return status;
  }
  [[nodiscard]] TimedRun alone(By by) const {
    return [this, by](int64_t calls) -> Result<double> {
      const Device& owner = by == By::kSender ? *sender : *receiver;
      if (const Status current = owner.use(); !current) return current.error();
      return owner.device_ns([&] { return put(by, calls); });
    };
  }
};

Way way_of(const DevicePair& p, bool there) {
  const Device *from = p.from->cuda.get(), *to = p.to->cuda.get();
  const size_t at = there ? 0 : 1;
  return {there ? from : to, there ? to : from, p.sources[at].address(), p.targets[at].address(), p.bytes};
}

Figure pair_figure(Bench& bench, const DevicePair& p, bool there, By by, bool both) {
  const BenchDevice &sender = there ? *p.from : *p.to, &receiver = there ? *p.to : *p.from;
  const bool reads = by == By::kReceiver;
  Figure f = bench.figure(fmt::format("device_to_device_{}memcpy_{}_ce", both ? "bidirectional_" : "",
                                      reads ? "read" : "write"),
                          "device to device", sender.cuda.get(), "GB/s");
  f.peer = receiver.cuda->index;
  bench.note_link(f, sender, receiver);
  if (!f.link.empty()) f.label += fmt::format(", {}", f.link_class());
  if (!p.reachable) f.label += ", through the host";
  if (reads) f.label += ", reading";
  if (both) f.label += ", both ways";
  return f;
}

Status make_buffers(DevicePair& p) {
  for (const auto& [sender, receiver] : {std::pair{p.from, p.to}, {p.to, p.from}}) {
    if (const Status current = sender->cuda->use(); !current) return current;
    auto source = DeviceMemory::allocate(*sender->cuda, p.bytes);
    if (!source) return source.error();
    if (const Status current = receiver->cuda->use(); !current) return current;
    auto target = DeviceMemory::allocate(*receiver->cuda, p.bytes);
    if (!target) return target.error();
    p.sources.push_back(std::move(*source)), p.targets.push_back(std::move(*target));
  }
  return ok();
}

// The rate of one way while the other goes on, as nvbandwidth defines it. The other way begins first and lasts longer,
// by how fast each is alone.
std::optional<Figure> beside_the_other(Bench& bench, const DevicePair& p, bool there, By by, double own_gbps,
                                       double other_gbps) {
  const Way timed = way_of(p, there), other = way_of(p, !there);
  const TimedRun alone = timed.alone(by);
  return bench.measure(pair_figure(bench, p, there, by, true), static_cast<double>(p.bytes),
                       [&](int64_t calls) -> Result<double> {
    const double longer = kLonger * static_cast<double>(calls) * other_gbps / own_gbps;
    if (const Status put = other.put(by, static_cast<int64_t>(std::ceil(longer)) + 1); !put) return put.error();
    auto ns = alone(calls);
    const Device& owner = by == By::kSender ? *other.sender : *other.receiver;
    Status done = owner.use();
    if (done) done = owner.api.wait_for_stream(owner.stream());
    if (ns && !done) return done.error();
    return ns;
  });
}

void copies_of_pair(Bench& bench, const DevicePair& p, By by) {
  std::optional<Figure> alone[2], beside[2];
  for (const bool there : {true, false}) {
    const Way way = way_of(p, there);
    alone[there ? 0 : 1] =
        bench.measure(pair_figure(bench, p, there, by, false), static_cast<double>(p.bytes), way.alone(by));
  }
  if (!alone[0] || !alone[1]) return;
  for (const size_t i : {0, 1})
    beside[i] = beside_the_other(bench, p, i == 0, by, alone[i]->value, alone[1 - i]->value);
  if (!beside[0] || !beside[1]) return;
  // Of both together, once for the pair.
  Figure sum = *beside[0];
  const Figure& back = *beside[1];
  sum.name += "_total", sum.label.replace(sum.label.rfind("both ways"), std::string::npos, "in sum");
  sum.value += back.value, sum.best += back.best, sum.spread_pct = std::max(sum.spread_pct, back.spread_pct);
  sum.runs = std::min(sum.runs, back.runs), sum.outliers += back.outliers;
  if (sum.link_gbps) sum.link_gbps = *sum.link_gbps + back.link_gbps.value_or(*sum.link_gbps);
  bench.add(std::move(sum));
}

void between_devices(Bench& bench, const BenchDevice& a, const BenchDevice& b) {
  DevicePair p{&a, &b, 0, {}, {}, false};
  int there = 0, back = 0;
  (void)a.cuda->api.can_access_peer(&there, a.cuda->index, b.cuda->index);
  (void)a.cuda->api.can_access_peer(&back, b.cuda->index, a.cuda->index);
  p.reachable = there && back;
  const Figure f = pair_figure(bench, p, true, By::kSender, false);
  bench.begin(f);
  p.bytes = std::min(buffer_bytes(*a.cuda, kCopyBytes), buffer_bytes(*b.cuda, kCopyBytes));
  if (p.bytes < kLeastBytes)
    return bench.miss(f, too_small(a.cuda->memory_bytes < b.cuda->memory_bytes ? *a.cuda : *b.cuda));
  if (const Status made = make_buffers(p); !made) return bench.miss(f, made.error());
  // Where it is enabled already, or does not work, the copy still has its way.
  for (const auto& [one, other] : {std::pair{&a, &b}, {&b, &a}})
    if (p.reachable && one->cuda->use()) (void)one->cuda->reach(*other->cuda);
  copies_of_pair(bench, p, By::kSender);
  if (bench.options.full && !a.lost && !b.lost) copies_of_pair(bench, p, By::kReceiver);
}

void run_bandwidth(Bench& bench) {
  bench.each_device([&](BenchDevice& d) { within_device(bench, *d.cuda); });
  bench.each_device([&](BenchDevice& from) {
    for (const BenchDevice& to : bench.devices)
      if (to.cuda->index > from.cuda->index && !to.lost && !from.lost) between_devices(bench, from, to);
  });
}

}  // namespace

extern const Benchmark kBandwidth{
    .name = "bandwidth",
    .summary = "copies between host and device, within a device, between devices",
    .run = run_bandwidth,
};

}  // namespace profgpu
