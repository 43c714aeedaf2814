// How bad something is: a finding, an issue of an input, an alert, an error code.
#pragma once

#include <cstdint>
#include <string_view>

namespace profgpu {

enum class Severity : uint8_t {
  kInfo,       ///< nobody's fault, but worth knowing
  kWarning,    ///< it is slower than it could be, or may soon fail
  kCritical,   ///< it cannot be relied upon
};

constexpr std::string_view severity_name(Severity severity) {
  return severity == Severity::kCritical ? "critical" : severity == Severity::kWarning ? "warning" : "info";
}

}  // namespace profgpu
