// The program: finds the command that is asked for, and runs it.
#include <fmt/format.h>
#include <malloc.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "base/version.h"
#include "cli/command.h"
#include "cli/command_line.h"
#include "cli/help.h"
#include "cli/output.h"
#include "cli/run_launch.h"
#include "cli/words.h"
#include "devices/pending.h"

namespace profgpu {
namespace {

ExitCode printed(const std::string& text) {
  auto written = write_stdout(text);
  if (written) return ExitCode::kOk;
  print_error("", written.error());
  return ExitCode::kFailed;
}

bool is_path(const std::string& word) {
  struct stat s{};
  return ::stat(word.c_str(), &s) == 0;
}

Error unknown_command(const std::string& word) {
  if (word.starts_with("-"))
    return {"unknown option " + word, "options of a command come after its name: profgpu analyze " + word + " ..."};
  if (is_path(word)) return {"\"" + word + "\" is not a command", "to look at that trace: profgpu analyze " + word};
  std::vector<std::string> names;
  for (const Command* c : commands()) names.emplace_back(c->name);
  const std::string near = nearest(word, names);
  return {"\"" + word + "\" is not a command",
          near.empty() ? "`profgpu --help` lists the commands" : "did you mean " + near + "?"};
}

ExitCode run_command(const Command& command, const std::vector<std::string>& words) {
  const auto own_end = words.begin() + static_cast<ptrdiff_t>(own_words(command, words));
  if (asks_for_help({words.begin(), own_end})) return printed(command_help(command));
  Outcome outcome;
  auto arguments = parse_arguments(command, words);
  outcome = arguments ? command.run(*arguments) : Outcome::usage(arguments.error());
  if (!outcome.error.message.empty()) print_error(command.name, outcome.error);
  return outcome.code;
}

// `[OPTION]... [--] PROGRAM...` is `run` without its name: so the Python package of this name takes its words.
bool is_command_line(const Command& run, const std::vector<std::string>& words) {
  const size_t end = own_words(run, words);
  return end < words.size() && (words[end] == "--" || names_program(words[end]));
}

/// Runs the command that `words` (without the program's name) ask for and prints its error, if it ends in one.
ExitCode run_program(const std::vector<std::string>& words) {
  if (words.empty()) {
    print_message(overview_help());
    return ExitCode::kUsage;
  }
  const std::string& first = words.front();
  if (first == "--help" || first == "-h") return printed(overview_help());
  if (first == "--version" || first == "-V") return printed(fmt::format("profgpu {}\n", kVersion));
  if (const Command* command = find_command(first)) return run_command(*command, {words.begin() + 1, words.end()});
  if (const Command& run = *find_command("run"); is_command_line(run, words)) return run_command(run, words);
  print_error("", unknown_command(first));
  return ExitCode::kUsage;
}

}  // namespace
}  // namespace profgpu

int main(int argc, char** argv) {
  // Large blocks go back to the system when freed. Left to itself, glibc raises this bound at the first such block and
  // then keeps what importing needed: half as much resident memory again on a large trace.
  mallopt(M_MMAP_THRESHOLD, 128 << 10);
  // What lies below that bound grows and shrinks by much at once: by 128 kB, as glibc has it, the same pages are given
  // back and faulted in again all through an import (a fifth of its wall time).
  mallopt(M_TOP_PAD, 16 << 20);
  // What one thread frees another takes: each with an arena of its own keeps what only it can use again.
  mallopt(M_ARENA_MAX, std::max(1, static_cast<int>(std::thread::hardware_concurrency()) / 4));
  profgpu::prepare_streams();
  profgpu::install_interrupt_handler();
  // argc is 0 if whoever started us gave no name.
  const std::vector<std::string> words(argv + (argc > 0 ? 1 : 0), argv + argc);
  const auto code = static_cast<int>(profgpu::run_program(words));
  if (!profgpu::left_in_driver) return code;
  std::fflush(nullptr);
  std::_Exit(code);
}
