// pgt-dump FILE: every row of a recording as one JSON object a line, with names in place of their numbers. For tests
// and for looking at what a recorder wrote; the last line says how far the file could be read.
#include <cstdio>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/json_quoted.h"
#include "record/wire/chunk_reader.h"
#include "record/wire/rows.h"

namespace profgpu {
namespace {

using namespace wire;

void say(const std::string& line) { std::puts(line.c_str()); }

// A column's name says what its number stands for: "$" a string, "@" a thread, "#" a queue.
struct RowNames {
  const char* kind;
  std::vector<const char*> columns;
};

const RowNames& names_of(ChunkKind kind) {
  static const std::map<ChunkKind, RowNames> all = {
      {ChunkKind::kProperties, {"property", {"key$", "value$"}}},
      {ChunkKind::kClockSyncs, {"clock_sync", {"host_ns", "unix_ns", "device_ns"}}},
      {ChunkKind::kThreads, {"thread", {"id", "pid", "tid", "name$"}}},
      {ChunkKind::kQueues, {"queue", {"id", "device", "context", "stream"}}},
      {ChunkKind::kLaunchShapes,
       {"launch_shape",
        {"id", "grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z", "registers", "static_shared_bytes",
         "dynamic_shared_bytes"}}},
      {ChunkKind::kDevices,
       {"device",
        {"id", "name$", "uuid$", "pci$", "memory_bytes", "compute_major", "compute_minor", "multiprocessors"}}},
      {ChunkKind::kPayloadSchemas,
       {"payload_schema", {"id", "domain$", "schema", "name$", "schema_kind", "size", "pack"}}},
      {ChunkKind::kPayloadFields, {"payload_field", {"of", "place", "name$", "flags", "type", "detail", "offset"}}},
      {ChunkKind::kKernels,
       {"kernel", {"start_ns", "duration_ns", "name$", "queue#", "correlation", "shape", "graph", "graph_node"}}},
      {ChunkKind::kCopies,
       {"copy",
        {"start_ns", "duration_ns", "bytes", "queue#", "correlation", "copy_kind", "from_kind", "to_kind", "is_async",
         "peer", "graph", "graph_node"}}},
      {ChunkKind::kSets,
       {"set",
        {"start_ns", "duration_ns", "bytes", "queue#", "correlation", "value", "memory_kind", "graph", "graph_node"}}},
      {ChunkKind::kCalls,
       {"call", {"start_ns", "duration_ns", "name$", "thread@", "correlation", "is_driver", "result"}}},
      {ChunkKind::kSyncs, {"sync", {"start_ns", "duration_ns", "queue#", "correlation", "type", "event"}}},
      {ChunkKind::kOverheads, {"overhead", {"start_ns", "duration_ns", "type", "thread@"}}},
      {ChunkKind::kAllocations,
       {"allocation", {"time_ns", "address", "bytes", "queue#", "correlation", "is_free", "memory_kind"}}},
      {ChunkKind::kGraphLaunches, {"graph_launch", {"start_ns", "duration_ns", "queue#", "correlation", "graph"}}},
      {ChunkKind::kExternalIds, {"external_id", {"correlation", "type", "external"}}},
      {ChunkKind::kRangeEvents,
       {"range_event",
        {"time_ns", "thread@", "name$", "domain$", "category", "op", "payload_type", "range", "payload"}}},
      {ChunkKind::kCollectives,
       {"collective",
        {"start_ns", "duration_ns", "device_start_ns", "device_duration_ns", "communicator", "communicator_name$",
         "rank", "ranks", "sequence", "function$", "data_type$", "algorithm$", "protocol$", "count", "root_or_peer",
         "channels", "thread@"}}},
      {ChunkKind::kThreadSamples,
       {"thread_sample",
        {"time_ns", "thread@", "state", "system_call", "user_ns", "system_ns", "waited_ns", "blocked_ns",
         "preempted_ns", "waits"}}},
      {ChunkKind::kThreadWaits, {"thread_wait", {"start_ns", "duration_ns", "thread@"}}},
      {ChunkKind::kDrops, {"drop", {"time_ns", "of", "reason", "count"}}},
      {ChunkKind::kWindows, {"window", {"time_ns", "event", "reason$"}}},
      {ChunkKind::kNotes, {"note", {"time_ns", "severity", "text$"}}},
  };
  return all.at(kind);
}

struct Known {
  std::map<uint64_t, std::string> strings;
  std::map<uint64_t, ThreadRow> threads;
  std::map<uint64_t, QueueRow> queues;
};

// Visits the columns of one row, in their order.
template <typename Row>
class RowText {
 public:
  RowText(const Row& row, const Known& known) : row_(row), known_(known), names_(names_of(Row::kKind)) {
    text_ = fmt::format("{{\"kind\":\"{}\"", names_.kind);
  }
  template <typename T>
  void time(T Row::*member) { add(row_.*member); }
  template <typename T>
  void plain(T Row::*member) { add(row_.*member); }
  template <typename T>
  void delta(T Row::*member) { add(row_.*member); }
  template <typename A>
  void element(A Row::*member, int index) { add((row_.*member)[index]); }
  [[nodiscard]] std::string text() const { return text_ + "}"; }

 private:
  template <typename T>
  void add(T value) {
    std::string name = next_ < names_.columns.size() ? names_.columns[next_] : "column_" + std::to_string(next_);
    ++next_;
    const char mark = name.back();
    const auto id = static_cast<uint64_t>(value);
    if (mark == '$') {
      name.pop_back();
      const auto it = known_.strings.find(id);
      const std::string text = it == known_.strings.end() ? "\"?\"" : json_quoted(it->second);
      text_ += fmt::format(",\"{}\":{}", name, id == 0 ? "null" : text);
    } else if (mark == '@') {
      const auto it = known_.threads.find(id);
      text_ += fmt::format(",\"pid\":{},\"tid\":{}", it == known_.threads.end() ? 0 : it->second.pid,
                           it == known_.threads.end() ? 0 : it->second.tid);
    } else if (mark == '#') {
      const auto it = known_.queues.find(id);
      const QueueRow queue = it == known_.queues.end() ? QueueRow{} : it->second;
      text_ += fmt::format(",\"device\":{},\"context\":{},\"stream\":{}", queue.device, queue.context, queue.stream);
    } else if constexpr (std::is_signed_v<T>) {
      text_ += fmt::format(",\"{}\":{}", name, static_cast<int64_t>(value));
    } else {
      text_ += fmt::format(",\"{}\":{}", name, id);
    }
  }

  const Row& row_;
  const Known& known_;
  const RowNames& names_;
  size_t next_ = 0;
  std::string text_;
};

template <typename Row>
bool dump_rows(const ChunkView& chunk, Known& known) {
  std::vector<Row> rows(chunk.rows());
  if (!read_rows(chunk, rows.data())) return false;
  for (const Row& row : rows) {
    if constexpr (std::is_same_v<Row, ThreadRow>) known.threads[row.id] = row;
    if constexpr (std::is_same_v<Row, QueueRow>) known.queues[row.id] = row;
    RowText<Row> line(row, known);
    Row::columns(line);
    std::puts(line.text().c_str());
  }
  return true;
}

bool dump_strings(const ChunkView& chunk, Known& known) {
  std::vector<StringRef> rows(chunk.rows());
  if (!read_rows(chunk, rows.data())) return false;
  for (const StringRef& s : rows) known.strings[s.id].assign(s.text, s.length);
  return true;
}

bool dump_payloads(const ChunkView& chunk, const Known& known) {
  std::vector<PayloadRef> rows(chunk.rows());
  if (!read_rows(chunk, rows.data())) return false;
  for (const PayloadRef& p : rows) {
    const auto domain = known.strings.find(p.domain);
    std::string hex;
    for (uint32_t i = 0; i < p.length; ++i) hex += fmt::format("{:02x}", static_cast<unsigned char>(p.text[i]));
    say(fmt::format(R"({{"kind":"payload","event":{},"domain":{},"schema":{},"size":{},"bytes":"{}"}})", p.event,
                    domain == known.strings.end() ? "null" : json_quoted(domain->second), p.schema, p.size, hex));
  }
  return true;
}

bool dump_chunk(const ChunkView& chunk, Known& known) {
  switch (chunk.kind) {
    case ChunkKind::kEnd: return std::puts("{\"kind\":\"end\"}"), true;
    case ChunkKind::kStrings: return dump_strings(chunk, known);
    case ChunkKind::kProperties: return dump_rows<Property>(chunk, known);
    case ChunkKind::kClockSyncs: return dump_rows<ClockSync>(chunk, known);
    case ChunkKind::kThreads: return dump_rows<ThreadRow>(chunk, known);
    case ChunkKind::kQueues: return dump_rows<QueueRow>(chunk, known);
    case ChunkKind::kLaunchShapes: return dump_rows<LaunchShape>(chunk, known);
    case ChunkKind::kDevices: return dump_rows<DeviceRow>(chunk, known);
    case ChunkKind::kPayloadSchemas: return dump_rows<PayloadSchema>(chunk, known);
    case ChunkKind::kPayloadFields: return dump_rows<PayloadField>(chunk, known);
    case ChunkKind::kPayloads: return dump_payloads(chunk, known);
    case ChunkKind::kKernels: return dump_rows<Kernel>(chunk, known);
    case ChunkKind::kCopies: return dump_rows<Copy>(chunk, known);
    case ChunkKind::kSets: return dump_rows<Set>(chunk, known);
    case ChunkKind::kCalls: return dump_rows<Call>(chunk, known);
    case ChunkKind::kSyncs: return dump_rows<Sync>(chunk, known);
    case ChunkKind::kOverheads: return dump_rows<Overhead>(chunk, known);
    case ChunkKind::kAllocations: return dump_rows<Allocation>(chunk, known);
    case ChunkKind::kGraphLaunches: return dump_rows<GraphLaunch>(chunk, known);
    case ChunkKind::kExternalIds: return dump_rows<ExternalId>(chunk, known);
    case ChunkKind::kRangeEvents: return dump_rows<RangeEvent>(chunk, known);
    case ChunkKind::kCollectives: return dump_rows<CollectiveRow>(chunk, known);
    case ChunkKind::kThreadSamples: return dump_rows<ThreadSample>(chunk, known);
    case ChunkKind::kThreadWaits: return dump_rows<wire::ThreadWait>(chunk, known);
    case ChunkKind::kDrops: return dump_rows<Drop>(chunk, known);
    case ChunkKind::kWindows: return dump_rows<wire::Window>(chunk, known);
    case ChunkKind::kNotes: return dump_rows<Note>(chunk, known);
  }
  say(fmt::format("{{\"kind\":\"unknown\",\"number\":{},\"bytes\":{}}}", static_cast<int>(chunk.kind), chunk.length));
  return true;
}

int dump(const char* path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::fprintf(stderr, "pgt-dump: cannot open %s\n", path), 1;
  const std::string bytes((std::istreambuf_iterator<char>(file)), {});
  ChunkReader reader(bytes.data(), bytes.size());
  if (reader.state() != FileState::kReadable) {
    std::fprintf(stderr, "pgt-dump: %s: not a recording (state %d)\n", path, static_cast<int>(reader.state()));
    return 1;
  }
  say(fmt::format("{{\"kind\":\"file\",\"version\":{}}}", reader.version()));
  Known known;
  uint64_t chunks = 0, bad_chunks = 0;
  for (ChunkView chunk; reader.next(chunk);) {
    ++chunks;
    if (dump_chunk(chunk, known)) continue;
    ++bad_chunks;
    const int kind = static_cast<int>(chunk.kind);
    say(fmt::format("{{\"kind\":\"damaged\",\"of\":{},\"offset\":{}}}", kind, chunk.offset));
  }
  say(fmt::format("{{\"kind\":\"read\",\"chunks\":{},\"bad_chunks\":{},\"damaged_places\":{},\"damaged_bytes\":{},"
                  "\"torn_bytes\":{}}}",
                  chunks, bad_chunks, reader.damaged_places(), reader.damaged_bytes(), reader.torn_bytes()));
  return 0;
}

}  // namespace
}  // namespace profgpu

int main(int argc, char** argv) {
  if (argc != 2) return std::fprintf(stderr, "usage: pgt-dump FILE\n"), 2;
  return profgpu::dump(argv[1]);
}
