// profgpu history: how a baseline's runs went.
#include <fmt/format.h>

#include <algorithm>

#include "analyse/report/quantity.h"
#include "base/clock.h"
#include "cli/command.h"
#include "cli/compared_run.h"
#include "cli/output.h"
#include "view/json_text.h"
#include "view/layout.h"

namespace profgpu {
namespace {

constexpr size_t kCommitCells = 10, kCurveCells = 40;

std::string json_text(const std::vector<HistoryRun>& runs) {
  const auto text = [](const std::string& s) { return s.empty() ? Value() : Value(s); };
  Table t;
  t.columns = {"id", "name", "saved_unix_ns", "path", "host", "commit", "steps", "step_mean_ns", "peak_memory_bytes"};
  for (const HistoryRun& r : runs)
    t.rows.push_back({r.id, r.name, r.saved_unix_ns, text(r.path), text(r.host), text(r.commit), r.steps,
                      r.step_mean_ns, r.peak_memory_bytes});
  Record document;
  document.add("schema", "profgpu.history.v1").add("runs", t);
  JsonText json;
  json.record(document, Layout::kLines);
  return json.take() + "\n";
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
  if (arguments.has("--json")) {
    const Status written = write_stdout(json_text(*runs));
    return written ? Outcome{} : Outcome::failed(written.error());
  }
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
  const Status written = write_stdout(rendered(lines, output_width(), output_colour(Colour::kAuto)));
  return written ? Outcome{} : Outcome::failed(written.error());
}

}  // namespace

extern const Command kHistory;
const Command kHistory{
    .name = "history",
    .summary = "the runs saved under a name, a line each",
    .positional = "[NAME]",
    .positional_help = "of this name only",
    .groups = {{"Where and how", {history_file_flag(), {.name = "--json", .help = "as JSON"}}}},
    .examples = {{"profgpu history main", "did it get faster over time?"}},
    .notes =
        "The change is that of the mean step from one run to the next; `profgpu diff` says whether it is real. Exit "
        "status: 0 shown, 1 nothing to show, 2 usage.",
    .run = history,
};

}  // namespace profgpu
