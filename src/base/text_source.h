// The text of a file, whatever it is compressed with, in pieces. Nothing here needs the whole file in memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"

namespace profgpu {

class TextSource {
 public:
  enum class End { kOpen, kComplete, kTruncated, kDamaged, kUnreadable };

  virtual ~TextSource() = default;
  /// Fills `buffer` as far as the file reaches; less than `size` only at the end, which end() then explains. What comes
  /// before a damaged place is delivered.
  virtual size_t read(char* buffer, size_t size) = 0;

  [[nodiscard]] End end() const { return end_; }
  /// What is wrong, for people, where end() is neither open nor complete.
  [[nodiscard]] const std::string& problem() const { return problem_; }
  [[nodiscard]] int64_t file_bytes() const { return file_bytes_; }
  [[nodiscard]] int64_t file_bytes_read() const { return file_bytes_read_; }

 protected:
  End end_ = End::kOpen;
  std::string problem_;
  int64_t file_bytes_ = 0;
  int64_t file_bytes_read_ = 0;
};

/// Opens a plain, gzip or zstd file; which one is told by its first bytes, not by its name. "-" is standard input.
Result<std::unique_ptr<TextSource>> open_text(const std::string& path);

}  // namespace profgpu
