// From the paths that a user names to what is read in one go, found without reading it all.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "trace/import/importer.h"
#include "trace/import/recording_file.h"
#include "trace/trace.h"

namespace profgpu {

/// What the sessions of a recording (`session.json`) state about their hosts' clocks.
class SessionClocks {
 public:
  /// Ignores a file that cannot be read or has no statement. Of several statements about a host, the largest error
  /// counts, and the host is synchronized only if all say so.
  void add(const std::string& path);
  [[nodiscard]] bool empty() const { return by_host_.empty(); }
  [[nodiscard]] std::optional<ClockStatement> of(const std::string& host) const;

 private:
  std::map<std::string, ClockStatement> by_host_;
};

/// One file that was read.
struct InputSource {
  std::string path;
  std::string format;           ///< importer's name
  std::string noun;
  int64_t file_bytes = 0;
  int64_t events = 0;
  static constexpr int kNoRank = -1;
  int rank = 0;                 ///< kNoRank: of none (samples of devices beside traces, files of another run)
  std::vector<TraceIssue> issues;
};

/// What tells whether files are successive windows of one process.
struct WindowFacts {
  Interval extent;                       ///< Unix time where the file says it
  std::string host;                      ///< empty: unknown
  std::set<std::string> processes;       ///< pids of threads that did something
  int64_t first_step = INT64_MAX, last_step = INT64_MIN;   ///< numbers of ProfilerStep#
};
WindowFacts window_facts(const Trace& trace);

/// One trace file, or a rank's recordings: all that is known of it but for its trace.
struct InputPart {
  size_t place = 0;                      ///< in the order of the paths; of a folder, by name
  InputSource source;
  std::vector<InputSource> beside;       ///< further files that the trace was made of
  std::optional<int> stated_rank;        ///< by the file itself
  bool recording = false, only_samples = false, on_device = false;   ///< the last: there is device activity
  WindowFacts window;
  Interval life;                         ///< of a recording: when its processes were there for certain, in Unix time
};

struct ReadPart {
  InputPart part;
  Trace trace;
};

/// Files that are read together: likely windows of one rank, or the recordings of one.
struct InputUnit {
  struct File {
    std::string path;
    bool named = false;                  ///< by the user, not found in a folder: what is wrong with it is an error
    size_t place = 0;
    bool of_host = false;                ///< a recording of a host's threads
    bool counts = true;                  ///< shown as a file of this unit, not of another
    const Importer* importer = nullptr;  ///< null: no importer can read the file, see `why_unknown`
    Error why_unknown = {};
    int64_t bytes = 0;                   ///< on disk
    std::optional<MergedRank> merged = {};   ///< only this rank of it
  };
  std::vector<File> files;
  int64_t bytes = 0;                     ///< on disk
  bool recording = false;
  bool among_others = false;             ///< recordings of other ranks lie beside: samples of threads are told apart
  std::optional<int> rank;               ///< of recordings
  RecordingFiles opened;                 ///< of recordings that are small together; else empty
  std::shared_ptr<const SessionClocks> clocks;   ///< of all hosts; null: nothing is stated
};

struct InputUnits {
  std::vector<InputUnit> units;
  std::vector<InputSource> others;       ///< files of no rank: launchers, shells
  std::vector<std::string> left_out;     ///< files that say nothing, and why
};

/// Lists files and folders, and looks into their heads for what belongs together.
Result<InputUnits> find_units(const std::vector<std::string>& paths, const ImportOptions& options);

struct UnitRead {
  std::vector<ReadPart> parts;
  std::vector<std::string> left_out;     ///< files of a folder that could not be read, and why
};
/// The error: a file that the user named cannot be read.
Result<UnitRead> read_unit(const InputUnit& unit, const ImportOptions& options);

/// The rank that a file name states (rank-3, rank3, rank_3, r3, worker3), or -1.
int rank_in_name(std::string_view path);

// Which parts of an input are which rank of a job.

/// Parts of each rank, in order of time, by place in `parts`; parts that stand for no rank are in none. Sets the parts'
/// ranks: as recorded, else as the file is named, else that of another window of the same process or of its recording,
/// else the next that is free. A trace that PyTorch wrote while its process was recorded is part of the rank beside the
/// recording; any other is taken in the recording's place. The error: two parts claim one rank but are not successive
/// windows of it.
Result<std::map<int, std::vector<size_t>>> parts_by_rank(std::vector<InputPart>& parts);

/// The parts that are traces, by place, in order of time, if nothing that they say themselves keeps them from being
/// windows of one rank; else none. Which rank it is, and what more there is of it, is seen when all parts are read.
std::vector<size_t> windows_of_one_rank(const std::vector<InputPart>& parts);

/// Why there is nothing to analyze in the paths that the user named.
Error nothing_to_read(const std::vector<std::string>& paths, const std::vector<std::string>& left_out);

/// All files, in the order of the paths, with what was left out said in an issue of the first.
std::vector<InputSource> sources_of(std::vector<InputPart> parts, const InputUnits& units,
                                    const std::vector<std::string>& left_out);

}  // namespace profgpu
