// Names of kernels as code objects have them.
#pragma once

#include <string_view>

namespace profgpu {

/// Symbols of AMD's code objects are "NAME.kd".
constexpr std::string_view without_kd(std::string_view name) {
  if (name.ends_with(".kd")) name.remove_suffix(3);
  if (name.ends_with(" [clone .kd]")) name.remove_suffix(12);
  return name;
}

}  // namespace profgpu
