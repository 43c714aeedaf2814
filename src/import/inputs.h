// From the paths that a user names to the ranks of a job.
#pragma once

#include <string>
#include <vector>

#include "import/importer.h"

namespace profgpu {

/// One file that was read.
struct InputSource {
  std::string path;
  std::string_view format;      ///< importer's name
  std::string_view noun;
  int64_t file_bytes = 0;
  int64_t events = 0;
  int rank = 0;                 ///< -1: of no rank (samples of devices, beside traces)
  std::vector<TraceIssue> issues;
};

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

/// The rank that a file name states (rank-3, rank3, rank_3, r3, worker3), or -1.
int rank_in_name(std::string_view path);

}  // namespace profgpu
