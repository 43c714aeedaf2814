// A file that a run's samples go to as they come.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "trace/sample_file.h"

namespace profgpu {

class SampleOutput {
 public:
  /// Replaces the file. CSV or JSON lines, by its ending. A pipe must have a reader within a few seconds.
  /// `host`: as SampleWriter takes it.
  static Result<std::unique_ptr<SampleOutput>> open(const std::string& path, const std::vector<DeviceInfo>& devices,
                                                    std::string_view host);
  ~SampleOutput();
  SampleOutput(const SampleOutput&) = delete;
  SampleOutput& operator=(const SampleOutput&) = delete;

  /// Whole rows only: the first that does not go in ends the file, and problem() says why. A pipe whose reader takes
  /// nothing for a second ends too.
  void add(const Reading& reading);
  void mark(int64_t time_ns, std::string_view name);
  [[nodiscard]] const std::string& path() const { return path_; }
  /// Rows in it.
  [[nodiscard]] int64_t rows() const { return rows_; }
  /// Empty: all is well.
  [[nodiscard]] const std::string& problem() const { return problem_; }

 private:
  SampleOutput(std::string path, int fd, SampleWriter writer);
  void write(std::string_view row);

  std::string path_, problem_;
  int fd_;
  SampleWriter writer_;
  int64_t size_bytes_ = 0, rows_ = 0;
};

}  // namespace profgpu
