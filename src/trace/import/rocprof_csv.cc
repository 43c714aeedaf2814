#include "trace/import/rocprof_csv.h"

#include <sys/stat.h>

#include <algorithm>
#include <map>
#include <unordered_map>
#include <vector>

#include "base/csv.h"
#include "base/decimal.h"
#include "base/text.h"
#include "trace/import/rocm_rows.h"
#include "trace/import/said_issues.h"
#include "trace/import/whole_text.h"
#include "trace/no_timeline.h"

namespace profgpu {
namespace {

using std::string_view;

// What names end with, the file that stands for the others first.
constexpr string_view kEndings[] = {"kernel_trace.csv",     "hip_api_trace.csv",     "hip_runtime_api_trace.csv",
                                    "hip_trace.csv",        "hsa_api_trace.csv",     "hsa_trace.csv",
                                    "memory_copy_trace.csv", "marker_api_trace.csv", "rccl_api_trace.csv",
                                    "rccl_trace.csv",        "counter_collection.csv", "memory_allocation_trace.csv",
                                    "scratch_memory_trace.csv", "rocdecode_api_trace.csv", "rocjpeg_api_trace.csv",
                                    "kernel_stats.csv",     "memory_copy_stats.csv", "hip_api_stats.csv",
                                    "hip_runtime_api_stats.csv", "hip_stats.csv",    "hsa_api_stats.csv",
                                    "hsa_stats.csv",        "marker_api_stats.csv",  "rccl_api_stats.csv",
                                    "domain_stats.csv",     "agent_info.csv"};

// Totals by name, without times at which anything ran.
bool is_stats(string_view path) { return path.ends_with("_stats.csv") || path.ends_with(".stats.csv"); }
bool is_device_stats(string_view path) {
  return is_stats(path) && (path.ends_with("kernel_stats.csv") || path.ends_with("memory_copy_stats.csv"));
}

// Records say all that totals do. Totals of calls would stand beside those of kernels as if both had run at once.
void keep_the_best(std::vector<std::string>& files) {
  const auto is_trace = [](const std::string& f) {
    const bool other = f.ends_with("agent_info.csv") || f.ends_with("_allocation_trace.csv") || f.ends_with("_memory_trace.csv");
    return !is_stats(f) && !other;
  };
  if (std::ranges::any_of(files, is_trace))
    std::erase_if(files, is_stats);
  else if (std::ranges::any_of(files, is_device_stats))
    std::erase_if(files, [](const std::string& f) { return is_stats(f) && !is_device_stats(f); });
  else if (files.size() > 1 && std::ranges::any_of(files, is_stats))
    std::erase_if(files, [](const std::string& f) { return f.ends_with("domain_stats.csv"); });
}

bool is_there(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode);
}

// The path without the ending that it has; without one: nothing. "hip_api_trace.csv" must not pass for "api_trace.csv".
std::string common_part(const std::string& path) {
  for (const string_view ending : kEndings) {
    if (!path.ends_with(ending)) continue;
    const std::string common = path.substr(0, path.size() - ending.size());
    if (common.empty() || common.back() == '_' || common.back() == '/') return common;
  }
  return {};
}

std::vector<std::string> files_of_process(const std::string& path) {
  std::vector<std::string> files;
  const std::string common = common_part(path);
  if (!common.empty())
    for (const string_view ending : kEndings)
      if (const std::string file = common + std::string(ending); is_there(file))
        files.push_back(file);
  if (std::find(files.begin(), files.end(), path) == files.end()) return {path};
  keep_the_best(files);
  return files;
}

/// Columns of a table by their names, whichever version wrote them.
class CsvTable {
 public:
  explicit CsvTable(string_view header) {
    CsvFields fields;
    if (!fields.split(header)) return;
    for (const string_view name : fields.fields()) {
      std::string plain = lower_case(name);
      std::replace(plain.begin(), plain.end(), '-', '_');
      places_.emplace(plain, places_.size());
    }
  }
  bool row(string_view line) { return row_.split(line); }
  [[nodiscard]] bool has(string_view column) const { return places_.find(std::string(column)) != places_.end(); }
  /// Of the first of the columns that there is.
  [[nodiscard]] string_view text(std::initializer_list<string_view> columns) const {
    for (const string_view column : columns)
      if (const auto at = places_.find(std::string(column)); at != places_.end())
        return at->second < row_.fields().size() ? row_.fields()[at->second] : string_view();
    return {};
  }
  [[nodiscard]] int64_t number(std::initializer_list<string_view> columns, int64_t otherwise) const {
    return number_in(text(columns), otherwise);
  }
  static int64_t number_in(string_view digits, int64_t otherwise) {
    return exact_number<int64_t>(digits).value_or(otherwise);
  }

 private:
  std::map<std::string, size_t> places_;
  CsvFields row_;
};

class RocprofTables {
 public:
  /// `counted`: a file of counters is among those that are read.
  RocprofTables(RocmRows& rows, bool counted) : rows_(rows), counted_(counted) {}

  /// False: the last line is not whole. `path`: says what totals are of.
  bool read(string_view text, string_view path) {
    size_t end = text.find('\n');
    CsvTable table(text.substr(0, end));
    markers_ = path.ends_with("marker_api_stats.csv"), domains_ = path.ends_with("domain_stats.csv");
    libraries_ = path.ends_with("rccl_api_stats.csv");
    streams_ = has_streams(text);
    while (end != text.npos) {
      const size_t begin = end + 1;
      end = text.find('\n', begin);
      string_view line = text.substr(begin, end == text.npos ? text.npos : end - begin);
      if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
      if (line.empty()) continue;
      if (end == text.npos) return false;
      if (table.row(line)) add(table);
      else ++rows_.shard().events, ++rows_.shard().issues[TraceIssueKind::kDamaged];
    }
    return true;
  }
  /// Records that are not read, by kind.
  [[nodiscard]] std::map<std::string, int64_t> unread() const {
    std::map<std::string, int64_t> all = unread_;
    if (lost_counters() > 0) all["hardware counters"] = lost_counters();
    return all;
  }
  /// Rows of hardware counters.
  [[nodiscard]] int64_t counters() const { return counter_rows_; }
  /// Calls in totals by name; of these, such as do not stand one by one.
  [[nodiscard]] int64_t totals() const { return totals_; }
  [[nodiscard]] int64_t together() const { return together_; }

 private:
  [[nodiscard]] int64_t lost_counters() const { return counter_rows_ - std::min(counters_, kMaxCounters); }

  // Whether any record has a stream of its own. Else the column, if it is there, says 0, and queues tell them apart.
  static bool has_streams(string_view text) {
    const size_t end = text.find('\n');
    CsvTable table(text.substr(0, end));
    if (!table.has("stream_id")) return false;
    for (size_t at = end; at != text.npos && at + 1 < text.size();) {
      const size_t next = text.find('\n', at + 1);
      if (table.row(text.substr(at + 1, next == text.npos ? text.npos : next - at - 1)) &&
          table.number({"stream_id"}, 0) != 0)
        return true;
      at = next;
    }
    return false;
  }

  void add(const CsvTable& t) {
    if (t.has("totaldurationns")) return total(t);
    if (t.has("agent_type")) agent(t);
    else if (t.has("kernel_name") || t.has("kernelname")) dispatch(t);
    else if (t.has("direction")) copy(t);
    else if (t.has("function")) call(t);
    else ++unread_[lower_case(t.has("kind") ? t.text({"kind"}) : "other tables")];
  }
  static int64_t start(const CsvTable& t) { return t.number({"start_timestamp", "beginns"}, -1); }
  static int64_t end(const CsvTable& t) { return t.number({"end_timestamp", "endns"}, -1); }

  // Numbers are a node's, or with a word before them a logical node's, or those of a kind: "2", "Agent 2", "GPU 0".
  static constexpr int64_t kLogical = int64_t{1} << 40, kGpus = int64_t{1} << 41, kHosts = int64_t{1} << 42;
  static int64_t agent_number(string_view text) {
    for (const auto& [word, base] : {std::pair(string_view("Agent "), kLogical), std::pair(string_view("GPU "), kGpus),
                                     std::pair(string_view("CPU "), kHosts)})
      if (text.starts_with(word)) return base + CsvTable::number_in(text.substr(word.size()), 0);
    return CsvTable::number_in(text, -1);
  }
  void agent(const CsvTable& t) {
    const string_view product = t.text({"product_name"});
    const bool gpu = t.text({"agent_type"}) == "GPU";
    const int64_t node = t.number({"node_id"}, -1);
    rows_.add_agent(node, gpu, product.empty() ? t.text({"name"}) : product, t.number({"cu_count"}, 0));
    rows_.add_alias(kLogical + t.number({"logical_node_id"}, node), node);
    rows_.add_alias(gpu ? kGpus + gpus_++ : kHosts + hosts_++, node);
  }
  void dispatch(const CsvTable& t) {
    // A row for each counter of a dispatch, which the file of kernels may have as well, at times of its own.
    const bool counter = t.has("counter_name");
    if (counter || (counted_ && t.has("dispatch_id"))) {
      const auto [known, fresh] = dispatches_.try_emplace(t.number({"dispatch_id"}, -++rows_without_number_), start(t));
      if (counter) {
        const auto value = real_number(t.text({"counter_value"}));
        if (value && ++counters_ <= kMaxCounters)
          rows_.add_counter(t.text({"counter_name"}), *value, known->second, agent_number(t.text({"agent_id", "gpu_id"})));
        ++counter_rows_;
        if (!fresh) return;
      }
    }
    RocmDispatch d;
    d.kernel = t.text({"kernel_name", "kernelname"});
    d.start_ns = start(t), d.end_ns = end(t);
    d.agent = agent_number(t.text({"agent_id", "gpu_id"}));
    d.queue = streams_ ? t.number({"stream_id"}, 0) : t.number({"queue_id"}, 0);
    d.correlation = t.number({"correlation_id"}, 0);
    d.workgroup[0] = t.number({"workgroup_size_x", "workgroup_size", "wgr"}, 0);
    d.grid[0] = t.number({"grid_size_x", "grid_size", "grd"}, 0);
    d.workgroup[1] = t.number({"workgroup_size_y"}, 1), d.workgroup[2] = t.number({"workgroup_size_z"}, 1);
    d.grid[1] = t.number({"grid_size_y"}, 1), d.grid[2] = t.number({"grid_size_z"}, 1);
    d.lds_bytes = t.number({"group_segment_size", "lds_block_size", "lds_per_workgroup", "lds"}, 0);
    d.registers = t.number({"vgpr_count", "arch_vgpr"}, 0);
    rows_.add(d);
  }
  // As many calls as were counted, each with the mean of its name; what does not divide is the first ones'.
  void total(const CsvTable& t) {
    const int64_t calls = t.number({"calls"}, -1), sum_ns = t.number({"totaldurationns"}, -1);
    if (calls <= 0 || sum_ns < 0 || sum_ns >= kMaxTotal_ns - clock_ns_ - host_clock_ns_) {
      ++rows_.shard().events, ++rows_.shard().issues[TraceIssueKind::kDamaged];
      return;
    }
    if (domains_) return void(++unread_["other tables"]);
    const bool apart = calls <= kMaxTotals - totals_;
    totals_ += calls, together_ += apart ? 0 : calls;
    const int64_t rows = apart ? calls : 1;
    for (int64_t i = 0; i < rows; ++i) add_total(t.text({"name"}), sum_ns / rows + (i < sum_ns % rows ? 1 : 0));
  }
  void add_total(string_view name, int64_t duration_ns) {
    const bool copies = name.starts_with("MEMORY_COPY_");
    const bool calls = name.starts_with("hip") || name.starts_with("__hip") || name.starts_with("hsa_") || libraries_;
    int64_t& clock = copies || !(calls || markers_) ? clock_ns_ : host_clock_ns_;
    const int64_t begin = clock;
    clock += duration_ns;
    if (copies) return rows_.add(RocmCopy{name, begin, clock, kUnknownAgent, kUnknownAgent, 0, 0, -1});
    if (markers_) return rows_.add_marker({name, begin, clock, 0, 0, 0});
    if (calls) return rows_.add_call({name, begin, clock, 0, 0, 0});
    RocmDispatch d;
    d.kernel = name;
    d.start_ns = begin, d.end_ns = clock;
    d.agent = gpus_ == 1 ? kGpus : kUnknownAgent;
    rows_.add(d);
  }
  void copy(const CsvTable& t) {
    rows_.add(RocmCopy{t.text({"direction"}), start(t), end(t), agent_number(t.text({"source_agent_id"})),
                       agent_number(t.text({"destination_agent_id"})), t.number({"stream_id"}, 0),
                       t.number({"correlation_id"}, 0), t.number({"bytes", "size"}, -1)});
  }
  void call(const CsvTable& t) {
    const RocmRange range{t.text({"function"}), start(t), end(t), t.number({"process_id"}, 0),
                          t.number({"thread_id"}, 0), t.number({"correlation_id"}, 0)};
    // MARKER_CONTROL_API and its like are calls.
    if (t.text({"domain"}).starts_with("MARKER_CORE")) rows_.add_marker(range);
    else rows_.add_call(range);
  }

  static constexpr int64_t kMaxCounters = 4'000'000, kMaxTotals = 1'000'000;
  static constexpr int64_t kMaxTotal_ns = INT64_MAX / 8, kUnknownAgent = -1;

  RocmRows& rows_;
  bool counted_;
  bool markers_ = false, libraries_ = false, domains_ = false, streams_ = false;   // of the file that is read
  int64_t clock_ns_ = 0, host_clock_ns_ = 0;   // where the next total stands
  int64_t totals_ = 0, together_ = 0;
  int64_t counters_ = 0, counter_rows_ = 0, gpus_ = 0, hosts_ = 0, rows_without_number_ = 0;
  std::map<std::string, int64_t> unread_;
  std::unordered_map<int64_t, int64_t> dispatches_;   // when each begins
};

// rocprofv3's own layout is OUTPUT/HOST/PID_kernel_trace.csv; empty: the file lies elsewhere.
std::string host_of(const std::string& path) {
  const std::vector<string_view> parts = pieces_of(path, '/');
  if (parts.size() < 2) return {};
  const string_view file = parts.back();
  const size_t end = file.find('_');
  const bool by_process = end != file.npos && end > 0 && all_digits(file.substr(0, end));
  return by_process && parts[parts.size() - 2] != "." && parts[parts.size() - 2] != ".."
             ? std::string(parts[parts.size() - 2].substr(0, 256))
             : std::string();
}

bool sniff_rocprof_csv(string_view head) {
  const size_t first = head.find_first_not_of(" \t\r\n");
  if (first == head.npos || head[first] == '{' || head[first] == '[') return false;   // JSON on one line
  const std::string line = lower_case(head.substr(0, std::min<size_t>(head.find('\n'), 4096)));
  const auto has = [&](string_view word) { return line.find(word) != line.npos; };
  return (has("start_timestamp") && has("end_timestamp") && has(",")) || (has("beginns") && has("endns") && has(",")) ||
         (has("agent_type") && has("node_id")) || (has("name") && has("calls") && has("totaldurationns"));
}

Result<Trace> read_rocprof_csv(const std::string& path, const ImportOptions& options) {
  TraceBuilder builder;
  builder.header().recorder = Recorder::kRocprof;
  builder.header().host_name = host_of(path);
  RocmRows rows(builder.shard());
  std::vector<std::string> files = files_of_process(path);
  RocprofTables tables(rows, std::ranges::any_of(files, [](const std::string& f) { return f.ends_with("counter_collection.csv"); }));
  // Devices first.
  std::stable_partition(files.begin(), files.end(), [](const std::string& f) { return f.ends_with("agent_info.csv"); });
  bool complete = true;
  std::string beside;
  for (const std::string& file : files) {
    bool broken = false;
    auto text = whole_text(file, broken);
    if (!text && file == path) return text.error();
    if (!text) continue;
    complete &= tables.read(*text, file) && !broken;
    if (file != path) append_listed(beside, file.substr(file.rfind('/') + 1));
  }
  const IssueCounts counts = builder.issue_counts();
  builder.header().devices = rows.devices();
  Trace trace = builder.finish(options.threads);
  if (trace.host.size() + trace.activity.size() == 0)
    return Error{path + ": an output of AMD's profiler without any events that profgpu reads",
                 "record again with rocprofv3 --sys-trace"};
  trace.hardware_counters = tables.counters() > 0;
  add_rocm_issues(complete, counts, tables.unread(), trace);
  if (tables.totals() > 0) trace.metadata.emplace_back(kNoTimelineField, "totals of rocprof");
  if (tables.totals() > 0)
    trace.issues.push_back({TraceIssueKind::kNote, 1,
                            "the profiler's totals by name have no timeline: each call has the mean duration of its name, "
                            "calls stand one after the other, and how busy the device was is not known"});
  add_count(trace, TraceIssueKind::kNote, tables.together(),
            "calls of names that stand together as one, as there are too many: {}");
  if (!beside.empty())
    trace.issues.push_back({TraceIssueKind::kNote, static_cast<int64_t>(files.size()) - 1,
                            "read with the files of the same process beside it: " + beside});
  return trace;
}

}  // namespace

std::string rocprof_csv_first(const std::string& path) {
  const std::vector<std::string> files = files_of_process(path);
  return files.front();   // where totals stand beside records, one of these
}

const Importer kRocprofCsv = {"rocprof-csv",
                              "rocprof CSV",
                              "AMD's rocprofv3 and rocprof, CSV; the files of a process are read together",
                              "4711_kernel_trace.csv, 4711_kernel_stats.csv, results.csv",
                              sniff_rocprof_csv,
                              read_rocprof_csv};

}  // namespace profgpu
