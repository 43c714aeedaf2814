// profgpu baseline save NAME RUN: keep a run to compare later ones with.
#include <fmt/format.h>

#include "analyse/report/quantity.h"
#include "cli/command.h"
#include "cli/compared_run.h"
#include "cli/output.h"
#include "cli/progress_bar.h"

namespace profgpu {
namespace {

Outcome save(const Arguments& arguments, const std::string& name, const std::string& path) {
  AnalyzeOptions how;
  how.step_pattern = arguments.value("--step-pattern");
  Progress progress;
  std::string document;
  const auto run = [&] {
    const ProgressBar bar(progress, stderr_is_terminal());
    return compared_run(path, how, progress, &document);
  }();
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
  const Status written = write_stdout(fmt::format("{}: run {} saved as {}{}\nNext: profgpu diff --baseline {} RUN  ·  "
                                                  "profgpu history {}\n",
                                                  file, *id, name, step, name, name));
  return written ? Outcome{} : Outcome::failed(written.error());
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
                {history_file_flag(),
                 step_pattern_flag()}}},
    .examples = {{"profgpu baseline save main trace.json.gz", "what later runs are compared with"},
                 {"profgpu diff --baseline main new.json.gz --fail-on 'step_time > +3%'", "compare one"},
                 {"profgpu history main", "all runs saved under the name"}},
    .notes = "The run saved last under a name is the baseline; earlier ones stay as its history. Several jobs may save "
             "into one file at once. Exit status: 0 saved, 1 not saved, 2 usage.",
    .run = baseline,
};

}  // namespace profgpu
