// What a kernel's demangled name is made of.
#pragma once

#include <string_view>
#include <vector>

namespace profgpu {

/// The parts of "ret a::b<c>::base<args>(parameters)"; scopes without a name are left out.
struct KernelParts {
  std::vector<std::string_view> scopes;   ///< a, b
  std::string_view base;
  std::string_view arguments;             ///< of the base, without the brackets
};
KernelParts kernel_parts(std::string_view name);

}  // namespace profgpu
