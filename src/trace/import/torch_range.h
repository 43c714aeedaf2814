// Ranges that PyTorch makes of its operators for other profilers (torch.autograd.profiler.emit_nvtx): a name and,
// behind it, the operator's numbers and shapes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "trace/trace_builder.h"

namespace profgpu {

/// "aten::add, seq = 12, op_id = 7, sizes = [[2, 3], []]" in parts, which live as long as the text.
struct TorchRange {
  std::string_view name;
  int64_t sequence = -1;     ///< -1: none
  int64_t operation = -1;    ///< op_id; -1: none
  std::string_view shapes;   ///< "[[2, 3], []]"; empty: none
  bool is_op = false;        ///< an operator or a node of autograd's graph; else a range that the program named

  [[nodiscard]] bool has_args() const { return sequence >= 0 || !shapes.empty(); }
};

/// A text that PyTorch did not make comes back as the name.
TorchRange torch_range(std::string_view text);

/// Makes `row` what the range says that it is, and adds the operator's arguments to the shard.
void describe_torch_range(const TorchRange& range, Shard& shard, HostRow& row);

/// What NVIDIA's PyProf and DLProf write, as Python shows a dictionary: a call with its arguments,
/// "{'mod': 'torch', 'op': 'add', 'args': [{… 'shape': (2, 3) …}]}", or where it was made,
/// "{'traceMarker': ['train.py:34'], 'funcStack': '/<module>/Net::forward/add'}".
struct PyProfRange {
  std::string name;     ///< "torch.add", "Net::forward/add"
  std::string shapes;   ///< of a call's tensors, "[[2, 3]]"; empty: none
  std::string lines;    ///< "["train.py:34"]", outermost first; empty: none
  bool is_call = false;
};
std::optional<PyProfRange> pyprof_range(std::string_view text);

}  // namespace profgpu
