// The shapes and dtypes of an op's inputs, as the profiler wrote them.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "trace/trace.h"

namespace profgpu {

/// One element an input: of a tensor its dimensions; empty: a number, or no value.
using OpShapes = std::vector<std::vector<int64_t>>;

/// Of "[[16384, 1024], [1024, 3072], []]". Lists of tensors, and text that is cut or no such list, give nothing.
OpShapes op_shapes(std::string_view text);
/// Of the range; nothing where none were recorded.
OpShapes op_shapes(const Trace& trace, HostId op);
/// Bits of the first tensor's elements: 16 of "c10::BFloat16", 8 of "c10::Float8_e4m3fn"; 0: not known.
int element_bits(const Trace& trace, HostId op);

}  // namespace profgpu
