// rocpd databases, which rocprofv3 writes from ROCm 7 on: SQLite, a set of tables a process, whose names end with the
// process's GUID. Views that lie over them are not asked: what they join is joined here.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/json_reader.h"
#include "base/text.h"
#include "trace/import/importer.h"
#include "trace/import/rocm_rows.h"
#include "trace/import/sqlite_source.h"

namespace profgpu {
namespace {

using std::string_view;

constexpr string_view kDispatches = "rocpd_kernel_dispatch", kRegions = "rocpd_region", kCopies = "rocpd_memory_copy",
                      kCounters = "rocpd_pmc_event";

// "" or "_GUID"; nullopt: another table.
std::optional<std::string> suffix_of(string_view table, string_view name) {
  if (!table.starts_with(name)) return std::nullopt;
  const string_view rest = table.substr(name.size());
  const bool plain =
      std::all_of(rest.begin(), rest.end(), [](char c) { return is_letter(c) || is_digit(c) || c == '_'; });
  if (!plain || rest.size() > 80 || (!rest.empty() && rest.front() != '_')) return std::nullopt;
  return std::string(rest);
}

/// Sets of tables of a file, by what their names end with.
std::vector<std::string> table_sets(const SqliteSource& source) {
  std::set<std::string> sets;
  for (const auto& [table, columns] : source.tables())
    for (const string_view name : {kDispatches, kRegions, kCopies})
      if (const auto suffix = suffix_of(table, name)) sets.insert(*suffix);
  return {sets.begin(), sets.end()};
}

/// Reads the tables of one set.
class RocpdReader {
 public:
  RocpdReader(SqliteSource& source, std::string suffix, RocmRows& rows)
      : source_(source), suffix_(std::move(suffix)), rows_(rows) {}

  void read() {
    read_ids();
    read_agents();
    read_dispatches();
    read_copies();
    read_regions();
    read_samples();
    read_counters();
    count_other_tables();
  }
  [[nodiscard]] const std::map<std::string, std::string>& problems() const { return problems_; }
  /// Records that are not read, by kind.
  [[nodiscard]] const std::map<std::string, int64_t>& unread() const { return unread_; }
  [[nodiscard]] bool has_counters() const { return has_counters_; }
  /// Ranges of the program's whose names are not there as text.
  [[nodiscard]] int64_t packed_texts() const { return packed_texts_; }
  [[nodiscard]] const std::string& host() const { return host_; }

 private:
  struct Event {
    int64_t stack = 0;
    bool marker = false;
    std::string message;   // of a marker
  };
  struct Track {
    int64_t process = 0, thread = 0, agent = 0, queue = 0, stream = 0;
  };
  struct Symbol {
    std::string name;
    int64_t registers = 0;
  };

  [[nodiscard]] std::string table(string_view name) const { return std::string(name) + suffix_; }
  template <class Each>
  void scan(string_view name, const std::vector<string_view>& columns, Each&& each) {
    const std::string whole = table(name);
    SqliteScan rows(source_, whole, columns);
    while (rows.next()) each(rows);
    if (!rows.problem().empty()) problems_.try_emplace(whole, rows.problem());
  }
  [[nodiscard]] string_view string(int64_t id) const {
    const auto at = strings_.find(id);
    return at != strings_.end() ? string_view(at->second) : string_view();
  }
  static int64_t found(const std::unordered_map<int64_t, int64_t>& ids, int64_t id) {
    const auto at = ids.find(id);
    return at != ids.end() ? at->second : id;
  }

  void read_ids() {
    scan("rocpd_string", {"id", "string"}, [&](const SqliteScan& r) { strings_[r.integer(0, -1)] = r.text(1); });
    scan("rocpd_info_node", {"hostname"}, [&](const SqliteScan& r) {
      if (host_.empty()) host_ = r.text(0).substr(0, 256);
    });
    const auto read_numbers = [&](string_view name, string_view value, std::unordered_map<int64_t, int64_t>& numbers) {
      scan(name, {"id", value}, [&](const SqliteScan& r) { numbers[r.integer(0, -1)] = r.integer(1, -1); });
    };
    read_numbers("rocpd_info_process", "pid", processes_);
    read_numbers("rocpd_info_thread", "tid", threads_);
    // Of schemas in which rows refer to a track and to two timestamps.
    read_numbers("rocpd_timestamp", "value", times_);
    scan("rocpd_track", {"id", "pid", "tid", "agent_id", "queue_id", "stream_id"}, [&](const SqliteScan& r) {
      tracks_[r.integer(0, -1)] = {r.integer(1, 0), r.integer(2, 0), r.integer(3, 0), r.integer(4, 0), r.integer(5, 0)};
    });
    // Of schemas in which categories are a table, else they are texts as others.
    const bool named = source_.has(table("rocpd_info_category"));
    std::unordered_map<int64_t, std::string> categories;
    scan("rocpd_info_category", {"id", "name"}, [&](const SqliteScan& r) { categories[r.integer(0, -1)] = r.text(1); });
    scan("rocpd_event", {"id", "category_id", "stack_id", "correlation_id", "extdata"}, [&](const SqliteScan& r) {
      Event& event = events_[r.integer(0, -1)];
      const int64_t category = r.integer(1, 0);
      event.stack = r.integer(2, 0) != 0 ? r.integer(2, 0) : r.integer(3, 0);
      event.marker = (named ? string_view(categories[category]) : string(category)).starts_with("MARKER");
      if (!event.marker) return;
      event.message = message_in(r.text(4));
      packed_texts_ += event.message.empty() && !r.text(4).empty() && !r.text(4).starts_with('{');
    });
    const std::vector<string_view> symbol = {"id", "display_name", "kernel_name", "arch_vgpr_count"};
    scan("rocpd_info_kernel_symbol", symbol, [&](const SqliteScan& r) {
      symbols_[r.integer(0, -1)] = {std::string(r.text(1).empty() ? r.text(2) : r.text(1)), r.integer(3, 0)};
    });
  }
  // {"message": "forward"}
  static std::string message_in(string_view json) {
    std::string text(json), message;
    JsonReader reader = JsonReader::over(text);
    read_object(reader, [&](string_view key) {
      return key == "message" && reader.peek() == '"' ? read_text(reader, message) : reader.skip_value();
    });
    return message;
  }
  void read_agents() {
    scan("rocpd_info_agent", {"id", "type", "product_name", "name"}, [&](const SqliteScan& r) {
      rows_.add_agent(r.integer(0, -1), r.text(1) == "GPU", r.text(2).empty() ? r.text(3) : r.text(2), 0);
    });
  }

  // Either the times themselves, or the numbers of timestamps.
  int64_t time(const SqliteScan& r, int direct, int by_number) const {
    if (const auto value = r.integer(direct)) return *value;
    const auto at = times_.find(r.integer(by_number, -1));
    return at != times_.end() ? at->second : -1;
  }
  const Event& event(int64_t id) const {
    static const Event none;
    const auto at = events_.find(id);
    return at != events_.end() ? at->second : none;
  }
  Track track(const SqliteScan& r, int by_number, const Track& direct) const {
    const auto at = tracks_.find(r.integer(by_number, -1));
    return at != tracks_.end() ? at->second : direct;
  }

  void read_dispatches() {
    enum : int { kKernel, kStart, kEnd, kStartId, kEndId, kTrack, kAgent, kQueue, kStream, kEvent, kLds, kGrid,
                 kWorkgroup = kGrid + 3 };
    const bool counted = source_.last_row(table(kCounters)) > 0;
    scan(kDispatches,
         {"kernel_id", "start", "end", "start_id", "end_id", "track_id", "agent_id", "queue_id", "stream_id",
          "event_id", "group_segment_size", "grid_size_x", "grid_size_y", "grid_size_z", "workgroup_size_x",
          "workgroup_size_y", "workgroup_size_z"},
         [&](const SqliteScan& r) {
           const Track on = track(r, kTrack, {0, 0, r.integer(kAgent, 0), r.integer(kQueue, 0), r.integer(kStream, 0)});
           RocmDispatch d;
           const auto symbol = symbols_.find(r.integer(kKernel, -1));
           if (symbol != symbols_.end()) d.kernel = symbol->second.name, d.registers = symbol->second.registers;
           d.start_ns = time(r, kStart, kStartId), d.end_ns = time(r, kEnd, kEndId);
           d.agent = on.agent, d.queue = on.stream != 0 ? on.stream : on.queue;
           d.correlation = event(r.integer(kEvent, -1)).stack;
           for (int i = 0; i < 3; ++i) {
             d.grid[i] = r.integer(kGrid + i, 0);
             d.workgroup[i] = r.integer(kWorkgroup + i, 0);
           }
           d.lds_bytes = r.integer(kLds, 0);
           rows_.add(d);
           if (counted) dispatched_[r.integer(kEvent, -1)] = {d.start_ns, d.agent};
         });
  }
  void read_copies() {
    enum : int { kName, kStart, kEnd, kStartId, kEndId, kTrack, kQueue, kStream, kEvent, kFrom, kTo, kSize };
    scan(kCopies,
         {"name_id", "start", "end", "start_id", "end_id", "track_id", "queue_id", "stream_id", "event_id",
          "src_agent_id", "dst_agent_id", "size"},
         [&](const SqliteScan& r) {
           const Track on = track(r, kTrack, {0, 0, 0, r.integer(kQueue, 0), r.integer(kStream, 0)});
           rows_.add(RocmCopy{string(r.integer(kName, -1)), time(r, kStart, kStartId), time(r, kEnd, kEndId),
                              r.integer(kFrom, -1), r.integer(kTo, -1), on.stream != 0 ? on.stream : on.queue,
                              event(r.integer(kEvent, -1)).stack, r.integer(kSize, -1)});
         });
  }
  void read_regions() {
    enum : int { kName, kStart, kEnd, kStartId, kEndId, kTrack, kProcess, kThread, kEvent };
    scan(kRegions,
         {"name_id", "start", "end", "start_id", "end_id", "track_id", "pid", "tid", "event_id"},
         [&](const SqliteScan& r) {
           const Track on = track(r, kTrack, {r.integer(kProcess, 0), r.integer(kThread, 0), 0, 0, 0});
           const Event& of = event(r.integer(kEvent, -1));
           RocmRange range{string(r.integer(kName, -1)), time(r, kStart, kStartId), time(r, kEnd, kEndId),
                           found(processes_, on.process), found(threads_, on.thread), of.stack};
           if (!of.marker) return rows_.add_call(range);
           if (!of.message.empty()) range.name = of.message;
           rows_.add_marker(range);
         });
  }

  // Instants that the program marked.
  void read_samples() {
    enum : int { kTrack, kTime, kTimeId, kEvent, kName };
    scan("rocpd_sample", {"track_id", "timestamp", "timestamp_id", "event_id", "name_id"}, [&](const SqliteScan& r) {
      const Event& of = event(r.integer(kEvent, -1));
      if (!of.marker) return void(++unread_["sample"]);
      const Track on = track(r, kTrack, {});
      const int64_t at = time(r, kTime, kTimeId);
      const string_view name = of.message.empty() ? string(r.integer(kName, -1)) : string_view(of.message);
      rows_.add_marker({name, at, at, found(processes_, on.process), found(threads_, on.thread), of.stack});
    });
  }

  // A dispatch has a row for each part of the device that counted.
  void read_counters() {
    constexpr size_t kMostCounters = 4'000'000;
    std::unordered_map<int64_t, std::string> names;
    scan("rocpd_info_pmc", {"id", "name", "symbol"}, [&](const SqliteScan& r) {
      names[r.integer(0, -1)] = r.text(1).empty() ? r.text(2) : r.text(1);
    });
    std::map<std::pair<int64_t, int64_t>, double> sums;   // by event and counter
    scan(kCounters, {"event_id", "pmc_id", "value"}, [&](const SqliteScan& r) {
      const std::pair key(r.integer(0, -1), r.integer(1, -1));
      const auto value = r.real(2);
      const bool kept = value && dispatched_.contains(key.first) && (sums.size() < kMostCounters || sums.contains(key));
      if (kept) sums[key] += *value;
      else ++unread_["pmc event"];
    });
    for (const auto& [key, value] : sums) {
      const auto& [start_ns, agent] = dispatched_[key.first];
      rows_.add_counter(names[key.second], value, start_ns, agent);
    }
    has_counters_ = !sums.empty();
  }

  // Tables that may be added, by what they hold.
  void count_other_tables() {
    constexpr string_view kBegin = "rocpd_";
    static const std::set<string_view> known = {"kernel_dispatch", "memory_copy", "region", "sample", "pmc_event", "string", "event",
                                                "track", "timestamp", "metadata", "arg", "call_stack", "line_info"};
    for (const auto& [name, columns] : source_.tables()) {
      if (!name.starts_with(kBegin) || !name.ends_with(suffix_)) continue;
      if (name.size() <= kBegin.size() + suffix_.size()) continue;
      std::string kind = name.substr(kBegin.size(), name.size() - kBegin.size() - suffix_.size());
      const bool whole = suffix_of(name, std::string(kBegin) + kind) == suffix_;
      if (!whole || known.contains(kind) || kind.starts_with("info_")) continue;
      std::ranges::replace(kind, '_', ' ');
      if (const int64_t rows = source_.last_row(name); rows > 0) unread_[kind] += std::min(rows, source_.file_bytes());
    }
  }

  SqliteSource& source_;
  std::string suffix_;
  RocmRows& rows_;
  std::unordered_map<int64_t, std::string> strings_;
  std::unordered_map<int64_t, int64_t> processes_, threads_, times_;
  std::unordered_map<int64_t, Track> tracks_;
  std::unordered_map<int64_t, Event> events_;
  std::unordered_map<int64_t, Symbol> symbols_;
  // By event, where there are counters: start, agent.
  std::unordered_map<int64_t, std::pair<int64_t, int64_t>> dispatched_;
  std::map<std::string, std::string> problems_;
  std::map<std::string, int64_t> unread_;
  int64_t packed_texts_ = 0;
  bool has_counters_ = false;
  std::string host_;
};

Result<Trace> read_rocpd(const std::string& path, const ImportOptions& options) {
  auto source = SqliteSource::open(path);
  if (!source) return source.error();
  const std::vector<std::string> sets = table_sets(*source);
  const auto which = options.merged ? static_cast<size_t>(std::max<int64_t>(options.merged->process, 0)) : 0;
  if (which >= sets.size() && source->has("rocpd_op") && source->has("rocpd_api"))
    return Error{path + ": a database of rocmProfileData, whose tables profgpu does not read",
                 "record with rocprofv3 --sys-trace"};
  if (which >= sets.size())
    return Error{path + ": a rocpd database without tables of kernels, calls or copies", "record again with rocprofv3"};
  TraceBuilder builder;
  builder.header().recorder = Recorder::kRocprof;
  RocmRows rows(builder.shard());
  RocpdReader reader(*source, sets[which], rows);
  reader.read();
  builder.header().host_name = reader.host();
  builder.header().devices = rows.devices();
  if (options.merged) builder.header().distributed.rank = options.merged->rank;
  const IssueCounts counts = builder.issue_counts();
  Trace trace = builder.finish(options.threads);
  if (trace.host.size() + trace.activity.size() == 0)
    return Error{path + ": a rocpd database without any events that profgpu reads",
                 "record again with rocprofv3 --sys-trace"};
  source->add_issues(trace.issues);
  for (const auto& [table, problem] : reader.problems())
    trace.issues.push_back({TraceIssueKind::kDamaged, 1,
                            fmt::format("table {} could not be read to its end: {}", table, problem)});
  trace.hardware_counters = reader.has_counters();
  add_rocm_issues(true, counts, reader.unread(), trace);
  if (reader.packed_texts() > 0)
    trace.issues.push_back({TraceIssueKind::kOther, reader.packed_texts(),
                            fmt::format("markers whose texts are compressed, so their names were not read: {}",
                                        format_count(reader.packed_texts()))});
  if (options.merged && options.merged->first)
    trace.issues.push_back({TraceIssueKind::kNote, options.merged->ranks,
                            fmt::format("processes in the file: {}; it does not say which rank each is, so they are "
                                        "numbered as their tables come",
                                        options.merged->ranks)});
  return trace;
}

std::vector<MergedRank> rocpd_ranks(const std::string& path) {
  auto source = SqliteSource::open(path);
  if (!source) return {};
  const size_t sets = table_sets(*source).size();
  std::vector<MergedRank> ranks;
  for (size_t i = 0; i < sets && sets > 1; ++i) {
    MergedRank& rank = ranks.emplace_back();
    rank.label = fmt::format("process {}", i + 1);
    rank.rank = static_cast<int>(i);
    rank.ranks = static_cast<int>(sets);
    rank.first = i == 0;
    rank.process = static_cast<int64_t>(i);
    rank.numbered = false;
  }
  return ranks;
}

bool is_rocpd(const std::string& path) {
  auto source = SqliteSource::open(path);
  return source && std::any_of(source->tables().begin(), source->tables().end(),
                               [](const auto& table) { return table.first.starts_with("rocpd_"); });
}

}  // namespace

extern const Importer kRocpd = {"rocpd",
                                "rocprofv3 database",
                                "AMD's rocprofv3, SQLite (rocpd, its usual output from ROCm 7 on)",
                                "4711_results.db, results.db.zst",
                                is_sqlite,
                                read_rocpd,
                                [](std::string_view) { return Peek{{}, true}; },
                                rocpd_ranks,
                                is_rocpd};

}  // namespace profgpu
