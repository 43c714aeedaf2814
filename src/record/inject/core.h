// The state of the recorder, in one mapping; all zero is a recorder that was never started. For the files of the
// recorder itself: others include recorder.h.
#pragma once

#include "record/inject/device_tables.h"
#include "record/inject/names.h"
#include "record/inject/output_file.h"
#include "record/inject/recorder.h"
#include "record/inject/ring.h"

namespace profgpu::inject {

enum class Phase : uint32_t { kOff = 0, kStarting, kRecording, kFailed, kEnding, kEnded };

/// Rare rows from anywhere: notes and windows.
struct Remark {
  int64_t time_ns;
  wire::ChunkKind kind;
  uint8_t detail;  ///< Severity, WindowEvent
  uint32_t text;
};

/// The wanted and the actual state of the window. The thread that changes `wanted` applies it, unless another one is
/// applying a change and does so.
struct WindowPlan {
  std::atomic<const Source*> source;
  std::atomic<uint32_t> wanted, reason;
  std::atomic<bool> is_open;
  Lock lock;
  uint32_t range_name;                 ///< kRange
  std::atomic<int64_t> occurrences;    ///< of that range
  // The last occurrence, which closes the window: its thread (0: none), domain and open ranges; or its number.
  std::atomic<uint32_t> last_thread;
  uint32_t last_domain, last_depth;
  std::atomic<uint64_t> last_range;
};

/// A wire::PayloadRef with its bytes.
struct Payload {
  static constexpr wire::ChunkKind kKind = wire::ChunkKind::kPayloads;
  static constexpr bool kHasText = true;
  static void columns(auto& v) { wire::PayloadRef::payload_columns<Payload>(v); }
  uint64_t event;
  uint64_t schema;
  uint64_t size;
  uint32_t domain;
  uint32_t length;
  char text[kMaxPayloadBytes];
};

inline constexpr size_t kScratchBytes = 2 << 20;

struct Core {
  std::atomic<Phase> phase;
  uint32_t generation;
  uint32_t pid;
  uint32_t starting_thread, own_thread;
  int64_t started_ns;
  Options options;
  std::atomic<uint32_t> state, state_reason;
  Lock recorded_by_lock;
  char recorded_by[64];

  Names names;
  Threads threads;
  Log<wire::Property, 512> properties;
  Log<wire::PayloadSchema, kMaxSchemas> schemas;
  Log<wire::PayloadField, 8 * kMaxSchemas> schema_fields;
  DeviceTables device;
  Ring<wire::RangeEvent, 1u << 16> ranges;
  Ring<wire::CollectiveRow, 1u << 12> collectives;
  Ring<Payload, 1u << 13> payloads;
  Ring<Remark, 1u << 9> remarks;
  std::atomic<uint64_t> drops[64][8];  ///< by ChunkKind and DropReason
  std::atomic<uint64_t> steps;
  std::atomic<uint32_t> memory_orders;  ///< of `profgpu attach PID memory`, so far
  WindowPlan windows;

  // Of the thread that flushes.
  Lock flushing;
  std::atomic<uint32_t> wake_word, has_thread, has_ended;
  OutputFile file;
  wire::ControlPage* control;
  uint64_t rows_written, rows_dropped;
  int64_t synced_ns;
  uint8_t scratch[kScratchBytes];
  union {
    wire::RangeEvent ranges[4096];
    wire::CollectiveRow collectives[1024];
    Payload payloads[1024];
    Remark remarks[512];
  } taken;
  Name taken_names[1024];
};

/// Null: never started, in this process or one that it was forked from.
extern std::atomic<Core*> the_core;

/// The core where it records; null otherwise.
inline Core* recording_core() {
  Core* const core = the_core.load(std::memory_order_acquire);
  return core != nullptr && core->phase.load(std::memory_order_acquire) == Phase::kRecording ? core : nullptr;
}

// flush.cc
void flush(Core& core, bool at_end);
void write_end(Core& core);

// windows.cc
void start_windows(Core& core);
/// Changes what is due by time or by order; returns when to look again (host clock).
int64_t tend_windows(Core& core, int64_t now_ns);
void follow_range(Core& core, const wire::RangeEvent& row);
/// Step `number` has ended, counted from 0.
void follow_step(Core& core, int64_t number);
void reconcile_windows(Core& core);

// start.cc
struct ProcessFacts {
  char host[128];
  int64_t rank;  ///< negative: unknown
};
ProcessFacts process_facts();
void add_properties(const ProcessFacts& facts, uint32_t pid);

}  // namespace profgpu::inject
