// A file that is written piece by piece and takes its place at once when all is there.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "base/byte_writer.h"
#include "base/result.h"

namespace profgpu {

class OutputFile {
 public:
  /// Empty or "-": standard output. Anything else that is not a regular file (a pipe, /dev/stdout) is written directly.
  /// The error names the path. `written`: see ByteWriter.
  static Result<std::unique_ptr<OutputFile>> open(const std::string& path, std::atomic<int64_t>* written = nullptr);
  /// What was not finished is removed, also when the program is interrupted; an older file of the name stays as it was.
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  ByteWriter& bytes() { return *bytes_; }
  /// Where the file is until it is finished, for those who write it by name; empty if it is no regular file.
  [[nodiscard]] const std::string& partial() const { return partial_; }
  /// A reader of standard output that has left is no error: it has seen what it wanted.
  Status finish();

 private:
  OutputFile() = default;
  std::string path_, partial_;
  int fd_ = -1;
  std::unique_ptr<ByteWriter> bytes_;
};

/// "PATH: cannot be written: ...", with what may help.
Error cannot_write(const std::string& path, int error);

}  // namespace profgpu
