// Traces that XLA's profiler recorded, for JAX or TensorFlow.
#pragma once

#include <algorithm>
#include <string_view>

#include "trace/trace.h"

namespace profgpu {

/// Key of such a trace's Trace::metadata.
inline constexpr std::string_view kXlaProfileField = "profgpu_xla_profile";

inline bool is_xla_profile(const Trace& trace) {
  return std::ranges::any_of(trace.metadata, [](const auto& field) { return field.first == kXlaProfileField; });
}

}  // namespace profgpu
