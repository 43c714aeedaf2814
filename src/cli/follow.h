// A log that a running job writes: read as it grows, and shown in one line meanwhile.
//
// Only the end of the run is waited for: what the report says comes from reading the whole file once more.
#pragma once

#include <string>

#include "base/result.h"

namespace profgpu {

/// Returns once the log says that the run finished or failed and nothing was written for a few seconds since, or at
/// SIGINT or SIGTERM; the next such signal ends the program. `draws`: the newest step stands on standard error, in a
/// line that is gone in the end. A file that gets shorter is read anew. The error: it is no regular file, or cannot be
/// read.
Status follow_log(const std::string& path, bool draws);

}  // namespace profgpu
