// Importer: one file format, to a Trace.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "trace/trace.h"

namespace profgpu {

/// One rank of a file that ranks were merged into: its processes' pids are "[LABEL] 83".
struct MergedRank {
  std::string label;   ///< "TP00-PP01"
  int rank = 0;
  int ranks = 0;       ///< in the file
  bool first = false;  ///< of the file: what belongs to none is said there
};

struct ImportOptions {
  int threads = 0;  ///< 0: as many as the machine has, at most 8
  /// Called now and then from the reading thread with bytes of the file read and its size.
  std::function<void(int64_t done, int64_t total)> progress;
  std::optional<MergedRank> merged;   ///< read this rank alone
};

/// The file as a whole may say otherwise.
struct Peek {
  std::optional<int> rank;
  bool merged = false;         ///< of several ranks, or may be: see Importer::merged_ranks
};

struct Importer {
  std::string_view name;
  std::string_view noun;       ///< "PyTorch trace"
  std::string_view summary;
  std::string_view examples;   ///< file names that it reads, for `profgpu formats`
  /// Whether text that begins with `head` (up to 64 KiB, decompressed) is of this format.
  bool (*sniff)(std::string_view head);
  Result<Trace> (*read)(const std::string& path, const ImportOptions& options);
  /// What such a head says of the file, for a guess of what belongs together. Null: nothing.
  Peek (*peek)(std::string_view head) = nullptr;
  /// The ranks of a file that peek() takes for several, by rank. It is read through for that. Null: never several.
  std::vector<MergedRank> (*merged_ranks)(const std::string& path) = nullptr;
};

const std::vector<const Importer*>& importers();
/// By the file's head; null: none knows it.
const Importer* find_importer(std::string_view head);

struct Imported {
  Trace trace;
  const Importer* importer = nullptr;
  int64_t file_bytes = 0;
};

/// Reads a file with the importer that knows it. Errors name the file and say what it looks like instead.
Result<Imported> import_file(const std::string& path, const ImportOptions& options);

}  // namespace profgpu
