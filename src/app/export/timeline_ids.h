// How ranks, processes, threads and streams are numbered and called in timelines.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "analyse/rank/collectives.h"
#include "app/export/run.h"

namespace profgpu {

/// One rank keeps its own process ids. Those of several ranks are numbered anew, since each machine counts from one.
class TimelineIds {
 public:
  TimelineIds(const RunRows& run, const RankRows& rank);

  /// Whether there are further ranks.
  [[nodiscard]] bool among_several() const { return moved_; }
  /// Of a thread's process and of the thread; made up where what was recorded is no number of that size.
  [[nodiscard]] int64_t process(size_t thread) const { return processes_[thread]; }
  [[nodiscard]] int64_t thread(size_t thread) const { return threads_[thread]; }
  /// A device as a process of its own.
  [[nodiscard]] int64_t device(int32_t device) const { return moved_ ? first_process() + device : device; }
  /// "rank 3 · node7", or nothing.
  [[nodiscard]] const std::string& rank_name() const { return rank_name_; }
  /// "rank 3 · node7 · GPU 0", or "GPU 0" alone. Likewise what belongs to the rank as a whole.
  [[nodiscard]] std::string name_of(std::string_view what) const;
  /// Named by its recorded id.
  [[nodiscard]] std::string process_name(size_t thread) const;
  /// With its model where there is but one rank.
  [[nodiscard]] std::string device_name(int32_t device) const;
  /// "stream 20 (communication: all_reduce)": what takes most of its time, and the collectives, most time first.
  [[nodiscard]] const std::string& stream_name(uint16_t queue) const { return streams_[queue]; }

 private:
  // A rank's process numbers are a thousand of its own: devices from 0 on, processes of the host from 500 on. They have
  // 32 bits in what reads them.
  [[nodiscard]] int64_t first_process() const { return (rank_.rank() % (INT32_MAX / 1000 - 1) + 1) * int64_t{1000}; }
  void number_threads();
  void name_streams();

  const RankRows& rank_;
  bool moved_;
  std::string rank_name_;
  std::vector<int64_t> processes_, threads_;
  std::vector<std::string> streams_;
};

// Arrows between the kernels of one collective: from each to that of the rank that arrived last, which it waited for.

/// A kernel's arrows. Arrows are numbered from 1 on through the run.
struct CollectiveEnd {
  const CallTiming* call = nullptr;
  uint64_t first = 0;      ///< those of the last one to arrive are first .. first + arrows - 1; all others have one
  uint64_t arrows = 0;     ///< 0: no other rank of it is shown
  bool latest = false;     ///< of the ranks that are shown: arrows end here, else one begins here
};

class CollectiveArrows {
 public:
  /// O(calls log calls) of the ranks that are shown, which must outlive it; their events are not needed.
  explicit CollectiveArrows(const RunRows& run);
  /// Null: a kernel that matches no other rank's call.
  [[nodiscard]] const CollectiveEnd* find(const RankRows& rank, ActivityId activity) const;

 private:
  std::map<int, std::vector<CollectiveEnd>> ends_;   // by rank, then activity
};

}  // namespace profgpu
