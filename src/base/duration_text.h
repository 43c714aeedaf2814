// Times as people type them.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace profgpu {

/// Nanoseconds of "0.2", "0.2s", "200ms", "500us", "2m", "1h"; a bare number counts seconds. Nullopt: no duration of 0
/// or more.
std::optional<int64_t> duration_ns(std::string_view text);

}  // namespace profgpu
