#include "trace/import/nsight_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "base/decimal.h"
#include "base/secrets.h"
#include "base/text.h"
#include "trace/import/nsight_rows.h"

namespace profgpu {
namespace {

using std::string_view;

constexpr int64_t kMaxDenseGap = 1 << 20;

constexpr string_view kActivityTables[] = {"CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_MEMCPY",
                                           "CUPTI_ACTIVITY_KIND_MEMSET", "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"};

int32_t small_number(std::optional<int64_t> value) {
  return value && *value >= 0 && *value <= INT32_MAX ? static_cast<int32_t>(*value) : 0;
}

// Processes that used CUDA, by their pids, where the export lists contexts or streams; they are few rows.
std::set<int64_t> pids_with_contexts(SqliteSource& source) {
  std::set<int64_t> pids;
  for (const auto& [table, column] : {std::pair("TARGET_INFO_CUDA_CONTEXT_INFO", "processId"),
                                      std::pair("TARGET_INFO_CUDA_STREAM", "processId"),
                                      std::pair("TARGET_INFO_CUDA_DEVICE", "pid")}) {
    SqliteScan scan(source, table, {column});
    while (scan.next())
      if (const auto pid = scan.integer(0)) pids.insert(*pid);
  }
  return pids;
}

struct Found {
  int64_t device = std::numeric_limits<int64_t>::max();   // the first that it uses
  bool kernels = false;
  std::optional<int> rank;
};

void read_mpi_ranks(SqliteSource& source, std::map<int64_t, Found>& processes) {
  SqliteScan scan(source, "MPI_RANKS", {"globalTid", "rank"});
  while (scan.next()) {
    const auto thread = scan.integer(0), rank = scan.integer(1);
    if (!thread || !rank || *rank < 0 || *rank > 1'000'000) continue;
    if (const auto at = processes.find(nsight_process(*thread)); at != processes.end())
      at->second.rank = static_cast<int>(*rank);
  }
}

}  // namespace

NsightNames::NsightNames(SqliteSource& source) {
  const int64_t last = source.last_row("StringIds");
  const bool dense = last < source.file_bytes();   // a text takes a byte at least
  SqliteScan scan(source, "StringIds", {"id", "value"});
  while (scan.next()) {
    const auto id = scan.integer(0);
    if (!id) continue;
    const StringId text = texts_.intern(scan.text(1));
    if (!dense || *id < 0 || *id > last + kMaxDenseGap) {
      others_[*id] = text;
      continue;
    }
    if (static_cast<size_t>(*id) >= dense_.size()) dense_.resize(static_cast<size_t>(*id) + 1);
    dense_[static_cast<size_t>(*id)] = text;
  }
  problem_ = scan.problem();
}

StringId NsightNames::find(int64_t id) const {
  if (id >= 0 && static_cast<size_t>(id) < dense_.size()) return dense_[static_cast<size_t>(id)];
  const auto at = others_.find(id);
  return at != others_.end() ? at->second : StringId();
}

std::string NsightScope::condition(string_view column) const {
  if (!rest_) return fmt::format("(\"{}\" & -16777216) = {}", column, main_);
  std::string others;
  for (const int64_t process : ranks_)
    if (process != main_) append_listed(others, std::to_string(process));
  if (column == "globalPid")
    for (const int64_t process : helpers_) append_listed(others, std::to_string(process));
  if (others.empty()) return {};
  return fmt::format("\"{0}\" IS NULL OR (\"{0}\" & -16777216) NOT IN ({1})", column, others);
}

bool NsightScope::holds(int64_t process) const {
  if (ranks_.empty() || process == main_) return true;
  return rest_ && std::find(ranks_.begin(), ranks_.end(), process) == ranks_.end();
}

namespace {

// Processes that used a device; of a damaged page there may be one without a number.
std::map<int64_t, Found> processes_of_devices(SqliteSource& source) {
  std::map<int64_t, Found> processes;
  const bool several = pids_with_contexts(source).size() != 1;
  for (const string_view table : kActivityTables) {
    // One row tells it where only one process has used CUDA.
    SqliteScan scan(source, table, {"globalPid", "deviceId"});
    std::pair<std::optional<int64_t>, std::optional<int64_t>> last;
    while (scan.next()) {
      const std::pair row(scan.integer(0), scan.integer(1));
      if (row == last) continue;   // rows come in runs
      last = row;
      if (!row.first || nsight_process(*row.first) == 0) continue;
      Found& found = processes[nsight_process(*row.first)];
      found.kernels = found.kernels || !table.starts_with("CUPTI_ACTIVITY_KIND_MEM");
      found.device = std::min(found.device, row.second.value_or(found.device));
      if (!several) break;
    }
  }
  return processes;
}

}  // namespace

NsightProcesses nsight_processes(SqliteSource& source) {
  std::map<int64_t, Found> processes = processes_of_devices(source);
  NsightProcesses all;
  if (std::ranges::any_of(processes, [](const auto& p) { return p.second.kernels; }))
    std::erase_if(processes, [&](const auto& p) {
      if (!p.second.kernels) all.helpers.push_back(p.first);
      return !p.second.kernels;
    });
  read_mpi_ranks(source, processes);
  std::vector<std::pair<Found, int64_t>> order;
  for (const auto& [process, found] : processes) order.emplace_back(found, process);
  std::set<int> distinct;
  for (const auto& [found, process] : order) distinct.insert(found.rank.value_or(-1));
  const bool numbered = distinct.size() == order.size() && !distinct.contains(-1);
  std::sort(order.begin(), order.end(), [&](const auto& a, const auto& b) {
    return std::tuple(numbered ? a.first.rank.value_or(0) : 0, a.first.device, a.second) <
           std::tuple(numbered ? b.first.rank.value_or(0) : 0, b.first.device, b.second);
  });
  for (const auto& [found, process] : order) all.ranks.push_back({process, numbered ? found.rank : std::nullopt});
  return all;
}

std::vector<int64_t> nsight_helpers(SqliteSource& source, const std::vector<int64_t>& ranks) {
  std::string list;
  for (const int64_t process : ranks) append_listed(list, std::to_string(process));
  std::set<int64_t> helpers;
  for (const string_view table : {"CUPTI_ACTIVITY_KIND_MEMCPY", "CUPTI_ACTIVITY_KIND_MEMSET"}) {
    if (!source.has(table, "globalPid")) continue;
    SqliteScan scan(source, table, {"globalPid"}, fmt::format("(\"globalPid\" & -16777216) NOT IN ({})", list));
    while (scan.next())
      if (const int64_t process = nsight_process(scan.integer(0, 0)); process != 0) helpers.insert(process);
  }
  return {helpers.begin(), helpers.end()};
}

std::vector<NsightDevice> nsight_devices(SqliteSource& source, const NsightScope& scope) {
  enum : int { kId, kName, kBus, kMemory, kSms, kMetrics, kUuid, kCuda, kMajor, kMinor };
  std::map<int64_t, int64_t> by_gpu;   // CUDA's number in the main process
  SqliteScan cuda(source, "TARGET_INFO_CUDA_DEVICE", {"gpuId", "cudaId", "pid"});
  while (cuda.next()) {
    const auto gpu = cuda.integer(0), number = cuda.integer(1), pid = cuda.integer(2);
    if (gpu && number && (!pid || scope.main() == 0 || *pid == nsight_pid(scope.main()))) by_gpu[*gpu] = *number;
  }
  std::vector<NsightDevice> devices;
  SqliteScan scan(source, "TARGET_INFO_GPU",
                  {"id", "name", "busLocation", "totalMemory", "smCount", "pwGpuId", "uuid", "cuDevice", "computeMajor",
                   "computeMinor"});
  while (scan.next()) {
    NsightDevice& d = devices.emplace_back();
    const int64_t id = scan.integer(kId, static_cast<int64_t>(devices.size()) - 1);
    d.index = small_number(id);
    d.metrics_id = scan.integer(kMetrics, id);
    const auto known = by_gpu.find(id);
    d.of_process = by_gpu.empty() || known != by_gpu.end();
    d.properties.id = small_number(known != by_gpu.end() ? known->second : scan.integer(kCuda, id));
    d.properties.name = scan.text(kName);
    d.properties.memory_bytes = std::max<int64_t>(scan.integer(kMemory, 0), 0);
    d.properties.multiprocessors = small_number(scan.integer(kSms));
    d.properties.compute_major = small_number(scan.integer(kMajor));
    d.properties.compute_minor = small_number(scan.integer(kMinor));
    d.bus = lower_case(scan.text(kBus));
    if (const string_view uuid = scan.text(kUuid); !uuid.empty())
      d.uuid = (uuid.starts_with("GPU-") ? "" : "GPU-") + std::string(uuid);
    d.properties.uuid = d.uuid;
    if (known != by_gpu.end()) d.properties.host_index = d.index;
    if (devices.size() >= 1024) break;
  }
  return devices;
}

int64_t nsight_start_ns(SqliteSource& source) {
  SqliteScan scan(source, "TARGET_INFO_SESSION_START_TIME", {"utcEpochNs"});
  const int64_t start = scan.next() ? scan.integer(0, 0) : 0;
  return start >= 0 && start < INT64_MAX / 4 ? start : 0;
}

int64_t nsight_end_ns(SqliteSource& source) {
  SqliteScan scan(source, "ANALYSIS_DETAILS", {"duration"});
  return scan.next() ? scan.integer(0, -1) : -1;
}

std::string nsight_host(SqliteSource& source) {
  SqliteScan scan(source, "TARGET_INFO_SYSTEM_ENV", {"value"}, "name = 'Hostname'");
  return scan.next() ? std::string(scan.text(0).substr(0, 256)) : std::string();
}

namespace {

// What was recorded, with its arguments; secrets among them are masked.
std::string command_of(SqliteSource& source) {
  constexpr string_view kArgument = "PROCESS_0:ARGUMENT_";
  constexpr size_t kLongest = 200;
  std::string command;
  std::map<int64_t, std::string> arguments;
  SqliteScan scan(source, "META_DATA_CAPTURE", {"name", "value"});
  while (scan.next() && arguments.size() < 1000) {
    const string_view name = scan.text(0);
    if (name == "PROCESS_0:COMMAND") command = scan.text(1).substr(0, kLongest);
    if (!name.starts_with(kArgument)) continue;
    if (const auto at = whole_number(name.substr(kArgument.size()))) arguments[*at] = scan.text(1).substr(0, kLongest);
  }
  if (command.empty()) return command;
  for (const auto& [at, argument] : arguments) command += " " + argument;
  command = masked_secrets(command);
  replace_invalid_utf8(command);
  return command.size() > kLongest ? std::string() : command;
}

}  // namespace

std::vector<std::pair<std::string, std::string>> nsight_metadata(SqliteSource& source) {
  std::vector<std::pair<std::string, std::string>> all;
  const auto read = [&](string_view table, std::initializer_list<std::pair<string_view, string_view>> keys) {
    SqliteScan scan(source, table, {"name", "value"});
    while (scan.next())
      for (const auto& [key, as] : keys)
        if (scan.text(0) == key) all.emplace_back(as, scan.text(1).substr(0, 200));
  };
  for (const string_view table : {"META_DATA_EXPORT", "EXPORT_META_DATA"})
    read(table, {{"EXPORT_PRODUCT_VERSION", "nsight_systems_version"}, {"EXPORT_SCHEMA_VERSION", "schema_version"}});
  read("META_DATA_CAPTURE", {{"CUDA_GRAPH_TRACE_OPTIONS:MODE", "cuda_graph_trace"},
                             {"PROCESS_0:CUDA_GRAPH_TRACE_OPTIONS:MODE", "cuda_graph_trace"}});
  if (std::string command = command_of(source); !command.empty()) all.emplace_back("command", std::move(command));
  read("TARGET_INFO_SYSTEM_ENV", {{"NvDriverVersion", "driver_version"}, {"CudaDriverVersion", "cuda_driver_version"}});
  return all;
}

// What the recording's diagnostics and the schema leave to say.

namespace {

constexpr int64_t kWarning = 2, kError = 3;      // ENUM_DIAGNOSTIC_SEVERITY_LEVEL
constexpr size_t kMaxDiagnostics = 5, kMaxTables = 8;
constexpr int64_t kKnownSchema = 3;              // the newest major version of 2026

// Read, or without events.
bool is_known_table(string_view name) {
  constexpr string_view kBeginnings[] = {"ENUM_", "META_DATA_", "TARGET_INFO_", "EXPORT_", "ANALYSIS_", "NVTX_PAYLOAD_",
                                         "MPI_", "UCP_", "OPENACC_"};
  constexpr string_view kNames[] = {"StringIds",
                                    "ProcessStreams",
                                    "PROCESSES",
                                    "ThreadNames",
                                    "DIAGNOSTIC_EVENT",
                                    "OSRT_ARGUMENTS",
                                    "NVTX_EVENTS",
                                    "OSRT_API",
                                    "PROFILER_OVERHEAD",
                                    "SCHED_EVENTS",
                                    "CUDNN_EVENTS",
                                    "CUBLAS_EVENTS",
                                    "GPU_METRICS",
                                    "CUDA_GRAPH_EVENTS",
                                    "CUDA_GRAPH_NODE_EVENTS",
                                    "CUDA_GPU_MEMORY_USAGE_EVENTS",
                                    "CUDA_UM_CPU_PAGE_FAULT_EVENTS",
                                    "CUDA_UM_GPU_PAGE_FAULT_EVENTS",
                                    "CUPTI_ACTIVITY_KIND_RUNTIME",
                                    "CUPTI_ACTIVITY_KIND_OVERHEAD",
                                    "CUPTI_ACTIVITY_KIND_CUDA_EVENT",
                                    "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION"};
  return starts_with_any(name, kBeginnings) || is_any_of(name, kNames) || is_any_of(name, kActivityTables) ||
         name.ends_with("CALLCHAINS");
}

// Threads that another profiler's file would have no rows of say the same again and again.
bool is_worth_saying(string_view text, int64_t severity) {
  if (severity >= kError) return true;
  constexpr string_view kCommon[] = {"Does the process use", "might have not been started correctly",
                                     "perf event paranoid", "Scheduling information is absent", "OpenGL", "Vulkan"};
  return !contains_any(text, kCommon);
}

std::string one_line(string_view text) {
  constexpr size_t kLongest = 300;
  std::string line;
  for (const char c : text.substr(0, kLongest)) line += static_cast<unsigned char>(c) < ' ' ? ' ' : c;
  if (text.size() > kLongest) line += "…";
  return masked_secrets(line);
}

void add_diagnostics(SqliteSource& source, const NsightScope& scope, std::vector<TraceIssue>& issues) {
  std::map<std::pair<int64_t, std::string>, int64_t> said;   // errors first
  SqliteScan scan(source, "DIAGNOSTIC_EVENT", {"severity", "text", "globalPid"});
  while (scan.next()) {
    const int64_t severity = scan.integer(0, 0), process = scan.integer(2, 0);
    if ((severity != kWarning && severity != kError) || !is_worth_saying(scan.text(1), severity)) continue;
    if (process != 0 && process != scope.main() && !(scope.has_rest() && scope.holds(process))) continue;
    ++said[{-severity, one_line(scan.text(1))}];
    if (said.size() > 1000) break;
  }
  size_t count = 0;
  for (const auto& [what, times] : said)
    if (count++ < kMaxDiagnostics)
      issues.push_back({TraceIssueKind::kOther, times, "Nsight Systems reports: " + what.second});
  if (said.size() > kMaxDiagnostics)
    issues.push_back({TraceIssueKind::kOther, static_cast<int64_t>(said.size() - kMaxDiagnostics),
                      "more warnings of Nsight Systems stand in the file's table DIAGNOSTIC_EVENT"});
}

void add_unread_tables(SqliteSource& source, std::vector<TraceIssue>& issues) {
  int64_t unread = 0, all = 0;
  std::string names;
  size_t tables = 0;
  for (const auto& [name, columns] : source.tables()) {
    if (!source.has(name, "start") && !source.has(name, "timestamp")) continue;
    const int64_t rows = source.last_row(name);
    all = all > INT64_MAX / 2 ? all : all + std::min(rows, INT64_MAX / 2);
    if (is_known_table(name) || rows == 0) continue;
    unread = std::min(unread + std::min(rows, INT64_MAX / 2), INT64_MAX / 2);
    if (++tables <= kMaxTables) append_listed(names, fmt::format("{} ({} rows)", one_line(name), rows));
  }
  if (tables > kMaxTables) names += fmt::format(" and {} more", tables - kMaxTables);
  if (unread > 0)
    issues.push_back({TraceIssueKind::kUnknownRows, unread,
                      fmt::format("tables that profgpu does not read: {}; {:.3g} % of the file's rows of events", names,
                                  100 * static_cast<double>(unread) / static_cast<double>(std::max<int64_t>(all, 1)))});
}

void add_helpers(const NsightScope& scope, std::vector<TraceIssue>& issues) {
  std::string pids;
  for (const int64_t process : scope.helpers()) append_listed(pids, std::to_string(nsight_pid(process)));
  if (!pids.empty())
    issues.push_back({TraceIssueKind::kNote, static_cast<int64_t>(scope.helpers().size()),
                      fmt::format("processes that copy, and launch no kernels, beside those that do: pid {}; their copies "
                                  "are left out",
                                  pids)});
}

/// A column that rows say little without, and what is made of rows that lack it.
struct NeededColumn {
  string_view column, without;
};
constexpr NeededColumn kNeeded[] = {{"start", "left out"},
                                    {"end", "left out"},
                                    {"deviceId", "read as if device 0 had run them all"},
                                    {"streamId", "read as if one stream had run them all"},
                                    {"correlationId", "read without their launching calls"},
                                    {"globalTid", "read as if one thread had made them all"},
                                    {"nameId", "read without their names"},
                                    {"textId", "read without their names"},
                                    {"copyKind", "read without their directions"},
                                    {"bytes", "read without their sizes"}};

// Older exports have texts in the place of their numbers.
bool has_texts(SqliteSource& source, string_view table, string_view column) {
  constexpr int kRows = 1000;
  if (!source.has(table, column)) return false;
  SqliteScan scan(source, table, {column});
  for (int i = 0; i < kRows && scan.next(); ++i)
    if (!scan.text(0).empty()) return true;
  return false;
}

bool is_needed(SqliteSource& source, const NsightTable& table, string_view column) {
  if (std::ranges::count(table.columns, column) == 0 || source.has(table.name, column)) return false;
  if (table.name == "NVTX_EVENTS" && column == "textId") return !has_texts(source, table.name, "text");
  if (contains(table.name, "OVERHEAD") && column == "nameId") return !source.has(table.name, "overheadType");
  const bool of_memory = table.name == "CUDA_GPU_MEMORY_USAGE_EVENTS" || table.name.starts_with("CUDA_UM_");
  return !of_memory || column == "start" || column == "bytes";
}

// Of a newer schema, whose columns have other names.
void add_missing_columns(SqliteSource& source, const NsightTable& table, int64_t all, std::vector<TraceIssue>& issues) {
  const int64_t rows = std::min(source.last_row(table.name), source.file_bytes());
  std::string missing;
  std::vector<string_view> without;
  const auto miss = [&](string_view column, string_view effect) {
    append_listed(missing, column);
    if (std::ranges::count(without, effect) == 0) without.push_back(effect);
  };
  for (const auto& [column, effect] : kNeeded)
    if (is_needed(source, table, column)) miss(column, effect);
  if (table.name == "CUPTI_ACTIVITY_KIND_KERNEL" && !source.has(table.name, "demangledName") &&
      !source.has(table.name, "shortName") && !source.has(table.name, "mangledName"))
    miss("demangledName", "read without their names");
  if (missing.empty() || rows == 0) return;
  const bool timed = without.front() != "left out";
  std::string effects(without.front());
  for (size_t i = 1; i < without.size() && timed; ++i) effects.append(", and ").append(without[i]);
  const double pct = 100 * static_cast<double>(rows) / static_cast<double>(std::max<int64_t>(all, rows));
  issues.push_back({timed ? TraceIssueKind::kOther : TraceIssueKind::kUnknownRows, rows,
                    fmt::format("table {} has no column {}, perhaps because its schema is newer: its {} rows ({:.3g} % of the "
                                "file's rows of events) are {}",
                                table.name, missing, format_count(rows), pct, effects)});
}

void add_missing_columns(SqliteSource& source, std::vector<TraceIssue>& issues) {
  int64_t all = 0;
  for (const auto& [name, columns] : source.tables())
    if (source.has(name, "start") || source.has(name, "timestamp"))
      all += std::min(source.last_row(name), source.file_bytes());
  std::vector<NsightTable> tables = nsight_tables();
  tables.push_back({"CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", "globalPid", {"start", "end"}, nullptr});
  for (const NsightTable& table : tables)
    if (source.has(table.name)) add_missing_columns(source, table, all, issues);
}

}  // namespace

void add_nsight_issues(SqliteSource& source, const NsightScope& scope, std::vector<TraceIssue>& issues) {
  source.add_issues(issues);
  add_diagnostics(source, scope, issues);
  if (!scope.has_rest()) return;   // said by the first rank
  add_helpers(scope, issues);
  add_missing_columns(source, issues);
  for (const string_view table : {"META_DATA_EXPORT", "EXPORT_META_DATA"}) {
    SqliteScan version(source, table, {"value"}, "name = 'EXPORT_SCHEMA_VERSION_MAJOR'");
    if (!version.next() || version.text(0).size() > 9 || !all_digits(version.text(0))) continue;
    if (const int64_t major = std::stol(std::string(version.text(0))); major > kKnownSchema)
      issues.push_back({TraceIssueKind::kOther, 1,
                        fmt::format("the export has schema version {}, and profgpu knows them up to {}: what changed in "
                                    "its tables may be missing here",
                                    major, kKnownSchema)});
  }
  std::string computed;
  for (const std::string& name : source.computed())
    if (is_known_table(name)) append_listed(computed, name);
  if (!computed.empty())
    issues.push_back({TraceIssueKind::kUnknownRows, static_cast<int64_t>(source.computed().size()),
                      "views and virtual tables instead of tables are not read: " + computed});
  add_unread_tables(source, issues);
}

}  // namespace profgpu
