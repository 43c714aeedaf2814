// profgpu help, and the text of every --help.
#include "cli/help.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/version.h"
#include "cli/command.h"
#include "cli/output.h"
#include "cli/words.h"

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

// profgpu manpage: the manual page in troff, written from the command descriptions while the program is built.

namespace {

// Text as troff takes it literally: hyphens that can be copied, no leading dot or quote that would be a request.
std::string roff(std::string_view text) {
  std::string out;
  for (char c : text) {
    if ((c == '.' || c == '\'') && (out.empty() || out.back() == '\n')) out += "\\&";
    if (c == '\\') out += "\\e";
    else if (c == '-') out += "\\-";
    else out += c;
  }
  return out;
}

std::string flag_entry(const Flag& flag) {
  std::string head = flag.short_name.empty() ? "" : fmt::format("\\fB{}\\fR, ", roff(flag.short_name));
  head += fmt::format("\\fB{}\\fR", roff(flag.name));
  if (!flag.value.empty()) head += fmt::format(" \\fI{}\\fR", roff(flag.value));
  return fmt::format(".TP\n{}\n{}\n", head, roff(flag_explanation(flag)));
}

std::string command_section(const Command& command) {
  std::string out = fmt::format(".SS {}\n\\fB{}\\fR\n.PP\n{}.\n", roff(command.name), roff(usage_line(command)),
                                roff(command.summary));
  if (command.takes_positional())
    out += fmt::format(".TP\n\\fI{}\\fR\n{}\n", roff(command.positional), roff(command.positional_help));
  for (const FlagGroup& group : command.groups)
    for (const Flag& flag : group.flags) out += flag_entry(flag);
  return out;
}

std::string examples() {
  std::string out = ".SH EXAMPLES\n";
  for (const Command* c : commands()) {
    if (c->hidden) continue;
    for (const Example& e : c->examples) out += fmt::format(".TP\n\\fB{}\\fR\n{}\n", roff(e.command), roff(e.says));
  }
  return out;
}

struct Entry {
  std::string_view head, says;
};
constexpr Entry kExitStatus[] = {
    {"0", "a report was made, even if it is partial"},
    {"1", "no report; standard error says why"},
    {"2", "the command line cannot be understood"},
    {"3", "a finding at or above the severity given with --fail-on"},
    {"130", "interrupted"},
    {"the command's own",
     "run: also 126 if the command cannot be run, 127 if there is none, 128 + n if signal n ended it; 1 "
     "and 2 as above, and the command did not run then"},
};
constexpr Entry kEnvironment[] = {
    {"CUDA_VISIBLE_DEVICES, ROCR_VISIBLE_DEVICES, HIP_VISIBLE_DEVICES, ZE_AFFINITY_MASK",
     "the devices that are meant where --device is not given"},
    {"PROFGPU_NVML_LIBRARY", "NVIDIA's management library, instead of libnvidia-ml.so.1 where the loader finds it"},
    {"PROFGPU_NVIDIA_SMI", "the nvidia-smi program, instead of the first on the PATH"},
    {"PROFGPU_LEVEL_ZERO_LIBRARY", "the loader of Intel's Level Zero, instead of libze_loader.so.1"},
    {"PROFGPU_PROC_ROOT, PROFGPU_SYSFS_ROOT, PROFGPU_DEV_ROOT",
     "folders to read instead of /proc, /sys and /dev: where a container has the host's elsewhere"},
    {"NO_COLOR", "if set and not empty, no colours"},
    {"TERM", "no colours where it is dumb"},
    {"COLUMNS", "the width of the report"},
};

template <size_t N>
std::string roff_list(std::string_view title, const Entry (&entries)[N]) {
  std::string out = fmt::format(".SH {}\n", title);
  for (const Entry& e : entries) out += fmt::format(".TP\n{}\n{}\n", roff(e.head), roff(e.says));
  return out;
}

std::string manual_page() {
  std::string out = fmt::format(".TH PROFGPU 1 \"\" \"profgpu {}\" \"User Commands\"\n", roff(kVersion));
  out += ".SH NAME\nprofgpu \\- say why GPU work is slow, and what to change\n";
  out += ".SH SYNOPSIS\n";
  for (const Command* c : commands())
    if (!c->hidden) out += fmt::format("\\fB{}\\fR\n.br\n", roff(usage_line(*c)));
  out +=
      ".SH DESCRIPTION\n"
      "Reads what a profiler recorded of a job on GPUs, finds where the time goes, and says what it costs and what to "
      "change.\n";
  out += ".SH COMMANDS\n";
  for (const Command* c : commands())
    if (!c->hidden) out += command_section(*c);
  return out + roff_list("EXIT STATUS", kExitStatus) + roff_list("ENVIRONMENT", kEnvironment) + examples();
}

Outcome manpage(const Arguments&) {
  if (auto written = write_stdout(manual_page()); !written) return Outcome::failed(written.error());
  return {};
}

}  // namespace

extern const Command kManpage;
const Command kManpage{
    .name = "manpage",
    .summary = "write the manual page",
    .positional = "",
    .examples = {{"profgpu manpage > profgpu.1", "the page that `man profgpu` shows"}},
    .hidden = true,
    .run = manpage,
};

}  // namespace profgpu
