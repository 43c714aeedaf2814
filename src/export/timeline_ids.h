// How processes and threads are numbered in formats that want numbers for them.
#pragma once

#include <string>

#include "export/run.h"

namespace profgpu {

/// One rank keeps its own process ids. Those of several ranks are moved apart, since each machine counts from one.
class TimelineIds {
 public:
  TimelineIds(const RunRows& run, const RankRows& rank);

  /// Of a thread's process and of the thread; made up where what was recorded is no number of that size.
  [[nodiscard]] int64_t process(size_t thread) const { return processes_[thread]; }
  [[nodiscard]] int64_t thread(size_t thread) const { return threads_[thread]; }
  /// A device as a process of its own.
  [[nodiscard]] int64_t device(int32_t device) const { return moved_ ? (int64_t{rank_.rank()} + 1) * 1000 + device : device; }
  /// "rank 3, pid 1234", or "pid 1234" alone.
  [[nodiscard]] std::string process_name(size_t thread) const;
  /// "rank 3, GPU 0 NVIDIA H200", likewise.
  [[nodiscard]] std::string device_name(int32_t device) const;

 private:
  const RankRows& rank_;
  bool moved_;
  std::vector<int64_t> processes_, threads_;
};

}  // namespace profgpu
