// Trace: the activity of one rank, as columns. Built once by TraceBuilder, never changed after.
//
// All times are integer nanoseconds on the trace's own clock; adding `base_time_ns` gives Unix time where the file has
// it. Tables are struct-of-arrays; a row id indexes every column of its table.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trace/run_log.h"
#include "trace/sample.h"
#include "trace/string_pool.h"

namespace profgpu {

struct MemorySnapshot;
struct KernelProfile;
struct FlightDump;

struct HostTag;
struct ActivityTag;
struct ThreadTag;
struct ActivityArgsTag;
struct OpArgsTag;
using HostId = Id<HostTag>;
using ActivityId = Id<ActivityTag>;
using ThreadId = Id<ThreadTag>;
using ActivityArgsId = Id<ActivityArgsTag>;
using OpArgsId = Id<OpArgsTag>;

struct Interval {
  int64_t start = 0;
  int64_t end = 0;
  [[nodiscard]] int64_t length() const { return end - start; }
  [[nodiscard]] bool contains(int64_t time) const { return start <= time && time < end; }
  auto operator<=>(const Interval&) const = default;
};

/// Whether it can be Unix time. Traces without a base time count from boot or another recent epoch: less than in 2001.
constexpr bool is_unix_time(int64_t ns) { return ns >= 1'000'000'000'000'000'000; }

enum class HostKind : uint8_t {
  kAnnotation,  ///< record_function and NVTX-like ranges, ProfilerStep#N
  kOp,          ///< framework operator
  kPython,      ///< Python frame or nn.Module call
  kRuntime,     ///< cuda*, hip* runtime call
  kDriver,      ///< cu* driver call
  kOverhead,    ///< the profiler's own work
  kLibrary,     ///< call of a library above the runtime, or of MPI: cublasSgemm, MPI_Allreduce
  kSystem,      ///< call of the C library: read, poll, pthread_cond_wait
};

/// Host-side ranges, sorted by thread, then start, then longest first: a parent comes before its children.
struct HostTable {
  std::vector<int64_t> start_ns;
  std::vector<int64_t> duration_ns;
  std::vector<StringId> name;
  std::vector<ThreadId> thread;
  std::vector<HostKind> kind;
  std::vector<HostId> parent;     ///< innermost range of the same thread that encloses this one
  std::vector<uint32_t> link;     ///< calls: correlation id; ops and annotations: external id; 0: none
  std::vector<OpArgsId> args;

  [[nodiscard]] size_t size() const { return start_ns.size(); }
  [[nodiscard]] int64_t end_ns(HostId h) const { return start_ns[h.value] + duration_ns[h.value]; }
  [[nodiscard]] Interval interval(HostId h) const { return {start_ns[h.value], end_ns(h)}; }
  [[nodiscard]] bool is_call(HostId h) const {
    return kind[h.value] == HostKind::kRuntime || kind[h.value] == HostKind::kDriver;
  }
  /// A driver call that a runtime call makes, recorded under the runtime call's correlation: not a launch of its own.
  [[nodiscard]] bool is_inner_call(HostId h) const {
    const HostId outer = parent[h.value];
    return kind[h.value] == HostKind::kDriver && outer.valid() && kind[outer.value] == HostKind::kRuntime &&
           link[outer.value] == link[h.value] && link[h.value] != 0;
  }
};

/// The arguments of an operator. Strings are the trace's own JSON text, "[[32, 1000], []]".
struct OpArgs {
  uint64_t flops = 0;
  StringId shapes;
  StringId types;
  StringId values;         ///< of inputs that are no tensors, "["", "[1, 1]", "False"]"; invalid: none, or not recorded
  StringId strides;        ///< of tensors, where these are not plain, see tells_layout(); else invalid
  int32_t sequence = -1;   ///< autograd sequence number; -1: none
  uint32_t forward_thread = 0;
  bool operator==(const OpArgs&) const = default;
};

/// Whether strides as the profiler writes them, "[[512, 1, 0, 0], []]", have one of 0: several elements lie in
/// one place of memory.
bool has_zero_stride(std::string_view strides);

enum class ActivityKind : uint8_t { kKernel, kMemcpy, kMemset };

/// Everything a device ran, sorted by device, then start, then end.
struct ActivityTable {
  std::vector<int64_t> start_ns;
  std::vector<int64_t> duration_ns;
  std::vector<StringId> name;
  std::vector<uint16_t> queue;       ///< index into Trace::queues
  std::vector<ActivityKind> kind;
  std::vector<HostId> launch;        ///< the call that launched it; invalid: not in the file
  std::vector<ActivityArgsId> args;
  std::vector<uint32_t> correlation; ///< as recorded; 0: none

  [[nodiscard]] size_t size() const { return start_ns.size(); }
  [[nodiscard]] int64_t end_ns(ActivityId a) const { return start_ns[a.value] + duration_ns[a.value]; }
  [[nodiscard]] Interval interval(ActivityId a) const { return {start_ns[a.value], end_ns(a)}; }
};

/// Launch configuration or copy size; rows are shared by activities that agree in all of it.
struct ActivityArgs {
  int32_t grid[3] = {0, 0, 0};
  int32_t block[3] = {0, 0, 0};
  int32_t registers = 0;
  int32_t shared_bytes = 0;
  int64_t bytes = -1;       ///< copies and sets; -1: unknown
  uint32_t graph = 0;       ///< graph (executable) id, 0: none
  uint32_t graph_node = 0;
  bool operator==(const ActivityArgs&) const = default;
};

/// A stream of a device.
struct Queue {
  int32_t device = 0;
  int64_t stream = 0;
  int64_t context = 0;
  auto operator<=>(const Queue&) const = default;
};

/// Samples of a thread's Python stack are ranges of another thread: its id is the thread's with this suffix.
constexpr std::string_view kSampledStack = " (Python stack)";

struct Thread {
  std::string process;   ///< pid as recorded
  std::string id;        ///< tid as recorded
  std::string name;
  HostId begin{size_t{0}}, end{size_t{0}};  ///< rows of HostTable

  [[nodiscard]] bool is_sampled_stack() const { return id.ends_with(kSampledStack); }
};

/// A synchronization row of the device side (cuda_sync): a wait, not activity.
struct SyncRow {
  int64_t start_ns = 0;
  int64_t duration_ns = 0;
  StringId name;
  int32_t device = 0;
  int64_t stream = -1;
  uint32_t correlation = 0;
};

/// A range of the program as a device saw it: on one stream, from the first to the last activity launched in it.
struct DeviceRange {
  int64_t start_ns = 0;
  int64_t duration_ns = 0;
  StringId name;
  uint32_t lane = 0;   ///< same for ranges of one stream of one device
  uint32_t id = 0;     ///< same for what all streams saw of one range; 0: unknown
};

/// One call of a collective, from its arguments.
struct Collective {
  HostId host;           ///< record_param_comms or like; may be invalid
  ActivityId activity;   ///< the kernel; may be invalid
  StringId name;         ///< "allreduce", "_allgather_base" ... as recorded
  StringId dtype;
  StringId group;        ///< process group name
  StringId group_description;
  StringId ranks;        ///< "[0, 1]" as recorded
  int64_t in_elements = -1;
  int64_t out_elements = -1;
  int32_t group_size = 0;
  int32_t group_rank = -1;   ///< the rank's own index in the group; -1: not recorded
  int64_t sequence = -1; ///< `Seq`; -1: not recorded
  int32_t source = -1, destination = -1;   ///< ranks of a pair, in the group; -1: not recorded
};

/// A range's own arguments, as the text of a JSON object.
struct RangeArguments {
  HostId host;
  StringId text;
};

/// One allocator event ("[memory]").
struct MemoryEvent {
  int64_t time_ns = 0;
  int64_t bytes = 0;             ///< positive: allocated, negative: freed
  int64_t total_allocated = -1;  ///< after the event; -1: not recorded
  int64_t total_reserved = -1;
  uint64_t address = 0;
  int32_t device_type = 0;       ///< PyTorch's DeviceType: 0 CPU, 1 CUDA, 6 HIP
  int32_t device = -1;
  ThreadId thread;
};

struct CounterValue {
  int64_t time_ns = 0;
  StringId name;
  int32_t device = -1;
  double value = 0;
};

/// A backward op and the forward op that made it.
struct BackwardLink {
  HostId forward;
  HostId backward;
};

/// The kernel's data of a thread at one instant; its counters run from the thread's start.
struct ThreadSample {
  int64_t time_ns = 0;
  ThreadId thread;
  char state = 0;             ///< 'R', 'S', 'D' ... as /proc has it
  int32_t system_call = -1;   ///< x86-64's number of the call that it is blocked in; -1: none, or unknown
  uint64_t user_ns = 0;       ///< CPU time
  uint64_t system_ns = 0;
  uint64_t waited_ns = 0;     ///< runnable, but without a CPU
  /// From context switches; -1: unknown.
  int64_t blocked_ns = -1;    ///< from blocking until it had a CPU again
  int64_t preempted_ns = -1;  ///< from preemption until it had a CPU again
  int64_t waits = -1;         ///< how often it blocked
};

/// A thread from blocking until it had a CPU again.
struct ThreadWait {
  int64_t start_ns = 0;
  int64_t duration_ns = 0;
  ThreadId thread;
};

/// Activity of a replayed graph, and the call that was captured for it, as the recorder itself tells.
struct CapturedCall {
  ActivityId activity;
  HostId call;
};

/// Whose file it is: advice on how to record speaks of that tool's options.
enum class Recorder : uint8_t { kPyTorch, kProfgpu, kNsight, kRocprof, kOther };

struct DeviceProperties {
  int32_t id = 0;
  std::string name;
  int64_t memory_bytes = 0;     ///< 0: unknown
  int32_t compute_major = 0;    ///< 0: unknown
  int32_t compute_minor = 0;
  int32_t multiprocessors = 0;
  std::string uuid = {};        ///< "GPU-…"; empty: unknown
  int32_t host_index = -1;      ///< as the machine numbers it, where the process may number it otherwise; -1: unknown
  bool operator==(const DeviceProperties&) const = default;
};

struct Distributed {
  std::optional<int> rank;
  std::optional<int> world_size;
  std::string backend;
};

/// The state of a host's clock during a recording, from its kernel.
struct ClockStatement {
  bool synchronised = false;
  int64_t error_ns = 0;          ///< Unix time is within it; only where it is synchronised
};

/// Top-level field of an exported trace with Trace::hardware_counters: the rows themselves are not exported.
inline constexpr std::string_view kHardwareCountersField = "profgpu_hardware_counters";

enum class TraceIssueKind : uint8_t {
  kTruncated,            ///< the file ends early
  kDamaged,              ///< text that could not be read was skipped
  kNegativeDuration,     ///< records left out
  kOutOfRange,           ///< numbers out of range; records left out
  kInvalidText,          ///< invalid UTF-8 or control characters in strings
  kOverrun,              ///< activity that overruns the next record of its stream
  kLaunchWithoutActivity,///< the profiler dropped device records
  kActivityWithoutLaunch,
  kNoDeviceActivity,
  kNoSteps,
  kNoHostEvents,
  kDuplicateCorrelation,
  kUnknownRows,          ///< rows of categories that are not known
  kDropped,              ///< the recorder reports lost rows
  kHardwareCounters,     ///< rows of counters, which are not read: their collection slows every launch
  kOtherRun,             ///< of another run than the other ranks, and left out
  kNote,                 ///< a recorder's note on its recording, not a fault
  kOther,
};
std::string_view trace_issue_name(TraceIssueKind kind);

struct TraceIssue {
  TraceIssueKind kind = TraceIssueKind::kOther;
  int64_t count = 0;
  std::string text;      ///< what and where, one sentence
};

class Trace {
 public:
  StringPool strings;
  HostTable host;
  ActivityTable activity;
  std::vector<OpArgs> op_args;
  std::vector<ActivityArgs> activity_args;
  std::vector<Thread> threads;
  std::vector<Queue> queues;
  std::vector<SyncRow> syncs;
  std::vector<DeviceRange> device_ranges;   ///< by start, longest first; only where the host has no ranges
  std::vector<Collective> collectives;
  std::vector<MemoryEvent> memory;
  std::vector<CounterValue> counters;
  std::vector<ThreadSample> thread_samples;  ///< by thread, then time
  std::vector<ThreadWait> thread_waits;      ///< long ones, by thread, then start
  std::vector<BackwardLink> backward_links;
  std::vector<CapturedCall> captured_calls;  ///< by activity
  std::vector<RangeArguments> range_arguments;  ///< by host
  std::vector<DeviceProperties> devices;
  Distributed distributed;
  std::string host_name;
  std::optional<ClockStatement> clock;   ///< of the clock that base_time_ns is from
  std::vector<std::pair<std::string, std::string>> metadata;  ///< other top-level fields, as text
  int64_t base_time_ns = 0;
  Recorder recorder = Recorder::kPyTorch;
  bool recorded = false;  ///< by profgpu: unmarked steps may be estimated; yields in joined_windows()
  bool cut_off = false;            ///< a file of it ends early
  bool hardware_counters = false;  ///< collected kernel by kernel
  double unread_pct = 0;           ///< of rows or of their time, whichever is more: kinds of rows that are not known
  int64_t events = 0;              ///< records in the input, of whatever kind
  std::vector<Interval> windows;   ///< profiler windows in time order, at least one unless the trace is empty
  std::vector<TraceIssue> issues;
  SampleLog samples;               ///< of the devices meanwhile; in Unix time
  std::vector<LogStep> log_steps;  ///< of a trace made from a log: its steps, by time; starts are on this clock
  std::shared_ptr<const RunLog> log;          ///< the whole log that it was made from
  std::shared_ptr<const FlightDump> flight;   ///< the dump of NCCL's flight recorder that it was made from
  std::vector<std::shared_ptr<const MemorySnapshot>> snapshots;   ///< of PyTorch's allocator, by time
  std::shared_ptr<const KernelProfile> kernel_profile;   ///< hardware counters of kernels; null: none

  /// Whether it is a log of samples and nothing else.
  [[nodiscard]] bool only_samples() const { return host.size() + activity.size() == 0 && !samples.empty(); }
  /// Whether snapshots of memory are all that it has.
  [[nodiscard]] bool only_snapshots() const { return host.size() + activity.size() == 0 && !snapshots.empty(); }
  [[nodiscard]] std::string_view name(HostId h) const { return strings[host.name[h.value]]; }
  [[nodiscard]] std::string_view name(ActivityId a) const { return strings[activity.name[a.value]]; }
  /// Invalid: the range has none.
  [[nodiscard]] StringId arguments(HostId h) const;
  /// By thread, the one whose rows are samples of its Python stack; invalid: it has none.
  [[nodiscard]] std::vector<ThreadId> sampled_stacks() const;
  [[nodiscard]] int32_t device_of(ActivityId a) const { return queues[activity.queue[a.value]].device; }
  /// When the host launched it; its own start where the file lacks the launch.
  [[nodiscard]] int64_t launched_ns(ActivityId a) const {
    const HostId launch = activity.launch[a.value];
    return launch.valid() ? host.start_ns[launch.value] : activity.start_ns[a.value];
  }
  /// The first of a thread's ranges that starts at `time_ns` or later; thread.end: none. Logarithmic.
  [[nodiscard]] HostId first_from(const Thread& thread, int64_t time_ns) const;
  /// The innermost range, from `from` outward, that `fits`; invalid: none.
  template <class Fits>
  [[nodiscard]] HostId enclosing(HostId from, Fits fits) const {
    while (from.valid() && !fits(from)) from = host.parent[from.value];
    return from;
  }
  /// Device ids with activity, ascending, and the rows of ActivityTable that each has.
  struct DeviceRows {
    int32_t device = 0;
    ActivityId begin{size_t{0}}, end{size_t{0}};
  };
  std::vector<DeviceRows> device_rows;
  /// Activities of each launching call: rows `first[i]..first[i+1]` of launched, for calls in `launching` (ascending).
  std::vector<HostId> launching;
  std::vector<uint32_t> launched_first;
  std::vector<ActivityId> launched;    ///< by start within one call

  /// Properties of a device; those shared by all entries if its id has none (ROCm numbers them differently).
  [[nodiscard]] DeviceProperties properties(int32_t device) const;
  [[nodiscard]] size_t memory_bytes() const;
};

}  // namespace profgpu
