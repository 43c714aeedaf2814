// Where words go: standard output, files, messages on standard error.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace profgpu {

/// Call once, first. A standard stream that is closed becomes one that fails to be written, so that no file that we
/// open takes its number; a reader that leaves early becomes an error value instead of a signal.
void prepare_streams();

/// Whether whoever started us ignored SIGPIPE, as a shell does after `trap '' PIPE`.
bool pipe_signal_was_ignored();

/// Writes all of it. A reader that has left (`| head`) is no error: it has seen what it wanted.
Status write_stdout(std::string_view text);

/// Replaces the file at once when all is written, so that a failure leaves the old one. Anything that is not a
/// regular file (a pipe, /dev/stdout) is written directly.
Status write_file(const std::string& path, std::string_view text);

/// An error where `path`, empty for none, is one of the files that are read: writing it would be their end.
Status refuse_overwrite(const std::vector<std::string>& inputs, const std::string& path);

/// "profgpu: COMMAND: message" and, below it, "  hint: ...".
void print_error(std::string_view command, const Error& error);

/// One line on standard error; control characters are shown, not sent.
void print_message(std::string_view text);

/// What is wrong with an input, as a message: the path stands before the text unless the text begins with it.
void print_issue(std::string_view path, std::string_view text);

/// Text that cannot move the cursor or change colours: control characters but line feeds become \xNN.
std::string printable(std::string_view text);

}  // namespace profgpu
