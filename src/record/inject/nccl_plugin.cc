// NCCL's profiler plugin: each collective and point-to-point call of this process becomes one row.
//
// NCCL starts an event when it enqueues a call, stops it when it has enqueued it, and tells later, on threads of its
// own, when the call's kernel ran on each channel. A row is written when all channels are known; when that does not
// happen for kPatienceNs; when the communicator or the process ends; or when its place is needed.
//
// Bounds: kPlaces calls in flight, kMaxCommunicators at a time. An event's handle is a number: place, its generation
// and what it is, so a handle that NCCL uses after the row was written is recognised and harms nothing.
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "record/inject/nccl_types.h"
#include "record/inject/recorder.h"
#include "record/inject/system_call.h"

namespace profgpu::inject::nccl {

namespace {

constexpr uint32_t kPlaces = 4096;
constexpr uint32_t kMaxCommunicators = 1024;
constexpr int64_t kPatienceNs = 10'000'000'000;
// Bits of a handle: what it is, place, generation.
constexpr uint32_t kWhatBits = 2, kPlaceBits = 12;
static_assert(1u << kPlaceBits == kPlaces);

enum class What : uint64_t { kCall = 1, kChannel = 2, kOther = 3 };

struct Communicator {
  std::atomic<bool> used;
  uint64_t hash;
  uint32_t name, rank, ranks;
};

// A call in flight. `lock` is held for a few instructions, never while anything is called that could wait.
struct Place {
  Lock lock;
  bool used, enqueued;
  uint32_t generation, communicator, channels_started, channels_ended;
  uint64_t device_start_ns, device_end_ns;
  wire::CollectiveRow row;
};

struct Plugin {
  std::atomic<uint32_t> recorder;  // generation of the recorder that all of this belongs to
  std::atomic<uint32_t> next;
  Communicator communicators[kMaxCommunicators];
  Place places[kPlaces];
};
Plugin plugin;

void* handle_of(What what, uint32_t place, uint32_t generation) {
  const uint64_t bits =
      uint64_t{generation} << (kWhatBits + kPlaceBits) | uint64_t{place} << kWhatBits | static_cast<uint64_t>(what);
  return reinterpret_cast<void*>(bits);
}
What what_of(const void* handle) { return static_cast<What>(reinterpret_cast<uint64_t>(handle) & 3); }
Place& place_of(const void* handle) {
  return plugin.places[reinterpret_cast<uint64_t>(handle) >> kWhatBits & (kPlaces - 1)];
}
// Under the place's lock.
bool is_current(const Place& place, const void* handle) {
  return place.used && place.generation == reinterpret_cast<uint64_t>(handle) >> (kWhatBits + kPlaceBits);
}

// Writes the row as far as it is known. Under the place's lock; post() never waits.
void finish(Place& place) {
  wire::CollectiveRow& row = place.row;
  if (!place.enqueued) row.duration_ns = 0;
  if (place.channels_ended > 0 && place.device_end_ns >= place.device_start_ns) {
    row.device_start_ns = static_cast<int64_t>(place.device_start_ns);
    row.device_duration_ns = static_cast<int64_t>(place.device_end_ns - place.device_start_ns);
  }
  post(row);
  place.used = false;
}
void finish_if_known(Place& place) {
  if (place.enqueued && place.channels_started == place.channels_ended && place.channels_ended >= place.row.channels &&
      place.channels_ended > 0)
    finish(place);
}

void finish_all_of(uint32_t communicator, bool every) {
  for (Place& place : plugin.places) {
    const Locked held(place.lock);
    if (place.used && (every || place.communicator == communicator)) finish(place);
  }
}

// Rows come in the order of their places, so what has waited for too long is next to be used.
void finish_overdue(uint32_t before, int64_t now) {
  for (uint32_t i = 1; i <= 2; ++i) {
    Place& place = plugin.places[(before + i) % kPlaces];
    const Locked held(place.lock);
    if (place.used && now - place.row.start_ns > kPatienceNs) finish(place);
  }
}

uint32_t name_of(const char* text) { return text != nullptr && *text != 0 ? intern(text) : 0; }

void fill(const CollectivePart& c, wire::CollectiveRow& row) {
  row.sequence = c.sequence;
  row.function = name_of(c.function);
  row.data_type = name_of(c.data_type);
  row.algorithm = name_of(c.algorithm);
  row.protocol = name_of(c.protocol);
  row.count = c.count;
  row.root_or_peer = c.root;
  row.channels = c.channels;
}
void fill(const PointToPointPart& p, wire::CollectiveRow& row) {
  row.function = name_of(p.function);
  row.data_type = name_of(p.data_type);
  row.count = p.count;
  row.root_or_peer = p.peer;
  row.channels = p.channels;
}
void fill(const CopyEnginePart& c, wire::CollectiveRow& row) {
  row.sequence = c.sequence;
  row.function = name_of(c.function);
  row.data_type = name_of(c.data_type);
  row.algorithm = intern("CE");
  row.count = c.count;
  row.root_or_peer = c.root;
}

template <typename Part>
void* start_call(uint32_t communicator, const Part& part) {
  const Communicator& c = plugin.communicators[communicator];
  const uint32_t number = plugin.next.fetch_add(1, std::memory_order_relaxed);
  const int64_t now = host_now();
  wire::CollectiveRow row;
  fill(part, row);
  row.start_ns = now;
  row.communicator = c.hash;
  row.communicator_name = c.name;
  row.rank = c.rank;
  row.ranks = c.ranks;
  row.thread = thread_id();
  Place& place = plugin.places[number % kPlaces];
  void* handle;
  {
    const Locked held(place.lock);
    if (place.used) finish(place);
    place.used = true;
    place.enqueued = false;
    ++place.generation;
    place.communicator = communicator;
    place.channels_started = place.channels_ended = 0;
    place.device_start_ns = UINT64_MAX;
    place.device_end_ns = 0;
    place.row = row;
    handle = handle_of(What::kCall, number % kPlaces, place.generation);
  }
  finish_overdue(number, now);
  return handle;
}

void* start_channel(const void* parent, uint64_t start_ns) {
  if (parent == nullptr || what_of(parent) != What::kCall) return nullptr;
  Place& place = place_of(parent);
  const Locked held(place.lock);
  if (!is_current(place, parent)) return nullptr;
  ++place.channels_started;
  if (start_ns != 0 && start_ns < place.device_start_ns) place.device_start_ns = start_ns;
  const auto bits = reinterpret_cast<uint64_t>(parent);
  return reinterpret_cast<void*>((bits & ~uint64_t{3}) | static_cast<uint64_t>(What::kChannel));
}

constexpr uint32_t kBeginning = UINT32_MAX;  // in place of the recorder's generation
constexpr int kMaxWaits = 10'000;            // for another thread that begins; in a forked child it may be gone

void begin_recording() {
  const uint32_t generation = recorder_generation();
  uint32_t before = plugin.recorder.load(std::memory_order_acquire);
  for (int waits = 0; before != generation; before = plugin.recorder.load(std::memory_order_acquire)) {
    if (before == kBeginning && ++waits < kMaxWaits) {
      sched_yield();
      continue;
    }
    if (!plugin.recorder.compare_exchange_strong(before, kBeginning)) continue;
    // What a forked child's parent had in flight is its parent's.
    memset(static_cast<void*>(plugin.places), 0, sizeof plugin.places);
    for (Communicator& c : plugin.communicators) c.used = false;
    atexit([] {
      if (recording() && plugin.recorder == recorder_generation()) finish_all_of(0, true);
    });
    plugin.recorder.store(generation, std::memory_order_release);
  }
}

// A context is a communicator's number + 1. Where there is none, events are not recorded.
Result init(void** context, int32_t* mask, int32_t wanted, const char* name, uint64_t hash, int32_t ranks,
            int32_t rank) {
  *context = nullptr;
  *mask = 0;
  if (!start_recorder("nccl") || !options().nccl) return kSuccess;
  begin_recording();
  *mask = wanted;
  for (uint32_t i = 0; i < kMaxCommunicators; ++i) {
    Communicator& c = plugin.communicators[i];
    if (c.used.exchange(true)) continue;
    c.hash = hash;
    c.name = name_of(name);
    c.rank = static_cast<uint32_t>(rank);
    c.ranks = static_cast<uint32_t>(ranks);
    *context = reinterpret_cast<void*>(uintptr_t{i} + 1);
    return kSuccess;
  }
  note(wire::Severity::kWarning, "more than 1024 communicators at a time: collectives of the others are missing");
  return kSuccess;
}

Result finalize(void* context) {
  const auto communicator = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(context) - 1);
  if (communicator >= kMaxCommunicators) return kSuccess;
  if (recording()) finish_all_of(communicator, false);
  plugin.communicators[communicator].used = false;
  return kSuccess;
}

template <typename D>
Result start(void* context, void** handle, D* event) {
  *handle = nullptr;
  const auto communicator = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(context) - 1);
  if (communicator >= kMaxCommunicators || !recording()) return kSuccess;
  switch (event->type) {
    case kCollective: *handle = start_call(communicator, event->collective); break;
    case kPointToPoint: *handle = start_call(communicator, event->point_to_point); break;
    case kKernelChannel: *handle = start_channel(event->parent, event->kernel_channel.start_ns); break;
    // What NCCL makes of calls depends on whether their groups have a handle: they have one, and it means nothing.
    case kGroup: *handle = handle_of(What::kOther, 0, 0); break;
    default:
      if constexpr (sizeof event->type > 1) {
        if (event->type == kCopyEngine) *handle = start_call(communicator, event->copy_engine);
        if (event->type == kGroupCall || event->type == kCollectiveCall || event->type == kPointToPointCall)
          *handle = handle_of(What::kOther, 0, 0);
      }
  }
  return kSuccess;
}

Result stop(void* handle) {
  if (handle == nullptr || what_of(handle) == What::kOther) return kSuccess;
  const bool call = what_of(handle) == What::kCall;
  const int64_t now = call ? host_now() : 0;
  Place& place = place_of(handle);
  const Locked held(place.lock);
  if (!is_current(place, handle)) return kSuccess;
  if (call && !place.enqueued) {
    place.enqueued = true;
    place.row.duration_ns = now - place.row.start_ns;
  } else if (!call && place.channels_ended < place.channels_started) {
    ++place.channels_ended;
  }
  finish_if_known(place);
  return kSuccess;
}

Result state(void* handle, int32_t event_state, StateArguments* arguments) {
  if (event_state != kKernelChannelStop || handle == nullptr || arguments == nullptr ||
      what_of(handle) != What::kChannel)
    return kSuccess;
  Place& place = place_of(handle);
  const Locked held(place.lock);
  if (is_current(place, handle) && arguments->kernel_channel.end_ns > place.device_end_ns)
    place.device_end_ns = arguments->kernel_channel.end_ns;
  return kSuccess;
}

constexpr int32_t kMask = kCollective | kPointToPoint | kKernelChannel;

Result init_v4(void** context, int32_t* mask, const char* name, uint64_t hash, int32_t, int32_t ranks, int32_t rank,
               Logger) {
  return init(context, mask, kMask, name, hash, ranks, rank);
}
template <int32_t kWanted>
Result init_v5(void** context, uint64_t hash, int32_t* mask, const char* name, int32_t, int32_t ranks, int32_t rank,
               Logger) {
  return init(context, mask, kWanted, name, hash, ranks, rank);
}

}  // namespace

}  // namespace profgpu::inject::nccl

using namespace profgpu::inject::nccl;  // the exported structures have NCCL's own names

PROFGPU_EXPORT const PluginV4 ncclProfiler_v4{"profgpu", init_v4, start<DescriptorV4>, stop, state, finalize};
PROFGPU_EXPORT const PluginV5 ncclProfiler_v5{"profgpu", init_v5<kMask>, start<DescriptorV5>, stop, state, finalize};
PROFGPU_EXPORT const PluginV5 ncclProfiler_v6{"profgpu", init_v5<kMask | kCopyEngine>, start<DescriptorV5>,
                                              stop, state, finalize};
