// The only file that includes CLI11, which costs ten seconds to compile and reports errors by throwing: it ends here.
#include "cli/command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iterator>

#include "cli/suggestion.h"

namespace profgpu {
namespace {

struct Slot {
  const Flag* flag;
  CLI::Option* option;
  std::vector<std::string> values;
};

void declare(CLI::App& app, Slot& slot) {
  std::string names(slot.flag->name);
  if (!slot.flag->short_name.empty()) names += "," + std::string(slot.flag->short_name);
  if (slot.flag->value.empty()) {
    slot.option = app.add_flag(names)->disable_flag_override();   // "--json=FILE" is no "--json"
    return;
  }
  // One value each time the flag is given, and as many times as that is.
  slot.option = app.add_option(names, slot.values)->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  slot.option->type_size(1)->expected(1)->allow_extra_args(false);
  slot.option->type_name(std::string(slot.flag->value));
}

std::vector<std::string> flag_names(const Command& command) {
  std::vector<std::string> names = {"--help"};
  for (const FlagGroup& group : command.groups)
    for (const Flag& flag : group.flags) names.emplace_back(flag.name);
  return names;
}

std::string see_help(const Command& command) { return "`profgpu " + std::string(command.name) + " --help` lists what it takes"; }

Error unknown_word(const Command& command, const std::string& word) {
  if (word.size() < 2 || word[0] != '-') return {"unexpected argument " + word, see_help(command)};
  const std::string name = word.substr(0, word.find('='));
  const std::string near = nearest(name, flag_names(command));
  return {"unknown option " + name, near.empty() ? see_help(command) : "did you mean " + near + "?"};
}

Result<Nothing> check_choice(const Slot& slot) {
  for (const std::string& value : slot.values) {
    const auto& choices = slot.flag->choices;
    if (choices.empty() || std::find(choices.begin(), choices.end(), value) != choices.end()) continue;
    std::string list;
    for (std::string_view c : choices) list += (list.empty() ? "" : ", ") + std::string(c);
    return Error{std::string(slot.flag->name) + " does not know \"" + value + "\"", "one of: " + list};
  }
  return ok();
}

Result<Nothing> check_positional(const Command& command, const Arguments& arguments) {
  if (command.positional_required() && arguments.positional.empty())
    return Error{"needs " + std::string(command.positional), see_help(command)};
  if (arguments.positional.size() > 1 && !command.positional_repeats())
    return Error{"unexpected argument " + arguments.positional[1], see_help(command)};
  return ok();
}

bool takes_value(const Command& command, std::string_view name) {
  for (const FlagGroup& group : command.groups)
    for (const Flag& flag : group.flags)
      if (!flag.value.empty() && (flag.name == name || flag.short_name == name)) return true;
  return false;
}

// Whether the flag's value is the word behind it: "--top 3", "-o FILE", "-qo FILE", but not "--top=3", "-oFILE".
bool value_follows(const Command& command, const std::string& word) {
  if (word.starts_with("--")) return takes_value(command, word);
  for (size_t i = 1; i < word.size(); ++i)
    if (takes_value(command, std::string("-") + word[i])) return i + 1 == word.size();
  return false;
}

}  // namespace

size_t own_words(const Command& command, const std::vector<std::string>& words) {
  if (!command.runs_command) return words.size();
  size_t i = 0;
  while (i < words.size() && words[i] != "--" && words[i].size() > 1 && words[i][0] == '-')
    i += value_follows(command, words[i]) ? 2 : 1;
  return std::min(i, words.size());
}

Result<Arguments> parse_arguments(const Command& command, const std::vector<std::string>& words) {
  CLI::App app;
  app.set_help_flag();
  app.allow_extras();
  std::vector<Slot> slots;
  for (const FlagGroup& group : command.groups)
    for (const Flag& flag : group.flags) slots.push_back({&flag, nullptr, {}});
  for (Slot& slot : slots) declare(app, slot);

  Arguments arguments;
  if (command.takes_positional()) {
    auto* option = app.add_option("positional", arguments.positional)->type_size(1);
    option->expected(0, command.positional_repeats() ? CLI::detail::expected_max_vector_size : 1);
  }
  // What follows `--` is no option, whatever it looks like. The parser takes its words last first.
  const auto own = words.begin() + static_cast<ptrdiff_t>(own_words(command, words));
  const auto dashes = command.runs_command ? own : std::find(words.begin(), words.end(), "--");
  try {
    app.parse(std::vector<std::string>(std::make_reverse_iterator(dashes), words.rend()));
  } catch (const CLI::ArgumentMismatch& e) {
    const std::string_view text = e.what();
    if (const std::string name(text.substr(0, text.find(' '))); text.ends_with("flag override"))   // its name without dashes
      return Error{(name.size() == 1 ? "-" : "--") + name + " takes no value", see_help(command)};
    return Error{std::string(text.substr(0, text.find(':'))) + " needs a value", see_help(command)};
  } catch (const CLI::ParseError& e) {
    return Error{e.what(), see_help(command)};
  }
  const bool has_dashes = dashes != words.end() && *dashes == "--";
  arguments.positional.insert(arguments.positional.end(), dashes + (has_dashes ? 1 : 0), words.end());
  if (auto extras = app.remaining(); !extras.empty()) return unknown_word(command, extras.front());
  for (Slot& slot : slots) {
    if (slot.option->count() == 0) continue;
    if (slot.flag->value.empty()) slot.values = {""};
    if (auto status = check_choice(slot); !status) return status.error();
    arguments.add(slot.flag->name, std::move(slot.values));
  }
  if (auto status = check_positional(command, arguments); !status) return status.error();
  return arguments;
}

bool asks_for_help(const std::vector<std::string>& words) {
  for (const std::string& word : words) {
    if (word == "--") return false;
    if (word == "--help" || word == "-h") return true;
  }
  return false;
}

}  // namespace profgpu
