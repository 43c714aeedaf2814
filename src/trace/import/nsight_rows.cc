#include "trace/import/nsight_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "base/json_reader.h"
#include "base/text.h"
#include "trace/import/recording_rows.h"

namespace profgpu {
namespace {

using std::string_view;

constexpr int64_t kLatestNsight_ns = INT64_MAX / 4;   // as for other formats: sums and differences cannot overflow

// The columns that tables of activity begin with, and those of calls.
enum : int { kStart, kEnd, kDevice, kContext, kStream, kCorrelation, kOfActivity };
enum : int { kOfCall = 2, kCallName, kCallMore };

int32_t limited(int64_t value) { return static_cast<int32_t>(std::clamp<int64_t>(value, 0, INT32_MAX)); }

uint32_t correlation_of(std::optional<int64_t> id) {
  return id && *id > 0 ? static_cast<uint32_t>(*id) : 0;
}

// ENUM_CUDA_MEM_KIND begins with Pageable and ends with Unknown; CUPTI's numbers begin with Unknown.
int memory_kind_of(std::optional<int64_t> nsight) {
  constexpr int64_t kNsightUnknown = 7;
  return nsight && *nsight >= 0 && *nsight < kNsightUnknown ? static_cast<int>(*nsight) + 1 : 0;
}

// Pages that the driver moved by itself: ENUM_CUDA_MEMCPY_OPER 11 to 13.
string_view migration_name(int64_t copy_kind) {
  constexpr string_view kNames[] = {"Memcpy HtoD (Unified memory)", "Memcpy DtoH (Unified memory)",
                                    "Memcpy DtoD (Unified memory)"};
  return copy_kind >= 11 && copy_kind <= 13 ? kNames[copy_kind - 11] : string_view();
}

// A graph's nodes have 64 bits: the graph's number, and the node's within it.
void set_graph(std::optional<int64_t> node, std::optional<int64_t> graph, ActivityArgs& args) {
  if (node && *node > 0) {
    args.graph_node = static_cast<uint32_t>(*node);
    args.graph = static_cast<uint32_t>(*node >> 32);
  }
  if (graph && *graph > 0 && args.graph == 0) args.graph = static_cast<uint32_t>(*graph);
}

// ENUM_CUPTI_OVERHEAD_TYPE, as CUPTI names what it is.
string_view overhead_text(int64_t type) {
  constexpr string_view kNames[] = {"",
                                    "",
                                    "Driver Compiler",
                                    "Buffer Flush",
                                    "Instrumentation",
                                    "Resource",
                                    "Runtime Triggered Module Loading",
                                    "Lazy Function Loading",
                                    "Command Buffer Full"};
  return type >= 0 && static_cast<size_t>(type) < std::size(kNames) ? kNames[type] : string_view();
}

}  // namespace

const std::vector<NsightTable>& nsight_tables() {
  using R = NsightRecords;
  static const std::vector<NsightTable> all = {
      {"CUPTI_ACTIVITY_KIND_KERNEL", "globalPid",
       {"start", "end", "deviceId", "contextId", "streamId", "correlationId", "demangledName", "shortName",
        "mangledName", "registersPerThread", "gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ",
        "staticSharedMemory", "dynamicSharedMemory", "graphNodeId", "graphId"},
       &R::kernel},
      {"CUPTI_ACTIVITY_KIND_RUNTIME", "globalTid",
       {"start", "end", "globalTid", "nameId", "correlationId", "eventClass"}, &R::call},
      {"NVTX_EVENTS", "globalTid",
       {"start", "end", "globalTid", "eventType", "text", "textId", "domainId", "category", "uint64Value", "int64Value",
        "doubleValue", "uint32Value", "int32Value", "floatValue", "jsonText", "jsonTextId", "binaryData"},
       &R::nvtx},
      {"OSRT_API", "globalTid", {"start", "end", "globalTid", "nameId"}, &R::system},
      {"CUPTI_ACTIVITY_KIND_MEMCPY", "globalPid",
       {"start", "end", "deviceId", "contextId", "streamId", "correlationId", "bytes", "copyKind", "srcKind", "dstKind",
        "graphNodeId"},
       &R::copy},
      {"CUPTI_ACTIVITY_KIND_MEMSET", "globalPid",
       {"start", "end", "deviceId", "contextId", "streamId", "correlationId", "bytes", "memKind", "graphNodeId"},
       &R::set},
      {"CUPTI_ACTIVITY_KIND_GRAPH_TRACE", "globalPid",
       {"start", "end", "deviceId", "contextId", "streamId", "correlationId", "graphId", "graphExecId"}, &R::graph},
      {"CUPTI_ACTIVITY_KIND_OVERHEAD", "globalTid", {"start", "end", "globalTid", "nameId", "overheadType"},
       &R::overhead},
      {"PROFILER_OVERHEAD", "globalTid", {"start", "end", "globalTid", "nameId", "overheadType"}, &R::overhead},
      {"CUDNN_EVENTS", "globalTid", {"start", "end", "globalTid", "nameId"}, &R::library},
      {"CUBLAS_EVENTS", "globalTid", {"start", "end", "globalTid", "nameId"}, &R::library},
      {"OPENACC_LAUNCH_EVENTS", "globalTid", {"start", "end", "globalTid", "nameId"}, &R::library},
      {"OPENACC_DATA_EVENTS", "globalTid", {"start", "end", "globalTid", "nameId"}, &R::library},
      {"OPENACC_OTHER_EVENTS", "globalTid", {"start", "end", "globalTid", "nameId"}, &R::library},
      {"MPI_COLLECTIVES_EVENTS", "globalTid",
       {"start", "end", "globalTid", "textId", "size", "recvSize", "rootRank", "tag", "remoteRank"}, &R::message},
      {"MPI_P2P_EVENTS", "globalTid",
       {"start", "end", "globalTid", "textId", "size", "recvSize", "rootRank", "tag", "remoteRank"}, &R::message},
      {"MPI_START_WAIT_EVENTS", "globalTid", {"start", "end", "globalTid", "textId"}, &R::library},
      {"MPI_OTHER_EVENTS", "globalTid", {"start", "end", "globalTid", "textId"}, &R::library},
      {"UCP_SUBMIT_EVENTS", "globalTid", {"start", "end", "globalTid", "textId"}, &R::library},
      {"UCP_PROGRESS_EVENTS", "globalTid", {"start", "end", "globalTid", "textId"}, &R::library},
      {"UCP_EVENTS", "globalTid", {"start", "end", "globalTid", "textId"}, &R::library},
      {"CUDA_GPU_MEMORY_USAGE_EVENTS", "globalPid",
       {"start", "deviceId", "bytes", "memKind", "memoryOperationType", "address", "virtualAddress"}, &R::allocation},
      {"CUDA_UM_CPU_PAGE_FAULT_EVENTS", "globalPid", {"start"}, &R::cpu_fault},
      {"CUDA_UM_GPU_PAGE_FAULT_EVENTS", "globalPid", {"start", "deviceId", "numberOfPageFaults"}, &R::gpu_fault},
      {"CUDA_GRAPH_NODE_EVENTS", "globalTid", {"start", "globalTid", "graphNodeId", "originalGraphNodeId"},
       &R::graph_node},
  };
  return all;
}

NsightRecords::NsightRecords(const NsightShared& shared, Shard& shard) : shared_(shared), shard_(shard) {
  for (std::vector<StringId>& of_use : names_) of_use.resize(shared.names.size());
}

bool NsightRecords::times(const SqliteScan& row, Times& out) {
  ++shard_.events;
  const auto start = row.integer(kStart), end = row.integer(kEnd);
  if (!start || !end) return ++shard_.issues[TraceIssueKind::kDamaged], false;
  if (*start <= -kLatestNsight_ns || *start >= kLatestNsight_ns || *end <= -kLatestNsight_ns ||
      *end >= kLatestNsight_ns || *end - *start >= kLongestNs)
    return ++shard_.issues[TraceIssueKind::kOutOfRange], false;
  if (*end < *start) return ++shard_.issues[TraceIssueKind::kNegativeDuration], false;
  out = {*start, *end - *start};
  return true;
}

bool NsightRecords::instant(const SqliteScan& row, int64_t& time_ns) {
  ++shard_.events;
  const auto start = row.integer(kStart);
  if (!start) return ++shard_.issues[TraceIssueKind::kDamaged], false;
  if (*start <= -kLatestNsight_ns || *start >= kLatestNsight_ns)
    return ++shard_.issues[TraceIssueKind::kOutOfRange], false;
  time_ns = *start;
  return true;
}

// Invalid: there is no such text.
StringId NsightRecords::name(int64_t id, Use use) {
  const StringId at = shared_.names.find(id);
  if (!at.valid()) return {};
  StringId& known = names_[static_cast<size_t>(use)][at.value];
  if (known.valid()) return known;
  std::string text(shared_.names.text(at));
  if (use == Use::kKernel) text = demangled(text);
  if (use == Use::kCall) text = call_name(text);
  if (replace_invalid_utf8(text) > 0) ++shard_.issues[TraceIssueKind::kInvalidText];
  return known = shard_.strings.intern(text);
}

// Of the first of the columns that has a text. Some versions have the text itself in the place of its number.
StringId NsightRecords::name_of(const SqliteScan& row, std::initializer_list<std::pair<int, Use>> columns,
                             string_view otherwise) {
  for (const auto& [column, use] : columns) {
    if (const auto id = row.integer(column)) {
      if (const StringId known = name(*id, use); known.valid()) return known;
    } else if (const string_view text = row.text(column); !text.empty()) {
      std::string plain(use == Use::kCall ? call_name(text) : text);
      if (replace_invalid_utf8(plain) > 0) ++shard_.issues[TraceIssueKind::kInvalidText];
      return shard_.strings.intern(plain);
    }
  }
  return shard_.strings.intern(otherwise);
}

uint16_t NsightRecords::thread(int64_t global_tid) {
  if (global_tid == last_tid_) return last_thread_;   // rows come in runs
  const auto [at, fresh] = threads_.try_emplace(global_tid, 0);
  if (fresh)
    at->second = static_cast<uint16_t>(
        shard_.thread(std::to_string(nsight_pid(global_tid)), std::to_string(nsight_tid(global_tid))));
  last_tid_ = global_tid;
  return last_thread_ = at->second;
}

void NsightRecords::add_activity(const SqliteScan& row, ActivityKind kind, StringId name, ActivityArgs args) {
  Times at;
  if (!times(row, at)) return;
  const auto device = row.lacks(kDevice) ? std::optional<int64_t>(0) : row.integer(kDevice);
  if (!device || *device < INT32_MIN || *device > INT32_MAX) {
    ++shard_.issues[TraceIssueKind::kOutOfRange];
    return;
  }
  ActivityRow activity;
  activity.start_ns = at.start_ns;
  activity.duration_ns = at.duration_ns;
  activity.name = name;
  activity.correlation = correlation_of(row.integer(kCorrelation));
  activity.kind = kind;
  activity.queue = shard_.queue({static_cast<int32_t>(*device), row.integer(kStream, -1), row.integer(kContext, 0)});
  activity.args = shard_.activity_args(args);
  shard_.activity.push_back(activity);
}

void NsightRecords::kernel(const SqliteScan& row) {
  enum : int { kDemangled = kOfActivity, kShort, kMangled, kRegisters, kGrid, kBlock = kGrid + 3, kStatic = kBlock + 3,
               kDynamic, kNode, kGraph };
  ActivityArgs args;
  for (int i = 0; i < 3; ++i) args.grid[i] = limited(row.integer(kGrid + i, 0));
  for (int i = 0; i < 3; ++i) args.block[i] = limited(row.integer(kBlock + i, 0));
  args.registers = limited(row.integer(kRegisters, 0));
  args.shared_bytes = limited(int64_t{limited(row.integer(kStatic, 0))} + limited(row.integer(kDynamic, 0)));
  set_graph(row.integer(kNode), row.integer(kGraph), args);
  const StringId name =
      name_of(row, {{kDemangled, Use::kKernel}, {kMangled, Use::kKernel}, {kShort, Use::kKernel}}, "(no name)");
  add_activity(row, ActivityKind::kKernel, name, args);
}

void NsightRecords::copy(const SqliteScan& row) {
  enum : int { kBytes = kOfActivity, kKind, kFrom, kTo, kNode };
  ActivityArgs args;
  args.bytes = std::max<int64_t>(row.integer(kBytes, -1), -1);
  set_graph(row.integer(kNode), {}, args);
  const int64_t kind = row.integer(kKind, 0);
  const int from = memory_kind_of(row.integer(kFrom)), to = memory_kind_of(row.integer(kTo));
  StringId& name = copy_names_[std::clamp<int64_t>(kind, 0, 255) << 16 | from << 8 | to];
  if (!name.valid()) {
    const string_view migration = migration_name(kind);
    name = shard_.strings.intern(migration.empty() ? copy_name(limited(kind), from, to) : std::string(migration));
  }
  add_activity(row, ActivityKind::kMemcpy, name, args);
}

void NsightRecords::set(const SqliteScan& row) {
  enum : int { kBytes = kOfActivity, kMemory, kNode };
  ActivityArgs args;
  args.bytes = std::max<int64_t>(row.integer(kBytes, -1), -1);
  set_graph(row.integer(kNode), {}, args);
  add_activity(row, ActivityKind::kMemset, shard_.strings.intern(set_name(memory_kind_of(row.integer(kMemory)))), args);
}

// One launch of a whole graph. Without times nothing is known of when it ran.
void NsightRecords::graph(const SqliteScan& row) {
  enum : int { kGraph = kOfActivity, kExecutable };
  const int64_t start = row.integer(kStart, 0), end = row.integer(kEnd, 0);
  if (start == 0 && end == 0) {
    ++untimed_graphs;
    ++shard_.events;
    return;
  }
  ActivityArgs args;
  set_graph({}, row.is_null(kExecutable) ? row.integer(kGraph) : row.integer(kExecutable), args);
  ++graphs;
  graph_ns += std::clamp<int64_t>(end - start, 0, kLongestNs);
  add_activity(row, ActivityKind::kKernel, shard_.strings.intern(fmt::format("CUDA graph {}", args.graph)), args);
}

HostRow* NsightRecords::add_host(const SqliteScan& row, int thread_column, HostKind kind, StringId name) {
  Times at;
  if (!times(row, at)) return nullptr;
  added_ = {};
  added_.start_ns = at.start_ns;
  added_.duration_ns = at.duration_ns;
  added_.name = name;
  added_.kind = kind;
  added_.thread = thread(row.integer(thread_column, 0));
  return &added_;
}

void NsightRecords::call(const SqliteScan& row) {
  enum : int { kCallCorrelation = kCallMore, kClass };
  constexpr int64_t kDriverClass = 1;
  const StringId name = name_of(row, {{kCallName, Use::kCall}}, "(unknown call)");
  const string_view text = shard_.strings[name];
  const bool runtime = text.starts_with("cuda") || (row.integer(kClass, 0) != kDriverClass && !text.starts_with("cu"));
  HostRow* host = add_host(row, kOfCall, runtime ? HostKind::kRuntime : HostKind::kDriver, name);
  if (host == nullptr) return;
  // Each process numbers its launches for itself.
  const int64_t main = shared_.scope.main();
  if (main == 0 || row.lacks(kOfCall) || nsight_process(row.integer(kOfCall, 0)) == main)
    host->link = correlation_of(row.integer(kCallCorrelation));
  shard_.host.push_back(*host);
}

void NsightRecords::overhead(const SqliteScan& row) {
  const string_view known = overhead_text(row.integer(kCallMore, 0));
  const StringId name = known.empty() ? name_of(row, {{kCallName, Use::kText}}, "Profiler Overhead")
                                      : shard_.strings.intern(known);
  // Nsight Systems looks at libraries as they are loaded; the loading itself is the program's.
  const bool loading = shard_.strings[name].starts_with("dlopen") || shard_.strings[name] == "dlclose";
  HostRow* host = add_host(row, kOfCall, loading ? HostKind::kSystem : HostKind::kOverhead, name);
  if (host != nullptr) shard_.host.push_back(*host);
}

void NsightRecords::library(const SqliteScan& row) {
  const StringId name = name_of(row, {{kCallName, Use::kText}}, "(unknown call)");
  if (HostRow* host = add_host(row, kOfCall, HostKind::kLibrary, name)) shard_.host.push_back(*host);
}

void NsightRecords::system(const SqliteScan& row) {
  const StringId name = name_of(row, {{kCallName, Use::kText}}, "(unknown call)");
  if (HostRow* host = add_host(row, kOfCall, HostKind::kSystem, name)) shard_.host.push_back(*host);
}

void NsightRecords::message(const SqliteScan& row) {
  enum : int { kSize = kCallMore, kReceived, kRoot, kTag, kPeer };
  const StringId name = name_of(row, {{kCallName, Use::kText}}, "(unknown call)");
  HostRow* host = add_host(row, kOfCall, HostKind::kLibrary, name);
  if (host == nullptr) return;
  std::string members;
  const auto say = [&](const char* key, int column) {
    if (const auto value = row.integer(column))
      members += fmt::format("{}\"{}\": {}", members.empty() ? "" : ", ", key, *value);
  };
  say("Message size [bytes]", kSize), say("Received [bytes]", kReceived), say("Root rank", kRoot), say("Tag", kTag);
  say("Peer rank", kPeer);
  if (!members.empty())
    shard_.host_arguments.emplace_back(shard_.host.size(), shard_.strings.intern("{" + members + "}"));
  shard_.host.push_back(*host);
}

void NsightRecords::allocation(const SqliteScan& row) {
  enum : int { kAllocDevice = 1, kBytes, kMemory, kOperation, kAddress, kOtherAddress };
  constexpr int64_t kFreed = 1;                                                    // ENUM_CUDA_DEV_MEM_EVENT_OPER
  constexpr int kDeviceMemory = 3, kStaticDeviceMemory = 6, kManagedMemory = 5;    // CUpti_ActivityMemoryKind
  constexpr int32_t kCpu = 0, kCuda = 1;                                           // PyTorch's DeviceType
  MemoryEvent m;
  if (!instant(row, m.time_ns)) return;
  const auto bytes = row.integer(kBytes);
  if (!bytes || *bytes < 0) {
    ++shard_.issues[TraceIssueKind::kDamaged];
    return;
  }
  const int kind = memory_kind_of(row.integer(kMemory));
  const bool on_device = kind == kDeviceMemory || kind == kStaticDeviceMemory || kind == kManagedMemory;
  m.bytes = row.integer(kOperation, 0) == kFreed ? -*bytes : *bytes;
  m.address = static_cast<uint64_t>(row.integer(row.is_null(kAddress) ? kOtherAddress : kAddress, 0));
  m.device_type = on_device ? kCuda : kCpu;
  m.device = on_device ? limited(row.integer(kAllocDevice, 0)) : -1;
  shard_.memory.push_back(m);
}

void NsightRecords::cpu_fault(const SqliteScan& row) {
  CounterValue c;
  if (!instant(row, c.time_ns)) return;
  ++cpu_faults;
  c.name = shard_.strings.intern("unified memory: page faults of the CPU");
  c.value = 1;
  shard_.counters.push_back(c);
}

void NsightRecords::gpu_fault(const SqliteScan& row) {
  CounterValue c;
  if (!instant(row, c.time_ns)) return;
  const int64_t count = std::clamp<int64_t>(row.integer(2, 1), 0, INT32_MAX);
  gpu_faults += count;
  c.name = shard_.strings.intern("unified memory: page faults of the GPU");
  c.device = limited(row.integer(1, 0));
  c.value = static_cast<double>(count);
  shard_.counters.push_back(c);
}

void NsightRecords::graph_node(const SqliteScan& row) {
  NsightGraphNode node;
  if (!instant(row, node.time_ns)) return;
  node.thread = row.integer(1, 0);
  node.node = static_cast<uint64_t>(row.integer(2, 0));
  node.original = static_cast<uint64_t>(row.integer(3, 0));
  if (node.node != 0) graph_nodes.push_back(node);
}

}  // namespace profgpu
