// launch: what a launch, a wait, an event, a small copy and an allocation cost, with an empty kernel of our own.
#include <algorithm>

#include "measure/benchmark.h"

namespace profgpu {
namespace {

using cuda::Device;

constexpr int64_t kSmallBytes = 4;
constexpr int64_t kAllocation = int64_t{16} << 20;
// Calls between two waits: far fewer than the driver queues (1024), so that none waits for a place.
constexpr int64_t kBatch = 100;

// The host's time in calls. The waits for the device between batches of them do not count.
template <class Part>
TimedRun host_time(const Device& device, Part part) {
  return [&device, part](int64_t calls) -> Result<double> {
    int64_t sum_ns = 0;
    for (int64_t left = calls; left > 0; left -= kBatch) {
      const int64_t begin_ns = device.now_ns();
      Status status = times(std::min(left, kBatch), part);
      sum_ns += device.now_ns() - begin_ns;
      if (status) status = device.api.wait_for_stream(device.stream());
      if (!status) return status.error();
    }
    return static_cast<double>(sum_ns);
  };
}

Status launch_empty(const Device& d, cuda::Function kernel) {
  return d.api.launch(kernel, 1U, 1U, 1U, 32U, 1U, 1U, 0U, d.stream(), nullptr, nullptr);
}

void launches(Bench& bench, const Device& d) {
  const cuda::Function kernel = d.kernel("profgpu_empty");
  if (!kernel)
    return bench.miss(bench.figure("", "launches", &d),
                      d.kernels() ? Error{"the driver does not find the kernel"} : d.kernels().error());
  const auto launch = [&] { return launch_empty(d, kernel); };
  bench.measure(bench.figure("launch_call", "launch, time of the call", &d), 0, host_time(d, launch));
  bench.measure(bench.figure("launch_throughput", "launches back to back, each", &d), 0,
                [&](int64_t calls) { return d.device_ns([&] { return times(calls, launch); }); });
  bench.measure(bench.figure("launch_and_wait", "launch and wait for it", &d), 0, host_time(d, [&] {
    const Status launched = launch();
    return launched ? d.api.wait_for_stream(d.stream()) : launched;
  }));
}

// A graph of kBatch empty kernels after one another.
struct OwnedGraph {
  explicit OwnedGraph(const Device& d) : api(d.api) {}
  OwnedGraph(const OwnedGraph&) = delete;
  ~OwnedGraph() {
    if (exec) (void)api.destroy_exec(exec);
    if (graph) (void)api.destroy_graph(graph);
  }
  Status capture(const Device& d, cuda::Function kernel) {
    Status status = api.begin_capture(d.stream(), cuda::kCaptureThreadLocal);
    if (!status) return status;
    status = times(kBatch, [&] { return launch_empty(d, kernel); });
    if (const Status ended = api.end_capture(d.stream(), &graph); status && !ended) status = ended;
    return status ? api.instantiate(&exec, graph, 0ULL) : status;
  }

  const cuda::Api& api;
  cuda::Graph graph = nullptr;
  cuda::GraphExec exec = nullptr;
};

void graphs(Bench& bench, const Device& d) {
  const Figure f = bench.figure("graph_kernel", "graph of 100 kernels, each", &d);
  const cuda::Function kernel = d.kernel("profgpu_empty");
  if (!kernel) return;   // reported with the launches
  bench.begin(f);
  OwnedGraph graph(d);
  if (const Status captured = graph.capture(d, kernel); !captured) return bench.miss(f, captured.error());
  bench.measure(f, 0, [&](int64_t calls) -> Result<double> {
    // Calls are kernels here.
    const int64_t count = std::max<int64_t>(1, calls / kBatch);
    const auto launch = [&] { return d.api.launch_graph(graph.exec, d.stream()); };
    auto ns = d.device_ns([&] { return times(count, launch); });
    if (ns) *ns *= static_cast<double>(calls) / static_cast<double>(count * kBatch);
    return ns;
  });
}

void waits(Bench& bench, const Device& d) {
  bench.measure(bench.figure("synchronize", "wait for an idle stream", &d), 0,
                host_time(d, [&] { return d.api.wait_for_stream(d.stream()); }));
  bench.measure(bench.figure("event_record", "record an event", &d), 0,
                host_time(d, [&] { return d.api.record(d.event(), d.stream()); }));
  bench.measure(bench.figure("stream_wait_event", "have a stream wait for an event", &d), 0,
                host_time(d, [&] { return d.api.stream_waits(d.stream(), d.event(), 0U); }));
}

void small_copies(Bench& bench, const Device& d) {
  const Figure to = bench.figure("small_host_to_device", "copy 4 bytes to the device and wait", &d);
  const Figure from = bench.figure("small_device_to_host", "copy 4 bytes to the host and wait", &d);
  bench.begin(to);
  auto pinned = cuda::PinnedMemory::allocate(d, kSmallBytes);
  auto there = cuda::DeviceMemory::allocate(d, kSmallBytes);
  for (const Status& status : {pinned ? ok() : Status(pinned.error()), there ? ok() : Status(there.error())})
    if (!status) return bench.miss(to, status.error()), bench.miss(from, status.error());
  const auto waited = [&](const Status& begun) { return begun ? d.api.wait_for_stream(d.stream()) : begun; };
  bench.measure(to, 0, host_time(d, [&] {
    return waited(d.api.to_device(there->address(), pinned->data(), size_t{kSmallBytes}, d.stream()));
  }));
  bench.measure(from, 0, host_time(d, [&] {
    return waited(d.api.to_host(pinned->data(), there->address(), size_t{kSmallBytes}, d.stream()));
  }));
}

void allocations(Bench& bench, const BenchDevice& of) {
  const Device& d = *of.cuda;
  bench.measure(bench.figure("allocate", "allocate and free 16 MiB", &d), 0, host_time(d, [&] {
    cuda::Address address = 0;
    const Status allocated = d.api.allocate(&address, size_t{kAllocation});
    return allocated ? d.api.free(address) : allocated;
  }));
  // There is one context a process, so this was one run.
  Figure context = bench.figure("context", "create the context, once", &d);
  context.value = context.best = static_cast<double>(d.context_ns), context.runs = 1;
  bench.add(std::move(context));
  Figure memory = bench.figure("context_memory", "device memory that the context takes", &d, "B");
  if (!of.context_bytes)
    return bench.miss(memory, {"nothing says how much of the device's memory is in use before its context is there",
                               "NVML does, which comes with the driver (libnvidia-ml.so.1)"}, MissKind::kSkipped);
  memory.value = memory.best = *of.context_bytes, memory.runs = 1;
  bench.add(std::move(memory));
}

void run_launch(Bench& bench) {
  bench.each_device([&](BenchDevice& d) {
    launches(bench, *d.cuda);
    graphs(bench, *d.cuda);
    waits(bench, *d.cuda);
    small_copies(bench, *d.cuda);
    allocations(bench, d);
  });
}

}  // namespace

extern const Benchmark kLaunchCosts{
    .name = "launch",
    .summary = "what launches, waits, events, small copies and allocations cost",
    .run = run_launch,
};

}  // namespace profgpu
