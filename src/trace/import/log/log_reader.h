// LogReader: the text of a log, as it comes, to a RunLog.
//
// Budget: 500 MB/s of text of which most lines are of no family, on one core. So: lines are found by memchr, a line
// without any family's word costs one search (LineScan), and nothing is copied but what a line leaves over at
// the end of a piece.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "trace/import/log/log_builder.h"
#include "trace/import/log/log_family.h"

namespace profgpu {

class LogReader {
 public:
  /// Longer lines are read up to here and counted.
  static constexpr size_t kMaxLine = 1 << 20;

  LogReader();
  /// The next piece of the text, of any size. At least LineScan's 16 bytes behind it can be read.
  void feed(std::string_view text);
  /// There is no more: a last line without an end is one as well.
  void end();
  /// What is known so far; lines are whole only up to the last one that ended.
  [[nodiscard]] RunLog log() const { return rows_.finished(); }
  /// The same, of which nothing is left here.
  RunLog taken() { return rows_.taken(); }
  /// Of lines that a family knows.
  [[nodiscard]] int64_t records() const { return records_; }
  /// Whether any of these lines is one that only logs have.
  [[nodiscard]] bool is_log() const { return is_log_; }
  [[nodiscard]] const LogBuilder& rows() const { return rows_; }

 private:
  struct Family {
    uint64_t bit = 0;  // of LineScan
    std::unique_ptr<LogReading> reading;
    std::string_view name;
    bool of_logs_only = true;
  };
  void lines_of(std::string_view text);
  std::string_view complete_rest(std::string_view text);
  void give_rest();
  void make_room();
  void line(const char* begin, const char* end);
  void part(std::string_view text, uint64_t found);
  void drawing(std::string_view text, uint64_t found);
  void give(const LogLine& line, uint64_t found);

  LineScan scan_;
  std::vector<Family> families_;
  uint64_t escape_ = 0, bars_ = 0;
  LogBuilder rows_;
  std::string rest_;    // of a line that has not ended
  bool skips_ = false;  // the rest of a line that is too long
  bool open_ = false;   // some family expects the next line
  bool is_log_ = false;
  bool decimal_commas_ = false;   // the log's numbers have
  int64_t number_ = 1, records_ = 0;
  std::string plain_;  // a line without escape sequences
};

/// Reads a file through. `more`: called now and then with bytes read and the file's size.
Result<RunLog> read_log(const std::string& path, const std::function<void(int64_t, int64_t)>& more);

/// Whether the head of a file, or all of it, has a line that a family knows.
bool head_of_log(std::string_view head);
/// Whether a log has anything that one of the families knows, within its first 4 GiB.
bool holds_log(const std::string& path);

}  // namespace profgpu
