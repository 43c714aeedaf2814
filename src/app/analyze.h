// From paths to a Report: read, analyse, diagnose. Options are typed; set_option() takes them as people type them.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "analyse/job/report.h"
#include "analyse/rank/kept_events.h"
#include "analyse/rules/rule.h"
#include "app/gather/processes.h"
#include "app/words.h"
#include "base/progress.h"
#include "base/result.h"

namespace profgpu {

struct AnalyzeOptions {
  AnalyzeOptions();                        ///< with what is in machine_file(), if there is one that can be read

  std::vector<std::string> paths;          ///< files or folders, as typed; which hold samples is seen in them
  AnalysisOptions analysis;
  Thresholds thresholds;
  bool page = false;                       ///< with what a page shows
  StepChoice page_steps;                   ///< whose events it keeps
  std::optional<RankRanges> page_ranks;    ///< whose events it has; none: see page_ranks()

  [[nodiscard]] bool chooses_steps() const { return analysis.first_step != 0 || analysis.end_step != INT64_MAX; }
};

/// Options that set_option() knows, in the order in which they are looked at.
constexpr std::string_view kReadingOptions[] = {"--steps", "--html-steps", "--html-ranks", "--threshold",
                                                "--step-pattern", "--gpu", "--peaks", "--model-config", "--tokens-per-step",
                                                "--samples-per-step", "--price-kwh", "--gco2-kwh"};
constexpr std::string_view kShowingOptions[] = {"--top", "--section", "--width", "--color", "--verbose"};
constexpr std::string_view kColours[] = {"auto", "always", "never"};

/// `values`: what was given, in order; the last one counts, of thresholds each. The error is one of usage.
Status set_option(AnalyzeOptions& options, std::string_view option, std::span<const std::string> values);
/// The colour is that of output which goes to no terminal.
Status set_option(PresentOptions& options, std::string_view option, std::span<const std::string> values);

/// Where `profgpu bench --save` puts what it measured: PROFGPU_MACHINE, else profgpu/machine.json of the user's data.
std::string machine_file();

/// With the rule that was probably meant.
Error no_such_rule(const std::string& id);

/// So many fit a browser and what a person looks through; their traces are in memory at once.
constexpr size_t kPageRanks = 8;

/// Ascending. Without a choice all of a small job; else the rank in focus and those that findings name, ranks that
/// others wait for, those that hang, the longest and the shortest steps, and the first ones. The error: a part of the
/// choice names no rank.
Result<std::vector<int>> page_ranks(const std::vector<int>& there, const Report& report,
                                    const std::optional<RankRanges>& choice);

/// Reads, analyses and diagnoses. Traces are kept only where a page shows them.
Result<Report> make_report(const AnalyzeOptions& options, Progress& progress);
/// The same by several processes, which share the reading: process 0 gets the report, the others nothing.
Result<std::optional<Report>> make_report(const AnalyzeOptions& options, const Processes& processes,
                                          Progress& progress);

}  // namespace profgpu
