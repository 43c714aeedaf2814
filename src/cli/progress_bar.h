// A line on standard error that says how far reading has come.
#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

#include "base/progress.h"

namespace profgpu {

/// Draws at most ten times a second, from the first half second on, until destroyed; then the line is gone.
/// Draws nothing if not `shown`.
class ProgressBar {
 public:
  ProgressBar(const Progress& progress, bool shown);
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

 private:
  void draw_until_done();

  const Progress& progress_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false;
  std::thread thread_;
};

/// "reading  [#####     ]  51 %  1.2 of 2.4 GB", without colours or control characters.
std::string progress_line(const Progress& progress);

}  // namespace profgpu
