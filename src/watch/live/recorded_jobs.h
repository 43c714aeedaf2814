// What the recorded processes of this machine do now: steps per second, phases, and what their devices wait for.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/descriptor.h"
#include "base/result.h"
#include "trace/import/recording_file.h"

namespace profgpu {

/// For one thread that may block: reads files, and analyses the last seconds of a recording every few seconds, with at
/// most a twentieth of a core.
class RecordedJobs {
 public:
  RecordedJobs();
  ~RecordedJobs();

  /// One line for each of these processes that is recorded, in order. Forgets all others.
  std::vector<std::string> look(const std::vector<int64_t>& pids);

  static constexpr size_t kMaxProcesses = 64;

 private:
  struct Process;
  std::map<int64_t, std::unique_ptr<Process>> processes_;   // null: it is not recorded
};

/// "forward 30 %, backward 45 %; GPU idle 22 %, most of it data loading (15 %)", of a recording's last seconds. Empty:
/// nothing can be said.
std::string recorded_work_text(const RecordingFile& recording);

/// The last seconds of a growing recording, as a recording of its own: all chunks that others refer to (strings,
/// threads, queues, clocks), and the recent ones of the other kinds.
///
/// Budget: reads only what is new; memory for the kept seconds, and for names.
class RecordingTail {
 public:
  /// The error: not a recording, or not readable. `kept_ns`: how long a chunk is kept after it was read.
  static Result<RecordingTail> open(const std::string& path, int64_t kept_ns);

  /// Reads the complete chunks added since, and drops old ones. False: nothing is new. Of a file that is already long,
  /// reads only the names and the last kMaxRecent bytes.
  bool follow(int64_t now_ns);
  /// A recording's bytes.
  [[nodiscard]] std::string bytes() const;
  /// The process ended normally, or what follows is not a chunk.
  [[nodiscard]] bool ended() const { return ended_; }

  static constexpr int64_t kMaxRecent = 32 << 20, kMaxLasting = 64 << 20;   // bytes

 private:
  struct Piece {
    std::string bytes;
    int64_t read_ns;
  };
  RecordingTail(Descriptor file, int64_t kept_ns) : file_(std::move(file)), kept_ns_(kept_ns) {}
  bool take_chunk(int64_t file_bytes, int64_t now_ns);

  Descriptor file_;
  int64_t kept_ns_;
  int64_t at_ = 0;                // read up to here
  std::string lasting_;           // the file's header, and chunks of names
  std::deque<Piece> recent_;
  int64_t recent_bytes_ = 0;
  bool ended_ = false;
};

}  // namespace profgpu
