// Command: one word after `profgpu`, as data. The parser, the help, the manual page and the shell completions are all
// made from this description.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/result.h"

namespace profgpu {

/// What the program's exit status says. Documented in the manual page; scripts rely on it.
enum class ExitCode : int {
  kOk = 0,           ///< done, even if the report is partial
  kFailed = 1,       ///< nothing to report; standard error says why
  kUsage = 2,        ///< the command line cannot be understood
  kFindings = 3,     ///< a finding at or above --fail-on
  kInterrupted = 130 ///< Ctrl-C
};

struct Flag {
  std::string_view name;                      ///< "--top"
  std::string_view short_name = {};           ///< "-o", or empty
  std::string_view value = {};                ///< what the value is called, "N"; empty: the flag is a switch
  std::string_view help = {};                 ///< one clause
  std::vector<std::string_view> choices = {}; ///< the values it takes, where they can be listed
  bool repeatable = false;
  bool takes_path = false;                    ///< completed with file names
};

/// Headings that the help shows flags under.
struct FlagGroup {
  std::string_view title;
  std::vector<Flag> flags;
};

struct Example {
  std::string_view command;  ///< as typed, with `profgpu`
  std::string_view says;     ///< what it is for, one clause
};

/// What the user typed, after parsing. Flags are asked for by their long name.
class Arguments {
 public:
  void add(std::string_view flag, std::string value);
  std::vector<std::string> positional;

  [[nodiscard]] bool has(std::string_view flag) const { return !values(flag).empty(); }
  /// Every value given, in order; for a switch one empty string.
  [[nodiscard]] const std::vector<std::string>& values(std::string_view flag) const;
  /// The last value given; `otherwise` if there is none.
  [[nodiscard]] std::string value(std::string_view flag, std::string_view otherwise = {}) const;

 private:
  struct Given {
    std::string_view flag;
    std::vector<std::string> values;
  };
  std::vector<Given> flags_;
};

/// How a command ended: its exit code, or an error that main prints. A usage error exits with 2.
struct Outcome {
  ExitCode code = ExitCode::kOk;
  Error error = {};

  static Outcome failed(Error e) { return {ExitCode::kFailed, std::move(e)}; }
  static Outcome of(const Status& done) { return done ? Outcome{} : failed(done.error()); }
  static Outcome usage(Error e) { return {ExitCode::kUsage, std::move(e)}; }
};

struct Command {
  std::string_view name;
  std::string_view summary;                  ///< one line for `profgpu --help`, lower case, no full stop
  std::string_view positional;               ///< "PATH...", "RULE", "[COMMAND]", "PID [ORDER]" or empty
  std::string_view positional_help = {};
  std::vector<FlagGroup> groups = {};
  std::vector<Example> examples = {};
  std::string_view notes = {};               ///< a paragraph below the flags
  bool hidden = false;                       ///< left out of `profgpu --help`
  bool runs_command = false;                 ///< the positional is a command line: nothing in it is ours
  std::vector<std::string> (*candidates)() = nullptr;  ///< values of the positional, for completion and "did you mean"
  Outcome (*run)(const Arguments&) = nullptr;

  [[nodiscard]] bool takes_positional() const { return !positional.empty(); }
  [[nodiscard]] bool positional_required() const { return takes_positional() && positional.front() != '['; }
  [[nodiscard]] bool positional_repeats() const {
    return positional.find("...") != std::string_view::npos || positional.find(' ') != std::string_view::npos;
  }
  [[nodiscard]] bool positional_is_path() const { return positional.find("PATH") != std::string_view::npos; }
};

/// --format, or json where --json says so. The error: they differ.
Result<std::string> asked_format(const Arguments& arguments, std::string_view otherwise);

// Flags that several commands have.

Flag step_pattern_flag();
Flag samples_flag(std::string_view help);
Flag steps_flag(std::string_view help);
Flag output_flag(std::string_view help);
Flag top_flag();
Flag width_flag();
Flag quiet_flag();
Flag no_progress_flag();
Flag colour_flag();

/// What an option takes, as its error says it: "--count takes a whole number from 1, not ...".
struct Takes {
  std::string what;
  int64_t least = 0, most = INT64_MAX;
  std::string hint = {};
};
/// Text to a whole number: whole_number(), duration_ns(), or one of these.
using OptionParser = std::optional<int64_t> (*)(std::string_view);
std::optional<int64_t> digits_only(std::string_view text);   ///< 1e1 and 2.5 are numbers too, but nobody means them
std::optional<int64_t> whole_bytes(std::string_view text);   ///< of "100MB", up to 1e18

/// None where the option was not given. The error is a usage error.
Result<std::optional<int64_t>> option_value(const Arguments& arguments, std::string_view flag, OptionParser parse,
                                            const Takes& takes);
/// Leaves `to` as it is where the option was not given.
template <class T>
Status read_option(const Arguments& arguments, std::string_view flag, OptionParser parse, const Takes& takes, T& to) {
  auto value = option_value(arguments, flag, parse, takes);
  if (!value) return value.error();
  if constexpr (std::is_arithmetic_v<T>) to = static_cast<T>(value->value_or(to));
  else if (*value) to = **value;
  return ok();
}

const std::vector<const Command*>& commands();
const Command* find_command(std::string_view name);

// Command line to Arguments.

/// How many of the words are the command's own flags and their values: all, but where it runs another command, whose
/// line begins behind `--` or at the first word that is no flag.
size_t own_words(const Command& command, const std::vector<std::string>& words);

/// Parses the words after the command's name. The error is one for exit code 2 and says what was probably meant.
Result<Arguments> parse_arguments(const Command& command, const std::vector<std::string>& words);

/// True if the words ask for help: --help or -h before a `--`.
bool asks_for_help(const std::vector<std::string>& words);

}  // namespace profgpu
