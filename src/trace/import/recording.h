// Recordings (`.pgt`): from files of the processes of one rank to one Trace, and from a folder's files to its ranks.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "trace/import/importer.h"
#include "trace/import/input_units.h"
#include "trace/import/recording_file.h"

namespace profgpu {

extern const Importer kRecording;

/// The processes of one rank, all of one host, on one clock.
struct RankRecording {
  std::vector<const RecordingFile*> processes;
  std::vector<const RecordingFile*> host_files;   ///< samples of threads of many processes
  /// Processes whose samples are taken from the host's files; empty: all.
  std::set<std::string> pids;
};
Trace recorded_trace(const RankRecording& recording, const ImportOptions& options);

/// What is wrong with a file, and what its recorder noted.
std::vector<TraceIssue> recording_issues(const RecordingFile& file);
/// Why there is nothing in it, in its recorder's words where there are some.
Error empty_recording(const RecordingFile& file);

/// Files that belong together, by index.
struct RecordingGroup {
  std::optional<int> rank;            ///< as the processes state it; none: to be assigned
  std::vector<size_t> processes, host_files;
};
/// A rank's processes on a host are one group. Processes without a rank: each with device activity is one by itself,
/// others go with the process that started them, or with the only group. A file that goes with none is in none.
std::vector<RecordingGroup> grouped(const RecordingFiles& files);

// Recordings among the files that a user names, as the ranks that they are.

/// Adds a unit for each rank. Files of one folder belong to one run. The error: a named file cannot be read, or has
/// nothing in it.
Status add_recordings(const std::vector<InputUnit::File>& files, const ImportOptions& options, InputUnits& all);

Result<UnitRead> read_recording(const InputUnit& unit, const ImportOptions& options);

}  // namespace profgpu
