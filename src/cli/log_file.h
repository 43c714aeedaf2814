// The file that `profgpu log` and `profgpu monitor` append to: whole rows, each by one write, so that whoever is killed
// or runs out of disk leaves a file that can be read.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "cli/flag_values.h"

namespace profgpu {

class LogFile {
 public:
  struct Options {
    std::string path;            ///< empty: standard output
    std::string header;          ///< with its line feed; empty: none
    Rotation rotation{};
    /// Once true, no row waits any longer for whoever reads a pipe. Must outlive the file.
    const std::atomic<bool>* given_up = nullptr;
  };
  /// Creates the file, or goes on with one that has the same columns; a torn last line of it is ended, a torn only one
  /// cut.
  static Result<LogFile> open(Options options);
  LogFile(LogFile&& other) noexcept;
  LogFile& operator=(LogFile&&) = delete;
  ~LogFile();

  /// Whether a row of that size is for the next file.
  [[nodiscard]] bool is_full(size_t row_bytes) const;
  /// FILE becomes FILE.1, that becomes FILE.2, and a new FILE begins with the header.
  Status rotate();
  Status write(std::string_view row);
  /// Until what was written is on the disk. Pipes and the like have nothing to be synced.
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
  bool regular_ = false;         ///< and so can be cut back to its last whole row
  bool reader_left_ = false;
  int64_t bytes_ = 0;
};

}  // namespace profgpu
