// profgpu baseline save NAME RUN: save a run to compare later ones with; profgpu history: list what was saved.
#include <fmt/format.h>

#include <algorithm>

#include "analyse/report/quantity.h"
#include "app/compared_runs.h"
#include "app/words.h"
#include "base/clock.h"
#include "cli/bench_compare.h"
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
  if (!run) return run.error();
  const std::string file = history_path(arguments);
  auto history = History::open(file, true);
  if (!history) return history.error();
  const HistoryRun saved = history_run(name, path, *run);
  auto id = history->save(saved, document);
  if (!id) return id.error();
  const std::string step =
      saved.step_mean_ns ? fmt::format(", {} per step", format_duration(static_cast<double>(*saved.step_mean_ns))) : "";
  const std::string word = printable(shell_line({name}));
  return write_text(fmt::format("{}: saved run {} as {}{}\nNext: profgpu diff --baseline {} RUN  ·  profgpu history {}\n",
                                printable(file), *id, printable(name), step, word, word));
}

Outcome baseline(const Arguments& arguments) {
  const std::vector<std::string>& words = arguments.positional;
  if (words.size() != 3 || words[0] != "save" || words[1].empty())
    return Outcome::usage({"expected save, a name and a run", "profgpu baseline save main trace.json.gz"});
  if (is_bench_file(words[2])) return save_bench(history_path(arguments), words[1], words[2]);
  return save(arguments, words[1], words[2]);
}

constexpr size_t kCommitCells = 10, kCurveCells = 40;

// The change of the mean step from one run to the next.
Cell change_cell(const HistoryRun* before, const HistoryRun& run) {
  if (!before || before->step_mean_ns.value_or(0) <= 0 || !run.step_mean_ns) return {};
  const double pct =
      100.0 * (static_cast<double>(*run.step_mean_ns) / static_cast<double>(*before->step_mean_ns) - 1);
  return {fmt::format("{:+.1f} %", pct), pct > 0 ? Style::kBad : Style::kGood};
}

Lines history_lines(const std::string& name, const std::vector<HistoryRun>& runs) {
  std::vector<double> steps;
  Grid grid({{"run"}, {"saved (UTC)"}, {"commit"}, {"host"}, {"steps", true}, {"mean step", true}, {"change", true},
             {"peak memory", true}, {"of"}});
  const HistoryRun* before = nullptr;
  for (const HistoryRun& r : runs) {
    if (r.name != name) continue;
    const auto show = [](const std::optional<int64_t>& n, auto format) {
      return n ? format(static_cast<double>(*n)) : std::string(kUnknownText);
    };
    steps.push_back(r.step_mean_ns ? static_cast<double>(*r.step_mean_ns) : -1);
    grid.add_row({{std::to_string(r.id)},
                  {formatted_time(r.saved_unix_ns, "%Y-%m-%d %H:%M", TimeZone::kUtc)},
                  {r.commit.substr(0, kCommitCells)},
                  {r.host},
                  {r.steps ? std::to_string(*r.steps) : ""},
                  {show(r.step_mean_ns, [](double ns) { return format_duration(ns); })},
                  change_cell(before, r),
                  {show(r.peak_memory_bytes, format_bytes)},
                  {r.path}});
    before = &r;
  }
  Lines lines{Line(name, Style::kStrong).add("  " + curve(steps, kCurveCells), Style::kBusy)};
  append(lines, grid.lines(output_width()));
  return lines;
}

Lines bench_history_lines(const std::string& name, const std::vector<HistoryRun>& runs,
                          const std::vector<BenchHistoryRow>& rows) {
  Grid grid({{"run"}, {"saved (UTC)"}, {"commit"}, {"host"}, {"figures", true}, {"worse", true}, {"better", true},
             {"lost", true}, {"best GEMM", true}, {"best memory", true}, {"of"}});
  const auto count = [](const std::optional<int64_t>& n) { return n ? std::to_string(*n) : std::string(kUnknownText); };
  const auto rate = [](const std::optional<double>& x, std::string_view unit) {
    return x ? format_measured(*x, unit) : std::string(kUnknownText);
  };
  for (const HistoryRun& r : runs) {
    const BenchHistoryRow* row = first_where(rows, [&](const BenchHistoryRow& b) { return b.id == r.id; });
    if (r.name != name || !row) continue;
    grid.add_row({{std::to_string(r.id)},
                  {formatted_time(r.saved_unix_ns, "%Y-%m-%d %H:%M", TimeZone::kUtc)},
                  {r.commit.substr(0, kCommitCells)},
                  {r.host},
                  {std::to_string(row->figures)},
                  {count(row->worse), row->worse.value_or(0) > 0 ? Style::kBad : Style::kPlain},
                  {count(row->better)},
                  {count(row->lost), row->lost.value_or(0) > 0 ? Style::kBad : Style::kPlain},
                  {rate(row->product_tflops, "TFLOP/s")},
                  {rate(row->memory_gbps, "GB/s")},
                  {r.path}});
  }
  Lines lines{Line(name, Style::kStrong)};
  append(lines, grid.lines(output_width()));
  return lines;
}

Outcome history(const Arguments& arguments) {
  const std::string name = arguments.positional.empty() ? "" : arguments.positional.front();
  auto file = History::open(history_path(arguments), false);
  if (!file) return file.error();
  auto runs = file->runs(name);
  if (!runs) return runs.error();
  if (runs->empty())
    return Error{history_path(arguments) + ": nothing is saved" + (name.empty() ? "" : " as " + name),
                 "`profgpu baseline save NAME RUN` saves a run"};
  const auto benches = bench_history(*file, *runs);
  if (!benches) return benches.error();
  if (arguments.has("--json"))
    return write_stdout(json_document(Record()
                                          .add("schema", "profgpu.history.v1")
                                          .add("runs", table_of(*runs))
                                          .add("bench", table_of(*benches))));
  const auto is_bench = [&](const HistoryRun& r) {
    return std::ranges::count(*benches, r.id, &BenchHistoryRow::id) > 0;
  };
  std::vector<std::string> names;
  for (const HistoryRun& r : *runs)
    if (std::find(names.begin(), names.end(), r.name) == names.end()) names.push_back(r.name);
  Lines lines;
  for (const std::string& n : names) {
    std::vector<HistoryRun> of_benches, others;
    for (const HistoryRun& r : *runs)
      if (r.name == n) (is_bench(r) ? of_benches : others).push_back(r);
    if (!others.empty()) append_apart(lines, history_lines(n, others));
    if (!of_benches.empty()) append_apart(lines, bench_history_lines(n, of_benches, *benches));
  }
  return write_text(rendered(lines, output_width(), output_colour(Colour::kAuto)));
}

std::vector<std::string> baseline_actions() { return {"save"}; }

}  // namespace

extern const Command kBaseline, kHistory;
const Command kBaseline{
    .name = "baseline",
    .summary = "save a run under a name, to compare later ones with",
    .positional = "save NAME PATH...",
    .positional_help = "the name, and a trace, a recording, a folder, a sample log, a saved analysis or a result of "
                       "`profgpu bench -o`",
    .groups = {{"Where and how", {kHistoryFlag, kStepPatternFlag}}},
    .examples = {{"profgpu baseline save main trace.json.gz", "save what later runs are compared with"},
                 {"profgpu diff --baseline main new.json.gz --fail-on 'step_time > +3%'", "compare a run"},
                 {"profgpu history main", "list all runs saved under the name"}},
    .notes = "The run saved last under a name is the baseline; earlier ones stay as its history. Several jobs may save "
             "into one file at once.\n\nExit status: 0 saved, 1 not saved, 2 usage.",
    .candidates = baseline_actions,
    .run = baseline,
};

const Command kHistory{
    .name = "history",
    .summary = "list the runs saved under a name",
    .positional = "[NAME]",
    .positional_help = "only runs of this name",
    .groups = {{"Where and how", {kHistoryFlag, {"--json", "print them as JSON"}}}},
    .examples = {{"profgpu history main", "did it get faster over time?"}},
    .notes = "The change is that of the mean step from one run to the next; `profgpu diff` shows whether it is real. Of "
             "results of `profgpu bench` it counts the figures that are worse, better or lost against the run before.\n\n"
             "Exit status: 0 shown, 1 nothing to show, 2 usage.",
    .run = history,
};

}  // namespace profgpu
