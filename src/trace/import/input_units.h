// From the user's paths to units that are read together, found by the first bytes of each file.
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
  int rank = 0;                 ///< kNoRank: none (samples or a log beside traces, files of another run)
  std::vector<TraceIssue> issues;
};

/// Of a log: whose lines tell of its steps.
struct LogFacts {
  std::string family;                    ///< empty: it has no steps, or the part is no log
  std::vector<std::string> families;     ///< all whose lines it has
  bool dated = false;                    ///< lines have clock times
};

/// Decides whether files are successive windows of one process, and whether they can be of one run.
struct WindowFacts {
  Interval extent;                       ///< Unix time if the file has it
  std::string host;                      ///< empty: unknown
  std::set<std::string> processes;       ///< pids of threads with events
  int64_t first_step = INT64_MAX, last_step = INT64_MIN;   ///< numbers of ProfilerStep#
  std::set<std::string> devices = {};    ///< their models
  std::optional<int> world_size = {};    ///< as stated
  bool calls_collectives = false;
  LogFacts log = {};
};
WindowFacts window_facts(const Trace& trace);

/// One trace file, or a rank's recordings, without the trace.
struct InputPart {
  size_t index = 0;                      ///< in the order of the paths; of a folder, by name
  InputSource source;
  std::vector<InputSource> beside;       ///< further files that the trace was made from
  std::optional<int> stated_rank;        ///< by the file itself
  bool recording = false, only_samples = false, only_snapshot = false;
  bool on_device = false;                ///< it has device activity
  bool has_samples = false;              ///< of devices, beside what else there is
  bool of_no_rank = false;               ///< samples, and what describes the job as a whole
  bool has_notes = false;                ///< a log, or a dump of NCCL's flight recorder
  WindowFacts window;
  Interval life;                         ///< of a recording: when its processes certainly existed, in Unix time
};

struct ReadPart {
  InputPart part;
  Trace trace;
};

/// Files that are read together: likely windows of one rank, or the recordings of one.
struct InputUnit {
  struct File {
    std::string path;
    bool named = false;                  ///< by the user, not found in a folder: its problems are errors
    size_t index = 0;                    ///< see InputPart
    bool of_host = false;                ///< a recording of a host's threads
    bool counts = true;                  ///< listed as a file of this unit, not of another
    const Importer* importer = nullptr;  ///< null: no importer can read the file, see `why_unknown`
    Error why_unknown = {};
    int64_t bytes = 0;                   ///< on disk
    std::optional<MergedRank> merged = {};   ///< only this rank of it
    bool of_no_rank = false;             ///< since there are traces
  };
  std::vector<File> files;
  int64_t bytes = 0;                     ///< on disk
  bool recording = false;
  bool among_others = false;             ///< there are recordings of other ranks: select samples of threads by pid
  std::optional<int> rank;               ///< of recordings
  RecordingFiles opened;                 ///< if all recordings together are small; else empty
  std::shared_ptr<const SessionClocks> clocks;   ///< of all hosts; null: nothing is stated
};

struct InputUnits {
  std::vector<InputUnit> units;
  std::vector<InputSource> others;       ///< files of no rank: launchers, shells
  std::vector<std::string> left_out;     ///< files without content, and why
};

/// Lists files and folders, and groups files by their first bytes.
Result<InputUnits> find_units(const std::vector<std::string>& paths, const ImportOptions& options);

struct UnitRead {
  std::vector<ReadPart> parts;
  std::vector<std::string> left_out;     ///< files of a folder that could not be read, and why
};
/// The error: a file that the user named cannot be read.
Result<UnitRead> read_unit(const InputUnit& unit, const ImportOptions& options);

/// The rank in a file name (rank-3, rank3, rank_3, r3, worker3), else in its folder's (rank_3/, worker3/), or -1.
int rank_in_name(std::string_view path);
/// The rank in the name of the folder so many levels above the file's own (1: the one that holds that); -1: none.
int rank_in_folder(std::string_view path, size_t levels);

// Which parts of an input are which rank of a job.

/// Indices into `parts` of each rank's parts, in order of time. Sets the parts' ranks: as recorded, else by the file's
/// name, else that of another window of the same process or of its recording, else the next free one. A trace that
/// PyTorch wrote while its process was recorded is joined with the recording; any other trace replaces the recording of
/// its rank. The error: two parts claim one rank but are not successive windows of it; or nothing says of two parts
/// which ranks they are, and they are certainly of different runs.
Result<std::map<int, std::vector<size_t>>> parts_by_rank(std::vector<InputPart>& parts);

/// Indices of the parts that are traces, in order of time, if they can be windows of one rank; else none. Which rank,
/// and whether it has further parts, is known only when all parts are read.
std::vector<size_t> windows_of_one_rank(const std::vector<InputPart>& parts);

/// Why there is nothing to analyze in the paths that the user named.
Error nothing_to_read(const std::vector<std::string>& paths, const std::vector<std::string>& left_out);

/// All files, in the order of the paths; an issue of the first lists what was left out.
std::vector<InputSource> sources_of(std::vector<InputPart> parts, const InputUnits& units,
                                    const std::vector<std::string>& left_out);

}  // namespace profgpu
