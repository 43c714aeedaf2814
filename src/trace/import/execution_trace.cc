#include "trace/import/execution_trace.h"

#include <algorithm>
#include <array>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/decimal.h"
#include "base/json_reader.h"
#include "base/text.h"
#include "trace/import/said_issues.h"
#include "trace/import/whole_text.h"
#include "trace/trace_builder.h"

namespace profgpu {
namespace {

using std::string_view;

// Of nodes for the process and its threads; the second one until 2023.
constexpr std::array<string_view, 2> kRootNames = {"[pytorch|profiler|execution_trace|",
                                                   "[pytorch|profiler|execution_graph|"};
constexpr int64_t kUserScope = 7;                                         // RecordScope::USER_SCOPE

bool is_root(string_view name) { return starts_with_any(name, kRootNames); }

/// A node as the file has it. Both schemas, the flat one (1.0) and Chakra's (1.1), have these.
struct ExecutionNode {
  std::string name;
  string_view shapes, types, values, strides;   // JSON arrays
  uint64_t id = 0, number = 0;   // the second: rf_id
  uint64_t parent = 0;           // the node that it runs within
  int64_t sequence = -1, scope = 0;
  uint64_t thread = 0, forward_thread = 0;
};

int64_t whole(string_view text) {
  return exact_number<int64_t>(text).value_or(0);
}

uint64_t natural(string_view text) { return static_cast<uint64_t>(std::max<int64_t>(whole(text), 0)); }

/// Reads nodes one after the other; what they refer to lies in the text.
class NodeReader {
 public:
  NodeReader(JsonReader& reader, int64_t& replaced) : reader_(reader), replaced_(replaced) {}

  bool read(ExecutionNode& node) {
    node = {};
    return read_object(reader_, [&](string_view key) { return member(key, node); });
  }

 private:
  bool member(string_view key, ExecutionNode& node) {
    if (key == "name") return text(node.name);
    if (key == "inputs") return inputs(node);
    if (key == "attrs") return read_array(reader_, [&] { return attribute(node); });
    string_view raw;
    if (!reader_.raw_value(raw)) return false;
    if (key == "input_shapes") node.shapes = raw;
    else if (key == "input_types") node.types = raw;
    else set(key, raw, node);
    return true;
  }

  static void set(string_view key, string_view raw, ExecutionNode& node) {
    if (key == "id") node.id = natural(raw);
    else if (key == "ctrl_deps" || key == "parent") node.parent = natural(raw);
    else if (key == "rf_id") node.number = natural(raw);
    else if (key == "seq_id") node.sequence = whole(raw);
    else if (key == "scope") node.scope = whole(raw);
    else if (key == "tid") node.thread = natural(raw);
    else if (key == "fw_tid") node.forward_thread = natural(raw);
  }

  // The flat schema has the values themselves here, the other one an object with shapes and types beside them.
  bool inputs(ExecutionNode& node) {
    if (reader_.peek() != '{') return reader_.raw_value(node.values);
    return read_object(reader_, [&](string_view key) {
      string_view raw;
      if (!reader_.raw_value(raw)) return false;
      if (key == "shapes") node.shapes = raw;
      if (key == "types") node.types = raw;
      if (key == "values") node.values = raw;
      if (key == "strides") node.strides = raw;
      return true;
    });
  }

  bool attribute(ExecutionNode& node) {
    std::string name;
    string_view value;
    const bool good = read_object(reader_, [&](string_view key) {
      if (key == "name") return text(name);
      return key == "value" ? reader_.raw_value(value) : reader_.skip_value();
    });
    if (good) set(name, value, node);
    return good;
  }

  bool text(std::string& out) {
    JsonString token;
    if (!reader_.string(token)) return reader_.skip_value();
    out = unescaped(token, replaced_);
    return true;
  }

  JsonReader& reader_;
  int64_t& replaced_;
};

// "Tensor(c10::BFloat16)" is "c10::BFloat16" to the profiler, a list of tensors "TensorList", a number "Scalar".
std::string profiler_type(string_view type) {
  if (type.starts_with("Tensor(")) return std::string(type.substr(7, type.rfind(')') - 7));
  if (type.starts_with("GenericList[Tensor")) return "TensorList";
  if (type.starts_with("GenericList[")) return "ScalarList";
  return type == "Int" || type == "Double" || type == "Bool" || type == "SymInt" ? "Scalar" : "";
}

// A number, or a list of numbers, as the profiler writes it: true is "True". Empty: it is neither.
std::string profiler_value(string_view type, string_view value) {
  const std::string kind = profiler_type(type);
  if (kind != "Scalar" && kind != "ScalarList") return "";
  constexpr string_view kTrue = "true", kFalse = "false";
  std::string text;
  while (!value.empty()) {
    const string_view word = value.starts_with(kTrue) ? kTrue : value.starts_with(kFalse) ? kFalse : "";
    if (value.front() == '"' || value.front() == '{' || value.front() == '\\') return "";   // no numbers
    if (word.empty()) text += value.front();
    else text += upper(word.front()), text += word.substr(1);
    value.remove_prefix(std::max<size_t>(word.size(), 1));
  }
  return text;
}

// Of all inputs, "["", "[1, 1]", "False"]"; empty: there is no number among them.
std::string profiler_values(const ExecutionNode& node, const std::vector<std::string>& types) {
  std::string values;
  size_t place = 0;
  bool any = false;
  JsonReader reader(node.values.data(), node.values.data() + node.values.size());
  read_array(reader, [&] {
    string_view value;
    if (!reader.raw_value(value) || place >= types.size()) return false;
    const std::string text = profiler_value(types[place++], value);
    any |= !text.empty();
    append_listed(values, '"' + text + '"');
    return true;
  });
  return any && place == types.size() && is_json("[" + values + "]") ? "[" + values + "]" : "";
}

// Files that people can read have line breaks in their lists.
std::string compact(string_view list) {
  std::string text;
  for (const char c : list)
    if (c != ' ' && c != '\n' && c != '\r' && c != '\t') text += c == ',' ? ", " : std::string(1, c);
  return text;
}

// A list of shapes or strides in the profiler's words: values that are no tensors have none. Empty: it is none.
std::string of_tensors(string_view list, const std::vector<std::string>& types) {
  std::string all;
  size_t place = 0;
  JsonReader reader(list.data(), list.data() + list.size());
  read_array(reader, [&] {
    string_view sizes;
    if (!reader.raw_value(sizes)) return false;
    const bool tensor = place >= types.size() || contains(types[place], "Tensor");
    append_listed(all, tensor ? compact(sizes) : "[]");
    ++place;
    return true;
  });
  constexpr size_t kLongest = 1 << 16;
  return all.empty() || all.size() > kLongest || !is_json("[" + all + "]") ? "" : "[" + all + "]";
}

/// Shapes and types in the profiler's words.
void describe_inputs(const ExecutionNode& node, Shard& shard, OpArgs& args) {
  std::string types;
  std::vector<std::string> names;
  int64_t replaced = 0;
  JsonReader type_reader(node.types.data(), node.types.data() + node.types.size());
  read_array(type_reader, [&] {
    JsonString token;
    if (!type_reader.string(token)) return false;
    const std::string type = unescaped(token, replaced);
    append_listed(types, '"' + profiler_type(type) + '"');
    names.push_back(type);
    return true;
  });
  const std::string shapes = of_tensors(node.shapes, names);
  constexpr size_t kLongest = 1 << 16;
  if (shapes.empty() || types.size() > kLongest) return;
  args.shapes = shard.strings.intern(shapes);
  if (is_json("[" + types + "]")) args.types = shard.strings.intern("[" + types + "]");
  if (const std::string values = profiler_values(node, names); !values.empty())
    args.values = shard.strings.intern(values);
  if (const std::string strides = of_tensors(node.strides, names); tells_layout(strides))
    args.strides = shard.strings.intern(strides);
}

bool is_range(const ExecutionNode& node) { return node.scope == kUserScope; }

/// All nodes of a file, to rows without a length, one nanosecond after the other: order is all that is known.
class ExecutionReader {
 public:
  ExecutionReader(std::string text, Shard& shard) : text_(std::move(text)), shard_(shard) {}

  /// False: the file ends early, or is damaged.
  bool read() {
    JsonReader reader = JsonReader::over(text_);
    return read_object(reader, [&](string_view key) {
      if (key == "nodes") return nodes(reader);
      if (reader.peek() == '"') {
        JsonString token;
        const bool good = reader.string(token);
        if (key == "schema") schema = token.raw.substr(0, 60);
        return good;
      }
      string_view raw;
      const bool good = reader.raw_value(raw);
      if (key == "pid") process_ = std::to_string(natural(raw));
      return good;
    });
  }
  void add_rows() {
    std::stable_sort(nodes_.begin(), nodes_.end(), [](const auto& a, const auto& b) { return a.id < b.id; });
    int64_t time_ns = 0;
    for (const ExecutionNode& node : nodes_) add(node, time_ns++);
  }

  // An operator's parent is known, not how long either took.
  void set_parents(Trace& trace) const {
    std::unordered_map<uint64_t, int64_t> time_of_node;
    for (size_t i = 0; i < nodes_.size(); ++i) time_of_node.emplace(nodes_[i].id, static_cast<int64_t>(i));
    std::vector<HostId> row_at(nodes_.size());
    for (uint32_t i = 0; i < trace.host.size(); ++i)
      if (const auto at = static_cast<size_t>(trace.host.start_ns[i]); at < row_at.size()) row_at[at] = HostId(i);
    for (size_t i = 0; i < nodes_.size(); ++i) {
      const auto parent = time_of_node.find(nodes_[i].parent);
      if (parent == time_of_node.end() || parent->second >= static_cast<int64_t>(i)) continue;
      const HostId row = row_at[i], above = row_at[static_cast<size_t>(parent->second)];
      if (row.valid() && above.valid() && trace.host.thread[row.value] == trace.host.thread[above.value])
        trace.host.parent[row.value] = above;
    }
  }

  std::string schema;

 private:
  bool nodes(JsonReader& reader) {
    NodeReader node_reader(reader, shard_.issues[TraceIssueKind::kInvalidText]);
    return read_array(reader, [&] {
      ExecutionNode node;
      if (!node_reader.read(node)) return false;
      ++shard_.events;
      if (!node.name.empty() && !is_root(node.name)) nodes_.push_back(std::move(node));
      return true;
    });
  }
  void add(const ExecutionNode& node, int64_t time_ns) {
    HostRow row;
    row.start_ns = time_ns;
    row.kind = is_range(node) ? HostKind::kAnnotation : HostKind::kOp;
    row.name = shard_.strings.intern(node.name);
    row.thread = static_cast<uint16_t>(shard_.thread(process_, std::to_string(node.thread)));
    row.link = node.number <= UINT32_MAX ? static_cast<uint32_t>(node.number) : 0;
    OpArgs args;
    describe_inputs(node, shard_, args);
    if (node.sequence >= 0 && node.sequence <= INT32_MAX) args.sequence = static_cast<int32_t>(node.sequence);
    args.forward_thread = static_cast<uint32_t>(std::min<uint64_t>(node.forward_thread, UINT32_MAX));
    if (!(args == OpArgs{})) {
      row.args = shard_.op_arguments(args);
    }
    shard_.host.push_back(row);
  }

  std::string text_, process_ = "0";
  Shard& shard_;
  std::vector<ExecutionNode> nodes_;
};

bool sniff_execution(string_view head) {
  const string_view start = head.substr(0, 4096);
  return start.find('{') == start.find_first_not_of(" \t\r\n\xEF\xBB\xBF") && start.find("\"schema\"") != start.npos &&
         start.find("\"nodes\"") != start.npos && start.find("\"traceEvents\"") == start.npos;
}

Result<Trace> read_execution(const std::string& path, const ImportOptions&) {
  bool broken = false;
  auto text = whole_text(path, broken);
  if (!text) return text.error();
  TraceBuilder builder;
  builder.header().recorder = Recorder::kOther;
  ExecutionReader reader(*std::move(text), builder.shard());
  const bool complete = reader.read() && !broken;
  reader.add_rows();
  const IssueCounts counts = builder.issue_counts();
  Trace trace = builder.finish(1);
  if (trace.host.size() == 0)
    return Error{path + ": an execution trace without any operators", "was the observer registered before the run?"};
  reader.set_parents(trace);
  trace.metadata.emplace_back("schema", reader.schema);
  trace.windows.assign(1, {0, 0});   // the order of rows is no time
  trace.issues.push_back({TraceIssueKind::kNote, 1,
                          "an execution trace has no times: only counts, shapes and types are of the run; give the "
                          "profiler's trace of the same run beside it"});
  if (!complete) add_cut(trace);
  add_counts(trace, counts, {{TraceIssueKind::kInvalidText, "names that are not valid UTF-8: {}"}});
  return trace;
}

}  // namespace

const Importer kExecutionTrace = {.name = "execution-trace",
                                  .noun = "PyTorch execution trace",
                                  .summary = "PyTorch's execution trace (ExecutionTraceObserver, Chakra), alone or "
                                             "beside a profiler's trace",
                                  .examples = "et.json, rank0_et.json, pytorch_et_4711.json.gz",
                                  .sniff = sniff_execution,
                                  .read = read_execution,
                                  .join = joined_execution};

bool tells_layout(std::string_view strides) {
  if (has_zero_stride(strides)) return true;
  for (size_t end = strides.find(']'); end != strides.npos; end = strides.find(']', end + 1)) {
    const size_t begin = strides.find_last_of("[],", end > 0 ? end - 1 : 0);
    if (begin == strides.npos || begin >= end || strides[begin] != ',') continue;
    const std::string_view last = without_blanks(strides.substr(begin + 1, end - begin - 1));
    if (all_digits(last) && last != "1") return true;
  }
  return false;
}

}  // namespace profgpu
