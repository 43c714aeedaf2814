// profgpu baseline save NAME RUN: keep a run to compare later ones with; profgpu history: how they went.
#include <fmt/format.h>

#include <algorithm>

#include "analyse/report/quantity.h"
#include "app/compared_runs.h"
#include "base/clock.h"
#include "cli/output.h"
#include "cli/trace_command.h"
#include "view/json_text.h"
#include "view/layout.h"

namespace profgpu {
namespace {

Outcome save(const Arguments& arguments, const std::string& name, const std::string& path) {
  AnalyzeOptions how;
  how.analysis.step_pattern = arguments.value("--step-pattern");
  Progress progress;
  auto bar = std::make_unique<ProgressBar>(progress, stderr_is_terminal());
  std::string document;
  auto run = read_run(path, how, progress, &document);
  bar.reset();
  if (!run) return Outcome::failed(run.error());
  const std::string file = history_path(arguments);
  auto history = History::open(file, true);
  if (!history) return Outcome::failed(history.error());
  const HistoryRun saved = history_run(name, path, *run);
  auto id = history->save(saved, document);
  if (!id) return Outcome::failed(id.error());
  const std::string step =
      saved.step_mean_ns ? fmt::format(", a step of {}", format_duration(static_cast<double>(*saved.step_mean_ns)))
                         : "";
  return Outcome::of(write_stdout(fmt::format("{}: run {} saved as {}{}\nNext: profgpu diff --baseline {} RUN  ·  "
                                              "profgpu history {}\n",
                                              file, *id, name, step, name, name)));
}

Outcome baseline(const Arguments& arguments) {
  const std::vector<std::string>& words = arguments.positional;
  if (words.size() != 3 || words[0] != "save" || words[1].empty())
    return Outcome::usage({"it takes save, a name and a run", "profgpu baseline save main trace.json.gz"});
  return save(arguments, words[1], words[2]);
}

}  // namespace

extern const Command kBaseline;
const Command kBaseline{
    .name = "baseline",
    .summary = "keep a run under a name, to compare later ones with",
    .positional = "save NAME PATH...",
    .positional_help = "the name, and a trace, a recording, a folder, a sample log or a saved analysis",
    .groups = {{"Where and how",
                {history_flag(),
                 step_pattern_flag()}}},
    .examples = {{"profgpu baseline save main trace.json.gz", "what later runs are compared with"},
                 {"profgpu diff --baseline main new.json.gz --fail-on 'step_time > +3%'", "compare one"},
                 {"profgpu history main", "all runs saved under the name"}},
    .notes = "The run saved last under a name is the baseline; earlier ones stay as its history. Several jobs may save "
             "into one file at once. Exit status: 0 saved, 1 not saved, 2 usage.",
    .run = baseline,
};

// profgpu history: how a baseline's runs went.

namespace {

constexpr size_t kCommitCells = 10, kCurveCells = 40;

std::string json_of(const std::vector<HistoryRun>& runs) {
  return json_document(Record().add("schema", "profgpu.history.v1").add("runs", table_of(runs)));
}

Lines lines_of(const std::string& name, const std::vector<HistoryRun>& runs) {
  std::vector<double> steps;
  Grid grid;
  for (const char* header : {"run", "saved (UTC)", "commit", "host"}) grid.add_column(header);
  for (const char* header : {"steps", "mean step", "change", "peak memory"}) grid.add_column(header, true);
  grid.add_column("of");
  const HistoryRun* before = nullptr;
  for (const HistoryRun& r : runs) {
    std::string change;
    Style style = Style::kPlain;
    if (before && before->step_mean_ns.value_or(0) > 0 && r.step_mean_ns) {
      const double pct =
          100.0 * (static_cast<double>(*r.step_mean_ns) / static_cast<double>(*before->step_mean_ns) - 1);
      change = fmt::format("{:+.1f} %", pct);
      style = pct > 0 ? Style::kBad : Style::kGood;
    }
    steps.push_back(r.step_mean_ns ? static_cast<double>(*r.step_mean_ns) : -1);
    grid.add_row(
        {{std::to_string(r.id)},
         {formatted_time(r.saved_unix_ns, "%Y-%m-%d %H:%M", TimeZone::kUtc)},
         {r.commit.substr(0, kCommitCells)},
         {r.host},
         {r.steps ? std::to_string(*r.steps) : ""},
         {r.step_mean_ns ? format_duration(static_cast<double>(*r.step_mean_ns)) : std::string(kUnknownText)},
         {change, style},
         {r.peak_memory_bytes ? format_bytes(static_cast<double>(*r.peak_memory_bytes)) : std::string(kUnknownText)},
         {r.path}});
    before = &r;
  }
  Lines lines{Line(name, Style::kStrong).add("  " + curve(steps, kCurveCells), Style::kBusy)};
  append(lines, grid.lines(output_width()));
  return lines;
}

Outcome history(const Arguments& arguments) {
  const std::string name = arguments.positional.empty() ? "" : arguments.positional.front();
  if (arguments.positional.size() > 1) return Outcome::usage({"it takes one name, or none for all"});
  auto file = History::open(history_path(arguments), false);
  if (!file) return Outcome::failed(file.error());
  auto runs = file->runs(name);
  if (!runs) return Outcome::failed(runs.error());
  if (runs->empty())
    return Outcome::failed({history_path(arguments) + ": nothing is saved" + (name.empty() ? "" : " as " + name),
                            "`profgpu baseline save NAME RUN` saves one"});
  if (arguments.has("--json")) return Outcome::of(write_stdout(json_of(*runs)));
  std::vector<std::string> names;
  for (const HistoryRun& r : *runs)
    if (std::find(names.begin(), names.end(), r.name) == names.end()) names.push_back(r.name);
  Lines lines;
  for (const std::string& n : names) {
    std::vector<HistoryRun> of_name;
    for (const HistoryRun& r : *runs)
      if (r.name == n) of_name.push_back(r);
    if (!lines.empty()) lines.emplace_back();
    append(lines, lines_of(n, of_name));
  }
  return Outcome::of(write_stdout(rendered(lines, output_width(), output_colour(Colour::kAuto))));
}

}  // namespace

extern const Command kHistory;
const Command kHistory{
    .name = "history",
    .summary = "the runs saved under a name, a line each",
    .positional = "[NAME]",
    .positional_help = "of this name only",
    .groups = {{"Where and how", {history_flag(), {.name = "--json", .help = "as JSON"}}}},
    .examples = {{"profgpu history main", "did it get faster over time?"}},
    .notes =
        "The change is that of the mean step from one run to the next; `profgpu diff` says whether it is real. Exit "
        "status: 0 shown, 1 nothing to show, 2 usage.",
    .run = history,
};

}  // namespace profgpu
