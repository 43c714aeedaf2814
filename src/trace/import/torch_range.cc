#include "trace/import/torch_range.h"

#include <charconv>

#include "base/json_quoted.h"
#include "base/text.h"

namespace profgpu {
namespace {

using std::string_view;

// Takes ", KEY = NUMBER" off the front.
bool take_number(string_view& rest, string_view key, int64_t& value) {
  if (!rest.starts_with(key)) return false;
  const char* const begin = rest.data() + key.size();
  const auto [end, error] = std::from_chars(begin, rest.data() + rest.size(), value);
  if (error != std::errc()) return false;
  rest.remove_prefix(static_cast<size_t>(end - rest.data()));
  return true;
}

// Takes ", KEY = [...]" off the front; brackets are in pairs.
bool take_list(string_view& rest, string_view key, string_view& list) {
  if (!rest.starts_with(key) || rest.size() <= key.size() || rest[key.size()] != '[') return false;
  int open = 0;
  for (size_t i = key.size(); i < rest.size(); ++i) {
    open += (rest[i] == '[') - (rest[i] == ']');
    if (open > 0) continue;
    list = rest.substr(key.size(), i + 1 - key.size());
    rest.remove_prefix(i + 1);
    return true;
  }
  return false;
}

// "AddmmBackward0", "NllLossBackward".
bool is_graph_node(string_view name) {
  const size_t at = name.rfind("Backward");
  if (at == name.npos || at == 0 || name.find(' ') != name.npos) return false;
  const string_view rest = name.substr(at + 8);
  return rest.empty() || all_digits(rest);
}

bool is_backward(string_view name) {
  return name.starts_with("autograd::engine::") || name.starts_with("torch::autograd::") || is_graph_node(name);
}

}  // namespace

TorchRange torch_range(string_view text) {
  TorchRange range;
  range.name = text;
  size_t at = text.find(", seq = ");
  for (const string_view key : {", op_id = ", ", sizes = ["})
    if (const size_t other = text.find(key); other < at) at = other;
  if (at != text.npos && at > 0) {
    string_view rest = text.substr(at), inputs;
    take_number(rest, ", seq = ", range.sequence);
    take_number(rest, ", op_id = ", range.operation);
    take_list(rest, ", sizes = ", range.shapes);
    take_list(rest, ", input_op_ids = ", inputs);
    if (!rest.empty()) return {.name = text, .shapes = {}};   // somebody's own words
    range.name = text.substr(0, at);
  }
  range.is_op = range.name.find("::") != range.name.npos || is_graph_node(range.name) || range.sequence >= 0;
  // C++ functions that a program names its ranges by.
  if (at == text.npos && !range.name.starts_with("aten::") && !is_backward(range.name)) range.is_op = false;
  return range;
}

void describe_torch_range(const TorchRange& range, Shard& shard, HostRow& row) {
  if (range.is_op) row.kind = HostKind::kOp;
  if (!range.has_args()) return;
  OpArgs args;
  if (range.sequence >= 0 && range.sequence <= INT32_MAX) args.sequence = static_cast<int32_t>(range.sequence);
  if (!range.shapes.empty()) args.shapes = shard.strings.intern(range.shapes);
  args.forward_thread = is_backward(range.name) ? 1 : 0;   // which thread it was is not told
  row.args = shard.op_arguments(args);
}

// PyProf's ranges.

namespace {

// From behind `key` to `end`; empty: not there.
string_view between(string_view text, string_view key, char end) {
  const size_t at = text.find(key);
  if (at == text.npos) return {};
  const string_view rest = text.substr(at + key.size());
  return rest.find(end) == rest.npos ? string_view() : rest.substr(0, rest.find(end));
}

// "(6, 3)" and "(6,)" as "[6, 3]" and "[6]".
std::string shapes_of(string_view text) {
  constexpr string_view kKey = "'shape': (";
  std::string shapes;
  for (size_t at = text.find(kKey); at != text.npos; at = text.find(kKey)) {
    text.remove_prefix(at + kKey.size());
    std::string sizes;
    for (const string_view size : pieces_of(text.substr(0, text.find(')')), ',')) {
      const string_view number = without_blanks(size);
      if (all_digits(number)) append_listed(sizes, number);
    }
    append_listed(shapes, "[" + sizes + "]");
  }
  return shapes.empty() ? shapes : "[" + shapes + "]";
}

}  // namespace

std::optional<PyProfRange> pyprof_range(string_view text) {
  PyProfRange range;
  if (text.starts_with("{'mod': '")) {
    const string_view module = between(text, "'mod': '", '\''), call = between(text, "'op': '", '\'');
    if (module.empty() || call.empty()) return std::nullopt;
    range.name = std::string(module) + "." + std::string(call);
    range.shapes = shapes_of(text);
    range.is_call = true;
    return range;
  }
  constexpr string_view kLines = "{'traceMarker': [", kModule = "/<module>/";
  if (!text.starts_with(kLines)) return std::nullopt;
  string_view stack = between(text, "'funcStack': '", '\'');
  if (stack.starts_with(kModule)) stack.remove_prefix(kModule.size());
  if (stack.empty()) return std::nullopt;
  range.name = stack;
  std::string lines;
  for (const string_view line : pieces_of(between(text, kLines, ']'), ','))
    if (const string_view quoted = without_blanks(line); quoted.size() > 2)
      append_listed(lines, json_quoted(quoted.substr(1, quoted.size() - 2)));
  if (!lines.empty()) range.lines = "[" + lines + "]";
  return range;
}

}  // namespace profgpu
