// Tables that `nvidia-smi dmon` prints: two lines that begin with '#' name columns and their units, and rows of
// fields between blanks (--format csv: commas) follow, '-' for an absent one. The names are those of its manual page.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "trace/sample_file_column.h"

namespace profgpu {

class SmiTable {
 public:
  /// Whether `line` names columns, the device's and one of ours among them. Then they are the ones that count.
  bool read_header(std::string_view line);
  /// The values of a row, one for each of columns(); the views hold until the next call. Empty: the row has others.
  const std::vector<std::string_view>& read_row(std::string_view line);
  [[nodiscard]] const std::vector<SampleColumn>& columns() const { return columns_; }
  /// What the header has and we do not read.
  [[nodiscard]] const std::vector<std::string>& unknown() const { return unknown_; }
  /// Rows say the day and the time of day.
  [[nodiscard]] bool timed() const { return timed_; }
  /// Its rows are of processes: `nvidia-smi pmon`, which does not tell how busy a device is.
  [[nodiscard]] bool of_processes() const { return of_processes_; }

 private:
  std::vector<SampleColumn> columns_;
  std::vector<std::string> unknown_;
  std::vector<std::string_view> fields_;
  std::string time_;
  bool timed_ = false, of_processes_ = false;
};

}  // namespace profgpu
