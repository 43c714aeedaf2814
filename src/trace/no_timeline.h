// Files of sums: a trace made from one has its kernels one after the other, as if they had run so.
#pragma once

#include <algorithm>
#include <string_view>

#include "trace/trace.h"

namespace profgpu {

/// Key of such a trace's Trace::metadata; the value says what the file is.
inline constexpr std::string_view kNoTimelineField = "profgpu_no_timeline";

inline bool has_no_timeline(const Trace& trace) {
  return std::ranges::any_of(trace.metadata, [](const auto& field) { return field.first == kNoTimelineField; });
}

}  // namespace profgpu
