// Recordings written by hand, on clocks that never part, and what is read of them.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "support/hand_recording.h"
#include "support/read_inputs.h"
#include "support/test_folder.h"
#include "trace/import/recording.h"

namespace profgpu {

inline constexpr int64_t kMs = 1'000'000;
inline constexpr int64_t kUnix = 1'790'000'000'000'000'000;   // of host time 0
inline constexpr int64_t kDevice = 500 * kMs;                 // device time of host time 0

/// Writes recordings by hand, and reads them.
class RecordingTest : public testing::Test {
 protected:
  [[nodiscard]] std::string path(const std::string& name) const { return folder_.string() + "/" + name; }

  Trace read(const HandRecording& recording) {
    auto imported = import_file(recording.write(path("one.pgt")), {});
    EXPECT_TRUE(imported) << (imported ? "" : imported.error().message);
    return imported ? std::move(imported->trace) : Trace();
  }
  TestFolder folder_;
};

/// Clocks that never part: device time is host time plus kDevice.
inline HandRecording begun(uint32_t pid = 100, int rank = -1, uint32_t ppid = 1) {
  HandRecording r;
  r.process(pid, ppid, "node1", rank).sync(0, kUnix, kDevice);
  return r;
}

/// "epoch 0 15": name, start and duration in milliseconds.
inline std::vector<std::string> annotations(const Trace& trace) {
  std::vector<std::string> all;
  for (uint32_t i = 0; i < trace.host.size(); ++i)
    if (trace.host.kind[i] == HostKind::kAnnotation)
      all.push_back(std::string(trace.name(HostId(i))) + " " +
                    std::to_string((trace.host.start_ns[i] + trace.base_time_ns - kUnix) / kMs) + " " +
                    std::to_string(trace.host.duration_ns[i] / kMs));
  return all;
}

inline bool has_issue(const std::vector<TraceIssue>& issues, TraceIssueKind kind, std::string_view part = "") {
  return std::any_of(issues.begin(), issues.end(),
                     [&](const TraceIssue& i) { return i.kind == kind && i.text.find(part) != std::string::npos; });
}

}  // namespace profgpu
