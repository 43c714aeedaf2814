// rocprofv3's JSON: one object a process, with records by kind, and texts that they number.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/decimal.h"
#include "base/json_reader.h"
#include "base/text.h"
#include "trace/import/importer.h"
#include "trace/import/rocm_rows.h"
#include "trace/import/whole_text.h"

namespace profgpu {
namespace {

using std::string_view;

/// A JSON object's members as they stand in the text, by path: "dispatch_info.agent_id.handle".
class Members {
 public:
  explicit Members(string_view object, int depth = 0) { add(object, "", depth); }
  [[nodiscard]] int64_t number(string_view path, int64_t otherwise = 0) const {
    const string_view raw = text(path);
    if (const auto number = exact_number<int64_t>(raw)) return *number;
    const auto handle = exact_number<uint64_t>(raw);   // 64 bits without a sign
    return handle ? static_cast<int64_t>(*handle) : otherwise;
  }
  [[nodiscard]] bool has(string_view path) const { return !text(path).empty(); }
  [[nodiscard]] string_view text(string_view path) const {
    for (const auto& [name, value] : all_)
      if (name == path) return value;
    return {};
  }
  [[nodiscard]] std::string string(string_view path) const {
    string_view raw = text(path);
    if (raw.size() < 2 || raw.front() != '"') return {};
    JsonReader reader(raw.data(), raw.data() + raw.size());
    std::string out;
    (void)read_text(reader, out);
    return out;
  }

 private:
  void add(string_view object, const std::string& prefix, int depth) {
    JsonReader reader(object.data(), object.data() + object.size());
    read_object(reader, [&](string_view key) {
      string_view value;
      const std::string path = prefix + std::string(key);   // the reader's key moves on
      if (!reader.raw_value(value)) return false;
      if (value.starts_with('{') && depth > 0) add(value, path + ".", depth - 1);
      else all_.emplace_back(path, value);
      return all_.size() < 256;
    });
  }
  std::vector<std::pair<std::string, string_view>> all_;
};

template <class Each>
bool each_element(string_view array, Each&& each) {
  JsonReader reader(array.data(), array.data() + array.size());
  return read_array(reader, [&] {
    string_view element;
    if (!reader.raw_value(element)) return false;
    each(element);
    return true;
  });
}

/// One process of the file.
class RocprofProcess {
 public:
  /// `numbered`: correlations of the processes before this one end there.
  RocprofProcess(RocmRows& rows, int64_t numbered) : rows_(rows), base_(numbered), last_(numbered) {}

  void read(string_view object) {
    const Members parts(object);
    const Members metadata(parts.text("metadata"));
    pid_ = metadata.number("pid");
    host_ = Members(metadata.text("node")).string("hostname").substr(0, 256);
    read_agents(parts.text("agents"));
    read_texts(Members(parts.text("strings")));
    each_element(parts.text("kernel_symbols"), [&](string_view symbol) { read_symbol(Members(symbol)); });
    each_element(parts.text("counters"), [&](string_view counter) {
      const Members m(counter, 1);
      counters_[m.number("id.handle", -1)] = m.string("name");
    });
    streams_ = has_streams(parts.text("buffer_records")) || has_streams(parts.text("callback_records"));
    read_records(parts.text("buffer_records"));
    read_records(parts.text("callback_records"));
  }
  [[nodiscard]] const std::map<std::string, int64_t>& unread() const { return unread_; }
  [[nodiscard]] const std::string& host() const { return host_; }
  [[nodiscard]] int64_t last_correlation() const { return last_; }
  [[nodiscard]] bool has_counters() const { return has_counters_; }
  [[nodiscard]] int64_t pid() const { return pid_; }

 private:
  struct Symbol {
    std::string name;
    int64_t registers = 0;
  };

  void read_agents(string_view agents) {
    constexpr int64_t kGpu = 2;   // rocprofiler_agent_type_t
    each_element(agents, [&](string_view agent) {
      const Members m(agent, 1);
      std::string name = m.string("product_name");
      if (name.empty()) name = m.string("name");
      rows_.add_agent(m.number("id.handle", -1), m.number("type") == kGpu, name, m.number("cu_count"));
    });
  }
  // By kind, then by operation; and what markers say, by correlation.
  void read_texts(const Members& strings) {
    each_element(strings.text("buffer_records"), [&](string_view kind) {
      const Members m(kind);
      std::vector<std::string>& operations = operations_.emplace_back();
      each_element(m.text("operations"), [&](string_view operation) {
        JsonReader reader(operation.data(), operation.data() + operation.size());
        (void)read_text(reader, operations.emplace_back());
      });
    });
    each_element(strings.text("marker_api"), [&](string_view marker) {
      const Members m(marker);
      markers_[m.number("key", -1)] = m.string("value");
    });
  }
  void read_symbol(const Members& m) {
    Symbol& symbol = symbols_[m.number("kernel_id", -1)];
    for (const string_view key : {"formatted_kernel_name", "demangled_kernel_name", "kernel_name"})
      if (symbol.name.empty()) symbol.name = m.string(key);
    symbol.registers = m.number("arch_vgpr_count");
  }

  // Whether any record has a stream of its own. Else streams are 0, if they are stated, and queues tell records apart:
  // the two are numbered each by itself.
  static bool has_streams(string_view records) {
    constexpr string_view kStream = "\"stream_id\"", kHandle = "\"handle\"";
    for (size_t at = records.find(kStream); at != records.npos; at = records.find(kStream, at)) {
      at += kStream.size();
      const string_view near = records.substr(at, 64);
      const size_t handle = near.find(kHandle);
      const size_t value = handle == near.npos ? handle : near.find_first_not_of(" \t\r\n:", handle + kHandle.size());
      if (value != near.npos && near[value] >= '1' && near[value] <= '9') return true;
    }
    return false;
  }

  void read_records(string_view records) {
    JsonReader reader(records.data(), records.data() + records.size());
    read_object(reader, [&](string_view key) {
      const std::string kind(key);
      string_view array;
      if (!reader.raw_value(array)) return false;
      each_element(array, [&](string_view record) { read_record(kind, record); });
      return true;
    });
  }
  void read_record(const std::string& kind, string_view record) {
    const Members m(record, kind == "counter_collection" ? 0 : 3);
    if (kind == "kernel_dispatch") dispatch(m);
    else if (kind == "memory_copy") copy(m);
    else if (kind == "marker_api") marker(m);
    else if (kind == "counter_collection") counters(m);
    else if (kind.ends_with("_api")) rows_.add_call(range(m, operation(m)));
    else ++unread_[kind];
  }
  [[nodiscard]] string_view operation(const Members& m) const {
    const auto kind = static_cast<size_t>(m.number("kind", -1)), which = static_cast<size_t>(m.number("operation", -1));
    return kind < operations_.size() && which < operations_[kind].size() ? operations_[kind][which] : string_view();
  }
  [[nodiscard]] RocmRange range(const Members& m, string_view name) {
    return {name, m.number("start_timestamp", -1), m.number("end_timestamp", -1), pid_, m.number("thread_id"),
            correlation(m)};
  }
  // Each process numbers its calls from 1.
  int64_t correlation(const Members& m) {
    const int64_t number = m.number("correlation_id.internal");
    if (number <= 0 || number > UINT32_MAX) return 0;
    last_ = std::max(last_, base_ + number);
    return base_ + number;
  }
  void dispatch(const Members& m) {
    dispatches_[m.number("dispatch_info.dispatch_id", -1)] = m.number("start_timestamp", -1);
    RocmDispatch d;
    const auto symbol = symbols_.find(m.number("dispatch_info.kernel_id", -1));
    if (symbol != symbols_.end()) d.kernel = symbol->second.name, d.registers = symbol->second.registers;
    d.start_ns = m.number("start_timestamp", -1), d.end_ns = m.number("end_timestamp", -1);
    d.agent = m.number("dispatch_info.agent_id.handle");
    d.queue = m.number(streams_ ? "stream_id.handle" : "dispatch_info.queue_id.handle");
    d.correlation = correlation(m);
    const char* const sides[] = {"x", "y", "z"};
    for (int i = 0; i < 3; ++i) {
      d.grid[i] = m.number(std::string("dispatch_info.grid_size.") + sides[i]);
      d.workgroup[i] = m.number(std::string("dispatch_info.workgroup_size.") + sides[i]);
    }
    d.lds_bytes = m.number("dispatch_info.group_segment_size");
    rows_.add(d);
  }
  void copy(const Members& m) {
    rows_.add(RocmCopy{operation(m), m.number("start_timestamp", -1), m.number("end_timestamp", -1),
                       m.number("src_agent_id.handle"), m.number("dst_agent_id.handle"), m.number("stream_id.handle"),
                       correlation(m), m.number("bytes", -1)});
  }
  // Of a dispatch, which may stand among the kernels as well; a record for each part of the device that counted.
  void counters(const Members& m) {
    const Members of(m.text("dispatch_data"), 3);
    const int64_t number = of.number("dispatch_info.dispatch_id", -1);
    if (!dispatches_.contains(number)) dispatch(of);
    std::map<int64_t, double> sums;
    each_element(m.text("records"), [&](string_view record) {
      const Members r(record, 1);
      if (const auto value = real_number(r.text("value"))) sums[r.number("counter_id.handle", -1)] += *value;
    });
    for (const auto& [counter, value] : sums)
      rows_.add_counter(counters_[counter], value, dispatches_[number], of.number("dispatch_info.agent_id.handle"));
    has_counters_ = has_counters_ || !sums.empty();
  }
  void marker(const Members& m) {
    const auto text = markers_.find(m.number("correlation_id.internal", -1));
    rows_.add_marker(range(m, text != markers_.end() ? string_view(text->second) : operation(m)));
  }

  RocmRows& rows_;
  int64_t pid_ = 0, base_ = 0, last_ = 0;
  std::string host_;
  bool has_counters_ = false, streams_ = false;
  std::map<int64_t, std::string> counters_;           // their names
  std::unordered_map<int64_t, int64_t> dispatches_;   // when each begins
  std::vector<std::vector<std::string>> operations_;
  std::map<int64_t, std::string> markers_;
  std::map<int64_t, Symbol> symbols_;
  std::map<std::string, int64_t> unread_;
};

bool sniff_rocprof(string_view head) {
  const size_t i = head.find_first_not_of(" \t\r\n");
  return i != head.npos && head[i] == '{' && head.substr(i, 256).find("\"rocprofiler-sdk-tool\"") != head.npos;
}

// The text up to its last whole record, with all that is open closed; empty: nothing can be saved.
std::string mended(string_view text) {
  std::string open;   // brackets
  std::string best;
  size_t best_size = 0;
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted) {
      if (c == '\\') ++i;
      else quoted = c != '"';
    } else if (c == '"') {
      quoted = true;
    } else if (c == '{' || c == '[') {
      open += c == '{' ? '}' : ']';
    } else if (!open.empty() && c == open.back()) {
      open.pop_back();
      // Five levels: the file, its processes, one of them, its records, those of a kind.
      constexpr size_t kRecordDepth = 5;
      if (c == '}' && open.size() <= kRecordDepth) best_size = i + 1, best.assign(open.rbegin(), open.rend());
    }
  }
  return best_size == 0 ? std::string() : std::string(text.substr(0, best_size)) + best;
}

Result<Trace> read_rocprof(const std::string& path, const ImportOptions& options) {
  bool broken = false;
  auto text = whole_text(path, broken);
  if (!text) return text.error();
  TraceBuilder builder;
  builder.header().recorder = Recorder::kRocprof;
  RocmRows rows(builder.shard());
  std::map<std::string, int64_t> unread;
  size_t processes = 0;
  int64_t numbered = 0;
  bool counters = false;
  const auto read = [&](std::string& whole) {
    JsonReader reader = JsonReader::over(whole);
    return read_object(reader, [&](string_view key) {
      string_view array;
      const bool ours = key == "rocprofiler-sdk-tool";
      if (!reader.raw_value(array)) return false;
      if (!ours) return true;
      return each_element(array, [&](string_view object) {
        RocprofProcess process(rows, numbered);
        process.read(object);
        numbered = process.last_correlation();
        counters |= process.has_counters();
        if (builder.header().host_name.empty()) builder.header().host_name = process.host();
        for (const auto& [kind, count] : process.unread()) unread[kind] += count;
        ++processes;
      });
    });
  };
  const size_t size = text->size();
  bool complete = read(*text) && !broken;
  if (!complete && processes == 0) {
    text->resize(size);
    std::string rest = mended(*text);
    if (!rest.empty()) read(rest);
  }
  const IssueCounts counts = builder.issue_counts();
  builder.header().devices = rows.devices();
  Trace trace = builder.finish(options.threads);
  if (trace.host.size() + trace.activity.size() == 0)
    return Error{path + ": an output of rocprofv3 without any events that profgpu reads",
                 "record again with rocprofv3 --sys-trace --output-format json"};
  trace.hardware_counters = counters;
  add_rocm_issues(complete, counts, unread, trace);
  if (processes > 1)
    trace.issues.push_back({TraceIssueKind::kNote, static_cast<int64_t>(processes),
                            fmt::format("processes in the file: {}; they are read as one", processes)});
  return trace;
}

}  // namespace

extern const Importer kRocprofJson = {"rocprof-json",
                                      "rocprofv3 output",
                                      "AMD's rocprofv3, JSON (--output-format json)",
                                      "4711_results.json, out_results.json.gz",
                                      sniff_rocprof,
                                      read_rocprof};

}  // namespace profgpu
