#include "cli/command.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "app/words.h"
#include "base/decimal.h"
#include "base/text.h"

namespace profgpu {

const std::vector<std::string>& Arguments::values(std::string_view flag) const {
  static const std::vector<std::string> kNone;
  const auto given = flags_.find(flag);
  return given != flags_.end() ? given->second : kNone;
}

std::string Arguments::value(std::string_view flag, std::string_view otherwise) const {
  const auto& all = values(flag);
  return all.empty() ? std::string(otherwise) : all.back();
}

Flag::Flag(std::string_view shown, std::string_view explanation, std::vector<std::string_view> accepted)
    : synopsis(shown), help(explanation), choices(std::move(accepted)), repeatable(shown.ends_with("...")) {
  if (synopsis.find(", ") == 2) short_name = synopsis.substr(0, 2);
  std::string_view rest = synopsis.substr(short_name.empty() ? 0 : 4);
  if (repeatable) rest.remove_suffix(3);
  const size_t blank = std::min(rest.find(' '), rest.size());
  name = rest.substr(0, blank);
  value = rest.substr(std::min(blank + 1, rest.size()));
}

Result<std::string> format_option(const Arguments& arguments, std::string_view otherwise) {
  const std::string format = arguments.value("--format", arguments.has("--json") ? "json" : otherwise);
  if (arguments.has("--json") && format != "json")
    return Error{"--json contradicts --format " + format, "leave out one of them"};
  return format;
}

namespace {

std::vector<std::string> flag_names(const Command& command) {
  std::vector<std::string> names = {"--help"};
  for (const FlagGroup& group : command.groups)
    for (const Flag& flag : group.flags) names.emplace_back(flag.name);
  return names;
}

/// By long or short name with its dashes; null if the command has no such flag.
const Flag* find_flag(const Command& command, std::string_view name) {
  for (const FlagGroup& group : command.groups)
    for (const Flag& flag : group.flags)
      if (flag.name == name || (!flag.short_name.empty() && flag.short_name == name)) return &flag;
  return nullptr;
}

std::string see_help(const Command& command) {
  return "`profgpu " + std::string(command.name) + " --help` lists the options";
}

Error unknown_word(const Command& command, const std::string& word) {
  if (word.size() < 2 || word[0] != '-') return {"unexpected argument " + word, see_help(command)};
  const std::string name = word.substr(0, word.find('='));
  return {"unknown option " + name, did_you_mean(name, flag_names(command), see_help(command))};
}

Status check_choice(const Flag& flag, const std::string& value) {
  const auto& choices = flag.choices;
  if (choices.empty() || std::find(choices.begin(), choices.end(), value) != choices.end()) return ok();
  std::string hint = "choose one of: " + joined(choices);
  for (const Command* other : commands())
    if (const Flag* same = find_flag(*other, flag.name); same != nullptr && same->choices.empty())
      hint += fmt::format("; `profgpu {} --help` has other values of {}", other->name, flag.name);
  return Error{std::string(flag.name) + " does not accept \"" + value + "\"", std::move(hint)};
}

// "--html REC" of a command that reads REC: an option took the path. Only one that exists, as outputs rarely do.
std::string taken_path(const Command& command, const Arguments& arguments) {
  if (!command.positional_is_path()) return "";
  for (const FlagGroup& group : command.groups)
    for (const Flag& flag : group.flags) {
      const std::string value = flag.takes_path() ? arguments.value(flag.name) : "";
      if (std::error_code error; !value.empty() && std::filesystem::exists(value, error))
        return fmt::format("{} took {} as its {}: profgpu {} {} {} {}", flag.name, value, flag.value, command.name,
                           flag.name, flag.value, value);
    }
  return "";
}

Status check_positional(const Command& command, const Arguments& arguments) {
  if (command.positional_required() && arguments.positional.empty()) {
    std::string hint = taken_path(command, arguments);
    if (hint.empty() && command.examples.empty()) hint = see_help(command);
    else if (hint.empty()) hint = "for example: " + std::string(command.examples.front().command);
    return Error{"missing argument: " + std::string(command.positional), std::move(hint)};
  }
  const size_t allowed = !command.takes_positional() ? 0 : command.positional_repeats() ? SIZE_MAX : 1;
  if (arguments.positional.size() > allowed) return unknown_word(command, arguments.positional[allowed]);
  return ok();
}

// "-- every kernel" is a comment of SQL.
bool is_flag(const std::string& word) { return word.size() > 1 && word[0] == '-' && !word.starts_with("-- "); }

/// One word of flags: "--top", "--top=3", "-v", "-vq", "-ofile", "-vo". Ends at the first flag that takes a value.
struct FlagWord {
  std::vector<const Flag*> flags;
  std::optional<std::string> value;   ///< that the word itself gives to the last of them
  std::string unknown;                ///< a flag that the command does not have

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

Error value_is_missing(const Flag& flag, const Command& command) {
  const std::string_view what = flag.value == "FILE" ? "a file name" : flag.value == "FOLDER" ? "a folder" : "a value";
  return {fmt::format("{} needs {}: {} {}", flag.name, what, flag.name, flag.value), see_help(command)};
}

/// The words before `end`: flags, their values and positional words.
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
      if (++i == end) return value_is_missing(*word.flags.back(), command);
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

bool has_flag(const Command& command, const std::string& name) { return find_flag(command, name) != nullptr; }

bool value_follows(const Command& command, const std::string& word) { return FlagWord(command, word).value_follows(); }

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

namespace {

std::string in_words(int64_t ns) {
  for (const auto& [unit, of_ns] : {std::pair<const char*, int64_t>{"h", 3'600'000'000'000}, {"s", 1'000'000'000}})
    if (ns % of_ns == 0) return std::to_string(ns / of_ns) + unit;
  return std::to_string(ns / 1'000'000) + "ms";
}

// "a whole number from 1 to 1024", "a time up to 10s"
std::string in_range(std::string_view what, int64_t min, int64_t max, std::string (*show)(int64_t)) {
  const bool bounded = max < INT64_MAX;
  if (min <= 0) return std::string(what) + (bounded ? " up to " + show(max) : "");
  return std::string(what) + (bounded ? " from " + show(min) + " to " + show(max) : " of at least " + show(min));
}

}  // namespace

std::optional<int64_t> OptionReader::number(std::string_view flag, Kind kind, int64_t min, int64_t max) {
  if (!status_ || !arguments_.has(flag)) return std::nullopt;
  const std::string text = arguments_.value(flag), name(flag);
  std::optional<int64_t> value;
  Error expected;
  if (kind == kTime) {
    value = duration_ns(text);
    expected = {in_range("a time", min, max, in_words), "seconds, or a number with a unit: 2.5, 500ms, 10m, 1h"};
  } else if (kind == kSize) {
    if (const auto bytes = size_bytes(text); bytes && *bytes <= 1e18) value = static_cast<int64_t>(*bytes);
    expected = {"a size of at least " + std::to_string(min) + " bytes", "for example " + name + " 100MB"};
  } else {
    if (all_digits(text)) value = whole_number(text);   // 1e1 and 2.5 are numbers too, but no counts
    expected = {in_range("a whole number", min, max, [](int64_t n) { return std::to_string(n); })};
  }
  if (value && *value >= min && *value <= max) return value;
  status_ = Error{name + " takes " + expected.message + ", not \"" + text + "\"", expected.hint};
  return std::nullopt;
}

}  // namespace profgpu
