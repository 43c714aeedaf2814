#include "measure/collective_calls.h"

#include <algorithm>

namespace profgpu {
namespace {

using cuda::Address, cuda::DeviceMemory;
using InPlace = CollectiveForm::InPlace;

constexpr size_t kElement = 4;                         // INT32
constexpr size_t kChecked = size_t{16} << 20;          // bytes of each result, from its start
constexpr int64_t kLeastBuffer = int64_t{1} << 20;

unsigned char byte_of(size_t rank) { return static_cast<unsigned char>(rank % 251 + 1); }
// The value of which each byte is `byte`, times something: sums wrap as INT32 does.
uint32_t value_of(size_t rank) { return byte_of(rank) * 0x01010101U; }

size_t whole_result(size_t, size_t, size_t bytes) { return bytes; }
size_t part_result(size_t ranks, size_t, size_t bytes) { return bytes / ranks; }
uint32_t sum_result(size_t ranks, size_t, size_t, size_t) {
  uint32_t sum = 0;
  for (size_t r = 0; r < ranks; ++r) sum += value_of(r);
  return sum;
}
uint32_t gathered_result(size_t ranks, size_t, size_t bytes, size_t offset) {
  return value_of(offset / (bytes / ranks));
}

// All ranks send their part to each, and receive one from each.
Status all_to_all(const nccl::Api& api, const World& world, const WorldRank& r, Address from, Address to,
                  size_t bytes) {
  const size_t part = bytes / world.ranks;
  for (size_t peer = 0; peer < world.ranks; ++peer) {
    Status status = api.send(from + peer * part, part / kElement, nccl::kInt32, static_cast<int>(peer), r.communicator,
                             r.device->stream());
    if (status)
      status = api.receive(to + peer * part, part / kElement, nccl::kInt32, static_cast<int>(peer), r.communicator,
                           r.device->stream());
    if (!status) return status;
  }
  return ok();
}

// To the next rank, from the one before.
Status send_receive(const nccl::Api& api, const World& world, const WorldRank& r, Address from, Address to,
                    size_t bytes) {
  const auto next = static_cast<int>((r.number + 1) % world.ranks);
  const auto before = static_cast<int>((r.number + world.ranks - 1) % world.ranks);
  const Status sent = api.send(from, bytes / kElement, nccl::kInt32, next, r.communicator, r.device->stream());
  return sent ? api.receive(to, bytes / kElement, nccl::kInt32, before, r.communicator, r.device->stream()) : sent;
}

constexpr CollectiveForm kForms[] = {
    {"all_reduce", "all-reduce",
     [](const nccl::Api& api, const World&, const WorldRank& r, Address from, Address to, size_t bytes) {
       return api.all_reduce(from, to, bytes / kElement, nccl::kInt32, nccl::kSum, r.communicator, r.device->stream());
     },
     whole_result, sum_result, InPlace::kWhole},
    {"all_gather", "all-gather",
     [](const nccl::Api& api, const World& world, const WorldRank& r, Address from, Address to, size_t bytes) {
       return api.all_gather(from, to, bytes / kElement / world.ranks, nccl::kInt32, r.communicator,
                             r.device->stream());
     },
     whole_result, gathered_result, InPlace::kOwnPartSent},
    {"reduce_scatter", "reduce-scatter",
     [](const nccl::Api& api, const World& world, const WorldRank& r, Address from, Address to, size_t bytes) {
       return api.reduce_scatter(from, to, bytes / kElement / world.ranks, nccl::kInt32, nccl::kSum, r.communicator,
                                 r.device->stream());
     },
     part_result, sum_result, InPlace::kOwnPartReceived},
    {"broadcast", "broadcast",
     [](const nccl::Api& api, const World&, const WorldRank& r, Address from, Address to, size_t bytes) {
       return api.broadcast(from, to, bytes / kElement, nccl::kInt32, 0, r.communicator, r.device->stream());
     },
     whole_result, [](size_t, size_t, size_t, size_t) { return value_of(0); }, InPlace::kWhole},
    {"reduce", "reduce",
     [](const nccl::Api& api, const World&, const WorldRank& r, Address from, Address to, size_t bytes) {
       return api.reduce(from, to, bytes / kElement, nccl::kInt32, nccl::kSum, 0, r.communicator, r.device->stream());
     },
     [](size_t, size_t at, size_t bytes) { return at == 0 ? bytes : 0; }, sum_result, InPlace::kWhole},
    {"all_to_all", "all-to-all", all_to_all, whole_result, gathered_result, InPlace::kNo},
    {"send_recv", "send and receive", send_receive, whole_result,
     [](size_t ranks, size_t at, size_t, size_t) { return value_of((at + ranks - 1) % ranks); }, InPlace::kNo},
};

struct Buffers {
  Address from, to;
};
// In place: all in the buffer that is sent.
Buffers buffers_of(const World& world, const CollectiveForm& form, const WorldRank& r, size_t bytes, bool in_place) {
  const Address whole = r.from.address(), own = whole + r.number * (bytes / world.ranks);
  if (!in_place) return {whole, r.to.address()};
  if (form.in_place == InPlace::kOwnPartSent) return {own, whole};
  if (form.in_place == InPlace::kOwnPartReceived) return {whole, own};
  return {whole, whole};
}

// What a rank sends is its number again, and its target is empty.
Status refill(const World& world, const WorldRank& r) {
  const auto size = static_cast<size_t>(world.buffer_bytes);
  Status status = r.device->use();
  if (status) status = r.device->api.fill(r.from.address(), byte_of(r.number), size, r.device->stream());
  if (status)
    status = r.device->api.fill(r.to.address(), static_cast<unsigned char>(0), size, r.device->stream());
  return status ? r.device->api.wait_for_stream(r.device->stream()) : status;
}

}  // namespace

World::~World() {
  local.clear();
  for (size_t i = 0; i < communicators.size(); ++i)
    if (communicators[i] && devices[i]->use()) (void)library->api.destroy(communicators[i]);
}

Status World::open_devices() {
  ranks = devices.size();
  communicators.resize(ranks);
  std::vector<int> indices;
  for (const cuda::Device* d : devices) indices.push_back(d->index);
  return library->api.create_all(communicators.data(), static_cast<int>(indices.size()), indices.data());
}

Status World::allocate(int64_t wanted, size_t first_rank) {
  for (buffer_bytes = wanted;; buffer_bytes /= 2) {
    local.clear();
    Status status = ok();
    for (size_t i = 0; i < devices.size() && status; ++i) {
      const cuda::Device& d = *devices[i];
      if (status = d.use(); !status) return status;
      auto from = DeviceMemory::allocate(d, buffer_bytes);
      auto to = from ? DeviceMemory::allocate(d, buffer_bytes) : Result<DeviceMemory>(from.error());
      if (!to) status = to.error();
      else local.push_back({&d, first_rank + i, communicators[i], std::move(*from), std::move(*to)});
    }
    if (status || buffer_bytes / 2 < kLeastBuffer) return status;
  }
}

std::span<const CollectiveForm> collective_forms() { return kForms; }

int64_t message_bytes(int64_t size, size_t ranks) {
  const auto unit = static_cast<int64_t>(kElement * ranks);
  return std::max(size / unit, int64_t{1}) * unit;
}

Status put_calls(const World& world, const CollectiveForm& form, size_t bytes, bool in_place, int64_t calls) {
  const nccl::Api& api = world.library->api;
  for (int64_t i = 0; i < calls; ++i) {
    Status status = api.begin_group();
    for (const WorldRank& r : world.local) {
      const Buffers b = buffers_of(world, form, r, bytes, in_place);
      if (status) status = form.call(api, world, r, b.from, b.to, bytes);
    }
    if (const Status ended = api.end_group(); status && !ended) status = ended;
    if (!status) return status;
  }
  return ok();
}

Status wait_for_world(const World& world) {
  for (const WorldRank& r : world.local) {
    Status status = r.device->use();
    if (status) status = r.device->api.wait_for_stream(r.device->stream());
    if (!status) return status;
  }
  return ok();
}

Status make_calls(const World& world, const CollectiveForm& form, size_t bytes, bool in_place, int64_t calls) {
  const Status put = put_calls(world, form, bytes, in_place, calls);
  return put ? wait_for_world(world) : put;
}

Result<int64_t> wrong_values(const World& world, const CollectiveForm& form, size_t bytes, bool in_place) {
  for (const WorldRank& r : world.local)
    if (const Status filled = refill(world, r); !filled) return filled.error();
  if (const Status done = make_calls(world, form, bytes, in_place, 1); !done) return done.error();
  int64_t wrong = 0;
  std::vector<uint32_t> got;
  for (const WorldRank& r : world.local) {
    const size_t size = std::min(form.result_bytes(world.ranks, r.number, bytes), kChecked);
    got.assign(size / kElement, 0);
    if (got.empty()) continue;
    const Address to = buffers_of(world, form, r, bytes, in_place).to;
    Status status = r.device->use();
    if (status) status = r.device->api.to_host(got.data(), to, size, r.device->stream());
    if (status) status = r.device->api.wait_for_stream(r.device->stream());
    if (!status) return status.error();
    for (size_t i = 0; i < got.size(); ++i) wrong += got[i] != form.result(world.ranks, r.number, bytes, i * kElement);
  }
  return wrong;
}

Status send_between(const World& world, size_t from, size_t to, size_t bytes, int64_t calls) {
  const nccl::Api& api = world.library->api;
  for (int64_t i = 0; i < calls; ++i) {
    bool any = false;
    Status status = ok();
    for (const WorldRank& r : world.local) {
      if (r.number != from && r.number != to) continue;
      if (!any) status = api.begin_group();
      any = true;
      if (status && r.number == from)
        status = api.send(r.from.address(), bytes / kElement, nccl::kInt32, static_cast<int>(to), r.communicator,
                          r.device->stream());
      if (status && r.number == to)
        status = api.receive(r.to.address(), bytes / kElement, nccl::kInt32, static_cast<int>(from), r.communicator,
                             r.device->stream());
    }
    if (any)
      if (const Status ended = api.end_group(); status && !ended) status = ended;
    if (!status) return status;
  }
  return wait_for_world(world);
}

}  // namespace profgpu
