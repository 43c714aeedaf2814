// The rows of each kind of chunk. A row type names its columns once, in `columns`, for the writer and the reader alike;
// new columns go to the end.
//
// Two clocks: what CUPTI stamps is on CUPTI's clock ("device clock" here); what the process itself stamps is on
// CLOCK_MONOTONIC ("host clock"). Rows of kClockSyncs join both to Unix time. All times are nanoseconds. Ids of
// strings, threads, queues and launch shapes are given by rows of their kinds earlier in the file; 0: none.
#pragma once

#include "record/wire/format.h"

namespace profgpu::wire {

// Columns of one encoding that stand side by side.
template <typename V, typename... Members>
void plain(V& v, Members... members) {
  (v.plain(members), ...);
}
template <typename V, typename... Members>
void delta(V& v, Members... members) {
  (v.delta(members), ...);
}

struct Property {
  static constexpr ChunkKind kKind = ChunkKind::kProperties;
  uint32_t key = 0, value = 0;  ///< strings
  template <typename V>
  static void columns(V& v) {
    plain(v, &Property::key, &Property::value);
  }
};

/// The same instant on all clocks.
struct ClockSync {
  static constexpr ChunkKind kKind = ChunkKind::kClockSyncs;
  int64_t host_ns = 0;    ///< CLOCK_MONOTONIC
  int64_t unix_ns = 0;    ///< CLOCK_REALTIME
  int64_t device_ns = 0;  ///< cuptiGetTimestamp; 0: not known
  template <typename V>
  static void columns(V& v) {
    v.time(&ClockSync::host_ns);
    delta(v, &ClockSync::unix_ns, &ClockSync::device_ns);
  }
};

struct ThreadRow {
  static constexpr ChunkKind kKind = ChunkKind::kThreads;
  uint32_t id = 0;
  uint32_t pid = 0, tid = 0;  ///< the kernel's, as seen in the process's own namespace
  uint32_t name = 0;          ///< string
  template <typename V>
  static void columns(V& v) {
    delta(v, &ThreadRow::id);
    plain(v, &ThreadRow::pid);
    delta(v, &ThreadRow::tid);
    plain(v, &ThreadRow::name);
  }
};

/// A stream of a context of a device.
struct QueueRow {
  static constexpr ChunkKind kKind = ChunkKind::kQueues;
  uint32_t id = 0;
  uint32_t device = 0, context = 0, stream = 0;
  template <typename V>
  static void columns(V& v) {
    delta(v, &QueueRow::id);
    plain(v, &QueueRow::device, &QueueRow::context, &QueueRow::stream);
  }
};

struct LaunchShape {
  static constexpr ChunkKind kKind = ChunkKind::kLaunchShapes;
  uint32_t id = 0;
  int32_t grid[3] = {0, 0, 0};
  int32_t block[3] = {0, 0, 0};
  int32_t registers = 0;  ///< a thread
  int32_t static_shared_bytes = 0;
  int32_t dynamic_shared_bytes = 0;
  template <typename V>
  static void columns(V& v) {
    delta(v, &LaunchShape::id);
    for (int i = 0; i < 3; ++i) v.element(&LaunchShape::grid, i);
    for (int i = 0; i < 3; ++i) v.element(&LaunchShape::block, i);
    plain(v, &LaunchShape::registers, &LaunchShape::static_shared_bytes, &LaunchShape::dynamic_shared_bytes);
  }
};

struct DeviceRow {
  static constexpr ChunkKind kKind = ChunkKind::kDevices;
  uint32_t id = 0;  ///< as in QueueRow: CUDA's own number in this process
  uint32_t name = 0, uuid = 0, pci = 0;  ///< strings
  uint64_t memory_bytes = 0;
  uint32_t compute_major = 0, compute_minor = 0;
  uint32_t multiprocessors = 0;
  template <typename V>
  static void columns(V& v) {
    plain(v, &DeviceRow::id, &DeviceRow::name, &DeviceRow::uuid, &DeviceRow::pci, &DeviceRow::memory_bytes,
          &DeviceRow::compute_major, &DeviceRow::compute_minor, &DeviceRow::multiprocessors);
  }
};

enum class SchemaKind : uint8_t {
  kStatic = 1,       ///< fields at places that never change
  kDynamic = 2,      ///< places depend on lengths in the data
  kUnion = 3,        ///< one of its fields; another field of the schema around it says which
  kOwnUnion = 4,     ///< one of its fields; it says itself which
  kEnumeration = 5,  ///< names of numbers; a field's `offset` is the number
};

/// How NVTX's extended payloads are laid out. Numbers of fields mean what NVTX 3.2's header says of them.
struct PayloadSchema {
  static constexpr ChunkKind kKind = ChunkKind::kPayloadSchemas;
  uint32_t id = 0;
  uint32_t domain = 0;   ///< string; schema numbers are a domain's own
  uint64_t schema = 0;   ///< the number by which payloads and fields name it
  uint32_t name = 0;     ///< string
  SchemaKind kind = SchemaKind::kStatic;
  uint64_t size = 0;     ///< bytes; 0: follows from the fields
  uint64_t pack = 0;     ///< largest alignment of a field; 0: its natural one
  template <typename V>
  static void columns(V& v) {
    delta(v, &PayloadSchema::id);
    plain(v, &PayloadSchema::domain, &PayloadSchema::schema, &PayloadSchema::name, &PayloadSchema::kind,
          &PayloadSchema::size, &PayloadSchema::pack);
  }
};

struct PayloadField {
  static constexpr ChunkKind kKind = ChunkKind::kPayloadFields;
  uint32_t of = 0;       ///< id of the schema
  uint32_t place = 0;    ///< among its fields, from 0
  uint32_t name = 0;     ///< string
  uint64_t flags = 0;    ///< NVTX_PAYLOAD_ENTRY_FLAG_*; of enumerations: 1 where the number is one bit of several
  uint64_t type = 0;     ///< NVTX_PAYLOAD_ENTRY_TYPE_*, or the number of another schema
  uint64_t detail = 0;   ///< length of an array or text, or the place of the field that has it
  uint64_t offset = 0;   ///< bytes; 0 of others than the first: behind the one before
  template <typename V>
  static void columns(V& v) {
    delta(v, &PayloadField::of);
    plain(v, &PayloadField::place, &PayloadField::name, &PayloadField::flags, &PayloadField::type,
          &PayloadField::detail, &PayloadField::offset);
  }
};

/// Device clock.
struct Kernel {
  static constexpr ChunkKind kKind = ChunkKind::kKernels;
  int64_t start_ns = 0;
  int64_t duration_ns = 0;
  uint32_t name = 0;  ///< string, as CUPTI has it: mangled
  uint32_t queue = 0;
  uint32_t correlation = 0;
  uint32_t shape = 0;
  uint32_t graph = 0;  ///< 0: not part of a graph launch
  uint64_t graph_node = 0;
  template <typename V>
  static void columns(V& v) {
    v.time(&Kernel::start_ns);
    plain(v, &Kernel::duration_ns, &Kernel::name, &Kernel::queue);
    delta(v, &Kernel::correlation);
    plain(v, &Kernel::shape, &Kernel::graph);
    delta(v, &Kernel::graph_node);
  }
};

/// Device clock. Kinds are CUPTI's numbers (CUpti_ActivityMemcpyKind, CUpti_ActivityMemoryKind).
struct Copy {
  static constexpr ChunkKind kKind = ChunkKind::kCopies;
  int64_t start_ns = 0;
  int64_t duration_ns = 0;
  uint64_t bytes = 0;
  uint32_t queue = 0;
  uint32_t correlation = 0;
  uint8_t copy_kind = 0, from_kind = 0, to_kind = 0;
  uint8_t is_async = 0;
  uint32_t peer = 0;  ///< the other device of a copy between two, plus 1; 0: none
  uint32_t graph = 0;
  uint64_t graph_node = 0;
  template <typename V>
  static void columns(V& v) {
    v.time(&Copy::start_ns);
    plain(v, &Copy::duration_ns, &Copy::bytes, &Copy::queue);
    delta(v, &Copy::correlation);
    plain(v, &Copy::copy_kind, &Copy::from_kind, &Copy::to_kind, &Copy::is_async, &Copy::peer, &Copy::graph);
    delta(v, &Copy::graph_node);
  }
};

/// Device clock. Memory set to a value.
struct Set {
  static constexpr ChunkKind kKind = ChunkKind::kSets;
  int64_t start_ns = 0;
  int64_t duration_ns = 0;
  uint64_t bytes = 0;
  uint32_t queue = 0;
  uint32_t correlation = 0;
  uint32_t value = 0;
  uint8_t memory_kind = 0;
  uint32_t graph = 0;
  uint64_t graph_node = 0;
  template <typename V>
  static void columns(V& v) {
    v.time(&Set::start_ns);
    plain(v, &Set::duration_ns, &Set::bytes, &Set::queue);
    delta(v, &Set::correlation);
    plain(v, &Set::value, &Set::memory_kind, &Set::graph);
    delta(v, &Set::graph_node);
  }
};

/// Device clock. A call of the CUDA runtime or driver.
struct Call {
  static constexpr ChunkKind kKind = ChunkKind::kCalls;
  int64_t start_ns = 0;
  int64_t duration_ns = 0;
  uint32_t name = 0;
  uint32_t thread = 0;
  uint32_t correlation = 0;
  uint8_t is_driver = 0;
  uint32_t result = 0;  ///< cudaError_t or CUresult
  template <typename V>
  static void columns(V& v) {
    v.time(&Call::start_ns);
    plain(v, &Call::duration_ns, &Call::name, &Call::thread);
    delta(v, &Call::correlation);
    plain(v, &Call::is_driver, &Call::result);
  }
};

/// Device clock. A wait of the host for a device. `type` is CUPTI's CUpti_ActivitySynchronizationType.
struct Sync {
  static constexpr ChunkKind kKind = ChunkKind::kSyncs;
  int64_t start_ns = 0;
  int64_t duration_ns = 0;
  uint32_t queue = 0;  ///< its stream is 0xffffffff where all of the context was waited for
  uint32_t correlation = 0;
  uint8_t type = 0;
  uint32_t event = 0;
  template <typename V>
  static void columns(V& v) {
    v.time(&Sync::start_ns);
    plain(v, &Sync::duration_ns, &Sync::queue);
    delta(v, &Sync::correlation);
    plain(v, &Sync::type, &Sync::event);
  }
};

/// Device clock. Time that the profiler itself took from a thread. `type` is CUPTI's CUpti_ActivityOverheadKind.
struct Overhead {
  static constexpr ChunkKind kKind = ChunkKind::kOverheads;
  int64_t start_ns = 0;
  int64_t duration_ns = 0;
  uint32_t type = 0;
  uint32_t thread = 0;  ///< 0: not of one thread
  template <typename V>
  static void columns(V& v) {
    v.time(&Overhead::start_ns);
    plain(v, &Overhead::duration_ns, &Overhead::type, &Overhead::thread);
  }
};

/// Device clock. CUDA memory taken or given back (cudaMalloc, cudaFree, pools), not a framework's caching allocator.
struct Allocation {
  static constexpr ChunkKind kKind = ChunkKind::kAllocations;
  int64_t time_ns = 0;
  uint64_t address = 0;
  uint64_t bytes = 0;
  uint32_t queue = 0;
  uint32_t correlation = 0;
  uint8_t is_free = 0;
  uint8_t memory_kind = 0;
  template <typename V>
  static void columns(V& v) {
    v.time(&Allocation::time_ns);
    delta(v, &Allocation::address);
    plain(v, &Allocation::bytes, &Allocation::queue);
    delta(v, &Allocation::correlation);
    plain(v, &Allocation::is_free, &Allocation::memory_kind);
  }
};

/// Device clock. A whole graph launch, where its nodes are not recorded one by one.
struct GraphLaunch {
  static constexpr ChunkKind kKind = ChunkKind::kGraphLaunches;
  int64_t start_ns = 0;
  int64_t duration_ns = 0;
  uint32_t queue = 0;
  uint32_t correlation = 0;
  uint32_t graph = 0;
  template <typename V>
  static void columns(V& v) {
    v.time(&GraphLaunch::start_ns);
    plain(v, &GraphLaunch::duration_ns, &GraphLaunch::queue);
    delta(v, &GraphLaunch::correlation);
    plain(v, &GraphLaunch::graph);
  }
};

/// A framework's own number for what a call was made for. `type` is CUPTI's CUpti_ExternalCorrelationKind.
struct ExternalId {
  static constexpr ChunkKind kKind = ChunkKind::kExternalIds;
  uint32_t correlation = 0;
  uint32_t type = 0;
  uint64_t external = 0;
  template <typename V>
  static void columns(V& v) {
    delta(v, &ExternalId::correlation);
    plain(v, &ExternalId::type);
    delta(v, &ExternalId::external);
  }
};

enum class RangeOp : uint8_t {
  kPush = 1,   ///< opens a range of the thread
  kPop = 2,    ///< closes the thread's innermost one of that domain
  kStart = 3,  ///< opens the range `range`, which any thread may close
  kEnd = 4,
  kMark = 5,   ///< an instant
  kStep = 6,   ///< a training step ends here and the next begins; `payload` is its number, from 0
};
enum class PayloadType : uint8_t { kNone = 0, kInteger = 1, kDouble = 2, kExtended = 3 };

/// Host clock. What the program says of itself: NVTX, and the phases that the Python hook marks.
struct RangeEvent {
  static constexpr ChunkKind kKind = ChunkKind::kRangeEvents;
  int64_t time_ns = 0;
  uint32_t thread = 0;
  uint32_t name = 0;
  uint32_t domain = 0;  ///< string; 0: NVTX's default domain; "profgpu": phases
  uint32_t category = 0;
  RangeOp op = RangeOp::kMark;
  PayloadType payload_type = PayloadType::kNone;
  uint64_t range = 0;
  uint64_t payload = 0;  ///< bits; kExtended: number of the event in rows of kPayloads
  template <typename V>
  static void columns(V& v) {
    v.time(&RangeEvent::time_ns);
    plain(v, &RangeEvent::thread, &RangeEvent::name, &RangeEvent::domain, &RangeEvent::category, &RangeEvent::op,
          &RangeEvent::payload_type);
    delta(v, &RangeEvent::range);
    plain(v, &RangeEvent::payload);
  }
};

/// Data that an event carries beside its attributes, as a row of kPayloads has it. An event may have several.
struct PayloadRef {
  uint64_t event = 0;    ///< RangeEvent::payload
  uint32_t domain = 0;   ///< string, as the event has it
  uint64_t schema = 0;   ///< of that domain, or one of NVTX's types
  uint64_t size = 0;     ///< bytes that the program gave; 2^64 - 1: it did not say
  uint32_t length = 0;   ///< bytes that were kept, the first ones
  const char* text = nullptr;
};

/// Host clock but for `device_*`. One collective or point-to-point call of this rank, from NCCL's profiler interface.
struct CollectiveRow {
  static constexpr ChunkKind kKind = ChunkKind::kCollectives;
  int64_t start_ns = 0;        ///< enqueue by the host
  int64_t duration_ns = 0;     ///< of the enqueue; not of the transfer
  int64_t device_start_ns = 0; ///< first channel's kernel, globaltimer of the device; 0: not known
  int64_t device_duration_ns = 0;  ///< to the last channel's end
  uint64_t communicator = 0;   ///< NCCL's hash, the same on all ranks
  uint32_t communicator_name = 0;
  uint32_t rank = 0, ranks = 0;  ///< in the communicator
  uint64_t sequence = 0;       ///< collectives only
  uint32_t function = 0;       ///< string: "AllReduce", "Send" ...
  uint32_t data_type = 0, algorithm = 0, protocol = 0;  ///< strings
  uint64_t count = 0;          ///< elements, as the call has it
  int32_t root_or_peer = -1;   ///< root of rooted collectives, peer of point-to-point
  uint32_t channels = 0;
  uint32_t thread = 0;
  template <typename V>
  static void columns(V& v) {
    v.time(&CollectiveRow::start_ns);
    plain(v, &CollectiveRow::duration_ns);
    delta(v, &CollectiveRow::device_start_ns);
    plain(v, &CollectiveRow::device_duration_ns);
    delta(v, &CollectiveRow::communicator);
    plain(v, &CollectiveRow::communicator_name, &CollectiveRow::rank, &CollectiveRow::ranks);
    delta(v, &CollectiveRow::sequence);
    plain(v, &CollectiveRow::function, &CollectiveRow::data_type, &CollectiveRow::algorithm, &CollectiveRow::protocol,
          &CollectiveRow::count, &CollectiveRow::root_or_peer, &CollectiveRow::channels, &CollectiveRow::thread);
  }
};

/// Host clock. What the kernel said of a thread at one instant; counters run from the thread's start.
struct ThreadSample {
  static constexpr ChunkKind kKind = ChunkKind::kThreadSamples;
  int64_t time_ns = 0;
  uint32_t thread = 0;
  uint8_t state = 0;         ///< 'R', 'S', 'D' ... as /proc has it
  int32_t system_call = -1;  ///< number of the call it is blocked in; -1: none, or not known
  uint64_t user_ns = 0;      ///< processor time
  uint64_t system_ns = 0;
  uint64_t waited_ns = 0;    ///< ready to run, but without a processor
  /// What context switches say, all or none of it; -1: not known.
  int64_t blocked_ns = -1;   ///< off the processor since it blocked, until it had one again
  int64_t preempted_ns = -1; ///< off the processor since it had to give way
  int64_t waits = -1;        ///< how often it blocked
  template <typename V>
  static void columns(V& v) {
    v.time(&ThreadSample::time_ns);
    plain(v, &ThreadSample::thread, &ThreadSample::state, &ThreadSample::system_call);
    delta(v, &ThreadSample::user_ns, &ThreadSample::system_ns, &ThreadSample::waited_ns, &ThreadSample::blocked_ns,
          &ThreadSample::preempted_ns, &ThreadSample::waits);
  }
};

/// Host clock. A thread blocked, and had a processor again at the end.
struct ThreadWait {
  static constexpr ChunkKind kKind = ChunkKind::kThreadWaits;
  int64_t start_ns = 0;
  int64_t duration_ns = 0;
  uint32_t thread = 0;
  template <typename V>
  static void columns(V& v) {
    v.time(&ThreadWait::start_ns);
    plain(v, &ThreadWait::duration_ns, &ThreadWait::thread);
  }
};

enum class DropReason : uint8_t {
  kRecorderFull = 1,  ///< more came than could be written; our own bound on memory
  kDiskFull = 2,      ///< write() failed
  kCupti = 3,         ///< CUPTI dropped records itself
  kNamesFull = 4,     ///< too many different names; rows are kept with name 0
  kRingFull = 5,      ///< the kernel's memory for records of context switches was full
};

/// Host clock. Rows that are missing since the drop row before.
struct Drop {
  static constexpr ChunkKind kKind = ChunkKind::kDrops;
  int64_t time_ns = 0;
  uint16_t of = 0;  ///< ChunkKind; 0: of device records of any kind
  DropReason reason = DropReason::kRecorderFull;
  uint64_t count = 0;
  template <typename V>
  static void columns(V& v) {
    v.time(&Drop::time_ns);
    plain(v, &Drop::of, &Drop::reason, &Drop::count);
  }
};

enum class WindowEvent : uint8_t { kOpen = 1, kClose = 2 };

/// Host clock. Device activity is recorded from a row that opens to one that closes.
struct Window {
  static constexpr ChunkKind kKind = ChunkKind::kWindows;
  int64_t time_ns = 0;
  WindowEvent event = WindowEvent::kOpen;
  uint32_t reason = 0;  ///< string: "start", "cudaProfilerStart", "torch.profiler" ...
  template <typename V>
  static void columns(V& v) {
    v.time(&Window::time_ns);
    plain(v, &Window::event, &Window::reason);
  }
};

enum class Severity : uint8_t { kInfo = 1, kWarning = 2 };

/// Host clock. One sentence about the recording: what could not be recorded and why.
struct Note {
  static constexpr ChunkKind kKind = ChunkKind::kNotes;
  int64_t time_ns = 0;
  Severity severity = Severity::kInfo;
  uint32_t text = 0;
  template <typename V>
  static void columns(V& v) {
    v.time(&Note::time_ns);
    plain(v, &Note::severity, &Note::text);
  }
};

}  // namespace profgpu::wire
