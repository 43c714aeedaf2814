// A recording of a small training loop, with a row of every kind: for tests, the fuzzer's corpus and the benchmark.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tests/support/hand_recording.h"

namespace profgpu {

struct SampleLoop {
  int64_t steps = 8;
  int64_t kernels = 24;     ///< a step
  bool marked = true;       ///< phases and steps as the Python hook writes them
};

/// Device time is host time plus a second; host time 0 is 1,790,000,000 s of Unix time.
inline HandRecording sample_recording(const SampleLoop& loop) {
  constexpr int64_t kUs = 1000, kDevice = 1'000'000'000, kUnix = 1'790'000'000'000'000'000;
  constexpr const char* kNames[] = {"_Z4gemmIfEvPT_i", "_Z9layernormPf", "_Z4geluPfi", "flash_fwd_kernel"};
  HandRecording r;
  r.process(4711, 4700, "node1", 0).property("world_size", "2").property("mode", "all").sync(0, kUnix, kDevice);
  const uint32_t main = r.thread(4711, 4711, "python"), loader = r.thread(4711, 4712, "pt_data_worker");
  const uint32_t stream = r.queue(0, 7), nccl_stream = r.queue(0, 20);
  const uint32_t launch = r.string("cudaLaunchKernel_v7000"), wait = r.string("cudaStreamSynchronize_v3020");
  const uint32_t device_name = r.string("NVIDIA H200"), uuid = r.string("GPU-1b"), pci = r.string("0000:18:00.0");
  r.add(wire::DeviceRow{0, device_name, uuid, pci, 150'000'000'000, 9, 0, 132});
  r.add(wire::LaunchShape{1, {132, 1, 1}, {256, 1, 1}, 64, 1024, 0});
  r.window(wire::WindowEvent::kOpen, 0, "start");
  r.add(wire::Allocation{kDevice + 5 * kUs, 0x7f0000000000, 1 << 30, stream, 1, 0, 3});
  std::vector<wire::Kernel> kernels;
  std::vector<wire::Call> calls;
  std::vector<wire::RangeEvent> ranges;
  const uint32_t domain = r.string("profgpu");
  const auto event = [&](wire::RangeOp op, int64_t at, std::string_view name, uint64_t payload = 0) {
    if (!loop.marked) return;
    const uint32_t id = r.string(name);
    ranges.push_back({at, main, id, domain, 0, op, wire::PayloadType::kNone, 0, payload});
  };
  const auto phase = [&](const char* name, int64_t from, int64_t to) {
    event(wire::RangeOp::kPush, from, name);
    event(wire::RangeOp::kPop, to, "");
  };
  int64_t host = 100 * kUs, device = 0;
  uint32_t correlation = 100;
  const auto flush = [&] {
    r.add(calls).add(kernels).add(ranges);
    calls.clear(), kernels.clear(), ranges.clear();
  };
  for (int64_t step = 0; step < loop.steps; ++step) {
    phase("data_loading", host, host + 300 * kUs);
    host += 300 * kUs;
    const uint32_t copy_call = r.string("cudaMemcpyAsync_v3020");
    calls.push_back({kDevice + host, 4 * kUs, copy_call, main, ++correlation, 0, 0});
    r.add(wire::Copy{kDevice + host + 5 * kUs, 40 * kUs, 1 << 20, stream, correlation, 1, 2, 3, 1, 0, 0, 0});
    const int64_t begin = host;
    device = std::max(device, kDevice + host + 45 * kUs);
    for (int64_t k = 0; k < loop.kernels; ++k) {
      const bool last = k + 1 == loop.kernels;
      const uint32_t name = r.string(last ? "_Z9adam_stepPf" : kNames[k % 4]);
      host += 10 * kUs;
      calls.push_back({kDevice + host, 5 * kUs, launch, main, ++correlation, 0, 0});
      device = std::max(device, kDevice + host + 6 * kUs);
      const int64_t duration = (8 + k % 5) * kUs;
      kernels.push_back({device, duration, name, stream, correlation, 1, 0, 0});
      device += duration + kUs;
    }
    phase("forward", begin, begin + (host - begin) / 3);
    phase("backward", begin + (host - begin) / 3, host);
    wire::CollectiveRow c;
    c.start_ns = host, c.duration_ns = 10 * kUs, c.communicator = 0x5eed, c.rank = 0, c.ranks = 2, c.thread = main;
    c.sequence = static_cast<uint64_t>(step), c.count = 1 << 20, c.channels = 8;
    c.function = r.string("AllReduce"), c.data_type = r.string("ncclFloat32"), c.algorithm = r.string("RING");
    c.protocol = r.string("SIMPLE");
    r.add(c);
    calls.push_back({kDevice + host + 2 * kUs, 5 * kUs, launch, main, ++correlation, 0, 0});
    const uint32_t nccl = r.string("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)");
    kernels.push_back({device, 60 * kUs, nccl, nccl_stream, correlation, 1, 0, 0});
    device += 60 * kUs;
    phase("optimizer", host + 12 * kUs, host + 20 * kUs);
    host += 20 * kUs;
    const int64_t waited = std::max(host + kUs, device - kDevice);
    calls.push_back({kDevice + host, waited - host, wait, main, ++correlation, 0, 0});
    r.add(wire::Sync{kDevice + host, waited - host, stream, correlation, 3, 0});
    host = waited;
    event(wire::RangeOp::kStep, host, "", static_cast<uint64_t>(step));
    if (step % 64 == 63) {
      flush();
      r.sync(host, kUnix + host, kDevice + host);
    }
    if (step % 8 == 0)
      r.add(wire::ThreadSample{host, step % 16 == 0 ? main : loader, 'S', 202, static_cast<uint64_t>(host / 2), 0, 0,
                               host / 4, host / 8, step});
  }
  flush();
  r.add(wire::Set{device, kUs, 4096, stream, ++correlation, 0, 3, 0, 0});
  r.add(wire::GraphLaunch{device + 2 * kUs, 9 * kUs, stream, ++correlation, 3});
  r.add(wire::ExternalId{correlation, 1, 99}).add(wire::Overhead{kDevice + host, 20 * kUs, 1 << 16, main});
  r.add(wire::Allocation{kDevice + host, 0x7f0000000000, 1 << 30, stream, ++correlation, 1, 3});
  const uint32_t nccl_domain = r.string("NCCL"), call_name = r.string("ncclAllReduce");
  const uint32_t size = r.string("Message size [bytes]");
  constexpr uint64_t kSchema = (1 << 24) + 5, kSize = 22;   // NVTX_PAYLOAD_ENTRY_TYPE_SIZE
  r.add(wire::PayloadSchema{1, nccl_domain, kSchema, 0, wire::SchemaKind::kStatic, 8, 0});
  r.add(wire::PayloadField{1, 0, size, 0, kSize, 0, 0});
  r.add(wire::RangeEvent{host, main, call_name, nccl_domain, 0, wire::RangeOp::kMark, wire::PayloadType::kExtended, 0,
                         1});
  r.payload(1, "NCCL", kSchema, std::string_view("\0\0\100\0\0\0\0\0", 8));
  r.add(wire::ThreadWait{host / 2, host / 4, loader});
  r.add(wire::Drop{host, 16, wire::DropReason::kCupti, 2});
  r.note(wire::Severity::kInfo, "CUPTI 12.4 of the process itself");
  r.sync(host, kUnix + host, kDevice + host).window(wire::WindowEvent::kClose, host + 50 * kUs, "end").end();
  return r;
}

}  // namespace profgpu
