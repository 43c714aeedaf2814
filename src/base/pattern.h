// Regular expressions that people give us.
#pragma once

#include <cstdint>
#include <string_view>

namespace profgpu {

/// Characters that a POSIX extended regular expression has once its repetitions are written out, as regcomp() does:
/// "(ab){1,5}" has 10. At most INT64_MAX.
int64_t pattern_size(std::string_view pattern);

/// Memory and time of matching grow with it. Far above what a name needs.
constexpr int64_t kMaxPatternSize = 1'000;

}  // namespace profgpu
