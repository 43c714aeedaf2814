// A file's text at once, for formats whose parts refer to each other.
#pragma once

#include <cstddef>
#include <string>

#include "base/result.h"

namespace profgpu {

class TextSource;

/// What `source` still has, or the first `most` bytes of it (rounded up to 1 MiB).
std::string whole_text(TextSource& source, size_t most);
/// Decompressed, and as far as it can be read: `broken` says whether it ends early.
Result<std::string> whole_text(const std::string& path, bool& broken);

}  // namespace profgpu
