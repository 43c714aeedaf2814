#include "analyse/rank/op_shapes.h"

#include <charconv>

#include "base/text.h"

namespace profgpu {

OpShapes op_shapes(std::string_view text) {
  OpShapes shapes;
  int depth = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '[') {
      if (++depth > 2) return {};
      if (depth == 2) shapes.emplace_back();
    } else if (c == ']') {
      if (--depth == 0) return shapes;
    } else if (is_digit(c)) {
      int64_t size = 0;
      const auto [end, error] = std::from_chars(text.data() + i, text.data() + text.size(), size);
      if (depth != 2 || error != std::errc()) return {};
      shapes.back().push_back(size);
      i = static_cast<size_t>(end - text.data()) - 1;
    } else if (c != ',' && c != ' ' && c != '\n') {
      return {};
    }
  }
  return {};
}

OpShapes op_shapes(const Trace& trace, HostId op) {
  const OpArgsId args = op.valid() ? trace.host.args[op.value] : OpArgsId();
  return args.valid() ? op_shapes(trace.strings[trace.op_args[args.value].shapes]) : OpShapes();
}

int element_bits(const Trace& trace, HostId op) {
  const OpArgsId args = op.valid() ? trace.host.args[op.value] : OpArgsId();
  if (!args.valid()) return 0;
  const std::string_view types = trace.strings[trace.op_args[args.value].types];
  const size_t quote = types.find('"');
  const std::string_view first = quote == types.npos ? "" : types.substr(quote + 1);
  for (const std::string_view name : {"c10::BFloat16", "c10::Half"})
    if (first.starts_with(name)) return 16;
  if (first.starts_with("c10::Float8") || first.starts_with("signed char")) return 8;
  return first.starts_with("float") ? 32 : 0;
}

}  // namespace profgpu
