// Pipes as files: what can be read once only is kept, without a name, so that it can be read again.
#pragma once

#include <string>

#include "base/result.h"

namespace profgpu {

/// Whether `path` is standard input ("-") or an unnamed pipe, as a shell's <(…) is.
bool is_pipe_path(const std::string& path);

/// A descriptor at the beginning of what the pipe has delivered until its end: `path` of is_pipe_path(). It is kept for
/// the life of the process in a file without a name under TMPDIR. By any thread.
Result<int> open_spooled(const std::string& path);

/// For readers that seek: `path` itself if it is a plain file, else a path to its content, decompressed, which is kept
/// for the life of the process in a file without a name under TMPDIR. What comes before a damaged place is kept.
Result<std::string> seekable_path(const std::string& path);

/// A new file for such content. The error: there is no room for one.
Result<int> nameless_file();

}  // namespace profgpu
