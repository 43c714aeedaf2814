// The page that web/ is built into, as it was when this program was built.
#pragma once

#include <string_view>

namespace profgpu {

/// Empty in a program that was built without npm.
std::string_view page_template();

}  // namespace profgpu
