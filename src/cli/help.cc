// profgpu help, and the text of every --help.
#include "cli/help.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/output.h"
#include "cli/suggestion.h"
#include "cli/wrap.h"

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
    if (!command) {
      const std::string near = nearest(name, command_names());
      return Outcome::usage({"there is no command \"" + name + "\"",
                             near.empty() ? "`profgpu help` lists them" : "did you mean " + near + "?"});
    }
    text = command_help(*command);
  }
  if (auto written = write_stdout(text); !written) return Outcome::failed(written.error());
  return {};
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

}  // namespace profgpu
