// The file that `profgpu log` and `profgpu monitor` append to: whole rows, each by one write, so that it stays readable
// when the program is killed or the disk fills up.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <variant>
#include <vector>

#include "base/result.h"
#include "cli/command.h"
#include "trace/sample_file.h"

namespace profgpu {

class LogFile {
 public:
  struct Options {
    std::string path;            ///< empty: standard output
    std::string header;          ///< with its line feed; empty: none
    int64_t rotate_bytes = 0;    ///< 0: never
    int64_t keep = INT64_MAX;    ///< older files that stay
    /// Once true, no row waits any longer for the reader of a pipe. Must outlive the file.
    const std::atomic<bool>* given_up = nullptr;
  };
  /// Creates the file, or continues one that has the same columns: a torn last line is ended, a torn only line removed.
  static Result<LogFile> open(Options options);
  LogFile(LogFile&& other) noexcept;
  LogFile& operator=(LogFile&&) = delete;
  ~LogFile();

  /// Whether a row of that size is for the next file.
  [[nodiscard]] bool is_full(size_t row_bytes) const;
  /// FILE becomes FILE.1, that becomes FILE.2, and a new FILE begins with the header.
  Status rotate();
  Status write(std::string_view row);
  /// Waits until what was written is on the disk. Nothing to do for pipes and the like.
  Status sync();
  /// The reader of a pipe has left: not an error, but the end.
  [[nodiscard]] bool reader_left() const { return reader_left_; }
  [[nodiscard]] const std::string& path() const { return options_.path; }

 private:
  explicit LogFile(Options options) : options_(std::move(options)) {}
  Status open_file();
  Status check_old(int64_t size) const;
  [[nodiscard]] bool is_torn_first_row(int64_t size) const;
  [[nodiscard]] bool wait_for_reader() const;

  Options options_;
  int fd_ = -1;
  bool regular_ = false;         ///< so it can be cut back to its last whole row
  bool reader_left_ = false;
  int64_t bytes_ = 0;
};

// The log of `profgpu monitor`: rows of samples and of alerts, written by a thread of its own, so that a disk that is
// full or hangs never holds up what watches the devices.

struct MonitorLogOptions {
  std::string path;
  int64_t rotate_bytes = 0, keep = 0;
  int64_t sync_ns = 0;  ///< how often what was written is synced to the disk; 0: after each batch of rows
  std::string host;              ///< of devices that do not report theirs
};

class MonitorLog {
 public:
  /// The error is that of the first opening; later ones are reported and tried again. `report` is called on the thread,
  /// once when writing begins to fail and once when it continues.
  static Result<std::unique_ptr<MonitorLog>> open(MonitorLogOptions options, std::vector<DeviceInfo> devices,
                                                  std::function<void(const std::string&)> report);
  ~MonitorLog();
  MonitorLog(const MonitorLog&) = delete;
  MonitorLog& operator=(const MonitorLog&) = delete;

  /// Neither waits. What arrives while kMaxWaiting wait is lost, and counted.
  void add(const Reading& reading);
  void add_row(std::string row);
  /// Closes the file and opens what then has its name, for log rotation by another program.
  void reopen();
  /// Writes and syncs what waits; false: the disk hangs and the thread is left behind.
  bool close(int64_t patience_ns);
  [[nodiscard]] int64_t rows() const;

  static constexpr size_t kMaxWaiting = 16384;

 private:
  struct Shared;
  explicit MonitorLog(std::shared_ptr<Shared> shared) : shared_(std::move(shared)) {}

  std::shared_ptr<Shared> shared_;   // outlives us where the thread does
  std::thread thread_;
};

/// --rotate and --keep. The error is a usage error.
Status read_rotation(const Arguments& arguments, int64_t& rotate_bytes, int64_t& keep);

}  // namespace profgpu
