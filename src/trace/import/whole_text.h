// A file's text at once, for formats whose parts refer to each other.
#pragma once

#include <string>

#include "base/result.h"

namespace profgpu {

/// Decompressed, and as far as it can be read: `broken` says whether it ends early.
Result<std::string> whole_text(const std::string& path, bool& broken);

}  // namespace profgpu
