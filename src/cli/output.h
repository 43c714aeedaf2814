// Ctrl-C: leave at once, tidily.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/byte_writer.h"
#include "base/result.h"

namespace profgpu {

/// From now on SIGINT, SIGTERM and SIGHUP, a terminal that is closed, end the program with 130, 143 or 129, after
/// clearing a progress line and removing the file named below.
void install_interrupt_handler();

/// From now on lack of memory or threads ends the program with a message and code 1, as tidily.
void install_lack_handler();

/// A file that is of no use if we are interrupted; null: none. The text must outlive the setting.
void remove_on_interrupt(const char* path);

/// True while standard error shows a line that must be cleared on the way out.
void clear_line_on_interrupt(bool on);

// A file that is written piece by piece and takes its place at once when all is there.

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

// Where words go: standard output, files, messages on standard error.

/// Call once, first. A standard stream that is closed becomes one that fails to be written, so that no file that we
/// open takes its number; a reader that leaves early, and a file that may not grow (`ulimit -f`), become error values
/// instead of signals.
void prepare_streams();

/// Whether whoever started us ignored SIGPIPE, as a shell does after `trap '' PIPE`.
bool pipe_signal_was_ignored();

/// Writes all of it. A reader that has left (`| head`) is no error: it has seen what it wanted.
Status write_stdout(std::string_view text);
/// In a locale that is set and not UTF-8: with its signs replaced by ASCII.
std::string for_locale(std::string_view text);
/// Text for a person, for_locale().
Status write_text(std::string_view text);

/// Replaces the file at once when all is written, so that a failure leaves the old one. Anything that is not a
/// regular file (a pipe, /dev/stdout) is written directly.
Status write_file(const std::string& path, std::string_view text);

/// An error where `path`, empty for none, is one of the files that are read: writing it would be their end.
Status refuse_overwrite(const std::vector<std::string>& inputs, const std::string& path);

/// "profgpu: COMMAND: message" and, below it, "  hint: ...".
void print_error(std::string_view command, const Error& error);

/// One line on standard error; control characters are shown, not sent.
void print_message(std::string_view text);

/// A sentence for a person: on a terminal as many lines as it takes.
void print_note(std::string_view text);

/// What is wrong with an input, as a message: the path stands before the text unless the text begins with it.
void print_issue(std::string_view path, std::string_view text);

/// Text that cannot move the cursor, change colors or turn other text around: control characters but line feeds become
/// \xNN, invisible ones \uNNNN.
std::string printable(std::string_view text);

}  // namespace profgpu
