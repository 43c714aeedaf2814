// collectives: NCCL over the devices of this machine. Rates are bus bandwidths as nccl-tests define them; results are
// checked.
#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "analyse/rank/collectives.h"
#include "analyse/report/quantity.h"
#include "measure/benchmark.h"
#include "measure/nccl_library.h"

namespace profgpu {
namespace {

using cuda::DeviceMemory;

constexpr int64_t kShortMessages[] = {int64_t{1} << 10, int64_t{1} << 20, int64_t{256} << 20};
constexpr int64_t kFullMessages[] = {int64_t{1} << 10, int64_t{8} << 10, int64_t{64} << 10, int64_t{512} << 10,
                                     int64_t{4} << 20, int64_t{32} << 20, int64_t{256} << 20, int64_t{1} << 30};
constexpr int64_t kElement = 4;                        // INT32
constexpr int64_t kChecked = int64_t{16} << 20;        // bytes of each result, from its start
constexpr int kMaxRanks = 22;                          // sums of their bytes fit a byte: see Ranks

/// One rank: each byte of what it sends is its number plus one. Sums of INT32 whose bytes do not overflow are sums of
/// these bytes, so that a result is known byte by byte.
struct Rank {
  const cuda::Device* device;
  nccl::Communicator communicator;
  DeviceMemory from, to;
};
using Ranks = std::vector<Rank>;

int sum_of_ranks(size_t ranks) { return static_cast<int>(ranks * (ranks + 1) / 2); }

struct Collective {
  const char *name, *label;
  /// What rank `at` calls for `bytes` in all.
  Status (*call)(const nccl::Api& api, const Ranks& ranks, size_t at, size_t bytes);
  /// Of the result on rank `at`: how many bytes there are, and the byte at an offset.
  size_t (*result_bytes)(size_t ranks, size_t at, size_t bytes);
  int (*result)(size_t ranks, size_t at, size_t bytes, size_t offset);
};

size_t whole_result(size_t, size_t, size_t bytes) { return bytes; }
size_t part_result(size_t ranks, size_t, size_t bytes) { return bytes / ranks; }
int sum_result(size_t ranks, size_t, size_t, size_t) { return sum_of_ranks(ranks); }
int gathered_result(size_t ranks, size_t, size_t bytes, size_t offset) {
  return static_cast<int>(offset / (bytes / ranks)) + 1;
}

// All ranks send their part to each, and receive one from each.
Status all_to_all(const nccl::Api& api, const Ranks& ranks, size_t at, size_t bytes) {
  const Rank& r = ranks[at];
  const size_t part = bytes / ranks.size();
  for (size_t peer = 0; peer < ranks.size(); ++peer) {
    Status status = api.send(r.from.address() + peer * part, part / kElement, nccl::kInt32, static_cast<int>(peer),
                             r.communicator, r.device->stream());
    if (status)
      status = api.receive(r.to.address() + peer * part, part / kElement, nccl::kInt32, static_cast<int>(peer),
                           r.communicator, r.device->stream());
    if (!status) return status;
  }
  return ok();
}

// To the next rank, from the one before.
Status send_receive(const nccl::Api& api, const Ranks& ranks, size_t at, size_t bytes) {
  const Rank& r = ranks[at];
  const auto next = static_cast<int>((at + 1) % ranks.size());
  const auto before = static_cast<int>((at + ranks.size() - 1) % ranks.size());
  const Status sent = api.send(r.from.address(), bytes / kElement, nccl::kInt32, next, r.communicator,
                               r.device->stream());
  return sent ? api.receive(r.to.address(), bytes / kElement, nccl::kInt32, before, r.communicator, r.device->stream())
              : sent;
}

constexpr Collective kCollectives[] = {
    {"all_reduce", "all-reduce",
     [](const nccl::Api& api, const Ranks& ranks, size_t at, size_t bytes) {
       const Rank& r = ranks[at];
       return api.all_reduce(r.from.address(), r.to.address(), bytes / kElement, nccl::kInt32, nccl::kSum,
                             r.communicator, r.device->stream());
     },
     whole_result, sum_result},
    {"all_gather", "all-gather",
     [](const nccl::Api& api, const Ranks& ranks, size_t at, size_t bytes) {
       const Rank& r = ranks[at];
       return api.all_gather(r.from.address(), r.to.address(), bytes / kElement / ranks.size(), nccl::kInt32,
                             r.communicator, r.device->stream());
     },
     whole_result, gathered_result},
    {"reduce_scatter", "reduce-scatter",
     [](const nccl::Api& api, const Ranks& ranks, size_t at, size_t bytes) {
       const Rank& r = ranks[at];
       return api.reduce_scatter(r.from.address(), r.to.address(), bytes / kElement / ranks.size(), nccl::kInt32,
                                 nccl::kSum, r.communicator, r.device->stream());
     },
     part_result, sum_result},
    {"broadcast", "broadcast",
     [](const nccl::Api& api, const Ranks& ranks, size_t at, size_t bytes) {
       const Rank& r = ranks[at];
       return api.broadcast(r.from.address(), r.to.address(), bytes / kElement, nccl::kInt32, 0, r.communicator,
                            r.device->stream());
     },
     whole_result, [](size_t, size_t, size_t, size_t) { return 1; }},
    {"reduce", "reduce",
     [](const nccl::Api& api, const Ranks& ranks, size_t at, size_t bytes) {
       const Rank& r = ranks[at];
       return api.reduce(r.from.address(), r.to.address(), bytes / kElement, nccl::kInt32, nccl::kSum, 0,
                         r.communicator, r.device->stream());
     },
     [](size_t, size_t at, size_t bytes) { return at == 0 ? bytes : 0; }, sum_result},
    {"all_to_all", "all-to-all", all_to_all, whole_result, gathered_result},
    {"send_recv", "send and receive", send_receive, whole_result,
     [](size_t ranks, size_t at, size_t, size_t) { return static_cast<int>((at + ranks - 1) % ranks) + 1; }},
};

// Calls of all ranks, by one thread; then, on all devices, a wait.
Status together(const nccl::Api& api, const Ranks& ranks, const Collective& c, size_t bytes, int64_t calls) {
  for (int64_t i = 0; i < calls; ++i) {
    Status status = api.begin_group();
    for (size_t at = 0; at < ranks.size() && status; ++at) status = c.call(api, ranks, at, bytes);
    if (const Status ended = api.end_group(); status && !ended) status = ended;
    if (!status) return status;
  }
  for (const Rank& r : ranks) {
    Status status = r.device->use();
    if (status) status = r.device->api.wait_for_stream(r.device->stream());
    if (!status) return status;
  }
  return ok();
}

// The number of wrong bytes, after one call into empty buffers.
Result<int64_t> wrong_bytes(const nccl::Api& api, const Ranks& ranks, const Collective& c, size_t bytes) {
  for (const Rank& r : ranks) {
    Status status = r.device->use();
    if (status) status = r.device->api.fill(r.to.address(), static_cast<unsigned char>(0), bytes, r.device->stream());
    if (status) status = r.device->api.wait_for_stream(r.device->stream());
    if (!status) return status.error();
  }
  if (const Status done = together(api, ranks, c, bytes, 1); !done) return done.error();
  int64_t wrong = 0;
  std::vector<unsigned char> got;
  for (size_t at = 0; at < ranks.size(); ++at) {
    const Rank& r = ranks[at];
    got.assign(std::min(c.result_bytes(ranks.size(), at, bytes), static_cast<size_t>(kChecked)), 0);
    if (got.empty()) continue;
    Status status = r.device->use();
    if (status) status = r.device->api.to_host(got.data(), r.to.address(), got.size(), r.device->stream());
    if (status) status = r.device->api.wait_for_stream(r.device->stream());
    if (!status) return status.error();
    for (size_t offset = 0; offset < got.size(); ++offset)
      wrong += got[offset] != c.result(ranks.size(), at, bytes, offset);
  }
  return wrong;
}

// Small messages by their time, larger ones by their rate.
void collective(Bench& bench, const nccl::Api& api, const Ranks& ranks, const Collective& c, int64_t size) {
  const auto unit = kElement * static_cast<int64_t>(ranks.size());
  const int64_t bytes = std::max(size / unit, int64_t{1}) * unit;
  const bool rate = size > kShortMessages[0];
  const Figure f = bench.figure(fmt::format("{}_{}", c.name, size),
                                fmt::format("{} {}{}", c.label, format_bytes(static_cast<double>(size)),
                                            rate ? ", busbw" : ""),
                                nullptr, rate ? "GB/s" : "ns");
  const double amount = static_cast<double>(bytes) * bus_factor(c.name, static_cast<int64_t>(ranks.size()));
  const cuda::Device& first = *ranks.front().device;
  bool checked = false;
  bench.measure(f, rate ? amount : 0, [&](int64_t calls) -> Result<double> {
    if (!checked) {
      const auto wrong = wrong_bytes(api, ranks, c, static_cast<size_t>(bytes));
      if (!wrong) return wrong.error();
      if (*wrong > 0)
        return Error{fmt::format("{} bytes of the results are wrong", *wrong),
                     "a device, a link or NCCL computes wrong numbers: `profgpu doctor` looks for errors"};
      checked = true;
    }
    const int64_t begin_ns = first.now_ns();
    if (const Status done = together(api, ranks, c, static_cast<size_t>(bytes), calls); !done) return done.error();
    return static_cast<double>(first.now_ns() - begin_ns);
  });
}

// One for each device that works, with buffers of `bytes`.
Result<Ranks> ranks_of(Bench& bench, const nccl::Api& api, int64_t bytes) {
  std::vector<const cuda::Device*> devices;
  bench.each_device([&](BenchDevice& d) { devices.push_back(d.cuda.get()); });
  if (devices.size() < 2) return Error{"collectives need two GPUs"};
  devices.resize(std::min(devices.size(), size_t{kMaxRanks}));
  std::vector<int> indices;
  for (const cuda::Device* d : devices) indices.push_back(d->index);
  std::vector<nccl::Communicator> communicators(devices.size());
  if (const Status made = api.create_all(communicators.data(), static_cast<int>(devices.size()), indices.data()); !made)
    return made.error();
  Ranks ranks;
  for (size_t i = 0; i < devices.size(); ++i) {
    const cuda::Device& d = *devices[i];
    if (const Status current = d.use(); !current) return current.error();
    auto from = DeviceMemory::allocate(d, bytes);
    if (!from) return from.error();
    auto to = DeviceMemory::allocate(d, bytes);
    if (!to) return to.error();
    const auto own = static_cast<unsigned char>(i + 1);
    if (const Status filled = d.api.fill(from->address(), own, static_cast<size_t>(bytes), d.stream()); !filled)
      return filled.error();
    ranks.push_back({&d, communicators[i], std::move(*from), std::move(*to)});
  }
  return ranks;
}

void run_collectives(Bench& bench) {
  const Figure all = bench.figure("", "");
  if (bench.devices.size() < 2) return bench.miss(all, {"collectives need two GPUs"});
  bench.begin(bench.figure("", "connecting the devices"));
  const auto library = nccl::Library::open();
  if (!library) return bench.miss(all, library.error());
  const auto sizes =
      bench.options.full ? std::span<const int64_t>(kFullMessages) : std::span<const int64_t>(kShortMessages);
  const auto ranks = ranks_of(bench, (*library)->api, sizes.back());
  if (!ranks) return bench.miss(all, ranks.error());
  for (const Collective& c : kCollectives)
    for (const int64_t size : sizes) collective(bench, (*library)->api, *ranks, c, size);
  for (const Rank& r : *ranks)
    if (r.device->use()) (void)(*library)->api.destroy(r.communicator);
}

}  // namespace

extern const Benchmark kNcclCollectives;
const Benchmark kNcclCollectives{
    .name = "collectives",
    .summary = "NCCL over the devices of this machine: latency, bus bandwidth, checked results",
    .run = run_collectives,
};

}  // namespace profgpu
