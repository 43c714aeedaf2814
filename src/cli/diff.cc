// profgpu diff: did it help?
#include <fmt/format.h>

#include <algorithm>

#include "app/compared_runs.h"
#include "cli/bench_compare.h"
#include "cli/diff_view.h"
#include "cli/output.h"
#include "cli/terminal.h"
#include "cli/trace_command.h"
#include "view/json_text.h"

namespace profgpu {
namespace {

struct DiffOptions {
  TraceCommand trace;            ///< how traces are read; how and where the comparison is shown
  std::vector<Gate> gates;
  std::string baseline, history; ///< compare with this baseline of that file; empty: with the first path
};

Result<DiffOptions> diff_options(const Arguments& arguments) {
  DiffOptions options;
  options.baseline = arguments.value("--baseline");
  options.history = history_path(arguments);
  if (arguments.positional.size() + !options.baseline.empty() < 2)
    return Error{"diff needs two runs", "profgpu diff before.json after.json"};
  auto trace = trace_command(arguments);
  if (!trace) return trace.error();
  options.trace = *std::move(trace);
  const bool person = options.trace.format == "terminal" && options.trace.output.empty() && stdout_is_terminal();
  if (person && !arguments.has("--all") && !arguments.has("--top")) options.trace.shown.section = "brief";
  if (Status writable = refuse_overwrite(options.trace.read.paths, options.trace.output); !writable)
    return writable.error();
  for (const std::string& text : arguments.values("--fail-on")) {
    auto gate = parse_gate(text);
    if (!gate) return gate.error();
    options.gates.push_back(*gate);
  }
  if (options.trace.format == "junit" && options.gates.empty())
    return Error{"--format junit writes a test case for each --fail-on, and there is none",
                 "profgpu diff a b --format junit --fail-on 'step_time > +3%'"};
  return options;
}

Result<Diff> make_diff(const DiffOptions& options) {
  std::vector<RunSummary> runs;
  if (!options.baseline.empty()) {
    auto run = baseline_run(options.history, options.baseline);
    if (!run) return run.error();
    runs.push_back(*std::move(run));
  }
  for (const std::string& path : options.trace.read.paths) {
    Progress progress;
    const ProgressBar bar(progress, options.trace.draws());
    auto run = read_run(path, options.trace.read, progress);
    if (!run) return run.error();
    runs.push_back(*std::move(run));
  }
  return diff_of(std::move(runs), options.gates);
}

std::string written(const Diff& diff, const TraceCommand& c) {
  if (c.format == "junit") return diff_junit(diff, c.allow_inconclusive);
  if (c.format == "github") return diff_github(diff, c.allow_inconclusive);
  if (c.format == "markdown") return diff_markdown(diff, c.shown.top);
  if (c.format == "json") return json_document(diff_record(diff));
  return diff_terminal(diff, c.as_output());
}

Outcome diff(const Arguments& arguments) {
  const size_t runs = arguments.positional.size() + (arguments.has("--baseline") ? 1 : 0);
  if (runs >= 2 && std::ranges::all_of(arguments.positional, is_bench_file)) return diff_bench(arguments);
  auto options = diff_options(arguments);
  if (!options) return Outcome::usage(options.error());
  auto made = make_diff(*options);
  if (!made) return made.error();
  if (const Status status = options->trace.write(written(*made, options->trace)); !status) return status;
  Outcome outcome;
  for (const GateResult& g : made->gates) {
    if (g.verdict == GateVerdict::kFail) outcome.code = ExitCode::kFindings;
    if (g.verdict != GateVerdict::kUnknown) continue;
    const bool passes = options->trace.allow_inconclusive;
    if (!passes) outcome.code = ExitCode::kFindings;
    if (!passes || !options->trace.quiet)
      print_message(fmt::format("profgpu: diff: --fail-on '{}' is undecided{}: {}", g.gate.text,
                                passes ? "" : " and fails (--allow-inconclusive lets it pass)", g.detail));
  }
  return outcome;
}

}  // namespace

extern const Command kDiff{
    .name = "diff",
    .summary = "compare runs: is the difference real, and where does it come from",
    .positional = "PATH...",
    .positional_help =
        "two runs or more, the reference first: traces, recordings, folders of ranks, sample logs, or what `profgpu "
        "analyze --json` saved",
    .groups =
        {{"What to show",
          {{"--json", "the whole comparison as JSON, same as --format json"},
           {"--format NAME", "format of the comparison (default terminal)", 
            {"terminal", "json", "markdown", "junit", "github"}},
           {"-o, --output FILE", "write it to FILE"},
           kTopFlag,
           {"--all", "everything on a terminal too, not only what fits 24 lines"}}},
         {"What to look at",
          {{"--steps A:B", "only steps A to B - 1 of each run; not for saved analyses, whose steps are fixed"},
           kStepPatternFlag,
           {"--baseline NAME", "compare with what `profgpu baseline save NAME` saved"},
           kHistoryFlag}},
         {"In scripts",
          {{"--fail-on GATE...",
            "exit 3 if the change exceeds a limit and is real: 'step_time > +3%', 'peak_memory > +5%', 'phase:backward > "
            "+5%', 'kernel:NAME > +10%', 'finding:RULE'"},
           kAllowInconclusiveFlag,
           kQuietFlag,
           kNoProgressFlag}},
         {"Screen", {kWidthFlag, kColourFlag}}},
    .examples = {{"profgpu diff before.json.gz after.json.gz", "two traces of one training script"},
                 {"profgpu diff baseline.json trace.json.gz --fail-on 'step_time > +3%'",
                  "a gate: baseline.json comes from `profgpu analyze --json -o baseline.json` of a good run"},
                 {"profgpu diff workers0.json workers2.json workers4.json", "a sweep: the best of each row is marked"},
                 {"profgpu diff a.json b.json --format markdown -o comment.md", "for a pull request"}},
    .notes =
        "A change of the step time is real if the 95 % confidence interval of the ratio of mean steps excludes 1 (seeded "
        "bootstrap, without warm-up steps). Kernels, phases and operators are tested by their sums "
        "per step (Welch); how collectives vary is not known.\n\n"
        "Metrics of gates: step_time, step_time_median, peak_memory, memory_growth, energy_per_step, power, "
        "gpu_utilization, samples_per_s, tokens_per_s, phase:NAME, idle:CAUSE, device:compute, category:NAME, kernel:PART_OF_NAME, op:NAME, "
        "collective:PART_OF_NAME, finding:RULE. A limit with a sign (+3%, +5ms) applies to the change, one without a sign "
        "(200ms, 70GiB) to the new value. With more than two runs each is compared with the first.\n\n"
        "A gate is undecided where a run lacks the metric, or has too few steps to tell a change from chance. It fails "
        "unless --allow-inconclusive is given.\n\n"
        "Two results of `profgpu bench -o` are compared figure by figure; their gates are of the kind "
        "'figure:host_to_device < -5%'.\n\n"
        "Exit status: 0 compared, 1 not compared, 2 usage, 3 a gate failed or is undecided.",
    .run = diff,
};

}  // namespace profgpu
