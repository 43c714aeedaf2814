// SQLite exports of Nsight Systems, of every version: its tables are read side by side in pieces, each by a thread with
// a connection of its own.
//
// Budget: 1.6 times what SQLite takes to select the same columns; resident memory is the rows.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "base/text.h"

#include "trace/import/nsight_file.h"
#include "trace/import/nsight_payloads.h"
#include "trace/import/nsight_ranges.h"
#include "trace/import/nsight_rows.h"
#include "trace/import/nsight_samples.h"
#include "trace/import/recording_rows.h"
#include "trace/import/said_issues.h"

namespace profgpu {
namespace {

constexpr int64_t kPieceRows = 1 << 18, kMaxPieces = 4096;

/// Rows of a table that are read in one go.
struct TablePiece {
  const NsightTable* table = nullptr;
  RowNumbers rows;
  uint32_t order = 0;
};

std::vector<TablePiece> table_pieces(SqliteSource& source) {
  std::vector<TablePiece> pieces;
  const auto add = [&](const NsightTable& table, RowNumbers rows) {
    pieces.push_back({&table, rows, static_cast<uint32_t>(pieces.size())});
  };
  for (const NsightTable& table : nsight_tables()) {
    if (!source.has(table.name)) continue;
    const int64_t last = source.last_row(table.name);
    // A row takes a byte at least: higher numbers are not what they seem.
    if (last > source.file_bytes() || last < 2 * kPieceRows) {
      add(table, {});
      continue;
    }
    const int64_t size = std::max(kPieceRows, last / kMaxPieces);
    int64_t first = INT64_MIN;
    for (int64_t end = size; end < last; end += size) {
      add(table, {first, end});
      first = end + 1;
    }
    add(table, {first, INT64_MAX});
  }
  return pieces;
}

/// Reads one rank's rows of a file.
class NsightReader {
 public:
  NsightReader(SqliteSource source, const ImportOptions& options)
      : source_(std::move(source)), options_(options), scope_(scope_of(source_, options, rank_)), names_(source_),
        payloads_(source_), shared_{names_, scope_, payloads_.empty() ? nullptr : &payloads_, nsight_end_ns(source_)} {}

  Result<Trace> read() {
    const int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
    const int threads = std::clamp(options_.threads > 0 ? options_.threads : cores, 1, 8);
    describe();
    read_tables(threads);
    finish_nsight_ranges(source_, scope_, parts_);
    Shard& shard = parts_.front().shard();
    read_syncs(shard);
    name_threads(shard);
    if (!options_.merged || scope_.has_rest()) read_samples(shard);
    add_nsight_scheduling(source_, scope_, shard);
    const IssueCounts counts = builder_.issue_counts();
    Trace trace = builder_.finish(threads);
    trace.samples = std::move(samples_);
    link_nsight_graphs(parts_, trace);
    add_memory_totals(trace);
    add_issues(trace, counts);
    std::vector<TraceIssue> cut;
    source_.add_issues(cut);
    const bool empty = trace.host.size() + trace.activity.size() == 0 && trace.samples.empty();
    if (empty && !cut.empty()) return Error{cut.front().text, "export or copy it again"};
    if (empty)
      return Error{source_.path() + ": an export of Nsight Systems without any events that profgpu reads",
                   "record again with nsys profile --trace=cuda,nvtx,osrt"};
    return trace;
  }

 private:
  // `rank`: as the file has it.
  static NsightScope scope_of(SqliteSource& source, const ImportOptions& options, std::optional<int>& rank) {
    if (options.merged) rank = options.merged->rank;
    if (options.merged && options.merged->process != 0) {
      const MergedRank& merged = *options.merged;
      return NsightScope::of(merged, merged.first ? nsight_helpers(source, merged.processes) : std::vector<int64_t>());
    }
    const auto& [ranks, helpers] = nsight_processes(source);
    if (ranks.size() != 1) return NsightScope::whole(0, helpers);
    if (!rank) rank = ranks.front().rank;
    return NsightScope::whole(ranks.front().process, helpers);
  }

  void describe();
  void read_tables(int threads);
  void read_piece(SqliteSource& source, const TablePiece& piece, NsightRecords& rows);
  void read_syncs(Shard& shard);
  void read_samples(Shard& shard);
  void name_threads(Shard& shard);
  void add_issues(Trace& trace, const IssueCounts& counts);
  void add_graph_issues(Trace& trace);
  void report(std::string_view table, const SqliteScan& scan) {
    if (!scan.problem().empty()) problems_.try_emplace(std::string(table), scan.problem());
  }

  SqliteSource source_;
  const ImportOptions& options_;
  std::optional<int> rank_;
  NsightScope scope_;
  NsightNames names_;
  NsightPayloads payloads_;
  NsightShared shared_;
  TraceBuilder builder_;
  std::deque<NsightRecords> parts_;
  std::vector<NsightDevice> devices_;
  std::map<std::string, std::string> problems_;   // by table
  SampleLog samples_;
  bool scheduled_ = false;
};

void NsightReader::describe() {
  Trace& header = builder_.header();
  header.recorder = Recorder::kNsight;
  header.base_time_ns = nsight_start_ns(source_);
  header.host_name = nsight_host(source_);
  header.metadata = nsight_metadata(source_);
  devices_ = nsight_devices(source_, scope_);
  std::set<int32_t> taken;
  for (const NsightDevice& d : devices_)
    if (d.of_process && taken.insert(d.properties.id).second) header.devices.push_back(d.properties);
  header.distributed.rank = rank_;
  if (options_.merged && !options_.merged->numbered && options_.merged->first)
    header.issues.push_back({TraceIssueKind::kNote, options_.merged->ranks,
                             fmt::format("processes with device work in the file: {}; it does not say which rank each "
                                         "is, so they are numbered by device and process id",
                                         options_.merged->ranks)});
}

void NsightReader::read_tables(int threads) {
  const std::vector<TablePiece> pieces = table_pieces(source_);
  threads = std::clamp(threads, 1, static_cast<int>(std::max<size_t>(pieces.size(), 1)));
  for (int i = 0; i < threads; ++i) parts_.emplace_back(shared_, builder_.shard());
  std::atomic<size_t> next = 0;
  std::mutex failing;
  const auto work = [&](size_t part) {
    SqliteSource* own = &source_;
    Result<SqliteSource> again = part > 0 ? source_.again() : Result<SqliteSource>(Error{});
    if (part > 0 && !again) return;   // the others do it all
    if (part > 0) own = &*again;
    for (size_t i = next++; i < pieces.size(); i = next++) {
      if (part == 0 && options_.progress)
        options_.progress(source_.file_bytes() / static_cast<int64_t>(pieces.size()) * static_cast<int64_t>(i),
                          source_.file_bytes());
      const NsightTable& table = *pieces[i].table;
      parts_[part].shard().begin_piece(pieces[i].order);
      // Rows that state no process are the first rank's.
      const std::string rows_of_scope = own->has(table.name, table.owner) ? scope_.condition(table.owner)
                                        : scope_.has_rest()               ? std::string()
                                                                          : std::string("0");
      SqliteScan scan(*own, table.name, table.columns, rows_of_scope, pieces[i].rows);
      while (scan.next()) (parts_[part].*table.add)(scan);
      const std::lock_guard lock(failing);
      report(table.name, scan);
    }
  };
  std::vector<std::thread> others;
  for (int i = 1; i < threads; ++i) others.emplace_back(work, static_cast<size_t>(i));
  work(0);
  for (std::thread& t : others) t.join();
  // What follows in the first shard is behind all that was read.
  parts_.front().shard().begin_piece(static_cast<uint32_t>(pieces.size()));
}

// They name a context, and their device is not always that of the context: it is known from what ran there.
void NsightReader::read_syncs(Shard& shard) {
  enum : int { kStart, kEnd, kDevice, kContext, kStream, kCorrelation, kType };
  std::map<int64_t, std::set<int32_t>> devices;
  for (NsightRecords& part : parts_)
    for (const Queue& q : part.shard().queues) devices[q.context].insert(q.device);
  constexpr std::string_view kTable = "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION";
  SqliteScan scan(source_, kTable, {"start", "end", "deviceId", "contextId", "streamId", "correlationId", "syncType"},
                  scope_.condition("globalPid"));
  while (scan.next()) {
    ++shard.events;
    const auto start = scan.integer(kStart), end = scan.integer(kEnd);
    if (!start || !end || *start <= -INT64_MAX / 4 || *end >= INT64_MAX / 4 || *end < *start ||
        *end - *start >= kLongestNs) {
      ++shard.issues[!start || !end ? TraceIssueKind::kDamaged : TraceIssueKind::kOutOfRange];
      continue;
    }
    const auto known = devices.find(scan.integer(kContext, -1));
    const int64_t device = known != devices.end() && known->second.size() == 1 ? *known->second.begin()
                                                                                : scan.integer(kDevice, 0);
    constexpr int64_t kAllStreams = 0xFFFFFFFF;
    const int64_t stream = scan.integer(kStream, -1);
    const int64_t correlation = scan.integer(kCorrelation, 0);
    const int type = static_cast<int>(std::clamp<int64_t>(scan.integer(kType, 0), 0, 99));
    shard.syncs.push_back({*start, *end - *start, shard.strings.intern(sync_name(type)),
                           static_cast<int32_t>(std::clamp<int64_t>(device, 0, INT32_MAX)),
                           stream == kAllStreams ? -1 : stream,
                           correlation > 0 ? static_cast<uint32_t>(correlation) : 0});
  }
  report(kTable, scan);
}

void NsightReader::read_samples(Shard& shard) {
  samples_ = nsight_samples(source_, devices_, builder_.header().host_name, builder_.header().base_time_ns, shard);
}

void NsightReader::name_threads(Shard& shard) {
  scheduled_ = source_.last_row("SCHED_EVENTS") > 0;
  SqliteScan scan(source_, "ThreadNames", {"globalTid", "nameId"}, scope_.condition("globalTid"));
  while (scan.next()) {
    const auto thread = scan.integer(0), name = scan.integer(1);
    if (!thread || !name) continue;
    std::string text(names_[*name]);
    replace_invalid_utf8(text);
    if (!text.empty())
      shard.name_thread(std::to_string(nsight_pid(*thread)), std::to_string(nsight_tid(*thread)), text);
  }
}

void NsightReader::add_graph_issues(Trace& trace) {
  int64_t graphs = 0, untimed = 0, graph_ns = 0, all_ns = 0, cpu_faults = 0, gpu_faults = 0;
  for (const NsightRecords& part : parts_) {
    graphs += part.graphs, untimed += part.untimed_graphs, graph_ns += part.graph_ns;
    cpu_faults += part.cpu_faults, gpu_faults += part.gpu_faults;
  }
  for (const int64_t duration : trace.activity.duration_ns) all_ns += duration;
  if (graphs > 0)
    trace.issues.push_back(
        {TraceIssueKind::kOther, graphs,
         fmt::format("launches of CUDA graphs that were recorded whole: {} ({:.1f} % of the time of all device work); "
                     "they count as busy, and their kernels are hidden: nsys profile --cuda-graph-trace=node shows them",
                     graphs, 100 * static_cast<double>(graph_ns) / static_cast<double>(std::max<int64_t>(all_ns, 1)))});
  int64_t unclosed = 0;
  std::string first;
  for (NsightRecords& part : parts_) {
    unclosed += part.unclosed;
    if (first.empty() && part.unclosed > 0) first = part.first_unclosed_name;
  }
  if (unclosed > 0)
    trace.issues.push_back({TraceIssueKind::kNote, unclosed,
                            fmt::format("NVTX ranges that were never closed: {} (\"{}\"); they last until the recording's "
                                        "end",
                                        unclosed, first)});
  if (untimed > 0)
    trace.issues.push_back({TraceIssueKind::kOther, untimed,
                            fmt::format("launches of CUDA graphs without times: {}; the device may have been busy with "
                                        "them where it seems idle (nsys profile --cuda-graph-trace=node)",
                                        untimed)});
  if (cpu_faults + gpu_faults > 0)
    trace.issues.push_back({TraceIssueKind::kNote, cpu_faults + gpu_faults,
                            fmt::format("page faults of unified memory: {} of the GPU, {} of the CPU (table counters)",
                                        gpu_faults, cpu_faults)});
}

void NsightReader::add_issues(Trace& trace, const IssueCounts& counts) {
  add_nsight_issues(source_, scope_, trace.issues);
  if (!names_.problem().empty()) problems_.try_emplace("StringIds", names_.problem());
  for (const auto& [table, problem] : problems_)
    trace.issues.push_back({TraceIssueKind::kDamaged, 1,
                            fmt::format("table {} could not be read to its end: {}", table, problem)});
  add_graph_issues(trace);
  if (scheduled_ && !trace.thread_samples.empty())
    trace.issues.push_back({TraceIssueKind::kNote, 1,
                            "Nsight Systems does not tell whether a thread without a core was blocked or could have "
                            "run: all of that time counts as blocked"});
  add_counts(trace, counts,
             {{TraceIssueKind::kDamaged, "rows left out because a number in them is missing or no number: {}"},
              {TraceIssueKind::kNegativeDuration, "records left out because their duration is negative: {}"},
              {TraceIssueKind::kOutOfRange, "records left out because a time or device number is out of range: {}"},
              {TraceIssueKind::kInvalidText,
               "names that are not valid UTF-8: {}; the bytes that are not are shown as \uFFFD"},
              {TraceIssueKind::kUnknownRows,
               "NVTX events and GPU metrics left out because profgpu does not know their kind: {}"}});
}

// "3 tables: users, posts, tags".
std::string tables_text(const SqliteSource& source) {
  std::string names;
  size_t count = 0;
  for (const auto& [name, columns] : source.tables())
    if (count++ < 5) names += (names.empty() ? "" : ", ") + name.substr(0, 60);
  if (count == 0) return "no tables that can be read";
  return fmt::format("tables: {}{}", names, count > 5 ? fmt::format(" and {} more", count - 5) : "");
}

bool has_nsight_tables(const SqliteSource& source) {
  return source.has("StringIds") ||
         std::any_of(nsight_tables().begin(), nsight_tables().end(),
                     [&](const NsightTable& t) { return source.has(t.name); });
}

}  // namespace

Result<Trace> read_nsight_export(SqliteSource source, const ImportOptions& options) {
  if (has_nsight_tables(source)) return NsightReader(std::move(source), options).read();
  std::vector<TraceIssue> issues;
  source.add_issues(issues);
  if (!issues.empty()) return Error{issues.front().text, "export or copy it again"};
  return Error{source.path() + ": an SQLite database, but none that profgpu knows (" + tables_text(source) + ")",
               "`profgpu formats` lists what it reads"};
}

std::vector<MergedRank> nsight_ranks_of_export(SqliteSource& source) {
  const std::vector<NsightRank> found = nsight_processes(source).ranks;
  if (found.size() < 2) return {};
  std::vector<MergedRank> ranks;
  std::vector<int64_t> processes;
  for (const NsightRank& r : found) processes.push_back(r.process);
  for (size_t i = 0; i < found.size(); ++i) {
    MergedRank& rank = ranks.emplace_back();
    rank.label = fmt::format("process {}", nsight_pid(found[i].process));
    rank.rank = found[i].rank.value_or(static_cast<int>(i));
    rank.ranks = static_cast<int>(found.size());
    rank.first = i == 0;
    rank.process = found[i].process;
    rank.processes = processes;
    rank.numbered = found[i].rank.has_value();
  }
  return ranks;
}

namespace {

Result<Trace> read_nsight(const std::string& path, const ImportOptions& options) {
  auto source = SqliteSource::open(path);
  if (!source) return source.error();
  return read_nsight_export(*std::move(source), options);
}

std::vector<MergedRank> ranks_of_file(const std::string& path) {
  auto source = SqliteSource::open(path);
  return source ? nsight_ranks_of_export(*source) : std::vector<MergedRank>();
}

}  // namespace

extern const Importer kNsight = {"nsight",
                                 "Nsight Systems export",
                                 "Nsight Systems' SQLite export (nsys export --type sqlite), every version",
                                 "report1.sqlite, report1.sqlite.zst",
                                 is_sqlite,
                                 read_nsight,
                                 [](std::string_view) { return Peek{{}, true}; },
                                 ranks_of_file,
                                 nullptr};

}  // namespace profgpu
