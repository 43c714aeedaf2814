// bandwidth: how fast data moves between host and device, within a device and between devices. Figures that nvbandwidth
// has as well have its names.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "analyse/report/quantity.h"
#include "measure/benchmark.h"
#include "measure/kernels.h"
#include "measure/memory_nodes.h"

namespace profgpu {
namespace {

using cuda::Device, cuda::DeviceMemory, cuda::PinnedMemory, cuda::SideStream, cuda::Stream;

constexpr int64_t kCopyBytes = int64_t{256} << 20;
// Far over any cache (an H200 has 50 MiB, a B200 126 MiB, an MI300X 256 MiB).
constexpr int64_t kLocalBytes = int64_t{1} << 30;
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
}

// Copies that `from` makes to `to`.
void between_devices(Bench& bench, const BenchDevice& sender, const BenchDevice& receiver) {
  const Device &from = *sender.cuda, &to = *receiver.cuda;
  int reachable = 0;
  (void)from.api.can_access_peer(&reachable, from.index, to.index);
  Figure f = bench.figure("device_to_device_memcpy_write_ce", "device to device", &from, "GB/s");
  f.peer = to.index;
  bench.begin(f);
  bench.note_link(f, sender, receiver);
  if (!f.link.empty()) f.label += fmt::format(", {}", f.link_class());
  if (!reachable) f.label += ", through the host";
  const int64_t bytes = std::min(buffer_bytes(from, kCopyBytes), buffer_bytes(to, kCopyBytes));
  if (bytes < kLeastBytes) return bench.miss(f, too_small(from.memory_bytes < to.memory_bytes ? from : to));
  if (const Status current = to.use(); !current) return bench.miss(f, current.error());
  auto target = DeviceMemory::allocate(to, bytes);
  if (!target) return bench.miss(f, target.error());
  if (const Status current = from.use(); !current) return bench.miss(f, current.error());
  // Where it is enabled already, or does not work, the copy still has its way.
  if (reachable) (void)from.reach(to);
  auto source = DeviceMemory::allocate(from, bytes);
  if (!source) return bench.miss(f, source.error());
  const auto copy = [&] {
    return from.copy_to(to, target->address(), source->address(), static_cast<size_t>(bytes), from.stream());
  };
  bench.measure(f, static_cast<double>(bytes), on_device(from, copy));
  // Reading is the same copy, put into a stream of the device that receives.
  f.name = "device_to_device_memcpy_read_ce", f.label += ", reading";
  if (!bench.options.full) return;
  if (const Status current = to.use(); !current) return bench.miss(f, current.error());
  bench.measure(f, static_cast<double>(bytes), on_device(to, [&] {
    return from.copy_to(to, target->address(), source->address(), static_cast<size_t>(bytes), to.stream());
  }));
}

void run_bandwidth(Bench& bench) {
  bench.each_device([&](BenchDevice& d) { within_device(bench, *d.cuda); });
  bench.each_device([&](BenchDevice& from) {
    for (const BenchDevice& to : bench.devices)
      if (&to != &from && !to.lost && !from.lost) between_devices(bench, from, to);
  });
}

}  // namespace

extern const Benchmark kBandwidth;
const Benchmark kBandwidth{
    .name = "bandwidth",
    .summary = "copies between host and device, within a device, between devices",
    .run = run_bandwidth,
};

}  // namespace profgpu
