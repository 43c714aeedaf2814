// Environment variables.
#pragma once

#include <cstdlib>
#include <string>

namespace profgpu {

/// The value of a variable; `otherwise` where it is not set or empty.
inline std::string environment(const char* name, const char* otherwise = "") {
  const char* value = std::getenv(name);
  return value && *value ? value : otherwise;
}

}  // namespace profgpu
