// Command: one word after `profgpu`, as data. The parser, the help, the manual page and the shell completions are all
// made from this description.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace profgpu {

/// Documented in the manual page; scripts rely on it.
enum class ExitCode : int {
  kOk = 0,           ///< done, even if the report is partial
  kFailed = 1,       ///< nothing to report; standard error says why
  kUsage = 2,        ///< invalid command line
  kFindings = 3,     ///< a finding at or above --fail-on
  kInterrupted = 130 ///< Ctrl-C
};

struct Flag {
  /// `shown`: "-o, --output FILE" or "--threshold RULE=VALUE..."; the dots: it may be repeated.
  Flag(std::string_view shown, std::string_view explanation, std::vector<std::string_view> accepted = {});

  std::string_view synopsis, help;          ///< as given
  std::vector<std::string_view> choices;    ///< the values it accepts, where they can be listed
  std::string_view name, short_name;        ///< "--output", "-o"; the latter may be empty
  std::string_view value;                   ///< "FILE"; empty: the flag is a switch
  bool repeatable = false;

  [[nodiscard]] bool takes_path() const { return value == "FILE" || value == "FOLDER" || value == "PATH"; }
};

/// Flags below one heading of the help.
struct FlagGroup {
  std::string_view title;
  std::vector<Flag> flags;
};

struct Example {
  std::string_view command;  ///< as typed, with `profgpu`
  std::string_view says;     ///< what it does, one clause
};

/// What the user typed, after parsing. Flags are looked up by their long name.
class Arguments {
 public:
  void add(std::string_view flag, std::string value) { flags_[flag].push_back(std::move(value)); }
  std::vector<std::string> positional;

  [[nodiscard]] bool has(std::string_view flag) const { return !values(flag).empty(); }
  /// Every value given, in order; for a switch one empty string.
  [[nodiscard]] const std::vector<std::string>& values(std::string_view flag) const;
  /// The last value given; `otherwise` if there is none.
  [[nodiscard]] std::string value(std::string_view flag, std::string_view otherwise = {}) const;

 private:
  std::map<std::string_view, std::vector<std::string>> flags_;
};

/// How a command ended: its exit code and an error for main to print, if any.
struct Outcome {
  ExitCode code = ExitCode::kOk;
  Error error = {};

  Outcome() = default;
  Outcome(ExitCode exit, Error e = {}) : code(exit), error(std::move(e)) {}
  Outcome(Error e) : Outcome(ExitCode::kFailed, std::move(e)) {}
  Outcome(const Status& done) : Outcome(done ? Outcome() : Outcome(done.error())) {}
  static Outcome usage(Error e) { return {ExitCode::kUsage, std::move(e)}; }
};

struct Command {
  std::string_view name;
  std::string_view summary;                  ///< one line for `profgpu --help`, lower case, no full stop
  std::string_view positional = {};          ///< "PATH...", "RULE", "[COMMAND]", "PID [ORDER]" or empty
  std::string_view positional_help = {};
  std::vector<FlagGroup> groups = {};
  std::vector<Example> examples = {};
  std::string_view notes = {};               ///< paragraphs below the flags
  bool hidden = false;                       ///< left out of `profgpu --help`
  bool runs_command = false;                 ///< the positional is a command line: nothing in it is ours
  std::vector<std::string> (*candidates)() = nullptr;  ///< values of the positional, for completion and "did you mean"
  std::vector<std::string> (*second_candidates)() = nullptr;   ///< of the word behind it, for completion
  Outcome (*run)(const Arguments&) = nullptr;

  [[nodiscard]] bool takes_positional() const { return !positional.empty(); }
  [[nodiscard]] bool positional_required() const { return takes_positional() && positional.front() != '['; }
  [[nodiscard]] bool positional_repeats() const {
    return positional.find("...") != std::string_view::npos || positional.find(' ') != std::string_view::npos;
  }
  [[nodiscard]] bool positional_is_path() const { return positional.find("PATH") != std::string_view::npos; }
};

/// --format, or json with --json. The error: they differ.
Result<std::string> format_option(const Arguments& arguments, std::string_view otherwise);

// Flags of several commands.

inline const Flag kStepPatternFlag{
    "--step-pattern REGEX", "treat ranges whose name matches as steps (POSIX extended regular expression)"};
inline const Flag kTopFlag{"--top N", "rows in long tables (default 10)"};
inline const Flag kWidthFlag{"--width COLUMNS", "wrap at this width (default: the terminal's)"};
inline const Flag kQuietFlag{"-q, --quiet", "no messages and no progress bar; errors are still printed"};
inline const Flag kNoProgressFlag{"--no-progress", "no progress bar"};
inline const Flag kColourFlag{"--color WHEN", "use colors (default auto)", {"auto", "always", "never"}};

constexpr int64_t kSecond_ns = 1'000'000'000;

/// Reads options into variables, which keep their value where an option was not given. Keeps the first error, which is
/// a usage error.
class OptionReader {
 public:
  explicit OptionReader(const Arguments& arguments) : arguments_(arguments) {}

  template <class T>
  OptionReader& whole(std::string_view flag, int64_t min, int64_t max, T& to) {
    return set(number(flag, kWhole, min, max), to);
  }
  /// Nanoseconds of "0.5", "100ms", "2m".
  template <class T>
  OptionReader& time(std::string_view flag, int64_t min_ns, int64_t max_ns, T& to) {
    return set(number(flag, kTime, min_ns, max_ns), to);
  }
  /// Bytes of "100MB", "4GiB".
  template <class T>
  OptionReader& size(std::string_view flag, int64_t min, T& to) {
    return set(number(flag, kSize, min, INT64_MAX), to);
  }
  [[nodiscard]] const Status& status() const { return status_; }

 private:
  enum Kind { kWhole, kTime, kSize };
  std::optional<int64_t> number(std::string_view flag, Kind kind, int64_t min, int64_t max);
  template <class T>
  OptionReader& set(const std::optional<int64_t>& value, T& to) {
    if (value) to = static_cast<T>(*value);
    return *this;
  }

  const Arguments& arguments_;
  Status status_ = ok();
};

const std::vector<const Command*>& commands();
const Command* find_command(std::string_view name);
/// A command, or `--` before a program, that this program was built without, as it only reads files.
bool is_left_out(std::string_view name);

// Command line to Arguments.

/// How many of the words are the command's own flags and their values: all, except where it runs another command, whose
/// line begins after `--` or at the first word that is not a flag.
size_t own_words(const Command& command, const std::vector<std::string>& words);

bool has_flag(const Command& command, const std::string& name);
/// Whether `word`, a flag of the command, takes the next word as its value.
bool value_follows(const Command& command, const std::string& word);

/// Parses the words after the command's name. The error is a usage error and suggests what was probably meant.
Result<Arguments> parse_arguments(const Command& command, const std::vector<std::string>& words);

/// True if the words ask for help: --help or -h before a `--`.
bool asks_for_help(const std::vector<std::string>& words);

}  // namespace profgpu
