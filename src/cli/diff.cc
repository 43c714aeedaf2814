// profgpu diff: did it help?
#include <fmt/format.h>

#include "app/compared_runs.h"
#include "cli/diff_view.h"
#include "cli/output.h"
#include "cli/trace_command.h"
#include "view/json_text.h"

namespace profgpu {
namespace {

struct DiffOptions {
  TraceCommand trace;            ///< how traces are read; how and where the comparison is shown
  std::vector<Gate> gates;
  std::string baseline, history; ///< the run before is this baseline of that file; empty: the first path
};

Result<DiffOptions> diff_options(const Arguments& arguments) {
  DiffOptions options;
  options.baseline = arguments.value("--baseline");
  options.history = history_path(arguments);
  if (arguments.positional.size() + !options.baseline.empty() < 2)
    return Error{"two runs are needed", "profgpu diff before.json after.json"};
  auto trace = trace_command(arguments);
  if (!trace) return trace.error();
  options.trace = *std::move(trace);
  if (Status writable = refuse_overwrite(options.trace.read.paths, options.trace.output); !writable)
    return writable.error();
  for (const std::string& text : arguments.values("--fail-on")) {
    auto gate = parse_gate(text);
    if (!gate) return gate.error();
    options.gates.push_back(*gate);
  }
  if (options.trace.format == "junit" && options.gates.empty())
    return Error{"--format junit has a test case for each --fail-on, and there is none",
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
  if (c.format == "junit") return diff_junit(diff);
  if (c.format == "markdown") return diff_markdown(diff, c.shown.top);
  if (c.format == "json") return json_document(diff_record(diff));
  return diff_terminal(diff, c.as_output());
}

Outcome diff(const Arguments& arguments) {
  auto options = diff_options(arguments);
  if (!options) return Outcome::usage(options.error());
  auto made = make_diff(*options);
  if (!made) return Outcome::failed(made.error());
  if (const Status status = options->trace.write(written(*made, options->trace)); !status)
    return Outcome::failed(status.error());
  Outcome outcome;
  for (const GateResult& g : made->gates) {
    if (g.verdict == GateVerdict::kFail) outcome.code = ExitCode::kFindings;
    if (g.verdict == GateVerdict::kUnknown && !options->trace.quiet)
      print_message(fmt::format("profgpu: diff: --fail-on '{}' was not decided: {}", g.gate.text, g.detail));
  }
  return outcome;
}

}  // namespace

extern const Command kDiff;
const Command kDiff{
    .name = "diff",
    .summary = "is a run faster than another, and what is the difference made of",
    .positional = "PATH...",
    .positional_help =
        "two runs or more, the one before first: traces, recordings, folders of ranks, sample logs, or what "
        "`profgpu analyze --json` saved",
    .groups =
        {{"What to show",
          {{.name = "--json", .help = "the whole comparison as JSON, same as --format json"},
           {.name = "--format",
            .value = "NAME",
            .help = "how to write it (default terminal)",
            .choices = {"terminal", "json", "markdown", "junit"}},
           output_flag("write it to FILE"),
           top_flag()}},
         {"What to look at",
          {steps_flag("steps A up to B - 1 only, of every run; not of saved analyses, which have their steps already"),
           step_pattern_flag(),
           {.name = "--baseline", .value = "NAME", .help = "the run before is what `profgpu baseline save NAME` kept"},
           history_flag()}},
         {"In scripts",
          {{.name = "--fail-on",
            .value = "GATE",
            .help = "exit 3 if the change passes a limit and is real: 'step_time > +3%', 'peak_memory > +5%', "
                    "'phase:backward > +5%', 'kernel:NAME > +10%', 'finding:RULE'; may be repeated",
            .repeatable = true},
           quiet_flag(),
           no_progress_flag()}},
         {"Screen",
          {width_flag(),
           colour_flag()}}},
    .examples = {{"profgpu diff before.json.gz after.json.gz", "two traces of one training script"},
                 {"profgpu diff baseline.json trace.json.gz --fail-on 'step_time > +3%'",
                  "as a gate: baseline.json is `profgpu analyze --json -o baseline.json` of a good run"},
                 {"profgpu diff workers0.json workers2.json workers4.json", "a sweep: the best of each row is marked"},
                 {"profgpu diff a.json b.json --format markdown -o comment.md", "for a pull request"}},
    .notes =
        "A change is real if a 95 % confidence interval of the ratio of mean steps leaves out 1 (seeded bootstrap; "
        "warm-up steps are left out); kernels, phases and ops are judged by their sums from step to step (Welch). "
        "Metrics of gates: step_time, step_time_median, peak_memory, memory_growth, energy_per_step, power, "
        "gpu_utilization, phase:NAME, idle:CAUSE, device:compute, category:NAME, kernel:PART_OF_NAME, op:NAME, "
        "collective:PART_OF_NAME, finding:RULE; a limit with a sign (+3%, +5ms) is of the change, without one "
        "(200ms, 70GiB) of the value after. Exit status: 0 compared, 1 not compared, 2 usage, 3 a gate failed.",
    .run = diff,
};

}  // namespace profgpu
