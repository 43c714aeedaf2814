#include "trace/import/recording_rows.h"

#include <cxxabi.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string>

#include "base/text.h"

namespace profgpu {
namespace {

// Longest name that compilers produce. The demangler's time and output grow with the nesting of a name.
constexpr size_t kLongestMangled = 16 << 10;

template <size_t N>
std::string_view at(const std::string_view (&names)[N], int i) {
  return i >= 0 && static_cast<size_t>(i) < N ? names[i] : names[0];
}

std::string_view memory_kind_name(int kind) {
  constexpr std::string_view kNames[] = {"Unknown", "Pageable", "Pinned", "Device",
                                         "Array", "Managed", "Device Static", "Managed Static"};
  return at(kNames, kind);
}

bool take_end(std::string_view& text, std::string_view end) {
  if (!text.ends_with(end)) return false;
  text.remove_suffix(end.size());
  return true;
}

}  // namespace

std::string demangled(std::string_view name) {
  std::string text(name);
  if (!name.starts_with("_Z") || name.size() > kLongestMangled) return text;
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> out(abi::__cxa_demangle(text.c_str(), nullptr, nullptr, &status),
                                                        &std::free);
  return status == 0 && out ? std::string(out.get()) : text;
}

std::string copy_name(int copy_kind, int from_kind, int to_kind) {
  constexpr std::string_view kNames[] = {"Unknown", "HtoD", "DtoH", "HtoA", "AtoH", "AtoA",
                                         "AtoD", "DtoA", "DtoD", "HtoH", "PtoP"};
  return fmt::format("Memcpy {} ({} -> {})", at(kNames, copy_kind), memory_kind_name(from_kind),
                     memory_kind_name(to_kind));
}

std::string set_name(int memory_kind) { return fmt::format("Memset ({})", memory_kind_name(memory_kind)); }

std::string_view call_name(std::string_view recorded) {
  // The driver's own versions have one digit.
  const size_t v = recorded.rfind("_v");
  if (v != recorded.npos && recorded.size() - v >= 6 && all_digits(recorded.substr(v + 2)))
    recorded = recorded.substr(0, v);
  // Suffixes of the same call with a default stream per thread.
  if (!take_end(recorded, "_ptsz")) take_end(recorded, "_ptds");
  return recorded;
}

std::string_view sync_name(int type) {
  constexpr std::string_view kNames[] = {"Sync", "Event Sync", "Stream Wait Event", "Stream Sync", "Context Sync"};
  return at(kNames, type);
}

std::string_view overhead_name(uint32_t type) {
  switch (type) {
    case 1: return "Driver Compiler";
    case 1 << 16: return "Buffer Flush";
    case 2 << 16: return "Instrumentation";
    case 3 << 16: return "Resource";
    case 4 << 16: return "Runtime Triggered Module Loading";
    case 5 << 16: return "Lazy Function Loading";
    case 6 << 16: return "Command Buffer Full";
    case 7 << 16: return "Activity Buffer Request";
    case 8 << 16: return "UVM Activity Init";
    default: return "Profiler Overhead";
  }
}

namespace {

constexpr uint32_t kNoString = UINT32_MAX;
constexpr uint32_t kAllStreams = 0xFFFFFFFF;
constexpr int64_t kLatestRow_ns = RecordingClock::kLatest;

int64_t bytes_of(uint64_t bytes) { return bytes <= INT64_MAX ? static_cast<int64_t>(bytes) : -1; }

}  // namespace

int64_t TraceProcess::time(int64_t host_ns) const {
  if (host_ns <= -2 * kLatestRow_ns || host_ns >= 2 * kLatestRow_ns) return INT64_MIN;
  const int64_t time = host_ns - origin_ns;
  return time > -kLatestRow_ns && time < kLatestRow_ns ? time : INT64_MIN;
}

int32_t TraceProcess::device(uint32_t id) const {
  if (const auto it = devices.find(id); it != devices.end()) return it->second;
  return static_cast<int32_t>(std::min<uint32_t>(id, INT32_MAX));
}

uint32_t ThreadsOfShard::operator()(uint32_t id) {
  const bool listed = id < known_.size();
  if (listed && known_[id] != kNoString) return known_[id];
  const uint32_t thread = shard_.thread(pid_of(id), std::to_string(file_.threads[id].tid));
  if (listed) known_[id] = thread;
  return thread;
}

uint32_t ThreadsOfShard::sampled_stack(uint32_t id) {
  return shard_.thread(pid_of(id), std::to_string(file_.threads[id].tid) + std::string(kSampledStack));
}

std::string ThreadsOfShard::pid_of(uint32_t id) const {
  const uint32_t pid = file_.threads[id].pid;
  return pid != 0 ? std::to_string(pid) : file_.pid();
}

RecordingRows::RecordingRows(const TraceProcess& process, Shard& shard)
    : process_(process),
      file_(process.file),
      shard_(shard),
      threads_(file_, shard),
      kernel_names_(file_.strings.size()),
      call_names_(file_.strings.size()),
      queues_(file_.queues.size(), kNoString),
      shape_args_(file_.shapes.size(), kNoString) {}

bool RecordingRows::in_time(int64_t device_ns, int64_t duration_ns, At& at) {
  if (duration_ns < 0) {
    ++shard_.issues[TraceIssueKind::kNegativeDuration];
    return false;
  }
  const bool plausible = device_ns > -kLatestRow_ns && device_ns < kLatestRow_ns && duration_ns < kLongestNs;
  const int64_t time = plausible ? process_.time(process_.clock.host_ns(device_ns, syncs_before_)) : INT64_MIN;
  if (time == INT64_MIN) {
    ++shard_.issues[TraceIssueKind::kOutOfRange];
    return false;
  }
  at = {time, duration_ns};
  return true;
}

uint32_t RecordingRows::correlation(uint32_t recorded) {
  highest_correlation_ = std::max(highest_correlation_, recorded);
  return recorded == 0 ? 0 : recorded + process_.correlation_base;
}

StringId RecordingRows::name(uint32_t id, bool is_kernel) {
  std::vector<StringId>& known = is_kernel ? kernel_names_ : call_names_;
  if (id < known.size() && known[id].valid()) return known[id];
  const std::string_view recorded = file_.strings[id];
  const StringId interned = recorded.empty() ? shard_.strings.intern(is_kernel ? "(no name)" : "(unknown call)")
                            : is_kernel      ? shard_.strings.intern(demangled(recorded))
                                             : shard_.strings.intern(call_name(recorded));
  if (id < known.size()) known[id] = interned;
  return interned;
}

uint16_t RecordingRows::queue(uint32_t id) {
  const bool listed = id < queues_.size();
  if (listed && queues_[id] != kNoString) return static_cast<uint16_t>(queues_[id]);
  const wire::QueueRow& row = file_.queues[id];
  const uint16_t queue = shard_.queue({process_.device(row.device), row.stream, row.context + process_.context_base});
  if (listed) queues_[id] = queue;
  return queue;
}

uint32_t RecordingRows::kernel_args(const wire::Kernel& row) {
  const bool plain = row.graph == 0 && row.shape < shape_args_.size();
  if (plain && shape_args_[row.shape] != kNoString) return shape_args_[row.shape];
  const wire::LaunchShape& shape = file_.shapes[row.shape];
  ActivityArgs args;
  std::copy(shape.grid, shape.grid + 3, args.grid);
  std::copy(shape.block, shape.block + 3, args.block);
  args.registers = shape.registers;
  args.shared_bytes = static_cast<int32_t>(
      std::min<int64_t>(int64_t{shape.static_shared_bytes} + shape.dynamic_shared_bytes, INT32_MAX));
  args.graph = row.graph;
  args.graph_node = static_cast<uint32_t>(row.graph_node);
  const uint32_t index = shard_.activity_args(args);
  if (plain) shape_args_[row.shape] = index;
  return index;
}

void RecordingRows::add_activity(const At& at, StringId name, ActivityKind kind, uint32_t queue_id,
                                 uint32_t correlation_id, uint32_t args) {
  ActivityRow row;
  row.start_ns = at.start_ns;
  row.duration_ns = at.duration_ns;
  row.name = name;
  row.kind = kind;
  row.queue = queue(queue_id);
  row.correlation = correlation(correlation_id);
  row.args = args;
  shard_.activity.push_back(row);
}

void RecordingRows::add_host(const At& at, StringId name, HostKind kind, uint32_t thread_id, uint32_t link) {
  HostRow row;
  row.start_ns = at.start_ns;
  row.duration_ns = at.duration_ns;
  row.name = name;
  row.kind = kind;
  row.link = link;
  row.thread = static_cast<uint16_t>(threads_(thread_id));
  shard_.host.push_back(row);
}

void RecordingRows::add(const At& at, const wire::Kernel& row) {
  add_activity(at, name(row.name, true), ActivityKind::kKernel, row.queue, row.correlation, kernel_args(row));
}

void RecordingRows::add(const At& at, const wire::Copy& row) {
  ActivityArgs args;
  args.bytes = bytes_of(row.bytes);
  args.graph = row.graph;
  args.graph_node = static_cast<uint32_t>(row.graph_node);
  const uint32_t kinds = uint32_t{row.copy_kind} << 16 | uint32_t{row.from_kind} << 8 | row.to_kind;
  StringId& text = copy_names_[kinds];
  if (!text.valid()) text = shard_.strings.intern(copy_name(row.copy_kind, row.from_kind, row.to_kind));
  add_activity(at, text, ActivityKind::kMemcpy, row.queue, row.correlation, shard_.activity_args(args));
}

void RecordingRows::add(const At& at, const wire::Set& row) {
  ActivityArgs args;
  args.bytes = bytes_of(row.bytes);
  args.graph = row.graph;
  args.graph_node = static_cast<uint32_t>(row.graph_node);
  add_activity(at, shard_.strings.intern(set_name(row.memory_kind)), ActivityKind::kMemset, row.queue, row.correlation,
               shard_.activity_args(args));
}

void RecordingRows::add(const At& at, const wire::GraphLaunch& row) {
  ActivityArgs args;
  args.graph = row.graph;
  add_activity(at, shard_.strings.intern("CUDA graph " + std::to_string(row.graph)), ActivityKind::kKernel, row.queue,
               row.correlation, shard_.activity_args(args));
}

void RecordingRows::add(const At& at, const wire::Call& row) {
  add_host(at, name(row.name, false), row.is_driver != 0 ? HostKind::kDriver : HostKind::kRuntime, row.thread,
           correlation(row.correlation));
}

void RecordingRows::add(const At& at, const wire::Sync& row) {
  const wire::QueueRow& q = file_.queues[row.queue];
  shard_.syncs.push_back({at.start_ns, at.duration_ns, shard_.strings.intern(sync_name(row.type)),
                          process_.device(q.device), q.stream == kAllStreams ? -1 : int64_t{q.stream},
                          correlation(row.correlation)});
}

void RecordingRows::add(const At& at, const wire::Overhead& row) {
  add_host(at, shard_.strings.intern(overhead_name(row.type)), HostKind::kOverhead, row.thread, 0);
}

void RecordingRows::add(const wire::Allocation& row, int64_t time_ns) {
  constexpr uint8_t kDeviceMemory = 3, kStaticDeviceMemory = 6;   // CUpti_ActivityMemoryKind
  constexpr int32_t kCpu = 0, kCuda = 1;                          // PyTorch's DeviceType
  MemoryEvent m;
  m.time_ns = time_ns;
  m.bytes = std::max<int64_t>(bytes_of(row.bytes), 0) * (row.is_free != 0 ? -1 : 1);
  m.address = row.address;
  const bool on_device = row.memory_kind == kDeviceMemory || row.memory_kind == kStaticDeviceMemory;
  m.device_type = on_device ? kCuda : kCpu;
  m.device = on_device ? process_.device(file_.queues[row.queue].device) : -1;
  shard_.memory.push_back(m);
}

template <class Row, class Add>
bool RecordingRows::each(const RecordingFile::Block& block, std::vector<Row>& rows, Add add_row) {
  rows.assign(block.chunk.rows(), Row{});
  if (!wire::read_rows(block.chunk, rows.data())) return false;
  shard_.events += static_cast<int64_t>(rows.size());
  for (const Row& row : rows) add_row(row);
  return true;
}

bool RecordingRows::read(const RecordingFile::Block& block) {
  syncs_before_ = block.syncs_before;
  const auto ranged = [&](const auto& row) {
    if (At at{}; in_time(row.start_ns, row.duration_ns, at)) add(at, row);
  };
  const auto others = [&]<class Row>(Row) {
    std::vector<Row> rows;
    return each(block, rows, ranged);
  };
  switch (block.chunk.kind) {
    case wire::ChunkKind::kKernels: return each(block, kernels_, ranged);
    case wire::ChunkKind::kCalls: return each(block, calls_, ranged);
    case wire::ChunkKind::kCopies: return others(wire::Copy{});
    case wire::ChunkKind::kSets: return others(wire::Set{});
    case wire::ChunkKind::kGraphLaunches: return others(wire::GraphLaunch{});
    case wire::ChunkKind::kSyncs: return others(wire::Sync{});
    case wire::ChunkKind::kOverheads: return others(wire::Overhead{});
    case wire::ChunkKind::kAllocations: {
      std::vector<wire::Allocation> rows;
      return each(block, rows, [&](const wire::Allocation& row) {
        if (At at{}; in_time(row.time_ns, 0, at)) add(row, at.start_ns);
      });
    }
    default: return true;
  }
}

}  // namespace profgpu
