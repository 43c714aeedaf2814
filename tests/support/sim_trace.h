// What one simulated process recorded: plain rows in the order in which they happened, names interned. About 50 bytes a
// row, a sixth of the text that the writer makes of it, so that half a gigabyte of text never has to exist in memory.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace profgpu::sim {

enum class Gpu : uint8_t { h100, a100, mi300x };
enum ThreadSlot : uint8_t { kMainThread, kAutogradThread, kBackgroundThread, kThreadSlots };
enum StreamSlot : uint8_t { kComputeStream, kCommStream, kCopyStream, kSideStream, kStreamSlots };
enum class HostKind : uint8_t { op, annotation };
enum class DeviceKind : uint8_t { kernel, memcpy, memset };
constexpr uint32_t kNone = 0xFFFFFFFF;

/// An operator or a user annotation.
struct HostRow {
  int64_t start_ns, duration_ns;
  uint32_t name;
  uint32_t external_id;
  uint32_t sequence;    // autograd's sequence number, kNone for ops outside the graph
  uint32_t flow;        // forward-backward flow id, 0 for none
  uint32_t collective;  // row of RankTrace::collectives, else kNone
  HostKind kind;
  bool backward;
  bool step;  // a ProfilerStep# annotation
  uint8_t role = 0xFF;  // of the kernel that it launches itself; 0xFF: none
  uint16_t batch_permille = 1000;   // of the usual batch
};

/// A runtime or driver call. `links` says that Kineto starts a flow to device activity here.
struct CallRow {
  int64_t start_ns, duration_ns;
  uint32_t api;  // row of the api table
  uint32_t external_id;
  uint32_t correlation;
  uint32_t detail;  // row of kernel geometry for AMD's launch arguments, else kNone
  ThreadSlot thread;
  bool links;
};

struct DeviceRow {
  int64_t start_ns, duration_ns;
  uint64_t bytes;
  uint32_t name;
  uint32_t external_id;
  uint32_t correlation;
  uint32_t geometry;
  uint32_t collective;
  StreamSlot stream;
  DeviceKind kind;
  uint16_t work_permille = 1000;  // of the kernel's usual grid
};

/// A wait as CUPTI reports it. stream -1: the context or an event.
struct SyncRow {
  int64_t start_ns, duration_ns;
  uint32_t name;
  uint32_t external_id;
  uint32_t correlation;
  int32_t stream, waits_for;
  uint32_t record_correlation;
};

struct MemoryRow {
  int64_t time_ns;
  int64_t bytes;
  uint64_t address;
  int64_t allocated_bytes, reserved_bytes;
  ThreadSlot thread;
};

struct PythonRow {
  int64_t start_ns, duration_ns;
  uint32_t name;
  uint32_t id, parent;  // parent 0: none
  ThreadSlot thread;
};

struct OverheadRow {
  int64_t start_ns, duration_ns;
  uint32_t name;
};

/// The device's share of a user annotation, as Kineto derives it.
struct GpuSpan {
  int64_t start_ns, end_ns;
  uint32_t name, external_id;
  StreamSlot stream;
  bool step;
};

/// Ranks that communicate with each other.
struct Group {
  std::string name, description;  // PyTorch counts groups: names are numbers
  std::vector<int> ranks;
};

struct Collective {
  const char* name;        // as c10d spells it
  const char* op;          // the c10d:: operator
  std::string annotation;  // the nccl: range
  int64_t in_elements, out_elements;
  uint32_t group;          // row of RankTrace::groups
  int32_t source = -1, destination = -1;  // of a pair, as the group numbers its ranks
  uint32_t sequence = 0;
};

/// A host's clock: what it shows more than the first host's.
struct HostClock {
  int64_t offset_ns = 0;  // at the job's start
  int64_t drift_ppb = 0;  // nanoseconds a second

  [[nodiscard]] int64_t drift_ns(int64_t since_start_ns) const {
    return since_start_ns / 1'000'000'000 * drift_ppb + since_start_ns % 1'000'000'000 * drift_ppb / 1'000'000'000;
  }
};
/// Times are nanoseconds since this, in Unix time; PyTorch 2.x counts from a quarter's start.
constexpr int64_t kBaseTimeNs = 1'711'964'646'000'000'000;
/// When every job starts, on the first host's clock.
constexpr int64_t kJobStartNs = 4'458'676'388'068'751;

struct StepSpan {
  int number;
  int64_t start_ns, duration_ns;
};

struct RankTrace {
  int rank = 0, world_size = 1, window = 0;
  Gpu gpu = Gpu::h100;
  int device = 0;  // as args.device and the rows' pid say
  int pid = 0;
  int tids[kThreadSlots] = {};
  std::string host_name;   // empty: not recorded
  HostClock clock;
  bool cpu_only = false;
  bool odd_sizes = false, full_precision = false;  // of matrix products

  std::vector<std::string> names;
  std::vector<HostRow> host[kThreadSlots];
  std::vector<CallRow> calls;
  std::vector<DeviceRow> device_rows;
  std::vector<SyncRow> syncs;
  std::vector<MemoryRow> memory;
  std::vector<PythonRow> python;
  std::vector<OverheadRow> overhead;
  std::vector<GpuSpan> gpu_spans;
  std::vector<Collective> collectives;
  std::vector<Group> groups;  // that this rank is part of; the first is all ranks

  std::vector<StepSpan> steps;
  int64_t start_ns = 0, end_ns = 0;
  int64_t capacity_bytes = 0;
};

/// A time as the rank's drifting clock counts, without its offset.
inline int64_t drifted(const RankTrace& t, int64_t ns) { return ns + t.clock.drift_ns(ns - kJobStartNs); }

/// Exclusive of flow and metadata rows.
inline size_t event_rows(const RankTrace& t) {
  size_t n = t.calls.size() + t.device_rows.size() + t.syncs.size() + t.memory.size() + t.python.size() +
             t.overhead.size() + t.gpu_spans.size();
  for (const auto& rows : t.host) n += rows.size();
  return n;
}

}  // namespace profgpu::sim
