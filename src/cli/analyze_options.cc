#include "cli/analyze_options.h"

#include <regex.h>

#include <charconv>
#include <cmath>

#include "analyse/rules/rule.h"
#include "cli/flag_values.h"
#include "cli/words.h"

namespace profgpu {
namespace {

template <class T>
bool parse_number(std::string_view text, T& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

Status read_steps(const std::string& text, AnalyzeOptions& options) {
  const size_t colon = text.find(':');
  const std::string a = text.substr(0, colon), b = colon == std::string::npos ? "" : text.substr(colon + 1);
  const bool good = colon != std::string::npos && (a.empty() || parse_number(a, options.first_step)) &&
                    (b.empty() || parse_number(b, options.end_step)) && options.first_step >= 0 &&
                    options.first_step < options.end_step;
  if (!good) return Error{"--steps takes a:b, not \"" + text + "\"", "--steps 10:20 is steps 10 up to 19"};
  return ok();
}

// One of "A:B" and "A"; either end of the first may be left out.
bool read_step_range(std::string_view text, std::pair<int64_t, int64_t>& range) {
  const size_t colon = text.find(':');
  if (colon == std::string_view::npos) {
    if (!parse_number(text, range.first) || range.first == INT64_MAX) return false;
    range.second = range.first + 1;
    return range.first >= 0;
  }
  const std::string_view a = text.substr(0, colon), b = text.substr(colon + 1);
  range = {0, INT64_MAX};
  return (a.empty() || parse_number(a, range.first)) && (b.empty() || parse_number(b, range.second)) &&
         range.first >= 0 && range.first < range.second;
}

Status read_html_steps(std::string_view text, AnalyzeOptions& options) {
  if (!options.wants_page()) return Error{"--html-steps goes with --html FILE"};
  if (text == "all") {
    options.html_steps.all = true;
    return ok();
  }
  const std::string whole(text);
  for (;;) {
    const size_t comma = text.find(',');
    if (!read_step_range(text.substr(0, comma), options.html_steps.indices.emplace_back()))
      return Error{"--html-steps takes a:b, a list such as 3,7:9, or all, not \"" + whole + "\"",
                   "--html-steps 10:12 keeps all events of steps 10 and 11"};
    if (comma == std::string_view::npos) return ok();
    text.remove_prefix(comma + 1);
  }
}

Status read_html_ranks(const std::string& text, AnalyzeOptions& options) {
  if (!options.wants_page()) return Error{"--html-ranks goes with --html FILE"};
  options.html_ranks = text == "all" ? RankRanges{{0, INT32_MAX}} : rank_ranges(text);
  if (!options.html_ranks)
    return Error{"--html-ranks takes a list such as 0,3,8-11, or all, not \"" + text + "\""};
  return ok();
}

Status read_threshold(const std::string& text, AnalyzeOptions& options) {
  const size_t equals = text.find('=');
  const std::string rule = text.substr(0, equals);
  double value = 0;
  if (equals == std::string::npos || !parse_number(std::string_view(text).substr(equals + 1), value) ||
      !std::isfinite(value))
    return Error{"--threshold takes RULE=NUMBER, not \"" + text + "\"", "--threshold host-bound-launches=15"};
  if (!find_rule(rule)) {
    std::vector<std::string> ids;
    for (const Rule* r : rules()) ids.emplace_back(r->id);
    const std::string near = nearest(rule, ids);
    return Error{"there is no rule \"" + rule + "\"",
                 near.empty() ? "`profgpu rules` lists them" : "did you mean " + near + "?"};
  }
  options.thresholds.set(rule, value);
  return ok();
}

Status check_pattern(const std::string& pattern) {
  regex_t compiled;
  const int error = ::regcomp(&compiled, pattern.c_str(), REG_EXTENDED | REG_NOSUB);
  if (error == 0) {
    ::regfree(&compiled);
    return ok();
  }
  char text[200];
  ::regerror(error, &compiled, text, sizeof text);
  return Error{"--step-pattern \"" + pattern + "\": " + text, "it is a POSIX extended regular expression"};
}

std::optional<Severity> severity_of(std::string_view name) {
  for (Severity s : {Severity::kInfo, Severity::kWarning, Severity::kCritical})
    if (severity_name(s) == name) return s;
  return std::nullopt;
}

Status read_numbers(const Arguments& arguments, AnalyzeOptions& options) {
  if (auto status = read_whole(arguments, "--top", 0, INT32_MAX, options.top); !status) return status;
  if (auto status = read_whole(arguments, "--width", 0, INT32_MAX, options.width); !status) return status;
  if (arguments.has("--steps"))
    if (auto status = read_steps(arguments.value("--steps"), options); !status) return status;
  if (arguments.has("--html-steps"))
    if (auto status = read_html_steps(arguments.value("--html-steps"), options); !status) return status;
  if (arguments.has("--html-ranks"))
    if (auto status = read_html_ranks(arguments.value("--html-ranks"), options); !status) return status;
  for (const std::string& text : arguments.values("--threshold"))
    if (auto status = read_threshold(text, options); !status) return status;
  if (arguments.has("--step-pattern"))
    if (auto status = check_pattern(arguments.value("--step-pattern")); !status) return status;
  return ok();
}

}  // namespace

Flag step_pattern_flag() {
  return {.name = "--step-pattern",
          .value = "REGEX",
          .help = "ranges whose name matches are steps (POSIX extended regular expression)"};
}

Result<AnalyzeOptions> analyze_options(const Arguments& arguments) {
  AnalyzeOptions options;
  options.paths = arguments.positional;
  // Which files hold samples is seen in them.
  options.samples = arguments.values("--samples");
  options.paths.insert(options.paths.end(), options.samples.begin(), options.samples.end());
  options.format = arguments.has("--json") ? "json" : arguments.value("--format", "terminal");
  if (arguments.has("--json") && arguments.value("--format", "json") != "json")
    return Error{"--json and --format " + arguments.value("--format") + " exclude each other"};
  options.output = arguments.value("--output");
  options.html = arguments.value("--html");
  options.mpi = arguments.has("--mpi");
  if (options.mpi && options.wants_page())
    return Error{"--mpi goes without a page: it needs the events, which stay with the processes that read them",
                 "profgpu analyze --html FILE with some of the ranks' files"};
  options.section = arguments.value("--section");
  if (options.format == "html" && !options.section.empty())
    return Error{"--section and --format html exclude each other", "the page has all of the report"};
  options.fail_on = severity_of(arguments.value("--fail-on"));
  options.step_pattern = arguments.value("--step-pattern");
  options.colour = asked_colour(arguments);
  options.verbose = arguments.has("--verbose");
  options.quiet = arguments.has("--quiet");
  options.progress = !options.quiet && !arguments.has("--no-progress");
  if (auto status = read_numbers(arguments, options); !status) return status.error();
  return options;
}

}  // namespace profgpu
