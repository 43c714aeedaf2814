// The recorder of this process: what ranges, device activity and collectives are written through.
//
// It does nothing until start_recorder(), and that does nothing unless PROFGPU_RECORD names a folder. All of its memory
// is one mapping that the kernel empties in a forked child, so a child finds a recorder that was never started and
// starts one of its own, with a file of its own, when it uses it. Nothing here prints, changes what signals do, or
// leaves another errno behind. Where nothing is recorded, every call returns at once.
//
// Which call may be made where:
//   anywhere, signal handlers too (no lock, no allocation): recording, host_now, intern, thread_id, post, add_schema,
//     note, drop, property, window, set_state
//   on threads that collect for us, with a Collecting (a lock that the writing of the file never holds): append,
//     queue_id, shape_id, add_device
//   on any thread, not in signal handlers: start_recorder, end_recorder, set_source, open_window, close_window,
//   wake_recorder
#pragma once

#include <atomic>

#include "record/inject/text.h"
#include "record/wire/control.h"
#include "record/wire/rows.h"

namespace profgpu::inject {

/// Longer names are cut.
inline constexpr size_t kMaxNameBytes = 32 << 10;
/// Of one extended payload of NVTX; the rest is cut.
inline constexpr uint32_t kMaxPayloadBytes = 256;
/// Layouts of payloads, of all domains together.
inline constexpr uint32_t kMaxSchemas = 512;

enum class WindowKind : uint8_t { kAll, kCudaProfilerApi, kSteps, kRange, kTime, kManual };

/// PROFGPU_RECORD_OPTIONS; what is not there or not understood stays as here, with a note.
struct Options {
  WindowKind window = WindowKind::kAll;
  int64_t first = 0, end = INT64_MAX;  ///< kSteps, kRange: occurrences `first` up to `end` - 1, from 0
  char range[256] = "";                ///< kRange: name of the range
  int64_t delay_ns = 0, duration_ns = INT64_MAX;  ///< kTime
  int64_t flush_ns = 250'000'000;
  size_t memory_bytes = size_t{256} << 20;  ///< of all buffers together; half of it is for the device's (device_bytes)
  bool nvtx = true, nccl = true, cuda = true;
  bool graph_nodes = true;  ///< graphs=node; false: graphs=graph, one row a launch

  [[nodiscard]] size_t device_bytes() const { return memory_bytes / 2; }
};

/// Starts the recorder of this process where PROFGPU_RECORD is set; a second call changes nothing. `who` asked for it:
/// "cuda", "nvtx", "nccl", "python"; all who did stand in the property `recorded_by`. True while recording.
bool start_recorder(const char* who);
bool recording();
/// What comes at the exit of the process, for one that runs no exit handlers. Nothing is recorded after it.
void end_recorder();
/// The same, and starts the recorder of a forked child whose parent had started one: for entries that a program calls.
bool recording_here();
/// Valid once start_recorder() was true.
const Options& options();
/// Another number after each start: in a forked child that records, it is not the parent's. 0: never started.
uint32_t recorder_generation();

/// CLOCK_MONOTONIC.
int64_t host_now();

/// The number of a name; 0: there are too many, which is counted. Bytes are kept as they are, up to kMaxNameBytes.
uint32_t intern(const char* text, size_t length);
uint32_t intern(const char* text);
/// The number of a thread of this process, by gettid(); 0: too many. Without an argument: of the calling one.
uint32_t thread_id(uint32_t tid);
uint32_t thread_id();
/// What the program calls a thread, in place of the kernel's name for it.
void name_thread(uint32_t tid, uint32_t name);

/// For rows of threads that any thread may be: bounded, and what does not fit is counted as a drop.
void post(const wire::RangeEvent& row);
void post(const wire::CollectiveRow& row);
/// Bytes beyond kMaxPayloadBytes are cut; row.text is in the program's memory.
void post(const wire::PayloadRef& row);
/// A layout of payloads and its fields, which refer to it by `schema.id`.
void add_schema(const wire::PayloadSchema& schema, const wire::PayloadField* fields, uint32_t count);

/// A sentence in the file. At most some hundred between two flushes.
void note(wire::Severity severity, const char* text);
/// Rows that are missing; of = 0: device records of any kind.
void drop(wire::ChunkKind of, wire::DropReason reason, uint64_t count);
/// A fact about the process; a later value replaces an earlier one.
void property(const char* key, const char* value);
/// From or to which moment device activity is in the file, where open_window() and close_window() do not say so.
void window(wire::WindowEvent event, const char* reason);
/// What the control page says. The reason: one sentence, or null.
void set_state(wire::RecorderState state, const char* reason);

/// Holds the tables of device rows. Keep it for a whole buffer of records; call nothing of CUPTI's meanwhile.
class Collecting {
 public:
  Collecting();
  ~Collecting();
  Collecting(const Collecting&) = delete;
  Collecting& operator=(const Collecting&) = delete;
};
/// Row: Kernel, Copy, Set, Call, Sync, Overhead, Allocation, GraphLaunch, ExternalId. What does not fit because the
/// disk is too slow is counted as a drop.
template <class Row>
void append(const Collecting& held, const Row& row);
uint32_t queue_id(const Collecting& held, uint32_t device, uint32_t context, uint32_t stream);
/// By all but its id.
uint32_t shape_id(const Collecting& held, const wire::LaunchShape& shape);
void add_device(const Collecting& held, const wire::DeviceRow& row);

/// What records the device. Lives for ever. Calls come on our own thread but where said; never two of open and close
/// at once.
struct Source {
  /// On any thread that open_window() is called on. False: it cannot, and has said why with set_state() or note().
  bool (*open)(const char* reason);
  void (*close)(const char* reason);
  /// Brings what is complete to append(); at the end (maybe on the thread that exits) also what is not.
  void (*flush)(bool at_end);
  /// CUPTI's clock, ns; 0: not known.
  int64_t (*device_clock)();
};
/// Opens a window at once where the options ask for all of the run, or for a window that is open now.
void set_source(const Source* source);

/// Turns the recording of the device on and off, now, and writes the window's row. The recorder itself does so for all
/// windows but kCudaProfilerApi.
void open_window(const char* reason);
void close_window(const char* reason);
/// Lets our own thread flush soon, as where many records wait.
void wake_recorder();

/// Reads PROFGPU_RECORD_OPTIONS (null: nothing is set). What is not understood is added to `not_understood`.
void parse_options(const char* text, Options& options, Text<256>& not_understood);

}  // namespace profgpu::inject
