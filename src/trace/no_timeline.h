// Files of sums: a trace made from one has its kernels one after the other, as if they had run so.
#pragma once

#include <string_view>

namespace profgpu {

/// Key of such a trace's Trace::metadata; the value says what the file is.
inline constexpr std::string_view kNoTimelineField = "profgpu_no_timeline";

}  // namespace profgpu
