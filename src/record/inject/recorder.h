// The recorder of this process, which writes ranges, device activity and collectives.
//
// It does nothing until start_recorder(), which does nothing unless PROFGPU_RECORD names a folder. All of its memory is
// one mapping that the kernel clears in a forked child: a child finds a recorder that was never started and starts its
// own, with its own file, when it uses it. Nothing here prints, changes signal handling or errno. Where nothing is
// recorded, every call returns at once.
//
// Which call may be made where:
//   anywhere, signal handlers too (no lock, no allocation): recording, host_now, intern, thread_id, post, add_schema,
//     note, drop, property, window, set_state
//   on any thread, not in signal handlers: start_recorder, end_recorder, set_source, open_window, close_window,
//   wake_recorder
#pragma once

#include <atomic>

#include "record/inject/text.h"
#include "record/wire/control.h"
#include "record/wire/rows.h"

namespace profgpu::inject {

#define PROFGPU_EXPORT extern "C" __attribute__((visibility("default")))

/// Longer names are truncated.
inline constexpr size_t kMaxNameBytes = 32 << 10;
/// Of one extended payload of NVTX; longer ones are truncated.
inline constexpr uint32_t kMaxPayloadBytes = 256;
/// Layouts of payloads, of all domains together.
inline constexpr uint32_t kMaxSchemas = wire::kMaxSchemas;

enum class WindowKind : uint8_t { kAll, kCudaProfilerApi, kSteps, kRange, kTime, kManual };

/// PROFGPU_RECORD_OPTIONS. Missing options keep these defaults, and so do invalid ones, with a note.
struct Options {
  WindowKind window = WindowKind::kAll;
  int64_t first = 0, end = INT64_MAX;  ///< kSteps, kRange: occurrences `first` up to `end` - 1, from 0
  char range[256] = "";                ///< kRange: name of the range
  int64_t delay_ns = 0, duration_ns = INT64_MAX;  ///< kTime
  int64_t flush_ns = 250'000'000;
  size_t memory_bytes = size_t{256} << 20;  ///< of all buffers together; half of it is the device's (device_bytes)
  bool nvtx = true, nccl = true, cuda = true;
  bool graph_nodes = true;  ///< graphs=node; false: graphs=graph, one row a launch

  [[nodiscard]] size_t device_bytes() const { return memory_bytes / 2; }
};

/// Starts the recorder of this process where PROFGPU_RECORD is set; a second call changes nothing. `who`, the caller:
/// "cuda", "nvtx", "nccl", "python"; all callers are in the property `recorded_by`. True while recording.
bool start_recorder(const char* who);
bool recording();
/// Ends the recording; at the exit of a process that runs no exit handlers. Nothing is recorded after it.
void end_recorder();
/// Like recording(), but starts the recorder of a forked child whose parent had one: for entries that a program calls.
bool recording_here();
/// Valid once start_recorder() was true.
const Options& options();
/// Changes with each start: a forked child that records has another number than its parent. 0: never started.
uint32_t recorder_generation();

/// CLOCK_MONOTONIC.
int64_t host_now();

/// The number of a name; 0: too many names, which is counted. The bytes are kept unchanged, up to kMaxNameBytes.
uint32_t intern(const char* text, size_t length);
uint32_t intern(const char* text);
/// The number of a thread of this process, by gettid(); 0: too many. Without an argument: of the calling one.
uint32_t thread_id(uint32_t tid);
uint32_t thread_id();
/// The program's name for a thread, instead of the kernel's.
void name_thread(uint32_t tid, uint32_t name);

/// Rows from any thread: bounded; rows that do not fit are counted as drops.
void post(const wire::RangeEvent& row);
void post(const wire::CollectiveRow& row);
/// Bytes beyond kMaxPayloadBytes are dropped; row.text is in the program's memory.
void post(const wire::PayloadRef& row);
/// A layout of payloads with its fields, which refer to it by `schema.id`.
void add_schema(const wire::PayloadSchema& schema, const wire::PayloadField* fields, uint32_t count);

/// A sentence in the file. At most some hundreds between two flushes.
void note(wire::Severity severity, const char* text);
/// Counts missing rows; of = 0: device records of any kind.
void drop(wire::ChunkKind of, wire::DropReason reason, uint64_t count);
/// A fact about the process; a later value replaces an earlier one.
void property(const char* key, const char* value);
/// The start or end of device activity in the file, other than by open_window() and close_window().
void window(wire::WindowEvent event, const char* reason);
/// The state in the control page. The reason: one sentence, or null.
void set_state(wire::RecorderState state, const char* reason);

/// The recorder of the device. Lives for ever. Called on our own thread except where noted; open and close never
/// overlap.
struct Source {
  /// On any thread that calls open_window(). False: it failed, and has reported why with set_state() or note().
  bool (*open)(const char* reason);
  void (*close)(const char* reason);
  /// Appends complete records; at the end (maybe on the exiting thread) also incomplete ones.
  void (*flush)(bool at_end);
  /// CUPTI's clock, ns; 0: not known.
  int64_t (*device_clock)();
};
/// Opens a window at once where the options select the whole run, or a window that is open now.
void set_source(const Source* source);

/// Turn the recording of the device on and off, now, and write the window's row. The recorder itself does so for all
/// windows except kCudaProfilerApi.
void open_window(const char* reason);
void close_window(const char* reason);
/// Makes our own thread flush soon, as when many records wait.
void wake_recorder();

/// Reads PROFGPU_RECORD_OPTIONS (null: not set). Invalid options are added to `invalid`.
void parse_options(const char* text, Options& options, Text<256>& invalid);

}  // namespace profgpu::inject
