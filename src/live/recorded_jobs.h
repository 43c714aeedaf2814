// What processes of this machine that we record do now: steps a second, phases, and what their devices wait for.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "import/recording_file.h"

namespace profgpu {

/// For one thread, not one that must be quick: reads files, and analyses seconds of a recording every few seconds, for at
/// most a twentieth of a core.
class RecordedJobs {
 public:
  RecordedJobs();
  ~RecordedJobs();

  /// One line for each of these processes that is recorded, in order. Those that are not asked for any more are forgotten.
  std::vector<std::string> look(const std::vector<int64_t>& pids);

  static constexpr size_t kMostProcesses = 64;

 private:
  struct Process;
  std::map<int64_t, std::unique_ptr<Process>> processes_;   // null: it is not recorded
};

/// "forward 30 %, backward 45 %; GPU idle 22 %, most of it data loading (15 %)", of a recording's last seconds. Empty:
/// nothing can be said.
std::string recorded_work_text(const RecordingFile& recording);

}  // namespace profgpu
