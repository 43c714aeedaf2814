// profgpu help, and the text of every --help.
#include "cli/program.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>

#include "app/words.h"
#include "base/version.h"
#include "cli/command.h"
#include "cli/output.h"
#include "cli/run_options.h"
#include "cli/terminal.h"

namespace profgpu {

const Flag kHelpFlag{.name = "--help", .short_name = "-h", .help = "this text"};

namespace {

constexpr int kWidth = 88;
constexpr int kIndent = 28;  // where explanations begin

std::string entry(const std::string& left, std::string_view right) {
  const std::string head = "  " + left;
  const std::string blanks(kIndent, ' ');
  if (columns(head) + 2 > kIndent) return head + "\n" + wrap(right, kWidth, blanks);
  return wrap(right, kWidth, head + std::string(static_cast<size_t>(kIndent - columns(head)), ' '));
}

std::vector<std::string> command_names() {
  std::vector<std::string> names;
  for (const Command* c : commands())
    if (!c->hidden) names.emplace_back(c->name);
  return names;
}

Outcome help(const Arguments& arguments) {
  std::string text;
  if (arguments.positional.empty()) {
    text = overview_help();
  } else {
    const std::string& name = arguments.positional.front();
    const Command* command = find_command(name);
    if (!command)
      return Outcome::usage({"there is no command \"" + name + "\"",
                             did_you_mean(name, command_names(), "`profgpu help` lists them")});
    text = command_help(*command);
  }
  return Outcome::of(write_stdout(text));
}

}  // namespace

std::string usage_line(const Command& command) {
  std::string line = "profgpu " + std::string(command.name);
  if (!command.groups.empty()) line += " [OPTION]...";
  if (command.takes_positional()) line += " " + std::string(command.positional);
  return line;
}

std::string flag_synopsis(const Flag& flag) {
  std::string text = flag.short_name.empty() ? "    " : std::string(flag.short_name) + ", ";
  text += flag.name;
  if (!flag.value.empty()) text += " " + std::string(flag.value);
  return text;
}

std::string flag_explanation(const Flag& flag) {
  std::string text(flag.help);
  for (size_t i = 0; i < flag.choices.size(); ++i) text += (i == 0 ? ": " : ", ") + std::string(flag.choices[i]);
  return text;
}

std::string command_help(const Command& command) {
  std::string out = fmt::format("profgpu {}: {}\n\nUsage: {}\n", command.name, command.summary, usage_line(command));
  if (command.takes_positional()) {
    std::string name(command.positional);
    std::erase_if(name, [](char c) { return c == '[' || c == ']' || c == '.'; });
    out += "\n" + entry(name, command.positional_help);
  }
  for (const FlagGroup& group : command.groups) {
    out += fmt::format("\n{}\n", group.title);
    for (const Flag& flag : group.flags) out += entry(flag_synopsis(flag), flag_explanation(flag));
  }
  if (!command.examples.empty()) out += "\nExamples\n";
  for (const Example& e : command.examples) out += fmt::format("  {}\n{}", e.command, wrap(e.says, kWidth, "      "));
  if (!command.notes.empty()) out += "\n" + wrap(command.notes, kWidth, "");
  return out;
}

std::string overview_help() {
  std::string out =
      "profgpu says why GPU work is slow, and what to change.\n\n"
      "Usage: profgpu COMMAND [OPTION]... [ARGUMENT]...\n"
      "       profgpu [OPTION]... -- PROGRAM...   is short for profgpu run\n\nCommands\n";
  for (const Command* c : commands())
    if (!c->hidden) out += entry(std::string(c->name), c->summary);
  out += "\nOptions\n";
  out += entry("-h, --help", "this text; after a command, what that command takes");
  out += entry("-V, --version", "the program's version");
  out += "\nStart here\n  profgpu analyze trace.json.gz\n";
  return out;
}

extern const Command kHelp;
const Command kHelp{
    .name = "help",
    .summary = "explain a command",
    .positional = "[COMMAND]",
    .positional_help = "the command to explain",
    .examples = {{"profgpu help analyze", "same as profgpu analyze --help"}},
    .candidates = command_names,
    .run = help,
};

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
  return {"\"" + word + "\" is not a command",
          did_you_mean(word, names_of(commands()), "`profgpu --help` lists the commands")};
}

ExitCode run_command(const Command& command, const std::vector<std::string>& words) {
  const auto own_end = words.begin() + static_cast<ptrdiff_t>(own_words(command, words));
  if (asks_for_help({words.begin(), own_end})) return printed(command_help(command));
  const auto arguments = parse_arguments(command, words);
  const Outcome outcome = arguments ? command.run(*arguments) : Outcome::usage(arguments.error());
  if (!outcome.error.message.empty()) print_error(command.name, outcome.error);
  return outcome.code;
}

// `[OPTION]... [--] PROGRAM...` is `run` without its name: so the Python package of this name takes its words.
bool is_command_line(const Command& run, const std::vector<std::string>& words) {
  const size_t end = own_words(run, words);
  return end < words.size() && (words[end] == "--" || names_program(words[end]));
}

}  // namespace

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

}  // namespace profgpu
