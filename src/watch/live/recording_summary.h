// What is in the files that recorded processes wrote, in a few numbers; the recording itself is not decoded.
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
  std::string run;                    ///< the `profgpu run` that started it; empty: it does not say
  int64_t kernels = 0, copies = 0, calls = 0, ranges = 0, collectives = 0, steps = 0;
  int64_t events = 0;                 ///< rows of any kind that a report is made of
  int64_t windows = 0;                ///< that were opened
  std::map<std::string, int64_t> dropped;  ///< rows by reason
  std::vector<std::string> notes;     ///< what it could not record, and why
  bool ended = false;                 ///< in order
};

struct RecordingSummary {
  std::vector<RecordedProcess> processes;
  std::vector<std::string> unreadable;   ///< paths
};

/// Which files of a folder are a run's.
struct RecordedBy {
  std::string run;               ///< as RecordingRequest has it
  std::string host;
  bool on_this_host = false;     ///< the run started nothing elsewhere: others' files need not be opened
  int64_t from_unix_ns = 0;      ///< processes that do not say: those of this host that wrote at or after this
};

/// The files in `folder` that processes of the run wrote, without our own.
RecordingSummary summary_of_recording(const std::string& folder, const RecordedBy& by);

}  // namespace profgpu
