// profgpu analyze: read, analyse, diagnose, show.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>

#include "analyse/report/page.h"
#include "analyse/report/quantity.h"
#include "app/analyze.h"
#include "app/gather/processes.h"
#include "base/dyn_lib.h"
#include "cli/follow.h"
#include "cli/output.h"
#include "cli/terminal.h"
#include "cli/trace_command.h"
#include "view/registry.h"
#include "view/terminal.h"

namespace profgpu {
namespace {

// On standard error too, for who reads JSON by program or has the report in a file.
void print_issues(const Report& report) {
  for (const InputFile& input : report.inputs)
    for (const Issue& issue : input.issues)
      if (issue.severity != Severity::kInfo) print_issue(input.path, issue.text);
}

void print_without_events(const Report& report) {
  if (!report.page || report.page->without_events.empty()) return;
  print_message(
      fmt::format("profgpu: the page has no events of {}; choose ranks with --html-ranks, or put any ranks into "
                  "one timeline with `profgpu merge`",
                  ranks_text(report.page->without_events)));
}

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

Result<std::optional<Report>> make_report_with_progress(const TraceCommand& options, const Processes& processes,
                                                        Progress& progress) {
  const ProgressBar bar(progress, options.draws() && processes.place == 0);
  return make_report(options.read, processes, progress);
}

Status check_outputs(const TraceCommand& options, const std::vector<std::string>& inputs) {
  const Status report = refuse_overwrite(inputs, options.output);
  return report ? refuse_overwrite(inputs, options.html) : report;
}

// What a folder holds, and what a file is, is known only after reading.
Status check_inputs(const TraceCommand& options, const Report& report) {
  std::vector<std::string> inputs;
  for (const InputFile& input : report.inputs) {
    inputs.push_back(input.path);
    const bool as_samples =
        std::find(options.samples.begin(), options.samples.end(), input.path) != options.samples.end();
    if (as_samples && input.format != "samples" && input.rank)
      return Error{"--samples " + input.path + ": this is a " + input.summary + ", not device samples",
                   "pass it without --samples"};
  }
  return check_outputs(options, inputs);
}

// Beside the report, which suggests opening it.
Status write_page(Report& report, const TraceCommand& options) {
  if (options.html.empty()) return ok();
  PresentOptions shown;
  shown.top = options.shown.top;
  auto written = write_file(options.html, find_presenter("html")->write(report, shown));
  if (written) report.next.push_back("xdg-open " + options.html);
  return written;
}

// A run that cannot be judged does not pass.
Outcome gate(const Report& report, const TraceCommand& options) {
  if (!options.fail_on) return {};
  const auto fails = [&](const Finding& f) { return f.severity >= *options.fail_on; };
  if (std::any_of(report.findings.begin(), report.findings.end(), fails)) return ExitCode::kFindings;
  const bool decided =
      report.verdict_kind != VerdictKind::kInconclusive && report.verdict_kind != VerdictKind::kCapture;
  if (decided || options.allow_inconclusive) return {};
  return {ExitCode::kFindings, Error{"--fail-on: not enough evidence to decide: " + report.verdict,
                                     "--allow-inconclusive lets such a run pass"}};
}

Outcome show(Report& report, const TraceCommand& options, const Presenter& presenter, double made_s, double read_s) {
  if (!options.quiet && (options.format != "terminal" || !options.output.empty())) print_issues(report);
  const auto begin = Clock::now();
  const Status page = write_page(report, options);   // if it fails, the report is shown nevertheless
  const std::string text = presenter.write(report, options.as_output());
  if (options.shown.verbose)
    print_message(fmt::format("profgpu: read and linked in {:.3f} s, analyzed in {:.3f} s, presented in {:.3f} s",
                              read_s, made_s - read_s, seconds_since(begin)));
  const Status written = options.write(text);
  if (!written || !page) return written ? page : written;
  return gate(report, options);
}

Outcome analyze(const Arguments& arguments) {
  auto options = trace_command(arguments);
  if (!options) return Outcome::usage(options.error());
  if (Status writable = check_outputs(*options, options->read.paths); !writable)
    return Outcome::usage(writable.error());
  const bool person = options->format == "terminal" && options->output.empty() && stdout_is_terminal();
  const bool wants_more = arguments.has("--all") || arguments.has("--top") || options->shown.verbose;
  if (person && options->shown.section.empty() && !wants_more) options->shown.section = "brief";
  const Presenter* presenter = find_presenter(options->format);
  if (!presenter) return Error{"there is no format " + options->format};

  if (arguments.has("--follow")) {
    if (options->read.paths.size() != 1 || options->read.paths.front() == "-")
      return Outcome::usage({"--follow takes one file, the log that a job writes"});
    if (Status seen = follow_log(options->read.paths.front(), options->draws()); !seen)
      return seen.error();
  }
  std::unique_ptr<MpiProcesses> mpi;
  if (options->mpi) {
    auto begun = MpiProcesses::begin(own_program());
    if (!begun) return begun.error();
    mpi = *std::move(begun);
  }
  const Processes processes = mpi ? mpi->processes() : Processes();
  Progress progress;
  const auto begin = Clock::now();
  auto report = make_report_with_progress(*options, processes, progress);
  // One process reports what concerns all.
  if (!report) return processes.place == 0 ? Outcome(report.error()) : Outcome();
  if (!*report) return {};
  if (Status checked = check_inputs(*options, **report); !checked) return Outcome::usage(checked.error());
  if (!options->quiet) print_without_events(**report);
  return show(**report, *options, *presenter, seconds_since(begin),
              static_cast<double>(progress.read_ns.load()) * 1e-9);
}

}  // namespace

extern const Command kAnalyze{
    .name = "analyze",
    .summary = "show where the time of a trace goes and what to change",
    .positional = "PATH...",
    .positional_help =
        "traces, folders of traces, or device samples; several ranks of one job are read together; - is standard input",
    .groups =
        {{"What to show",
          {{"--json", "the whole report as JSON, same as --format json"},
           {"--format NAME", "format of the report (default terminal)",
            {"terminal", "json", "markdown", "html", "sarif", "github"}},
           {"-o, --output FILE", "write the report to FILE"},
           {"--html FILE", "also write a page with timeline, flame graph and all tables to FILE"},
           {"--html-steps STEPS",
            "keep every event of these steps on the page: 10:12, 3,7:9, all (default: all steps of a small trace, else "
            "typical ones and the slowest)"},
           {"--html-ranks LIST",
            "show the events of these ranks on the page: 0,3,8-11, all (default: all ranks of a small job, else eight: "
            "those that findings name, late ones, and others for comparison)"},
           kTopFlag,
           {"--all", "everything on a terminal too, not only what fits 24 lines"},
           {"--section NAME", "only this section, with up to --top rows; brief is what a terminal gets",
            {std::begin(kReportSections), std::end(kReportSections)}}}},
         {"What to look at",
          {{"--steps A:B", "only steps A to B - 1"},
           {"--samples FILE...", "device samples of the same time (from profgpu log or run --samples)"},
           kStepPatternFlag,
           {"--gpu NAME", "what the trace's devices are, where it does not name them: MI300X, \"H100 SXM\""},
           {"--peaks FILE", "peak rates of the devices as measured (JSON, see docs/roofline.md), instead of vendors'"},
           {"--model-config FILE", "a language model's config.json (Hugging Face): model FLOPs and MFU without shapes"},
           {"--tokens-per-step N",
            "tokens of a step for each GPU, or SEQUENCESxLENGTH, as 8x2048: figures of a token (default: as an engine's "
            "steps or a log say)"},
           {"--samples-per-step N", "samples of a step for each GPU: figures of a sample"},
           {"--price-kwh PRICE", "what a kilowatt hour costs, in any currency: cost of the energy that samples show"},
           {"--gco2-kwh GRAMS", "grams of CO2 of a kilowatt hour: emissions of that energy"},
           {"--follow",
            "for a training log that is still written: show each step, and make the report when the run ends or at "
            "Ctrl-C"},
           {"--mpi", "share the reading among the processes that mpirun or srun started"},
           {"--threshold RULE=VALUE...", "change the threshold of a rule"}}},
         {"In scripts",
          {{"--fail-on SEVERITY", "exit 3 if a finding is at least this severe", {"info", "warning", "critical"}},
           kAllowInconclusiveFlag,
           kQuietFlag,
           kNoProgressFlag}},
         {"Screen", {kWidthFlag, kColourFlag, {"-v, --verbose", "more detail, full kernel names"}}}},
    .examples = {{"profgpu analyze trace.json.gz", "the first screen: verdict, step, findings, what to do next"},
                 {"profgpu analyze trace.json.gz --all", "with all findings, the checklist, top kernels and ops"},
                 {"profgpu analyze trace.json.gz --section kernels --top 30", "the thirty longest kernels"},
                 {"profgpu analyze trace.json.gz --html report.html", "a page that opens offline in any browser"},
                 {"profgpu analyze run7/", "all ranks of a job, from a folder"},
                 {"mpirun -n 16 profgpu analyze --mpi run7/", "a large job, read by sixteen processes on any nodes"},
                 {"profgpu analyze train.log", "what a training printed: speed, stalls, memory, how it ended"},
                 {"profgpu analyze trace.json.gz --json -o report.json", "everything, for a program"},
                 {"profgpu analyze trace.json.gz --fail-on warning", "a gate in continuous integration"},
                 {"profgpu analyze trace.json.gz --format sarif -o profgpu.sarif",
                  "findings at lines of code, for code scanning and editors"}},
    .notes = "Exit status: 0 report made, 1 no report, 2 usage, 3 a finding at or above --fail-on, or too "
             "little evidence to rule one out, 130 interrupted.",
    .run = analyze,
};

}  // namespace profgpu
