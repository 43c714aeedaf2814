// Importer: one file format, to a Trace.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "trace/trace.h"

namespace profgpu {

/// One rank of a file of merged ranks: its processes' pids are "[LABEL] 83".
struct MergedRank {
  std::string label;   ///< "TP00-PP01"
  int rank = 0;
  int ranks = 0;       ///< in the file
  bool first = false;  ///< of the file: carries what belongs to no rank
  /// Numbers of this rank's process and of all ranks' processes in the file, where the file has such.
  int64_t process = 0;
  std::vector<int64_t> processes = {};
  bool numbered = true;   ///< the file says which rank it is; else ranks of several such files follow each other
  std::shared_ptr<const RunLog> log = {};   ///< the log, if it was read to find its ranks
  int place = -1;      ///< in RunLog::ranks; -1: none
};

struct ImportOptions {
  int threads = 0;  ///< 0: as many as the machine has, at most 8
  /// Called repeatedly by the reading thread, with the bytes read so far and the file's size.
  std::function<void(int64_t done, int64_t total)> progress;
  std::optional<MergedRank> merged;   ///< read only this rank
};

/// A guess from the first bytes of a file.
struct Peek {
  std::optional<int> rank;
  bool merged = false;         ///< may have several ranks: see Importer::merged_ranks
};

struct Importer {
  std::string_view name;
  std::string_view noun;       ///< "PyTorch trace"
  std::string_view summary;
  std::string_view examples;   ///< file names, for `profgpu formats`
  /// Whether text that begins with `head` (up to 64 KiB, decompressed) is of this format.
  bool (*sniff)(std::string_view head);
  Result<Trace> (*read)(const std::string& path, const ImportOptions& options);
  /// For a guess of which files belong together. Null: nothing is known from a head.
  Peek (*peek)(std::string_view head) = nullptr;
  /// The ranks of a file with Peek::merged, by rank. Reads the whole file. Null: never several.
  std::vector<MergedRank> (*merged_ranks)(const std::string& path) = nullptr;
  /// Looks further into a file that sniff() takes, where its first bytes do not tell. Null: they do.
  bool (*knows)(const std::string& path) = nullptr;
  /// Whether a file whose head no importer knows is of this format; it is read for that. Null: a head tells.
  bool (*search)(const std::string& path) = nullptr;
  /// It describes a whole job, or its end: beside traces its files are of no rank.
  bool beside_traces = false;
  /// Beside a trace of its rank, puts what `own` has into that one; `path`: of `own`. The issue says how much it was.
  /// Null: it stands for itself.
  TraceIssue (*join)(const Trace& own, const std::string& path, Trace& other) = nullptr;
};

const std::vector<const Importer*>& importers();
/// By the head of the file `path`; null: none reads it.
const Importer* find_importer(std::string_view head, const std::string& path);
/// Of a file whose head tells nothing.
const Importer* search_importer(const std::string& path);

struct Imported {
  Trace trace;
  const Importer* importer = nullptr;
  int64_t file_bytes = 0;
};

/// Reads a file with the importer for its format. Errors name the file and what it looks like instead.
Result<Imported> import_file(const std::string& path, const ImportOptions& options);

}  // namespace profgpu
