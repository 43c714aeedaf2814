// profgpu completion SHELL and profgpu manpage: completion scripts and the manual page, written from the command
// descriptions while the program is built.
#include <fmt/format.h>

#include "app/words.h"
#include "base/text.h"
#include "base/version.h"
#include "cli/command.h"
#include "cli/output.h"
#include "cli/program.h"

namespace profgpu {
namespace {

std::vector<Flag> flags_of(const Command& command) {
  std::vector<Flag> flags;
  for (const FlagGroup& group : command.groups) flags.insert(flags.end(), group.flags.begin(), group.flags.end());
  flags.push_back(kHelpFlag);
  return flags;
}

std::string spaced(const auto& words) { return joined(words, " "); }

// Text inside single quotes of any of these shells.
std::string quoted(std::string_view text) {
  std::string out;
  for (char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out;
}

constexpr std::string_view kBashPrograms =
    "compopt -o filenames; COMPREPLY=($(compgen -f -- \"$cur\") $([ -z \"$cur\" ] || compgen -c -- \"$cur\"))";
constexpr std::string_view kBashFiles = "compopt -o filenames; COMPREPLY=($(compgen -f -- \"$cur\"))";

std::string bash_words(const auto& words) {
  return fmt::format("COMPREPLY=($(compgen -W '{}' -- \"$cur\"))", spaced(words));
}

std::string bash_values(const Command& command) {
  std::string out;
  for (const Flag& flag : flags_of(command)) {
    if (flag.value.empty()) continue;
    const std::string names =
        (flag.short_name.empty() ? "" : std::string(flag.short_name) + "|") + std::string(flag.name);
    const std::string action = flag.choices.empty() ? ":" : bash_words(flag.choices);
    out += fmt::format("        {}) {}; return ;;\n", names, flag.takes_path() ? kBashFiles : action);
  }
  return out.empty() ? "" : "      case $prev in\n" + out + "      esac\n";
}

// What may stand behind the options.
std::string bash_positionals(const Command& command) {
  std::string out;
  if (command.second_candidates != nullptr)
    out += fmt::format("      [ \"$COMP_CWORD\" -lt 3 ] || {}\n", bash_words(command.second_candidates()));
  if (command.runs_command) out += fmt::format("      {}\n", kBashPrograms);
  if (command.candidates && command.positional_is_path())
    out += fmt::format("      if [ \"$COMP_CWORD\" -eq 2 ]; then {}; return; fi\n", bash_words(command.candidates()));
  else if (command.candidates)
    out += fmt::format("      {}\n", bash_words(command.candidates()));
  if (command.positional_is_path()) out += fmt::format("      {}\n", kBashFiles);
  return out;
}

std::string bash_script() {
  std::string out = fmt::format(
      "# bash completion for profgpu\n"
      "_profgpu() {{\n"
      "  local cur=${{COMP_WORDS[COMP_CWORD]}} prev=${{COMP_WORDS[COMP_CWORD-1]}}\n"
      "  COMPREPLY=()\n"
      // The shell takes "--format=json" apart at the sign.
      "  if [ \"$cur\" = = ]; then cur=; elif [ \"$prev\" = = ]; then prev=${{COMP_WORDS[COMP_CWORD-2]}}; fi\n"
      "  if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
      "    COMPREPLY=($(compgen -W '{} --help --version' -- \"$cur\"))\n"
      "    return\n"
      "  fi\n"
      "  case ${{COMP_WORDS[1]}} in\n",
      spaced(names_of(shown_commands())));
  for (const Command* c : shown_commands()) {
    std::vector<std::string_view> flags;
    for (const Flag& flag : flags_of(*c)) flags.push_back(flag.name);
    out += fmt::format("    {})\n{}", c->name, bash_values(*c));
    out += fmt::format("      if [[ $cur == -* ]]; then {}; return; fi\n", bash_words(flags));
    out += bash_positionals(*c) + "      ;;\n";
  }
  return out + "  esac\n}\ncomplete -F _profgpu profgpu\n";
}

// Brackets and colons have a meaning in zsh's _arguments specifications.
std::string zsh_text(std::string_view text) {
  std::string out;
  for (char c : quoted(text)) {
    if (c == '[' || c == ']' || c == ':') out += '\\';
    out += c;
  }
  return out;
}

std::string zsh_flag(const Flag& flag) {
  std::string spec = flag.repeatable ? "'*" : "'";
  spec += fmt::format("{}[{}]", flag.name, zsh_text(flag.help));
  if (!flag.value.empty()) {
    spec += fmt::format(":{}:", zsh_text(flag.value));
    if (flag.takes_path()) spec += "_files";
    else if (!flag.choices.empty()) spec += fmt::format("({})", spaced(flag.choices));
  }
  return spec + "'";
}

std::string zsh_script() {
  std::string out =
      "#compdef profgpu\n\n_profgpu() {\n  if (( CURRENT == 2 )) && [[ $words[2] == -* ]]; then\n"
      "    compadd -- --help --version\n    return\n  fi\n  if (( CURRENT == 2 )); then\n    local -a list=(\n";
  for (const Command* c : shown_commands()) out += fmt::format("      '{}:{}'\n", c->name, zsh_text(c->summary));
  out += "    )\n    _describe command list\n    return\n  fi\n  local name=$words[2]\n"
         "  shift words\n  (( CURRENT-- ))\n  case $name in\n";
  for (const Command* c : shown_commands()) {
    out += fmt::format("    {})\n      _arguments", c->name);
    for (const Flag& flag : flags_of(*c)) out += " \\\n        " + zsh_flag(flag);
    if (c->positional_is_path()) out += " \\\n        '*:path:_files'";
    if (c->candidates) out += fmt::format(" \\\n        '1:{}:({})'", zsh_text(c->name), spaced(c->candidates()));
    if (c->second_candidates) out += fmt::format(" \\\n        '2:action:({})'", spaced(c->second_candidates()));
    if (c->runs_command) out += " \\\n        '1:command:_command_names -e' '*:file:_files'";
    out += "\n      ;;\n";
  }
  return out + "  esac\n}\n\n_profgpu \"$@\"\n";
}

std::string fish_flag(const Command& command, const Flag& flag) {
  std::string line = fmt::format("complete -c profgpu -n '__fish_seen_subcommand_from {}' -l {}", command.name,
                                 flag.name.substr(2));
  if (!flag.short_name.empty()) line += fmt::format(" -s {}", flag.short_name.substr(1));
  if (flag.takes_path()) line += " -r -F";
  else if (!flag.choices.empty()) line += fmt::format(" -x -a '{}'", spaced(flag.choices));
  else if (!flag.value.empty()) line += " -x";
  return line + fmt::format(" -d '{}'\n", quoted(flag.help));
}

std::string fish_script() {
  std::string out = "# fish completion for profgpu\ncomplete -c profgpu -f\n";
  for (const Command* c : shown_commands())
    out += fmt::format("complete -c profgpu -n __fish_use_subcommand -a {} -d '{}'\n", c->name, quoted(c->summary));
  for (const Command* c : shown_commands()) {
    for (const Flag& flag : flags_of(*c)) out += fish_flag(*c, flag);
    const std::string here = fmt::format("complete -c profgpu -n '__fish_seen_subcommand_from {}'", c->name);
    if (c->positional_is_path()) out += here + " -F\n";
    if (c->candidates) out += fmt::format("{} -a '{}'\n", here, spaced(c->candidates()));
    if (c->second_candidates) out += fmt::format("{} -a '{}'\n", here, spaced(c->second_candidates()));
    if (c->runs_command)
      out += fmt::format("complete -c profgpu -n '__fish_seen_subcommand_from {}; and not string match -q -- \"-*\" "
                         "(commandline -ct)' -F -a '(__fish_complete_command)'\n", c->name);
  }
  return out;
}

std::vector<std::string> shells() { return {"bash", "zsh", "fish"}; }

Outcome completion(const Arguments& arguments) {
  const std::string& shell = arguments.positional.front();
  if (shell == "bash") return write_stdout(bash_script());
  if (shell == "zsh") return write_stdout(zsh_script());
  if (shell == "fish") return write_stdout(fish_script());
  return Outcome::usage({"no completion for the shell \"" + shell + "\"", "choose one of: " + joined(shells())});
}

}  // namespace

extern const Command kCompletion{
    .name = "completion",
    .summary = "write a shell completion script",
    .positional = "SHELL",
    .positional_help = "bash, zsh or fish",
    .examples = {{"source <(profgpu completion bash)", "completion in this bash"}},
    .hidden = true,
    .candidates = shells,
    .run = completion,
};

// The manual page in troff.

namespace {

// Literal text for troff: hyphens that can be copied, no leading dot or quote that would be a request.
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

struct Entry {
  std::string_view head, says;
};
constexpr Entry kExitStatus[] = {
    {"0", "a report was made, even if it is partial"},
    {"1", "no report; standard error has the reason"},
    {"2", "invalid command line"},
    {"3", "a finding at or above the severity given with --fail-on"},
    {"130", "interrupted"},
    {"the command's own",
     "run: also 126 if the command cannot be run, 127 if it was not found, 128 + n if signal n ended it; 1 and 2 as "
     "above, and the command did not run then"},
};
constexpr Entry kEnvironment[] = {
    {"CUDA_VISIBLE_DEVICES, ROCR_VISIBLE_DEVICES, HIP_VISIBLE_DEVICES, ZE_AFFINITY_MASK",
     "the devices to use without --device"},
    {"PROFGPU_NVML_LIBRARY", "NVIDIA's management library, instead of the libnvidia-ml.so.1 that the loader finds"},
    {"PROFGPU_NVIDIA_SMI", "the nvidia-smi program, instead of the first in PATH"},
    {"PROFGPU_LEVEL_ZERO_LIBRARY", "the loader of Intel's Level Zero, instead of libze_loader.so.1"},
    {"PROFGPU_PROC_ROOT, PROFGPU_SYSFS_ROOT, PROFGPU_DEV_ROOT",
     "folders to read instead of /proc, /sys and /dev, for containers that have the host's elsewhere"},
    {"PROFGPU_MCP_TOKEN", "the token that `profgpu mcp --http` asks clients for"},
    {"NO_COLOR", "if set and not empty, no colors"},
    {"TERM", "no colors if it is dumb"},
    {"COLUMNS", "the width of the report"},
};

template <size_t N>
std::string roff_list(std::string_view title, const Entry (&entries)[N]) {
  std::string out = fmt::format(".SH {}\n", title);
  for (const Entry& e : entries) out += fmt::format(".TP\n{}\n{}\n", roff(e.head), roff(e.says));
  return out;
}

std::string manual_page() {
  const std::vector<const Command*> shown = shown_commands();
  std::string out = fmt::format(".TH PROFGPU 1 \"\" \"profgpu {}\" \"User Commands\"\n", roff(kVersion));
  out += ".SH NAME\nprofgpu \\- show why GPU work is slow, and what to change\n.SH SYNOPSIS\n";
  for (const Command* c : shown) out += fmt::format("\\fB{}\\fR\n.br\n", roff(usage_line(*c)));
  out +=
      ".SH DESCRIPTION\n"
      "Reads what a profiler recorded of a job on GPUs, finds where the time goes, and shows what it costs and what to "
      "change.\n.SH COMMANDS\n";
  for (const Command* c : shown) out += command_section(*c);
  out += roff_list("EXIT STATUS", kExitStatus) + roff_list("ENVIRONMENT", kEnvironment) + ".SH EXAMPLES\n";
  for (const Command* c : shown)
    for (const Example& e : c->examples) out += fmt::format(".TP\n\\fB{}\\fR\n{}\n", roff(e.command), roff(e.says));
  return out;
}

Outcome manpage(const Arguments&) { return write_stdout(manual_page()); }

}  // namespace

extern const Command kManpage{
    .name = "manpage",
    .summary = "write the manual page",
    .examples = {{"profgpu manpage > profgpu.1", "the page that `man profgpu` shows"}},
    .hidden = true,
    .run = manpage,
};

}  // namespace profgpu
