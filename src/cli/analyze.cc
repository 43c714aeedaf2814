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
#include "cli/output.h"
#include "cli/trace_command.h"
#include "view/registry.h"
#include "watch/live/recording_folder.h"

namespace profgpu {
namespace {

// Whoever reads JSON by program, or has the report in a file, still hears what the input lacks.
void say_issues(const Report& report) {
  for (const InputFile& input : report.inputs)
    for (const Issue& issue : input.issues)
      if (issue.severity != Severity::kInfo) print_issue(input.path, issue.text);
}

void say_without_events(const Report& report) {
  if (!report.page || report.page->without_events.empty()) return;
  print_message(
      fmt::format("profgpu: the page lacks the events of {}; --html-ranks chooses whose it has, and `profgpu merge` "
                  "puts any into one timeline",
                  ranks_text(report.page->without_events)));
}

bool has_finding(const Report& report, Severity least) {
  return std::any_of(report.findings.begin(), report.findings.end(),
                     [&](const Finding& f) { return f.severity >= least; });
}

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

Result<std::optional<Report>> make_report_with_progress(const TraceCommand& options, const Processes& processes,
                                                        Progress& progress) {
  const ProgressBar bar(progress, options.draws() && processes.place == 0);
  return make_report(options.read, processes, progress);
}

Status check_outputs(const TraceCommand& options, const std::vector<std::string>& inputs) {
  for (const std::string& output : {options.output, options.html})
    if (Status writable = refuse_overwrite(inputs, output); !writable) return writable;
  return ok();
}

// What a folder held, and what a file is, is known only now.
Status check_inputs(const TraceCommand& options, const Report& report) {
  std::vector<std::string> inputs;
  for (const InputFile& input : report.inputs) {
    inputs.push_back(input.path);
    const bool as_samples =
        std::find(options.samples.begin(), options.samples.end(), input.path) != options.samples.end();
    if (as_samples && input.format != "samples")
      return Error{"--samples " + input.path + ": a " + input.summary + ", not samples of devices",
                   "name it without --samples"};
  }
  return check_outputs(options, inputs);
}

// Beside the report, which names it as what to look at next.
Status write_page(Report& report, const TraceCommand& options) {
  if (options.html.empty()) return ok();
  PresentOptions shown;
  shown.top = options.shown.top;
  auto written = write_file(options.html, find_presenter("html")->write(report, shown));
  if (written) report.next.push_back("xdg-open " + options.html);
  return written;
}

Outcome show(Report& report, const TraceCommand& options, const Presenter& presenter, double made_s, double read_s) {
  if (!options.quiet && (options.format != "terminal" || !options.output.empty())) say_issues(report);
  const auto begin = Clock::now();
  const Status page = write_page(report, options);   // where it fails, the report is shown nevertheless
  const std::string text = presenter.write(report, options.as_output());
  if (options.shown.verbose)
    print_message(fmt::format("profgpu: read and linked in {:.3f} s, analysed in {:.3f} s, presented in {:.3f} s",
                              read_s, made_s - read_s, seconds_since(begin)));
  if (const Status written = options.write(text); !written) return Outcome::failed(written.error());
  if (!page) return Outcome::failed(page.error());
  if (options.fail_on && has_finding(report, *options.fail_on)) return {ExitCode::kFindings};
  return {};
}

Outcome analyze(const Arguments& arguments) {
  auto options = trace_command(arguments);
  if (!options) return Outcome::usage(options.error());
  if (Status writable = check_outputs(*options, options->read.paths); !writable)
    return Outcome::usage(writable.error());
  const Presenter* presenter = find_presenter(options->format);
  if (!presenter) return Outcome::failed({"no presenter is called " + options->format});

  std::unique_ptr<MpiProcesses> mpi;
  if (options->mpi) {
    auto begun = MpiProcesses::begin(own_program());
    if (!begun) return Outcome::failed(begun.error());
    mpi = *std::move(begun);
  }
  const Processes processes = mpi ? mpi->processes() : Processes();
  Progress progress;
  const auto begin = Clock::now();
  auto report = make_report_with_progress(*options, processes, progress);
  // What concerns all is said by one.
  if (!report) return processes.place == 0 ? Outcome::failed(report.error()) : Outcome{};
  if (!*report) return {};
  if (Status checked = check_inputs(*options, **report); !checked) return Outcome::usage(checked.error());
  if (!options->quiet) say_without_events(**report);
  return show(**report, *options, *presenter, seconds_since(begin),
              static_cast<double>(progress.read_ns.load()) * 1e-9);
}

}  // namespace

extern const Command kAnalyze;
const Command kAnalyze{
    .name = "analyze",
    .summary = "say where the time of a trace goes and what to change",
    .positional = "PATH...",
    .positional_help =
        "trace files, folders of traces or files of samples; several ranks of one job are read together; - is standard "
        "input",
    .groups =
        {{"What to show",
          {{.name = "--json", .help = "the whole report as JSON, same as --format json"},
           {.name = "--format",
            .value = "NAME",
            .help = "how to write the report (default terminal)",
            .choices = {"terminal", "json", "markdown", "html"}},
           output_flag("write the report to FILE"),
           {.name = "--html",
            .value = "FILE",
            .help = "write a page with timeline, flame graph and all tables to FILE as well",
            .takes_path = true},
           {.name = "--html-steps",
            .value = "STEPS",
            .help =
                "steps whose events the page keeps one by one: 10:12, 3,7:9, all (default: all of a small trace, else "
                "typical ones and the slowest)"},
           {.name = "--html-ranks",
            .value = "LIST",
            .help = "ranks whose events the page has: 0,3,8-11, all (default: all of a small job, else eight: late "
                    "ones and "
                    "others beside them)"},
           top_flag(),
           {.name = "--section",
            .value = "NAME",
            .help = "only this part, with every row that --top allows",
            .choices = {std::begin(kReportSections), std::end(kReportSections)}}}},
         {"What to look at",
          {steps_flag("steps A up to B - 1 only"),
           samples_flag("samples of the devices, of the same time (profgpu log, run --samples)"),
           step_pattern_flag(),
           {.name = "--mpi", .help = "share the reading among the processes that mpirun or srun started"},
           {.name = "--threshold",
            .value = "RULE=VALUE",
            .help = "change what a rule tolerates; may be repeated",
            .repeatable = true}}},
         {"In scripts",
          {{.name = "--fail-on",
            .value = "SEVERITY",
            .help = "exit 3 if a finding is at least this severe",
            .choices = {"info", "warning", "critical"}},
           quiet_flag(),
           no_progress_flag()}},
         {"Screen",
          {width_flag(),
           colour_flag(),
           {.name = "--verbose", .short_name = "-v", .help = "more of everything, full kernel names"}}}},
    .examples = {{"profgpu analyze trace.json.gz", "the first screen: verdict, findings, checklist"},
                 {"profgpu analyze trace.json.gz --section kernels --top 30", "the thirty longest kernels"},
                 {"profgpu analyze trace.json.gz --html report.html",
                  "see it: a page that opens offline in any browser"},
                 {"profgpu analyze run7/", "all ranks of a job, from a folder"},
                 {"mpirun -n 16 profgpu analyze --mpi run7/",
                  "a large job, read by sixteen processes on any number of nodes"},
                 {"profgpu analyze trace.json.gz --json -o report.json", "everything, for a program"},
                 {"profgpu analyze trace.json.gz --fail-on warning", "as a gate in continuous integration"}},
    .notes = "Exit status: 0 report made, 1 no report, 2 usage, 3 a finding at or above --fail-on, 130 interrupted.",
    .run = analyze,
};

}  // namespace profgpu
