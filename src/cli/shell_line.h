// Commands that a person is to copy.
#pragma once

#include <string>
#include <vector>

namespace profgpu {

/// The words as a shell would take them.
std::string shell_line(const std::vector<std::string>& words);

}  // namespace profgpu
