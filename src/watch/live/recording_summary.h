// A few totals of the files that recorded processes wrote, without decoding them.
//
// Budget: 5 µs a chunk, whatever its size.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace profgpu {

struct RecordedProcess {
  std::string path;
  std::string host;
  int64_t bytes = 0;
  int64_t pid = 0, rank = -1;
  std::string run;                    ///< the `profgpu run` that started it; empty: not stated
  int64_t kernels = 0, copies = 0, calls = 0, ranges = 0, collectives = 0, steps = 0;
  int64_t events = 0;                 ///< rows of all kinds that a report uses
  int64_t windows = 0;                ///< opened
  std::map<std::string, int64_t> dropped;  ///< rows by reason
  std::vector<std::string> notes;     ///< what it could not record, and why
  bool ended = false;                 ///< normally
};

struct RecordingSummary {
  std::vector<RecordedProcess> processes;
  std::vector<std::string> unreadable;   ///< paths
};

/// Which files of a folder are a run's.
struct RecordedBy {
  std::string run;               ///< as RecordingRequest has it
  std::string host;
  bool on_this_host = false;     ///< all its processes are here: skip files of other hosts
  int64_t from_unix_ns = 0;      ///< of processes that state no run: those of this host that wrote at or after this
};

/// The files in `folder` that processes of the run wrote, except our own.
RecordingSummary summary_of_recording(const std::string& folder, const RecordedBy& by);

}  // namespace profgpu
