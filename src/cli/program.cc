// profgpu help, and the text of every --help.
#include "cli/program.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <span>

#include "analyse/report/text.h"
#include "app/words.h"
#include "base/secrets.h"
#include "base/text.h"
#include "base/version.h"
#include "cli/borrowed_tools.h"
#include "cli/borrowed_words.h"
#include "cli/lists.h"
#include "cli/output.h"
#include "cli/terminal.h"
#ifdef PROFGPU_COLLECT
#include "cli/run_options.h"
#endif

extern "C" const char profgpu_agents_text_begin[], profgpu_agents_text_end[];   // AGENTS.md, by cmake/embed.cmake

namespace profgpu {

std::string_view agents_text() {
  return {profgpu_agents_text_begin, static_cast<size_t>(profgpu_agents_text_end - profgpu_agents_text_begin)};
}

namespace {

constexpr std::string_view kAgentsTopic = "agents";
constexpr int kWidth = 88;
constexpr int kOverviewWidth = 100;   // a line for each command
constexpr int kIndent = 28;  // where explanations begin

std::string entry(const std::string& left, std::string_view right, int most = kWidth) {
  const int width = text_width(most);
  const std::string head = "  " + left;
  if (display_width(head) + 2 > kIndent) return head + "\n" + wrap(right, width, std::string(kIndent, ' '));
  return wrap(right, width, padded_right(head, kIndent));
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
    for (const Flag& flag : group.flags)
      out += entry((flag.short_name.empty() ? "    " : "") + std::string(flag.synopsis), flag_explanation(flag));
  }
  if (!command.examples.empty()) out += "\nExamples\n";
  const int width = text_width(kWidth);
  for (const Example& e : command.examples) out += fmt::format("  {}\n{}", e.command, wrap(e.says, width, "      "));
  if (!command.notes.empty()) out += "\n" + wrap(command.notes, width, "");
  return out;
}

struct Task {
  std::string_view title;
  std::vector<std::string_view> commands;
};
// Commands that no task names are listed last.
const std::vector<Task> kTasks = {
    {"Find why it is slow", {"run", "attach", "analyze", "explain", "rules", "query", "merge", "export", "ncu-command"}},
    {"Compare runs", {"diff", "baseline", "history"}},
    {"Watch this machine", {"top", "stat", "log", "pick", "devices", "doctor"}},
    {"Watch a fleet", {"exporter", "monitor"}}};

std::string overview_help() {
  std::string out =
      "profgpu shows why GPU work is slow, and what to change.\n\n"
      "Usage: profgpu COMMAND [OPTION]... [ARGUMENT]...\n";
  if (find_command("run")) out += "       profgpu [OPTION]... -- PROGRAM...   short for profgpu run\n";
  std::vector<const Command*> left = shown_commands();
  for (const auto& [task, names] : kTasks) {
    if (std::ranges::none_of(names, find_command)) continue;
    out += fmt::format("\n{}\n", task);
    for (const std::string_view name : names)
      for (const Command* c : left)
        if (c->name == name) out += entry(std::string(name), c->summary, kOverviewWidth);
    std::erase_if(left, [&](const Command* c) { return std::ranges::count(names, c->name) > 0; });
  }
  out += "\nMore\n";
  for (const Command* c : left) out += entry(std::string(c->name), c->summary, kOverviewWidth);
  out += "\nOptions\n";
  out += entry("-h, --help", "print this help; after a command, that command's options");
  out += entry("-V, --version", "print the program's version");
  return out + "\nStart here\n  profgpu demo\n  profgpu analyze trace.json.gz\n";
}

// Lines of a list go on below its text.
std::string fitted_agents_text() {
  std::string out;
  for (const std::string_view line : lines_of(agents_text())) {
    const size_t text = line.find_first_not_of("0123456789.-* ");
    const std::string indent(line.substr(0, std::min(text, line.size())));
    out += line.empty() ? "\n" : wrap(line.substr(indent.size()), output_width(), indent);
  }
  return out;
}

std::vector<std::string> help_topics() {
  std::vector<std::string> topics = names_of(shown_commands());
  topics.emplace_back(kAgentsTopic);
  return topics;
}

// Of a tool that does nothing without a command: "nsys profile" is "profgpu run --trace".
std::string first_command_of(std::string_view tool) {
  for (const BorrowedCommand& c : borrowed_commands())
    if (c.tool == tool && !c.ours.empty())
      return fmt::format("`{} {}` is read as `profgpu {}`: see profgpu help {}", tool, c.theirs, joined(c.ours, " "),
                         c.ours.front());
  return {};
}

Outcome help(const Arguments& arguments) {
  if (arguments.positional.empty()) return write_text(overview_help());
  const std::string& name = arguments.positional.front();
  if (name == kAgentsTopic) return write_text(stdout_is_terminal() ? fitted_agents_text() : std::string(agents_text()));
  if (const Command* command = find_command(name)) return write_text(command_help(*command));
  if (const OwnWords own = own_words_for({name}); !own.notes.empty())
    return Outcome::usage({"\"" + name + "\" is another tool's word",
                           own.notes.front() + "; see profgpu help " + own.words.front()});
  if (const std::string read = first_command_of(name); !read.empty())
    return Outcome::usage({"\"" + name + "\" is another tool's name", read});
  if (explanation(name)) return Outcome::usage({"\"" + name + "\" is not a command", "profgpu explain " + name});
  return Outcome::usage({"there is no command \"" + name + "\"",
                         did_you_mean(name, help_topics(), "`profgpu help` lists the commands")});
}

}  // namespace

std::vector<const Command*> shown_commands() {
  std::vector<const Command*> shown = commands();
  std::erase_if(shown, [](const Command* c) { return c->hidden; });
  return shown;
}

std::string usage_line(const Command& command) {
  std::string line = "profgpu " + std::string(command.name);
  if (!command.groups.empty()) line += " [OPTION]...";
  if (command.takes_positional()) line += " " + std::string(command.positional);
  return line;
}

std::string flag_explanation(const Flag& flag) {
  return std::string(flag.help) + (flag.choices.empty() ? "" : ": " + joined(flag.choices));
}

extern const Command kHelp{
    .name = "help",
    .summary = "explain a command",
    .positional = "[COMMAND]",
    .positional_help = "the command to explain, or agents",
    .examples = {{"profgpu help analyze", "same as profgpu analyze --help"},
                 {"profgpu help agents", "for AI agents and scripts: JSON, SQL, row keys, exit codes, MCP"}},
    .candidates = help_topics,
    .run = help,
};

namespace {

// Whose option it may be, of the tools that people come from.
std::string_view command_with(std::string_view option) {
  constexpr std::pair<std::string_view, std::string_view> kCommands[] = {
      {"-l", "stat"},  {"-lms", "stat"}, {"--loop", "stat"}, {"-i", "stat"}, {"-c", "stat"},
      {"-cp", "stat"}, {"-p", "stat"},   {"-m", "top"},      {"-1", "top"},  {"--logdir", "analyze"}};
  option = option.substr(0, option.find('='));
  for (const auto& [theirs, ours] : kCommands)
    if (option == theirs) return ours;
  return "COMMAND";
}

std::string unknown_word(const std::string& word) {
  return word.starts_with("-") ? "unknown option " + word : "\"" + word + "\" is not a command";
}

#ifdef PROFGPU_COLLECT
// A path or a script, or what people start such programs with. A mistyped command must not start whatever has that
// name.
bool is_meant_to_run(std::string_view word) {
  if (word.find('/') != word.npos || word.find('.') != word.npos || word.starts_with("python")) return true;
  constexpr std::string_view kLaunchers[] = {
      "torchrun", "accelerate", "deepspeed", "mpirun", "mpiexec", "srun",  "bash",       "sh",     "env",  "time",
      "nice",     "numactl",    "taskset",   "uv",     "poetry",  "pixi",  "conda",      "ray",    "vllm", "sglang",
      "axolotl",  "lightning",  "composer",  "colossalai", "horovodrun", "trtllm-serve", "jupyter", "julia", "node"};
  return std::ranges::find(kLaunchers, word) != std::end(kLaunchers);
}
#endif

// `profgpu -l 1`: with the words that follow, so that the line can be typed.
std::string with_command(const std::vector<std::string>& words) {
  std::string line = fmt::format("profgpu {}", command_with(words.front()));
  for (const std::string& word : masked_words(words)) line += " " + word;
  return line;
}

// What people call a command that has another name here, or that is an option of one.
std::string_view command_for(std::string_view word) {
  constexpr std::pair<std::string_view, std::string_view> kWords[] = {
      {"compare", "profgpu diff{rest}"},
      {"memory", "profgpu analyze{rest}"},
      {"snapshot", "profgpu analyze{rest} --section snapshot"},
      {"html", "profgpu analyze{rest} --html report.html"},
      {"ui", "profgpu analyze{rest} --html report.html"},
      {"report", "profgpu analyze{rest}"},
      {"view", "profgpu analyze{rest}"},
      {"show", "profgpu analyze{rest}"},
      {"open", "profgpu analyze{rest}"},
      {"timeline", "profgpu analyze{rest} --html report.html"},
      {"flamegraph", "profgpu export{rest} --to folded"},
      {"list", "profgpu devices"},
  };
  const auto* found = std::ranges::find(kWords, word, [](const auto& pair) { return pair.first; });
  return found != std::end(kWords) ? found->second : "";
}

// " rec0 rec1"
std::string rest_of(const std::vector<std::string>& words) {
  std::string rest;
  for (const std::string& word : masked_words({words.begin() + 1, words.end()})) rest += " " + word;
  return rest;
}

bool is_borrowed_tool(std::string_view word) {
  return std::ranges::any_of(borrowed_commands(), [&](const BorrowedCommand& c) { return !word.empty() && c.tool == word; });
}

// Of `watch -n 1 …`, `watch -n1 …`, `watch --interval=1 …`; without it, watch's own two seconds.
std::string watched_interval(std::span<const std::string> words) {
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if ((word == "-n" || word == "--interval") && i + 1 < words.size()) return words[i + 1];
    if (word.starts_with("--interval=")) return word.substr(word.find('=') + 1);
    if (word.starts_with("-n")) return word.substr(2);
  }
  return "2";
}

// `watch -n 1 nvidia-smi`, `timeout 60 nvidia-smi -l 1`: the same line with our words for the tool. Empty: it has none.
std::string line_around_tool(const std::vector<std::string>& words) {
  constexpr std::string_view kAround[] = {"watch", "timeout", "sudo", "ssh", "nohup"};
  if (std::ranges::find(kAround, words.front()) == std::end(kAround)) return {};
  const auto tool = std::find_if(words.begin() + 1, words.end(), is_borrowed_tool);
  if (tool == words.end()) return {};
  const OwnWords own = own_words_for({tool, words.end()});
  if (!own.refusal.empty() || own.words.empty() || find_command(own.words.front()) == nullptr) return {};
  const std::string ours = "profgpu " + shell_line(masked_words(own.words));
  const std::vector<std::string> before(words.begin(), tool);
  const bool repeats = std::ranges::find(own.words, "--watch") != own.words.end();
  if (before.front() == "watch" && own.words.front() == "stat" && !repeats)
    return fmt::format("{} --watch {}, or profgpu top", ours, watched_interval(before));
  return shell_line(masked_words(before)) + " " + ours;
}

// `docker run …`: what runs in a container is recorded there.
std::string line_of_container(const std::vector<std::string>& words) {
  if (words.front() != "docker" && words.front() != "podman") return {};
  const bool exports = std::ranges::any_of(words, [](const auto& w) { return w.find("dcgm-exporter") != w.npos; });
  return exports ? "profgpu exporter replaces dcgm-exporter; it needs no container"
                 : "put profgpu into the container and before the program there: profgpu run -- PROGRAM";
}

Error unknown_command(const std::vector<std::string>& words) {
  const std::string& word = words.front();
  if (is_left_out(word))
    return {"this build only reads files; it has no profgpu " + (word == "--" ? "run" : word),
            "record on a Linux machine with the whole program, and read the files here"};
  if (word == "version" || word == "-v") return {unknown_word(word), "profgpu --version prints the version"};
  if (word == "ncu")
    return {unknown_word(word), "`profgpu ncu-command TRACE` writes ncu's command line for the kernels of a trace that "
                                "are worth it, and `profgpu analyze` reads what ncu writes"};
  if (word.starts_with("-"))
    return {unknown_word(word), did_you_mean(word, {"--help", "--version"},
                                             "options follow a command's name: " + with_command(words))};
  if (const std::string_view ours = command_for(word); !ours.empty())
    return {unknown_word(word), fmt::format(fmt::runtime(ours), fmt::arg("rest", rest_of(words)))};
  const Error unknown{unknown_word(word)};
  for (const auto line_for : {line_of_container, line_around_tool})
    if (std::string line = line_for(words); !line.empty()) return {unknown.message, std::move(line)};
  if (struct stat s{}; ::stat(word.c_str(), &s) == 0)
    return {unknown.message, "to read a trace: profgpu analyze " + word};
#ifdef PROFGPU_COLLECT
  const bool is_file = word.find('/') != word.npos || word.ends_with(".py") || word.ends_with(".sh");
  if (!names_program(word) && is_file)
    return {word + ": no such file here", "to run a program: profgpu run -- python train.py"};
  if (!names_program(word) && is_meant_to_run(word))
    return {word + ": no such program or file", "profgpu runs programs that are installed: activate their environment first"};
  const std::string otherwise = names_program(word) ? "to run and record it: profgpu run -- " + word + rest_of(words)
                                                    : "`profgpu --help` lists the commands";
#else
  const std::string otherwise = "`profgpu --help` lists the commands";
#endif
  return {unknown.message, did_you_mean(word, names_of(commands()), otherwise)};
}

ExitCode end_with(std::string_view command, const Outcome& outcome) {
  if (!outcome.error.message.empty()) print_error(command, outcome.error);
  return outcome.code;
}

ExitCode run_command(const Command& command, const std::vector<std::string>& words) {
  const auto own_end = words.begin() + static_cast<ptrdiff_t>(own_words(command, words));
  if (asks_for_help({words.begin(), own_end})) return end_with("", write_text(command_help(command)));
  const auto arguments = parse_arguments(command, words);
  return end_with(command.name, arguments ? command.run(*arguments) : Outcome::usage(arguments.error()));
}

#ifdef PROFGPU_COLLECT
// `[OPTION]... [--] PROGRAM...` is short for `run`, as the Python package of this name passes it on.
bool is_command_line(const Command& run, const std::vector<std::string>& words) {
  const size_t end = own_words(run, words);
  return end < words.size() && (words[end] == "--" || (names_program(words[end]) && is_meant_to_run(words[end])));
}
#endif

}  // namespace

ExitCode run_program(const std::vector<std::string>& typed) {
  const auto [words, notes, refusal, instead] = own_words_for(typed);
  if (!refusal.empty()) return end_with("", Outcome::usage({refusal, instead}));
  if (words.empty()) {
    print_message(overview_help());
    return ExitCode::kUsage;
  }
  for (const std::string& note : notes) print_message("profgpu: " + note);
  const std::string& first = words.front();
  if (first == "--help" || first == "-h") return end_with("", write_text(overview_help()));
  if (first == "--version" || first == "-V") return end_with("", write_text(fmt::format("profgpu {}\n", kVersion)));
  if (const Command* command = find_command(first)) return run_command(*command, {words.begin() + 1, words.end()});
#ifdef PROFGPU_COLLECT
  if (const Command& run = *find_command("run"); is_command_line(run, words)) return run_command(run, words);
#endif
  return end_with("", Outcome::usage(unknown_command(words)));
}

}  // namespace profgpu
