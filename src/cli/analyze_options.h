// What `profgpu analyze` was asked for.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "analyse/rank/kept_events.h"
#include "analyse/report/report.h"
#include "analyse/rules/rule.h"
#include "base/result.h"
#include "cli/command.h"
#include "cli/output.h"
#include "cli/flag_values.h"

namespace profgpu {

struct AnalyzeOptions {
  std::vector<std::string> paths;                         ///< files or folders, as typed
  std::vector<std::string> samples;                       ///< of those, the ones said to be samples of devices
  std::string format = "terminal";                        ///< a presenter's name
  std::string output;                                     ///< -o; empty: standard output
  std::string html;                                       ///< --html: the page, beside the report; empty: none
  StepChoice html_steps;                                  ///< whose events the page keeps
  std::optional<RankRanges> html_ranks;                   ///< whose events the page has; none: see page_ranks()
  std::string section;                                    ///< empty: the first screen
  int top = 10;
  int width = 0;                                          ///< 0: ask the terminal
  Colour colour = Colour::kAuto;
  std::optional<Severity> fail_on;                        ///< exit 3 from this severity on
  Thresholds thresholds;                                  ///< --threshold rule=value
  std::string step_pattern;                               ///< POSIX extended regular expression; empty: built-in names
  int64_t first_step = 0;
  int64_t end_step = INT64_MAX;                           ///< one past the last
  bool mpi = false;                                       ///< the processes that mpirun started share the reading
  bool verbose = false;
  bool quiet = false;
  bool progress = true;                                   ///< may draw, if standard error is a terminal

  [[nodiscard]] bool chooses_steps() const { return first_step != 0 || end_step != INT64_MAX; }
  [[nodiscard]] bool wants_page() const { return !html.empty() || format == "html"; }
};

/// --step-pattern, of every command that reads traces.
Flag step_pattern_flag();

/// Everything wrong with the options is a usage error.
Result<AnalyzeOptions> analyze_options(const Arguments& arguments);

}  // namespace profgpu
