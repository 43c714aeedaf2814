// The rows of each kind of chunk. A row type lists its columns once, in `columns`, for the writer and the reader alike;
// new columns go to the end.
//
// Two clocks: CUPTI's timestamps are on CUPTI's clock ("device clock" here); those of the process itself are on
// CLOCK_MONOTONIC ("host clock"). Rows of kClockSyncs relate both to Unix time. All times are nanoseconds. Ids of
// strings, threads, queues and launch shapes refer to rows of their kinds earlier in the file; 0: none.
#pragma once

#include "record/wire/format.h"

namespace profgpu::wire {

/// The columns of a row type, one after the other, for a writer, a reader or any other visitor.
template <typename V>
class ColumnVisit {
 public:
  explicit ColumnVisit(V& visitor) : visitor_(visitor) {}
  template <typename M>
  ColumnVisit time(M member) const {
    visitor_.time(member);
    return *this;
  }
  template <typename... M>
  ColumnVisit plain(M... members) const {
    (visitor_.plain(members), ...);
    return *this;
  }
  template <typename... M>
  ColumnVisit delta(M... members) const {
    (visitor_.delta(members), ...);
    return *this;
  }
  template <typename T, typename Row, size_t N>
  ColumnVisit elements(T (Row::*member)[N]) const {
    for (size_t i = 0; i < N; ++i) visitor_.element(member, static_cast<int>(i));
    return *this;
  }

 private:
  V& visitor_;
};
template <typename V>
ColumnVisit<V> visit(V& visitor) {
  return ColumnVisit<V>(visitor);
}

/// A name and the number that rows use for it. The text is the chunk's last column.
struct StringRef {
  static constexpr ChunkKind kKind = ChunkKind::kStrings;
  static constexpr bool kHasText = true;
  uint32_t id = 0;
  uint32_t length = 0;
  const char* text = nullptr;
  static void columns(auto& v) { visit(v).delta(&StringRef::id).plain(&StringRef::length); }
};

struct Property {
  static constexpr ChunkKind kKind = ChunkKind::kProperties;
  uint32_t key = 0, value = 0;  ///< strings
  static void columns(auto& v) { visit(v).plain(&Property::key, &Property::value); }
};

/// The same instant on all clocks.
struct ClockSync {
  static constexpr ChunkKind kKind = ChunkKind::kClockSyncs;
  int64_t host_ns = 0;    ///< CLOCK_MONOTONIC
  int64_t unix_ns = 0;    ///< CLOCK_REALTIME
  int64_t device_ns = 0;  ///< cuptiGetTimestamp; 0: not known
  static void columns(auto& v) { visit(v).time(&ClockSync::host_ns).delta(&ClockSync::unix_ns, &ClockSync::device_ns); }
};

struct ThreadRow {
  static constexpr ChunkKind kKind = ChunkKind::kThreads;
  uint32_t id = 0;
  uint32_t pid = 0, tid = 0;  ///< the kernel's, as seen in the process's own namespace
  uint32_t name = 0;          ///< string
  static void columns(auto& v) {
    visit(v).delta(&ThreadRow::id).plain(&ThreadRow::pid).delta(&ThreadRow::tid).plain(&ThreadRow::name);
  }
};

/// A stream of a context of a device.
struct QueueRow {
  static constexpr ChunkKind kKind = ChunkKind::kQueues;
  uint32_t id = 0;
  uint32_t device = 0, context = 0, stream = 0;
  static void columns(auto& v) {
    visit(v).delta(&QueueRow::id).plain(&QueueRow::device, &QueueRow::context, &QueueRow::stream);
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
  static void columns(auto& v) {
    visit(v).delta(&LaunchShape::id).elements(&LaunchShape::grid).elements(&LaunchShape::block)
        .plain(&LaunchShape::registers, &LaunchShape::static_shared_bytes, &LaunchShape::dynamic_shared_bytes);
  }
};

struct DeviceRow {
  static constexpr ChunkKind kKind = ChunkKind::kDevices;
  uint32_t id = 0;  ///< as in QueueRow: CUDA's own number in this process
  uint32_t name = 0, uuid = 0, pci = 0;  ///< strings
  uint64_t memory_bytes = 0;
  uint32_t compute_major = 0, compute_minor = 0;
  uint32_t multiprocessors = 0;
  static void columns(auto& v) {
    visit(v)
        .plain(&DeviceRow::id, &DeviceRow::name, &DeviceRow::uuid, &DeviceRow::pci, &DeviceRow::memory_bytes,
               &DeviceRow::compute_major, &DeviceRow::compute_minor, &DeviceRow::multiprocessors);
  }
};

enum class SchemaKind : uint8_t {
  kStatic = 1,       ///< fields at fixed offsets
  kDynamic = 2,      ///< offsets depend on lengths in the data
  kUnion = 3,        ///< one of its fields; another field of the enclosing schema selects it
  kOwnUnion = 4,     ///< one of its fields; it has its own selector
  kEnumeration = 5,  ///< names of numbers; a field's `offset` is the number
};

/// The layout of NVTX's extended payloads. Numbers of fields have the meanings in NVTX 3.2's header.
struct PayloadSchema {
  static constexpr ChunkKind kKind = ChunkKind::kPayloadSchemas;
  uint32_t id = 0;
  uint32_t domain = 0;   ///< string; schema numbers are a domain's own
  uint64_t schema = 0;   ///< the number by which payloads and fields name it
  uint32_t name = 0;     ///< string
  SchemaKind kind = SchemaKind::kStatic;
  uint64_t size = 0;     ///< bytes; 0: follows from the fields
  uint64_t pack = 0;     ///< largest alignment of a field; 0: its natural one
  static void columns(auto& v) {
    visit(v).delta(&PayloadSchema::id)
        .plain(&PayloadSchema::domain, &PayloadSchema::schema, &PayloadSchema::name, &PayloadSchema::kind,
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
  uint64_t detail = 0;   ///< length of an array or text, or the index of the field that has it
  uint64_t offset = 0;   ///< bytes; 0 except for the first: after the previous field
  static void columns(auto& v) {
    visit(v).delta(&PayloadField::of)
        .plain(&PayloadField::place, &PayloadField::name, &PayloadField::flags, &PayloadField::type,
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
  static void columns(auto& v) {
    visit(v).time(&Kernel::start_ns).plain(&Kernel::duration_ns, &Kernel::name, &Kernel::queue)
        .delta(&Kernel::correlation).plain(&Kernel::shape, &Kernel::graph).delta(&Kernel::graph_node);
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
  static void columns(auto& v) {
    visit(v).time(&Copy::start_ns).plain(&Copy::duration_ns, &Copy::bytes, &Copy::queue).delta(&Copy::correlation)
        .plain(&Copy::copy_kind, &Copy::from_kind, &Copy::to_kind, &Copy::is_async, &Copy::peer, &Copy::graph)
        .delta(&Copy::graph_node);
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
  static void columns(auto& v) {
    visit(v).time(&Set::start_ns).plain(&Set::duration_ns, &Set::bytes, &Set::queue).delta(&Set::correlation)
        .plain(&Set::value, &Set::memory_kind, &Set::graph).delta(&Set::graph_node);
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
  static void columns(auto& v) {
    visit(v).time(&Call::start_ns).plain(&Call::duration_ns, &Call::name, &Call::thread).delta(&Call::correlation)
        .plain(&Call::is_driver, &Call::result);
  }
};

/// Device clock. The host waits for a device. `type` is CUPTI's CUpti_ActivitySynchronizationType.
struct Sync {
  static constexpr ChunkKind kKind = ChunkKind::kSyncs;
  int64_t start_ns = 0;
  int64_t duration_ns = 0;
  uint32_t queue = 0;  ///< its stream is 0xffffffff where the wait is for the whole context
  uint32_t correlation = 0;
  uint8_t type = 0;
  uint32_t event = 0;
  static void columns(auto& v) {
    visit(v).time(&Sync::start_ns).plain(&Sync::duration_ns, &Sync::queue).delta(&Sync::correlation)
        .plain(&Sync::type, &Sync::event);
  }
};

/// Device clock. The profiler's own overhead on a thread. `type` is CUPTI's CUpti_ActivityOverheadKind.
struct Overhead {
  static constexpr ChunkKind kKind = ChunkKind::kOverheads;
  int64_t start_ns = 0;
  int64_t duration_ns = 0;
  uint32_t type = 0;
  uint32_t thread = 0;  ///< 0: not of one thread
  static void columns(auto& v) {
    visit(v).time(&Overhead::start_ns).plain(&Overhead::duration_ns, &Overhead::type, &Overhead::thread);
  }
};

/// Device clock. CUDA memory allocated or freed (cudaMalloc, cudaFree, pools), not by a framework's caching allocator.
struct Allocation {
  static constexpr ChunkKind kKind = ChunkKind::kAllocations;
  int64_t time_ns = 0;
  uint64_t address = 0;
  uint64_t bytes = 0;
  uint32_t queue = 0;
  uint32_t correlation = 0;
  uint8_t is_free = 0;
  uint8_t memory_kind = 0;
  static void columns(auto& v) {
    visit(v).time(&Allocation::time_ns).delta(&Allocation::address).plain(&Allocation::bytes, &Allocation::queue)
        .delta(&Allocation::correlation).plain(&Allocation::is_free, &Allocation::memory_kind);
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
  static void columns(auto& v) {
    visit(v).time(&GraphLaunch::start_ns).plain(&GraphLaunch::duration_ns, &GraphLaunch::queue)
        .delta(&GraphLaunch::correlation).plain(&GraphLaunch::graph);
  }
};

/// A framework's own number for the cause of a call. `type` is CUPTI's CUpti_ExternalCorrelationKind.
struct ExternalId {
  static constexpr ChunkKind kKind = ChunkKind::kExternalIds;
  uint32_t correlation = 0;
  uint32_t type = 0;
  uint64_t external = 0;
  static void columns(auto& v) {
    visit(v).delta(&ExternalId::correlation).plain(&ExternalId::type).delta(&ExternalId::external);
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

/// Host clock. The program's annotations: NVTX, and the phases that the Python hook marks.
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
  static void columns(auto& v) {
    visit(v).time(&RangeEvent::time_ns)
        .plain(&RangeEvent::thread, &RangeEvent::name, &RangeEvent::domain, &RangeEvent::category, &RangeEvent::op,
               &RangeEvent::payload_type).delta(&RangeEvent::range).plain(&RangeEvent::payload);
  }
};

/// Data of an event beside its attributes. An event may have several. The bytes are the chunk's last column.
struct PayloadRef {
  static constexpr ChunkKind kKind = ChunkKind::kPayloads;
  static constexpr bool kHasText = true;
  uint64_t event = 0;    ///< RangeEvent::payload
  uint32_t domain = 0;   ///< string, as the event has it
  uint64_t schema = 0;   ///< of that domain, or one of NVTX's types
  uint64_t size = 0;     ///< bytes in the program; 2^64 - 1: unknown
  uint32_t length = 0;   ///< bytes that were kept, the first ones
  const char* text = nullptr;
  static void columns(auto& v) { payload_columns<PayloadRef>(v); }

  /// Those of any row with these members.
  template <typename Row>
  static void payload_columns(auto& v) {
    visit(v).delta(&Row::event).plain(&Row::domain, &Row::schema, &Row::size, &Row::length);
  }
};

/// Host clock except for `device_*`. A collective or point-to-point call of this rank, from NCCL's profiler interface.
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
  static void columns(auto& v) {
    visit(v).time(&CollectiveRow::start_ns).plain(&CollectiveRow::duration_ns).delta(&CollectiveRow::device_start_ns)
        .plain(&CollectiveRow::device_duration_ns).delta(&CollectiveRow::communicator)
        .plain(&CollectiveRow::communicator_name, &CollectiveRow::rank, &CollectiveRow::ranks)
        .delta(&CollectiveRow::sequence)
        .plain(&CollectiveRow::function, &CollectiveRow::data_type, &CollectiveRow::algorithm,
               &CollectiveRow::protocol, &CollectiveRow::count, &CollectiveRow::root_or_peer, &CollectiveRow::channels,
               &CollectiveRow::thread);
  }
};

/// Host clock. The kernel's data of a thread at one instant; counters run from the thread's start.
struct ThreadSample {
  static constexpr ChunkKind kKind = ChunkKind::kThreadSamples;
  int64_t time_ns = 0;
  uint32_t thread = 0;
  uint8_t state = 0;         ///< 'R', 'S', 'D' ... as /proc has it
  int32_t system_call = -1;  ///< number of the call it is blocked in; -1: none, or unknown
  uint64_t user_ns = 0;      ///< CPU time
  uint64_t system_ns = 0;
  uint64_t waited_ns = 0;    ///< runnable, but without a CPU
  /// From context switches, all or none of them; -1: unknown.
  int64_t blocked_ns = -1;   ///< from blocking until it had a CPU again
  int64_t preempted_ns = -1; ///< from preemption until it had a CPU again
  int64_t waits = -1;        ///< how often it blocked
  static void columns(auto& v) {
    visit(v).time(&ThreadSample::time_ns)
        .plain(&ThreadSample::thread, &ThreadSample::state, &ThreadSample::system_call)
        .delta(&ThreadSample::user_ns, &ThreadSample::system_ns, &ThreadSample::waited_ns, &ThreadSample::blocked_ns,
               &ThreadSample::preempted_ns, &ThreadSample::waits);
  }
};

/// Host clock. A thread from blocking until it had a CPU again.
struct ThreadWait {
  static constexpr ChunkKind kKind = ChunkKind::kThreadWaits;
  int64_t start_ns = 0;
  int64_t duration_ns = 0;
  uint32_t thread = 0;
  static void columns(auto& v) {
    visit(v).time(&ThreadWait::start_ns).plain(&ThreadWait::duration_ns, &ThreadWait::thread);
  }
};

enum class DropReason : uint8_t {
  kRecorderFull = 1,  ///< more rows than could be written within our bound on memory
  kDiskFull = 2,      ///< write() failed
  kCupti = 3,         ///< CUPTI dropped records itself
  kNamesFull = 4,     ///< too many different names; rows are kept with name 0
  kRingFull = 5,      ///< the kernel's buffer for context switches was full
};

/// Host clock. Rows missing since the previous drop row.
struct Drop {
  static constexpr ChunkKind kKind = ChunkKind::kDrops;
  int64_t time_ns = 0;
  uint16_t of = 0;  ///< ChunkKind; 0: of device records of any kind
  DropReason reason = DropReason::kRecorderFull;
  uint64_t count = 0;
  static void columns(auto& v) { visit(v).time(&Drop::time_ns).plain(&Drop::of, &Drop::reason, &Drop::count); }
};

enum class WindowEvent : uint8_t { kOpen = 1, kClose = 2 };

/// Host clock. Device activity is recorded between a row that opens and one that closes.
struct Window {
  static constexpr ChunkKind kKind = ChunkKind::kWindows;
  int64_t time_ns = 0;
  WindowEvent event = WindowEvent::kOpen;
  uint32_t reason = 0;  ///< string: "start", "cudaProfilerStart", "torch.profiler" ...
  static void columns(auto& v) { visit(v).time(&Window::time_ns).plain(&Window::event, &Window::reason); }
};

enum class Severity : uint8_t { kInfo = 1, kWarning = 2 };

/// Host clock. One sentence about the recording: what could not be recorded and why.
struct Note {
  static constexpr ChunkKind kKind = ChunkKind::kNotes;
  int64_t time_ns = 0;
  Severity severity = Severity::kInfo;
  uint32_t text = 0;
  static void columns(auto& v) { visit(v).time(&Note::time_ns).plain(&Note::severity, &Note::text); }
};

}  // namespace profgpu::wire
