// An SQLite file: our tables and views, and beside them those that scripts for Nsight Systems' exports ask for.

#include <sys/stat.h>

#include <map>
#include <ranges>

#include "analyse/rank/collectives.h"
#include "app/export/run.h"
#include "app/export/sql_database.h"
#include "app/export/virtual_table.h"
#include "base/decimal.h"
#include "trace/copy_kind.h"

namespace profgpu {

// The tables of Nsight Systems' SQLite exports that scripts ask for, as far as a trace fills them.

class NsightRows;

/// docs/sqlite.md says what stands in them. As there, a table without rows is left out. Times are on the first rank's
/// clock.
class NsightTables {
 public:
  NsightTables(SqliteFile& file, const RunRows& run);
  /// Before the file is finished.
  ~NsightTables();
  NsightTables(const NsightTables&) = delete;
  NsightTables& operator=(const NsightTables&) = delete;

  /// A rank of the run.
  void add(const RankRows& rank);

 private:
  SqliteFile& file_;
  const RunRows& run_;
  std::unique_ptr<NsightRows> rows_;   // null: samples alone
};

// Names of tables and columns, and the numbers of kinds, are those that Nsight Systems' guide gives for its SQLite
// exports.

namespace {

constexpr int64_t kPushPop = 59;             // NvtxPushPopRange
constexpr int64_t kNoMemoryKind = 7;         // "Unknown"
constexpr int64_t kIdLimit = int64_t{1} << 24;

struct NsightKind {
  int64_t id;
  const char* name;
  const char* label;
};
constexpr NsightKind kCopies[] = {
    {0, "CUDA_MEMCPY_KIND_UNKNOWN", "Unknown"},          {1, "CUDA_MEMCPY_KIND_HTOD", "Host-to-Device"},
    {2, "CUDA_MEMCPY_KIND_DTOH", "Device-to-Host"},      {3, "CUDA_MEMCPY_KIND_HTOA", "Host-to-Array"},
    {4, "CUDA_MEMCPY_KIND_ATOH", "Array-to-Host"},       {5, "CUDA_MEMCPY_KIND_ATOA", "Array-to-Array"},
    {6, "CUDA_MEMCPY_KIND_ATOD", "Array-to-Device"},     {7, "CUDA_MEMCPY_KIND_DTOA", "Device-to-Array"},
    {8, "CUDA_MEMCPY_KIND_DTOD", "Device-to-Device"},    {9, "CUDA_MEMCPY_KIND_HTOH", "Host-to-Host"},
    {10, "CUDA_MEMCPY_KIND_PTOP", "Peer-to-Peer"},
    {11, "CUDA_MEMCPY_KIND_UVM_HTOD", "Unified Memory Host-to-Device"},
    {12, "CUDA_MEMCPY_KIND_UVM_DTOH", "Unified Memory Device-to-Host"},
    {13, "CUDA_MEMCPY_KIND_UVM_DTOD", "Unified Memory Device-to-Device"}};
constexpr NsightKind kMemories[] = {
    {0, "CUDA_MEMOPR_MEMORY_KIND_PAGEABLE", "Pageable"}, {1, "CUDA_MEMOPR_MEMORY_KIND_PINNED", "Pinned"},
    {2, "CUDA_MEMOPR_MEMORY_KIND_DEVICE", "Device"},     {3, "CUDA_MEMOPR_MEMORY_KIND_ARRAY", "Array"},
    {4, "CUDA_MEMOPR_MEMORY_KIND_MANAGED", "Managed"},   {5, "CUDA_MEMOPR_MEMORY_KIND_DEVICE_STATIC", "Device Static"},
    {6, "CUDA_MEMOPR_MEMORY_KIND_MANAGED_STATIC", "Managed Static"},
    {kNoMemoryKind, "CUDA_MEMOPR_MEMORY_KIND_UNKNOWN", "Unknown"}};
constexpr NsightKind kSyncs[] = {
    {0, "CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_UNKNOWN", "Unknown"},
    {1, "CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_EVENT_SYNCHRONIZE", "Event sync"},
    {2, "CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_WAIT_EVENT", "Stream wait event sync"},
    {3, "CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_SYNCHRONIZE", "Stream sync"},
    {4, "CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_CONTEXT_SYNCHRONIZE", "Context sync"}};
constexpr NsightKind kEventTypes[] = {{kPushPop, "NvtxPushPopRange", "NVTX Push/Pop Range"}};
constexpr NsightKind kEventClasses[] = {{0, "TRACE_PROCESS_EVENT_CUDA_RUNTIME", "CUDA runtime"},
                                  {1, "TRACE_PROCESS_EVENT_CUDA_DRIVER", "CUDA driver"}};

bool has(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

// Longer labels contain shorter ones, and come later. A host's memory may be of any kind.
int64_t memory_kind(std::string_view text) {
  for (const NsightKind& k : std::views::reverse(kMemories))
    if (has(text, k.label)) return k.id;
  return kNoMemoryKind;
}

int64_t nsight_copy_kind(std::string_view name) {
  const CopyKind kind = copy_kind(name);
  if (!has(name, "(Unified memory)")) return static_cast<int64_t>(kind);
  return kind == CopyKind::kHtoD ? 11 : kind == CopyKind::kDtoH ? 12 : 13;
}

int64_t sync_kind(std::string_view name) {
  if (has(name, "Wait Event")) return 2;
  if (has(name, "Event")) return 1;
  if (has(name, "Stream")) return 3;
  return has(name, "Context") || has(name, "Device") ? 4 : 0;
}

// The two sides of the arrow in a copy's name.
std::pair<int64_t, int64_t> copy_ends(std::string_view name) {
  const size_t open = name.find('('), arrow = name.find("->");
  if (open == name.npos || arrow == name.npos || arrow < open) return {kNoMemoryKind, kNoMemoryKind};
  return {memory_kind(name.substr(open, arrow - open)), memory_kind(name.substr(arrow))};
}

void enumeration(SqliteFile& file, const std::string& name, const NsightKind* begin, const NsightKind* end) {
  file.run("CREATE TABLE " + name + "(id INTEGER PRIMARY KEY, name TEXT, label TEXT)");
  SqliteRows rows(file, name, 3);
  for (const NsightKind* k = begin; k != end; ++k)
    rows.put(k->id).put(std::string_view(k->name)).put(std::string_view(k->label)).end_row();
}

/// Processes and threads as 64 bits: rank, 24 bits of process id, 24 bits of thread id. With one rank, or for rank 0,
/// that is what Nsight writes. Ids that are no numbers of 24 bits are numbered from the highest bit on.
class GlobalIds {
 public:
  explicit GlobalIds(const RankRows& rank) : rank_(rank) {
    std::map<std::string_view, int64_t> processes;
    for (size_t t = 0; t < rank.trace().threads.size(); ++t) {
      const Thread& thread = rank.trace().threads[t];
      const auto [it, fresh] = processes.try_emplace(thread.process, 0);
      if (fresh) it->second = small(thread.process, processes.size());
      process_.push_back(int64_t{rank.rank()} << 48 | it->second << 24);
      thread_.push_back(process_.back() | small(thread.id, t));
    }
  }
  [[nodiscard]] int64_t thread(ThreadId t) const { return thread_[t.value]; }
  [[nodiscard]] int64_t process(size_t t) const { return process_[t]; }
  /// Of activity: of the thread that launched it, else the rank's first.
  [[nodiscard]] Datum process_of(HostId launch) const {
    if (launch.valid()) return process_[rank_.trace().host.thread[launch.value].value];
    return process_.empty() ? Datum(int64_t{rank_.rank()} << 48) : Datum(process_.front());
  }

 private:
  static int64_t small(std::string_view id, size_t otherwise) {
    const auto n = whole_number(id);
    return n && *n >= 0 && *n < kIdLimit / 2 ? *n : kIdLimit / 2 + static_cast<int64_t>(otherwise) % (kIdLimit / 2);
  }
  const RankRows& rank_;
  std::vector<int64_t> thread_, process_;
};

/// A table that is made with its first row.
class LazyRows {
 public:
  LazyRows(SqliteFile& file, const char* name, const char* columns) : file_(file), name_(name), columns_(columns) {}
  SqliteRows& operator()() {
    if (!rows_) {
      file_.run("CREATE TABLE " + std::string(name_) + "(" + columns_ + ")");
      size_t count = 1;
      for (const char* c = columns_; *c != '\0'; ++c) count += *c == ',';
      rows_ = std::make_unique<SqliteRows>(file_, name_, count);
    }
    return *rows_;
  }

 private:
  SqliteFile& file_;
  const char* name_;
  const char* columns_;
  std::unique_ptr<SqliteRows> rows_;
};

}  // namespace

class NsightRows {
 public:
  /// Times begin at `origin_ns`.
  NsightRows(SqliteFile& file, int64_t origin_ns) : file_(file), origin_ns_(origin_ns) {}

  void add(const RankRows& rank, const RunClock& clock) {
    const GlobalIds ids(rank);
    const Trace& t = rank.trace();
    for (uint32_t i = 0; i < t.activity.size() && !file_.failed(); ++i) activity(rank, ids, ActivityId(i), clock);
    for (uint32_t i = 0; i < t.host.size() && !file_.failed(); ++i) host(t, ids, HostId(i), clock);
    for (const SyncRow& s : t.syncs)
      put_times(syncs_(), clock({s.start_ns, s.start_ns + s.duration_ns})).put(s.device).put({}).put({}).put(s.stream)
          .put(s.correlation).put(ids.process_of({})).put(sync_kind(t.strings[s.name])).put({}).end_row();
    people(t, ids);
  }

 private:
  SqliteRows& put_times(SqliteRows& rows, Interval range) const {
    return rows.put(saturated_sub(range.start, origin_ns_)).put(saturated_sub(range.end, origin_ns_));
  }

  void activity(const RankRows& rank, const GlobalIds& ids, ActivityId a, const RunClock& clock) {
    static const ActivityArgs kNoArgs;
    const Trace& t = rank.trace();
    const ActivityTable& all = t.activity;
    const ActivityArgs& args = all.args[a.value].valid() ? t.activity_args[all.args[a.value].value] : kNoArgs;
    SqliteRows& rows = all.kind[a.value] == ActivityKind::kKernel ? kernels_()
                       : all.kind[a.value] == ActivityKind::kMemcpy ? copies_() : sets_();
    const Queue& queue = t.queues[all.queue[a.value]];
    put_times(rows, clock(all.interval(a))).put(queue.device).put(queue.context).put({})
        .put(queue.stream).put(all.correlation[a.value]).put(ids.process_of(all.launch[a.value]));
    const Datum node = args.graph_node > 0 ? Datum(args.graph_node) : Datum();
    const std::string_view name = t.name(a);
    if (all.kind[a.value] == ActivityKind::kKernel) {
      const int64_t whole = file_.string(name);
      rows.put(whole)
          .put(file_.string(rank.short_name(all.name[a.value])))
          .put(whole)
          .put({})
          .put({})
          .put(args.registers);
      for (const int32_t n : args.grid) rows.put(n);
      for (const int32_t n : args.block) rows.put(n);
      rows.put(0).put(args.shared_bytes).put(0).put(0).put({}).put(args.shared_bytes).put(node).put({}).end_row();
    } else if (all.kind[a.value] == ActivityKind::kMemcpy) {
      const auto [from, to] = copy_ends(name);
      rows.put(args.bytes >= 0 ? Datum(args.bytes) : Datum()).put(nsight_copy_kind(name));
      rows.put({}).put(from).put(to);
      for (int i = 0; i < 5; ++i) rows.put({});
      rows.put(node).put({}).put({}).end_row();
    } else {
      rows.put({}).put(args.bytes >= 0 ? Datum(args.bytes) : Datum()).put(node).put(memory_kind(name)).end_row();
    }
  }

  void host(const Trace& t, const GlobalIds& ids, HostId h, const RunClock& clock) {
    const HostKind kind = t.host.kind[h.value];
    const Interval range = clock(t.host.interval(h));
    const int64_t thread = ids.thread(t.host.thread[h.value]);
    if (t.host.is_call(h)) {
      put_times(calls_(), range).put(kind == HostKind::kDriver ? 1 : 0).put(thread).put(t.host.link[h.value])
          .put(file_.string(t.name(h))).put({}).put({}).end_row();
    } else if (LazyRows* library = kind == HostKind::kLibrary ? library_table(t.name(h)) : nullptr) {
      put_times((*library)(), range).put(thread).put(file_.string(t.name(h))).end_row();
    } else if (kind == HostKind::kSystem) {
      put_times(system_(), range).put(thread).put(file_.string(t.name(h))).end_row();
    } else if (kind == HostKind::kOverhead) {
      put_times(overhead_(), range).put(thread).put(file_.string(t.name(h))).end_row();
    } else if (kind != HostKind::kPython) {
      SqliteRows& rows = ranges_();
      const std::string text = kind == HostKind::kOp ? text_of_op(t, h) : std::string(t.name(h));
      put_times(rows, range).put(kPushPop).put({}).put({}).put({}).put(std::string_view(text)).put(thread).put({})
          .put(file_.string(text)).put(0);
      for (int i = 0; i < 9; ++i) rows.put({});
      rows.end_row();
    }
  }

  // Where calls of a library stand; null: among the ranges.
  LazyRows* library_table(std::string_view function) {
    if (function.starts_with("cublas")) return &cublas_;
    if (function.starts_with("cudnn")) return &cudnn_;
    if (!function.starts_with("MPI_")) return nullptr;
    const std::string collective = collective_name(function);
    if (collective.empty()) return &mpi_others_;
    const bool message = collective == "send" || collective == "recv" || collective == "send_recv";
    return message ? &mpi_messages_ : &mpi_collectives_;
  }

  // As PyTorch's emit_nvtx writes it: with the number of the call and the shapes of its inputs.
  static std::string text_of_op(const Trace& t, HostId h) {
    std::string text(t.name(h));
    const OpArgsId id = t.host.args[h.value];
    const OpArgs args = id.valid() ? t.op_args[id.value] : OpArgs();
    if (args.sequence >= 0) text += ", seq = " + std::to_string(args.sequence);
    // Without a number nothing would tell that it is an operator.
    if (args.sequence < 0 && !text.starts_with("aten::")) text += ", op_id = " + std::to_string(h.value);
    if (args.shapes.valid() && !t.strings[args.shapes].empty()) text.append(", sizes = ").append(t.strings[args.shapes]);
    return text;
  }

  void people(const Trace& t, const GlobalIds& ids) {
    std::map<int64_t, const Thread*> processes;
    for (size_t i = 0; i < t.threads.size(); ++i) {
      const Thread& thread = t.threads[i];
      processes.try_emplace(ids.process(i), &thread);
      if (!thread.name.empty())
        threads_().put(file_.string(thread.name)).put({}).put(ids.thread(ThreadId(i))).end_row();
    }
    for (const auto& [id, thread] : processes) processes_().put(id).put(id >> 24 & (kIdLimit - 1)).put({}).end_row();
  }

  SqliteFile& file_;
  int64_t origin_ns_;
  LazyRows kernels_{
      file_, "CUPTI_ACTIVITY_KIND_KERNEL",
      "start INTEGER, end INTEGER, deviceId INTEGER, contextId INTEGER, greenContextId INTEGER, streamId INTEGER,"
      " correlationId INTEGER, globalPid INTEGER, demangledName INTEGER, shortName INTEGER, mangledName INTEGER,"
      " launchType INTEGER, cacheConfig INTEGER, registersPerThread INTEGER, gridX INTEGER, gridY INTEGER,"
      " gridZ INTEGER, blockX INTEGER, blockY INTEGER, blockZ INTEGER, staticSharedMemory INTEGER,"
      " dynamicSharedMemory INTEGER, localMemoryPerThread INTEGER, localMemoryTotal INTEGER, gridId INTEGER,"
      " sharedMemoryExecuted INTEGER, graphNodeId INTEGER, sharedMemoryLimitConfig INTEGER"};
  LazyRows copies_{
      file_, "CUPTI_ACTIVITY_KIND_MEMCPY",
      "start INTEGER, end INTEGER, deviceId INTEGER, contextId INTEGER, greenContextId INTEGER, streamId INTEGER,"
      " correlationId INTEGER, globalPid INTEGER, bytes INTEGER, copyKind INTEGER, deprecatedSrcId INTEGER,"
      " srcKind INTEGER, dstKind INTEGER, srcDeviceId INTEGER, srcContextId INTEGER, dstDeviceId INTEGER,"
      " dstContextId INTEGER, migrationCause INTEGER, graphNodeId INTEGER, virtualAddress INTEGER, copyCount INTEGER"};
  LazyRows sets_{
      file_, "CUPTI_ACTIVITY_KIND_MEMSET",
      "start INTEGER, end INTEGER, deviceId INTEGER, contextId INTEGER, greenContextId INTEGER, streamId INTEGER,"
      " correlationId INTEGER, globalPid INTEGER, value INTEGER, bytes INTEGER, graphNodeId INTEGER, memKind INTEGER"};
  LazyRows syncs_{
      file_, "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION",
      "start INTEGER, end INTEGER, deviceId INTEGER, contextId INTEGER, greenContextId INTEGER, streamId INTEGER,"
      " correlationId INTEGER, globalPid INTEGER, syncType INTEGER, eventId INTEGER"};
  LazyRows calls_{
      file_, "CUPTI_ACTIVITY_KIND_RUNTIME",
      "start INTEGER, end INTEGER, eventClass INTEGER, globalTid INTEGER, correlationId INTEGER, nameId INTEGER,"
      " returnValue INTEGER, callchainId INTEGER"};
  LazyRows ranges_{
      file_, "NVTX_EVENTS",
      "start INTEGER, end INTEGER, eventType INTEGER, rangeId INTEGER, category INTEGER, color INTEGER, text TEXT,"
      " globalTid INTEGER, endGlobalTid INTEGER, textId INTEGER, domainId INTEGER, uint64Value INTEGER,"
      " int64Value INTEGER, doubleValue REAL, uint32Value INTEGER, int32Value INTEGER, floatValue REAL,"
      " jsonTextId INTEGER, jsonText TEXT, binaryData TEXT"};
  static constexpr const char* kNamedCalls = "start INTEGER, end INTEGER, globalTid INTEGER, nameId INTEGER";
  static constexpr const char* kTextCalls = "start INTEGER, end INTEGER, globalTid INTEGER, textId INTEGER";
  LazyRows system_{file_, "OSRT_API", kNamedCalls};
  LazyRows overhead_{file_, "PROFILER_OVERHEAD", kNamedCalls};
  LazyRows cublas_{file_, "CUBLAS_EVENTS", kNamedCalls}, cudnn_{file_, "CUDNN_EVENTS", kNamedCalls};
  LazyRows mpi_collectives_{file_, "MPI_COLLECTIVES_EVENTS", kTextCalls};
  LazyRows mpi_messages_{file_, "MPI_P2P_EVENTS", kTextCalls}, mpi_others_{file_, "MPI_OTHER_EVENTS", kTextCalls};
  LazyRows threads_{file_, "ThreadNames", "nameId INTEGER, priority INTEGER, globalTid INTEGER"};
  LazyRows processes_{file_, "PROCESSES", "globalPid INTEGER, pid INTEGER, name TEXT"};
};

namespace {

void write_devices(SqliteFile& file, const RankRows& rank) {
  LazyRows gpus(
      file, "TARGET_INFO_GPU",
      "vmId INTEGER, id INTEGER, name TEXT, busLocation TEXT, totalMemory INTEGER, smCount INTEGER, cuDevice INTEGER,"
      " computeMajor INTEGER, computeMinor INTEGER, uuid TEXT");
  for (const DeviceProperties& d : rank.trace().devices)
    gpus()
        .put(0)
        .put(d.id)
        .put(std::string_view(d.name))
        .put({})
        .put(d.memory_bytes > 0 ? Datum(d.memory_bytes) : Datum())
        .put(d.multiprocessors > 0 ? Datum(d.multiprocessors) : Datum())
        .put(d.id)
        .put(d.compute_major > 0 ? Datum(d.compute_major) : Datum())
        .put(d.compute_major > 0 ? Datum(d.compute_minor) : Datum())
        .put(d.uuid.empty() ? Datum() : Datum(std::string_view(d.uuid)))
        .end_row();
}

// Such files are of one host.
void write_host(SqliteFile& file, const RunRows& run) {
  const std::string& host = run.ranks.front().outline().host;
  const bool one = std::ranges::all_of(run.ranks, [&](const RankRows& rank) { return rank.outline().host == host; });
  if (host.empty() || !one) return;
  file.run("CREATE TABLE TARGET_INFO_SYSTEM_ENV(globalVid INTEGER, devStateName TEXT, name TEXT, nameEnum INTEGER, "
           "value TEXT)");
  SqliteRows(file, "TARGET_INFO_SYSTEM_ENV", 5).put({}).put({}).put(std::string_view("Hostname")).put({})
      .put(std::string_view(host)).end_row();
}

}  // namespace

NsightTables::NsightTables(SqliteFile& file, const RunRows& run) : file_(file), run_(run) {
  if (run.ranks.empty()) return;
  enumeration(file, "ENUM_CUDA_MEMCPY_OPER", std::begin(kCopies), std::end(kCopies));
  enumeration(file, "ENUM_CUDA_MEM_KIND", std::begin(kMemories), std::end(kMemories));
  enumeration(file, "ENUM_CUPTI_SYNC_TYPE", std::begin(kSyncs), std::end(kSyncs));
  enumeration(file, "ENUM_NSYS_EVENT_TYPE", std::begin(kEventTypes), std::end(kEventTypes));
  enumeration(file, "ENUM_NSYS_EVENT_CLASS", std::begin(kEventClasses), std::end(kEventClasses));
  const int64_t first = run.ranks.front().outline().base_time_ns;
  rows_ = std::make_unique<NsightRows>(file, first);
  write_host(file, run);
  if (first == 0) return;
  file.run("CREATE TABLE TARGET_INFO_SESSION_START_TIME(utcEpochNs INTEGER, utcTime TEXT, localTime TEXT)");
  SqliteRows(file, "TARGET_INFO_SESSION_START_TIME", 3).put(first).put({}).put({}).end_row();
}

NsightTables::~NsightTables() = default;

void NsightTables::add(const RankRows& rank) {
  rows_->add(rank, run_.clock(rank));
  if (&rank == &run_.ranks.front()) write_devices(file_, rank);
}

namespace {

// Long tables keep their texts in StringIds, and are read through a view of the table's name.
bool has_string_ids(const DataTable& table) {
  return table.name == "host" || table.name == "activity" || table.name == "gaps";
}

std::string quoted(std::string_view column) { return '"' + std::string(column) + '"'; }

void make_table(SqliteFile& file, const DataTable& table) {
  const std::string name(table.name);
  if (!has_string_ids(table)) return file.run("CREATE TABLE " + name + column_declarations(table));
  std::string columns, shown;
  bool numbered = false;
  for (const DataColumn& c : table.columns) {
    const bool text = c.kind == Datum::Kind::kText;
    numbered |= c.name == "id";
    if (!shown.empty()) columns += ", ", shown += ", ";
    columns += quoted(c.name) + (text ? " INTEGER REFERENCES StringIds(id)" : " INTEGER");
    shown += text ? "(SELECT value FROM StringIds WHERE StringIds.id = r." + quoted(c.name) + ") AS " + quoted(c.name)
                  : "r." + quoted(c.name);
  }
  file.run("CREATE TABLE " + name + "_rows(" + columns + (numbered ? ", PRIMARY KEY(rank, id)) WITHOUT ROWID" : ")"));
  file.run("CREATE VIEW " + name + " AS SELECT " + shown + " FROM " + name + "_rows AS r");
}

int64_t file_bytes(const std::string& path) {
  struct stat s{};
  return ::stat(path.c_str(), &s) == 0 ? s.st_size : 0;
}

void fill_table(SqliteFile& file, const DataTable& table, const TableRows& all) {
  const bool ids = has_string_ids(table);
  SqliteRows rows(file, std::string(table.name) + (ids ? "_rows" : ""), table.columns.size());
  for (const RowSource& from : all.sources()) {
    const size_t count = table.rows(from);
    for (size_t row = 0; row < count && !file.failed(); ++row) {
      for (size_t i = 0; i < table.columns.size(); ++i) {
        const Datum cell = table.columns[i].at(from, row, i);
        rows.put(ids && cell.kind() == Datum::Kind::kText ? Datum(file.string(cell.text())) : cell);
      }
      rows.end_row();
    }
  }
}

Status write_file(const RunRows& run, const std::string& path, std::atomic<int64_t>* written) {
  auto file = SqliteFile::open(path);
  if (!file) return file.error();
  for (const DataTable* table : data_tables()) {
    make_table(**file, *table);
    if (table->of_run) fill_table(**file, *table, TableRows(run, *table));
  }
  for (const DataView& view : data_views())
    (*file)->run("CREATE VIEW " + std::string(view.name) + " AS " + std::string(view.select));
  auto nsight = std::make_unique<NsightTables>(**file, run);
  const Status filled = run.each_rank([&](const RankRows& rank) {
    for (const DataTable* table : data_tables())
      if (!table->of_run) fill_table(**file, *table, TableRows(run, *table, rank));
    nsight->add(rank);
    if (written != nullptr) *written = file_bytes(path);
  });
  if (!filled) return filled;
  nsight.reset();
  auto status = (*file)->finish();
  if (written != nullptr) *written = file_bytes(path);
  return status;
}

}  // namespace

extern const Exporter kSqliteExport{
    .name = "sqlite",
    .summary = "every table and view as an SQLite file, with the tables of Nsight Systems' exports (docs/sqlite.md)",
    .reader = "sqlite3, Python's sqlite3, DuckDB",
    .extension = ".sqlite",
    .write_file = write_file,
};

}  // namespace profgpu
