// What processes of this machine that we record do now: steps a second, phases, and what their devices wait for.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "trace/import/recording_file.h"

namespace profgpu {

/// For one thread, not one that must be quick: reads files, and analyses seconds of a recording every few seconds, for
/// at most a twentieth of a core.
class RecordedJobs {
 public:
  RecordedJobs();
  ~RecordedJobs();

  /// One line for each of these processes that is recorded, in order. Those that are not asked for any more are
  /// forgotten.
  std::vector<std::string> look(const std::vector<int64_t>& pids);

  static constexpr size_t kMaxProcesses = 64;

 private:
  struct Process;
  std::map<int64_t, std::unique_ptr<Process>> processes_;   // null: it is not recorded
};

/// "forward 30 %, backward 45 %; GPU idle 22 %, most of it data loading (15 %)", of a recording's last seconds. Empty:
/// nothing can be said.
std::string recorded_work_text(const RecordingFile& recording);

// The last seconds of a recording that still grows, as a recording of its own: what chunks name (strings, threads,
// queues, clocks) and those of the others that came lately.
//
// Budget: a read of what is new; memory for kept seconds, and for names.

class RecordingTail {
 public:
  /// The error: it is no recording, or cannot be read. `kept_ns`: how long a chunk is kept after it was read.
  static Result<RecordingTail> open(const std::string& path, int64_t kept_ns);
  RecordingTail(RecordingTail&& other) noexcept;
  RecordingTail& operator=(RecordingTail&&) = delete;
  ~RecordingTail();

  /// Reads the whole chunks that came since, and lets go of old ones. False: nothing is new. Of a file that is met when
  /// it is long, only the names and its last kMostRecent bytes are read.
  bool follow(int64_t now_ns);
  /// A recording's bytes.
  [[nodiscard]] std::string bytes() const;
  /// The process ended in order, or what follows is no chunk.
  [[nodiscard]] bool ended() const { return ended_; }

  static constexpr int64_t kMaxRecent = 32 << 20, kMaxLasting = 64 << 20;   // bytes

 private:
  struct Piece {
    std::string bytes;
    int64_t read_ns;
  };
  RecordingTail(int fd, int64_t kept_ns) : fd_(fd), kept_ns_(kept_ns) {}
  bool take_chunk(int64_t file_bytes, int64_t now_ns);

  int fd_;
  int64_t kept_ns_;
  int64_t at_ = 0;                // up to where it was read
  std::string lasting_;           // the file's header, and chunks of names
  std::deque<Piece> recent_;
  int64_t recent_bytes_ = 0;
  bool ended_ = false;
};

}  // namespace profgpu
