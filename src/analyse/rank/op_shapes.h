// The shapes and dtypes of an op's inputs, as the profiler wrote them.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "trace/trace.h"

namespace profgpu {

/// One element per input: a tensor's dimensions; empty: a number, or no value.
using OpShapes = std::vector<std::vector<int64_t>>;

/// Parses "[[16384, 1024], [1024, 3072], []]". Empty for lists of tensors, and for text that is cut or not such a list.
OpShapes op_shapes(std::string_view text);
/// Of a range; empty: not recorded.
OpShapes op_shapes(const Trace& trace, HostId op);
/// Bits of the first tensor's elements: 16 for "c10::BFloat16", 8 for "c10::Float8_e4m3fn"; 0: unknown.
int element_bits(const Trace& trace, HostId op);

}  // namespace profgpu
