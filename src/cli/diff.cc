// profgpu diff: did it help?
#include <fmt/format.h>

#include <charconv>

#include "cli/command.h"
#include "cli/compared_run.h"
#include "cli/diff_view.h"
#include "cli/output.h"
#include "cli/progress_bar.h"
#include "view/json_text.h"

namespace profgpu {
namespace {

struct DiffOptions {
  std::vector<std::string> paths;
  AnalyzeOptions analysis;       ///< how traces are read; its format, output and screen are the diff's
  std::vector<Gate> gates;
  std::string baseline, history; ///< the run before is this baseline of that file; empty: the first path
};

Result<DiffOptions> diff_options(const Arguments& arguments) {
  DiffOptions options;
  options.paths = arguments.positional;
  options.baseline = arguments.value("--baseline");
  options.history = history_path(arguments);
  if (options.paths.size() + !options.baseline.empty() < 2)
    return Error{"two runs are needed", "profgpu diff before.json after.json"};
  auto read = analyze_options(arguments);
  if (!read) return read.error();
  options.analysis = *read;
  if (Status writable = refuse_overwrite(options.paths, options.analysis.output); !writable) return writable.error();
  for (const std::string& text : arguments.values("--fail-on")) {
    auto gate = parse_gate(text);
    if (!gate) return gate.error();
    options.gates.push_back(*gate);
  }
  if (options.analysis.format == "junit" && options.gates.empty())
    return Error{"--format junit has a test case for each --fail-on, and there is none",
                 "profgpu diff a b --format junit --fail-on 'step_time > +3%'"};
  return options;
}

Result<Diff> make_diff(const DiffOptions& options) {
  Diff diff;
  if (!options.baseline.empty()) {
    auto document = baseline_document(options.history, options.baseline);
    if (!document) return document.error();
    auto run = saved_run(*document, options.baseline);
    if (!run) return run.error();
    diff.runs.push_back(std::move(*run));
  }
  for (const std::string& path : options.paths) {
    Progress progress;
    const ProgressBar bar(progress, options.analysis.progress && stderr_is_terminal());
    auto run = compared_run(path, options.analysis, progress);
    if (!run) return run.error();
    diff.runs.push_back(std::move(*run));
  }
  for (size_t i = 1; i < diff.runs.size(); ++i) {
    auto comparison = compare(diff.runs.front(), diff.runs[i]);
    if (!comparison) return comparison.error();
    diff.comparisons.push_back(std::move(*comparison));
  }
  for (const Gate& gate : options.gates) diff.gates.push_back(check_gate(gate, diff.comparisons.back()));
  return diff;
}

std::string written(const Diff& diff, const AnalyzeOptions& o) {
  if (o.format == "junit") return diff_junit(diff);
  if (o.format == "markdown") return diff_markdown(diff, o.top);
  if (o.format == "json") {
    JsonText json;
    json.record(diff_record(diff), Layout::kLines);
    return json.take() + "\n";
  }
  const bool to_file = !o.output.empty();
  const int width = o.width > 0 ? o.width : to_file ? 100 : output_width();
  return diff_terminal(diff, o.top, width, to_file ? o.colour == Colour::kAlways : output_colour(o.colour));
}

Outcome diff(const Arguments& arguments) {
  auto options = diff_options(arguments);
  if (!options) return Outcome::usage(options.error());
  auto made = make_diff(*options);
  if (!made) return Outcome::failed(made.error());
  const AnalyzeOptions& o = options->analysis;
  const std::string text = written(*made, o);
  const Status status = o.output.empty() ? write_stdout(text) : write_file(o.output, text);
  if (!status) return Outcome::failed(status.error());
  Outcome outcome;
  for (const GateResult& g : made->gates) {
    if (g.verdict == GateVerdict::kFail) outcome.code = ExitCode::kFindings;
    if (g.verdict == GateVerdict::kUnknown && !o.quiet)
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
           {.name = "--output", .short_name = "-o", .value = "FILE", .help = "write it to FILE", .takes_path = true},
           {.name = "--top", .value = "N", .help = "rows of long tables (default 10)"}}},
         {"What to look at",
          {{.name = "--steps",
            .value = "A:B",
            .help = "steps A up to B - 1 only, of every run; not of saved analyses, which have their steps already"},
           step_pattern_flag(),
           {.name = "--baseline", .value = "NAME", .help = "the run before is what `profgpu baseline save NAME` kept"},
           history_file_flag()}},
         {"In scripts",
          {{.name = "--fail-on",
            .value = "GATE",
            .help = "exit 3 if the change passes a limit and is real: 'step_time > +3%', 'peak_memory > +5%', "
                    "'phase:backward > +5%', 'kernel:NAME > +10%', 'finding:RULE'; may be repeated",
            .repeatable = true},
           quiet_flag(), no_progress_flag()}},
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
