// From the paths that a user names to the ranks of a job, all of them in memory.
#pragma once

#include <string>
#include <vector>

#include "trace/import/input_units.h"

namespace profgpu {

struct RankTrace {
  int rank = 0;
  Trace trace;                  ///< all windows of the rank
};

struct Inputs {
  std::vector<InputSource> sources;   ///< in the order of paths; of a folder, by name
  std::vector<RankTrace> ranks;       ///< by rank
  SampleLog samples;                  ///< of sample files given beside traces; of them alone, in the one rank's trace
};

/// Reads files and folders. A folder gives every trace in it; other files there are left out and named in an issue of
/// the first trace. Fails if a named file cannot be read, if nothing can, or if two files claim one rank but are not
/// successive windows of it.
Result<Inputs> read_inputs(const std::vector<std::string>& paths, const ImportOptions& options);

/// Why there is nothing in what the user named.
Error nothing_to_read(const std::vector<std::string>& paths, const std::vector<std::string>& left_out);

}  // namespace profgpu
