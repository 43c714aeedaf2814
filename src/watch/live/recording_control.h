// The control page of a recorded process (wire/control.h), from outside: finds it through /proc, reads its state, and
// starts or stops the recording, and orders
// snapshots of memory.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "record/wire/control.h"

namespace profgpu {

struct RecorderStatus {
  wire::RecorderState state = wire::RecorderState::kStarting;
  uint64_t rows = 0, bytes = 0, dropped = 0, steps = 0;
  int64_t started_unix_ns = 0;
  int64_t flushed_ago_ns = -1;  ///< -1: it never was
  std::string reason;
};

class RecordingControl {
 public:
  /// Errors: no such process, somebody else's, not recorded, or recorded but without a page.
  static Result<std::unique_ptr<RecordingControl>> open(int64_t pid, const std::string& proc = "/proc");
  ~RecordingControl();
  RecordingControl(const RecordingControl&) = delete;
  RecordingControl& operator=(const RecordingControl&) = delete;

  [[nodiscard]] RecorderStatus status() const;
  /// Waits until the process has carried it out, for at most `timeout_ns`.
  Status order(wire::ControlOrder order, int64_t timeout_ns);
  /// Has the process write a snapshot of PyTorch's allocator into the recording's folder, and waits for it likewise.
  /// Returns its path, as the process sees it.
  Result<std::string> take_memory(int64_t timeout_ns);
  /// The recording's folder, as the process sees it.
  [[nodiscard]] const std::string& folder() const { return folder_; }
  /// The recording itself, as seen from here; empty: there is none.
  [[nodiscard]] std::string recording_path() const;

 private:
  RecordingControl(int64_t pid, std::string proc, std::string folder, wire::ControlPage* page)
      : pid_(pid), proc_(std::move(proc)), folder_(std::move(folder)), page_(page) {}

  int64_t pid_;
  std::string proc_, folder_;
  wire::ControlPage* page_;
};

/// Recorded descendants of `pid`.
std::vector<int64_t> recorded_below(int64_t pid, const std::string& proc = "/proc");
/// Whether it only starts worker programs, as torchrun does: those are ranks or recorded, and it is neither.
bool is_launcher(int64_t pid, const std::string& proc = "/proc");
/// Whether the process exists and may be inspected; the error says which is not so.
Status check_process(int64_t pid, const std::string& proc = "/proc");
/// The path by which we reach what the process calls `path`: it may run in a container or another mount namespace.
std::string path_through(int64_t pid, const std::string& path, const std::string& proc = "/proc");
/// A variable of the environment that the process started with; empty if it is not set or cannot be read.
std::string variable_of(int64_t pid, const std::string& name, const std::string& proc = "/proc");

}  // namespace profgpu
