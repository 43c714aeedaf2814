// Recordings among the files that a user names, as the ranks that they are.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "import/inputs.h"

namespace profgpu {

struct RecordingPath {
  std::string path;
  bool named = false;   ///< by the user, not found in a folder: what is wrong with it is an error
};

struct RecordedRank {
  std::optional<int> rank;            ///< as recorded
  Trace trace;
  std::vector<InputSource> sources;   ///< its files; the one with most device activity first
};

struct RecordedRanks {
  std::vector<RecordedRank> ranks;
  std::vector<InputSource> others;    ///< files of no rank: launchers, shells
  std::vector<std::string> left_out;  ///< files that say nothing, and why
};

/// Whether a file's first bytes, decompressed, are a recording's.
bool holds_recording(const std::string& path);

/// Files of one folder belong to one run.
Result<RecordedRanks> read_recordings(const std::vector<RecordingPath>& paths, const ImportOptions& options);

}  // namespace profgpu
