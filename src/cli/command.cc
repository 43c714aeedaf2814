#include "cli/command.h"

#include <algorithm>
#include <optional>

#include "app/words.h"
#include "base/decimal.h"
#include "base/text.h"

namespace profgpu {

void Arguments::add(std::string_view flag, std::string value) {
  const auto given = std::find_if(flags_.begin(), flags_.end(), [&](const Given& g) { return g.flag == flag; });
  if (given != flags_.end()) given->values.push_back(std::move(value));
  else flags_.push_back({flag, {std::move(value)}});
}

const std::vector<std::string>& Arguments::values(std::string_view flag) const {
  static const std::vector<std::string> kNone;
  for (const Given& given : flags_)
    if (given.flag == flag) return given.values;
  return kNone;
}

std::string Arguments::value(std::string_view flag, std::string_view otherwise) const {
  const auto& all = values(flag);
  return all.empty() ? std::string(otherwise) : all.back();
}

Result<std::string> asked_format(const Arguments& arguments, std::string_view otherwise) {
  const std::string format = arguments.value("--format", arguments.has("--json") ? "json" : otherwise);
  if (arguments.has("--json") && format != "json")
    return Error{"--json and --format " + format + " exclude each other"};
  return format;
}

namespace {

std::vector<std::string> flag_names(const Command& command) {
  std::vector<std::string> names = {"--help"};
  for (const FlagGroup& group : command.groups)
    for (const Flag& flag : group.flags) names.emplace_back(flag.name);
  return names;
}

std::string see_help(const Command& command) {
  return "`profgpu " + std::string(command.name) + " --help` lists what it takes";
}

Error unknown_word(const Command& command, const std::string& word) {
  if (word.size() < 2 || word[0] != '-') return {"unexpected argument " + word, see_help(command)};
  const std::string name = word.substr(0, word.find('='));
  return {"unknown option " + name, did_you_mean(name, flag_names(command), see_help(command))};
}

Status check_choice(const Flag& flag, const std::string& value) {
  const auto& choices = flag.choices;
  if (choices.empty() || std::find(choices.begin(), choices.end(), value) != choices.end()) return ok();
  return Error{std::string(flag.name) + " does not know \"" + value + "\"", "one of: " + joined(choices)};
}

Status check_positional(const Command& command, const Arguments& arguments) {
  if (command.positional_required() && arguments.positional.empty())
    return Error{"needs " + std::string(command.positional), see_help(command)};
  const size_t allowed = !command.takes_positional() ? 0 : command.positional_repeats() ? SIZE_MAX : 1;
  if (arguments.positional.size() > allowed) return unknown_word(command, arguments.positional[allowed]);
  return ok();
}

/// By long or short name with its dashes; null if the command has no such flag.
const Flag* find_flag(const Command& command, std::string_view name) {
  for (const FlagGroup& group : command.groups)
    for (const Flag& flag : group.flags)
      if (flag.name == name || (!flag.short_name.empty() && flag.short_name == name)) return &flag;
  return nullptr;
}

// "-- every kernel" is a comment of SQL.
bool is_flag(const std::string& word) { return word.size() > 1 && word[0] == '-' && !word.starts_with("-- "); }

/// One word of flags: "--top", "--top=3", "-v", "-vq", "-ofile", "-vo". Ends at the first flag that takes a value.
struct FlagWord {
  std::vector<const Flag*> flags;
  std::optional<std::string> value;   ///< that the word itself gives to the last of them
  std::string unknown;                ///< a flag that the command has not

  FlagWord(const Command& command, const std::string& word) {
    if (word.starts_with("--")) {
      const size_t equals = word.find('=');
      if (equals != word.npos) value = word.substr(equals + 1);
      add(command, word.substr(0, equals));
      return;
    }
    for (size_t i = 1; i < word.size() && unknown.empty() && !wants_value(); ++i) {
      add(command, {'-', word[i]});
      if (wants_value() && i + 1 < word.size()) value = word.substr(i + 1);
    }
  }

  [[nodiscard]] bool wants_value() const { return !flags.empty() && !flags.back()->value.empty(); }
  [[nodiscard]] bool value_follows() const { return wants_value() && !value; }

 private:
  void add(const Command& command, const std::string& name) {
    if (const Flag* flag = find_flag(command, name)) flags.push_back(flag);
    else unknown = name;
  }
};

/// What is before `end` of the words, flags and what is none.
Status parse_own(const Command& command, const std::vector<std::string>& words, size_t end, Arguments& arguments) {
  for (size_t i = 0; i < end; ++i) {
    if (!is_flag(words[i])) {
      arguments.positional.push_back(words[i]);
      continue;
    }
    FlagWord word(command, words[i]);
    if (!word.unknown.empty()) return unknown_word(command, word.unknown);
    if (word.value && !word.wants_value())
      return Error{std::string(word.flags.back()->name) + " takes no value", see_help(command)};
    if (word.value_follows()) {
      if (++i == end) return Error{std::string(word.flags.back()->name) + " needs a value", see_help(command)};
      word.value = words[i];
    }
    for (const Flag* flag : word.flags) {
      const std::string value = flag->value.empty() ? "" : *word.value;
      if (Status known = flag->value.empty() ? ok() : check_choice(*flag, value); !known) return known;
      arguments.add(flag->name, value);
    }
  }
  return ok();
}

}  // namespace

size_t own_words(const Command& command, const std::vector<std::string>& words) {
  if (!command.runs_command) return words.size();
  size_t i = 0;
  while (i < words.size() && words[i] != "--" && is_flag(words[i]))
    i += FlagWord(command, words[i]).value_follows() ? 2 : 1;
  return std::min(i, words.size());
}

Result<Arguments> parse_arguments(const Command& command, const std::vector<std::string>& words) {
  // What follows `--` is no option, whatever it looks like.
  const size_t end = command.runs_command
                         ? own_words(command, words)
                         : static_cast<size_t>(std::find(words.begin(), words.end(), "--") - words.begin());
  Arguments arguments;
  if (Status parsed = parse_own(command, words, end, arguments); !parsed) return parsed.error();
  const size_t rest = end + (end < words.size() && words[end] == "--" ? 1 : 0);
  arguments.positional.insert(arguments.positional.end(), words.begin() + static_cast<ptrdiff_t>(rest), words.end());
  if (Status fits = check_positional(command, arguments); !fits) return fits.error();
  return arguments;
}

bool asks_for_help(const std::vector<std::string>& words) {
  for (const std::string& word : words) {
    if (word == "--") return false;
    if (word == "--help" || word == "-h") return true;
  }
  return false;
}

std::optional<int64_t> digits_only(std::string_view text) {
  return all_digits(text) ? whole_number(text) : std::nullopt;
}

std::optional<int64_t> whole_bytes(std::string_view text) {
  const auto size = size_bytes(text);
  return size && *size <= 1e18 ? std::optional(static_cast<int64_t>(*size)) : std::nullopt;
}

Result<std::optional<int64_t>> option_value(const Arguments& arguments, std::string_view flag, OptionParser parse,
                                            const Takes& takes) {
  if (!arguments.has(flag)) return std::optional<int64_t>();
  const std::string text = arguments.value(flag);
  const auto value = parse(text);
  if (value && *value >= takes.least && *value <= takes.most) return value;
  return Error{std::string(flag) + " takes " + takes.what + ", not \"" + text + "\"", takes.hint};
}

Flag step_pattern_flag() {
  return {.name = "--step-pattern",
          .value = "REGEX",
          .help = "ranges whose name matches are steps (POSIX extended regular expression)"};
}

Flag samples_flag(std::string_view help) {
  return {.name = "--samples", .value = "FILE", .help = help, .repeatable = true, .takes_path = true};
}

Flag steps_flag(std::string_view help) { return {.name = "--steps", .value = "A:B", .help = help}; }

Flag output_flag(std::string_view help) {
  return {.name = "--output", .short_name = "-o", .value = "FILE", .help = help, .takes_path = true};
}

Flag top_flag() { return {.name = "--top", .value = "N", .help = "rows of long tables (default 10)"}; }

Flag width_flag() {
  return {.name = "--width", .value = "COLUMNS", .help = "wrap at this width (default: the terminal's)"};
}

Flag quiet_flag() {
  return {.name = "--quiet", .short_name = "-q", .help = "no messages and no progress bar; errors are still said"};
}

Flag no_progress_flag() { return {.name = "--no-progress", .help = "no progress bar"}; }

Flag colour_flag() {
  return {.name = "--color", .value = "WHEN", .help = "colours (default auto)", .choices = {"auto", "always", "never"}};
}

}  // namespace profgpu
