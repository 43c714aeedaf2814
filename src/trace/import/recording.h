// Recordings (`.pgt`): from files of one rank's processes to one Trace, and from a folder's files to its ranks.
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

/// The processes of one rank, all on one host, with one clock.
struct RankRecording {
  std::vector<const RecordingFile*> processes;
  std::vector<const RecordingFile*> host_files;   ///< samples of threads of many processes
  /// Processes whose samples to take from the host's files; empty: all.
  std::set<std::string> pids;
};
Trace recorded_trace(const RankRecording& recording, const ImportOptions& options);

/// A file's problems, and its recorder's notes.
std::vector<TraceIssue> recording_issues(const RecordingFile& file);
/// Why it is empty, in its recorder's words if there are any.
Error empty_recording(const RecordingFile& file);

/// Files that belong together, by index.
struct RecordingGroup {
  std::optional<int> rank;            ///< as the processes state it; none: to be assigned
  std::vector<size_t> processes, host_files;
};
/// A rank's processes on a host are one group. Of processes without a rank, each with device activity is a group;
/// others join the group of the process that started them, or the only group. The rest is in no group.
std::vector<RecordingGroup> grouped(const RecordingFiles& files);

/// Adds a unit for each rank of these recordings. Files of one folder belong to one run. The error: a named file cannot
/// be read, or is empty.
Status add_recordings(const std::vector<InputUnit::File>& files, const ImportOptions& options, InputUnits& all);

Result<UnitRead> read_recording(const InputUnit& unit, const ImportOptions& options);

}  // namespace profgpu
