// profgpu merge: ranks of a job in one timeline, on one clock.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>

#include "analyse/report/quantity.h"
#include "cli/analyze_options.h"
#include "cli/command.h"
#include "cli/loaded_run.h"
#include "cli/output.h"
#include "cli/progress_bar.h"
#include "cli/flag_values.h"

namespace profgpu {
namespace {

// What an event takes in the file; tests/python/test_merge.py holds real traces to it within a factor of two.
struct EventSize {
  double bytes, gzip_bytes;
};
constexpr EventSize kPerfettoEvent{90, 22}, kChromeEvent{340, 28};
// From here on viewers in a browser take minutes, if they open it at all.
constexpr double kMuchBytes = 1e9;

struct MergeCommand {
  AnalyzeOptions analysis;       ///< how traces are read, which steps, and where the file goes
  const Exporter* exporter = nullptr;
  std::optional<RankRanges> ranks;   ///< none: all
  [[nodiscard]] std::optional<std::pair<int64_t, int64_t>> steps() const {
    if (!analysis.chooses_steps()) return std::nullopt;
    return std::pair(analysis.first_step, analysis.end_step);
  }
};

// By how a file is called: what timelines in that format are called.
std::string_view format_of(std::string_view path) {
  if (path.ends_with(".gz")) path.remove_suffix(3);
  if (path.ends_with(".json")) return "chrome";
  return path.ends_with(".pftrace") || path.ends_with(".perfetto-trace") ? "perfetto" : "";
}

Result<MergeCommand> merge_command(const Arguments& arguments) {
  MergeCommand command;
  if (!arguments.has("--output")) return Error{"-o FILE is needed", "profgpu merge run7/ -o run7.pftrace"};
  const std::string output = arguments.value("--output");
  command.exporter = find_exporter(arguments.value("--to", format_of(output)));
  if (command.exporter == nullptr)
    return Error{output + " does not tell a format",
                 "call it .pftrace (Perfetto) or .json or .json.gz (Chrome), or add --to"};
  if (arguments.has("--ranks")) {
    command.ranks = rank_ranges(arguments.value("--ranks"));
    if (!command.ranks)
      return Error{"--ranks takes a list such as 0,3,8-11, not \"" + arguments.value("--ranks") + "\""};
  }
  auto read = analyze_options(arguments);
  if (!read) return read.error();
  command.analysis = *read;
  return command;
}

/// What will be written, and what there is to say of it.
struct MergedRows {
  RunRows rows;
  std::vector<int> without_steps;   ///< chosen ranks that have none of the chosen steps
};

// Only what is shown is chosen here: clocks come from all ranks and steps that were read.
Result<MergedRows> choose(const LoadedRun& run, const MergeCommand& command) {
  std::vector<int> ranks, without_steps;
  for (const auto& [rank, outline] : run.read.outlines) ranks.push_back(rank);
  if (command.ranks) {
    auto chosen = chosen_ranks(*command.ranks, ranks);
    if (!chosen) return chosen.error();
    ranks = *chosen;
  }
  const auto with_steps = std::stable_partition(ranks.begin(), ranks.end(),
                                                [&](int rank) { return run.read.outlines.at(rank).part.has_value(); });
  without_steps.assign(with_steps, ranks.end());
  ranks.erase(with_steps, ranks.end());
  if (ranks.empty())
    return Error{"none of the chosen ranks has one of the chosen steps",
                 fmt::format("the traces have steps {} to {}: --steps {}:{} is all of them", run.first_step,
                             run.last_step, run.first_step, run.last_step + 1)};
  return MergedRows{run_rows(run, ranks), std::move(without_steps)};
}

double estimated_bytes(const RunRows& rows, const MergeCommand& command) {
  int64_t events = 0;
  for (const RankRows& rank : rows.ranks) events += rank.outline().events;
  const EventSize& each = command.exporter->name == "chrome" ? kChromeEvent : kPerfettoEvent;
  return static_cast<double>(events) * (command.analysis.output.ends_with(".gz") ? each.gzip_bytes : each.bytes);
}

void say_what_is_missing(const MergedRows& merged, double bytes) {
  if (!merged.without_steps.empty())
    print_message("profgpu: left out, for want of the chosen steps: " + ranks_text(merged.without_steps));
  std::map<std::string_view, std::vector<int>> notes;
  for (const RankRows& rank : merged.rows.ranks)
    if (const RankClock* clock = merged.rows.job_clock(rank))
      if (const std::string_view note = clock_note(*clock); !note.empty()) notes[note].push_back(rank.rank());
  for (const auto& [note, ranks] : notes)
    print_message(fmt::format("profgpu: clock of {}: {}", ranks_text(ranks), note));
  if (bytes > kMuchBytes)
    print_message(fmt::format("profgpu: about {} will be written, which viewers open slowly if at all; "
                              "--ranks and --steps choose less", format_bytes(bytes)));
}

Outcome run_merge(const Arguments& arguments) {
  auto command = merge_command(arguments);
  if (!command) return Outcome::usage(command.error());
  const std::string& output = command->analysis.output;
  const bool quiet = command->analysis.quiet, shown = command->analysis.progress && stderr_is_terminal();
  Progress progress;
  auto bar = std::make_unique<ProgressBar>(progress, shown);
  auto run = load_run(command->analysis.paths,
                      {.analysis = {command->analysis.step_pattern},
                       .shown_steps = command->steps(),
                       .most_kept = SIZE_MAX,
                       .most_kept_bytes = kMinBytes},
                      progress);
  bar.reset();
  if (!run) return Outcome::failed(run.error());
  if (run->only_samples()) return Outcome::failed(
        {"there are only samples of devices here, and no ranks", "`profgpu export` writes them in other formats"});
  if (Status writable = refuse_overwrite(*run, output); !writable) return Outcome::usage(writable.error());
  const auto merged = choose(*run, *command);
  if (!merged) return Outcome::failed(merged.error());
  if (!quiet) say_issues(*run), say_what_is_missing(*merged, estimated_bytes(merged->rows, *command));
  progress.total_bytes = 0;
  progress.done_bytes = 0;
  progress.stage = "writing";
  bar = std::make_unique<ProgressBar>(progress, shown);
  const Status status = write_exported(*command->exporter, {}, merged->rows, output, progress);
  bar.reset();
  if (!status) return Outcome::failed(status.error());
  // What reads the profiler's traces takes one rank from a file.
  if (!quiet) say_written(output, progress, "Perfetto (ui.perfetto.dev)");
  return {};
}

}  // namespace

extern const Command kMerge;
const Command kMerge{
    .name = "merge",
    .summary = "put ranks of a job into one timeline, on one clock",
    .positional = "PATH...",
    .positional_help =
        "what analyze reads: all ranks that there are, since clocks are aligned by what they did "
        "together",
    .groups =
        {{"What to write",
          {{.name = "--output",
            .short_name = "-o",
            .value = "FILE",
            .help = "file; - is standard output",
            .takes_path = true},
           {.name = "--to",
            .value = "FORMAT",
            .help = "format (default: chrome for .json and .json.gz, perfetto for .pftrace)",
            .choices = {"perfetto", "chrome"}},
           {.name = "--ranks", .value = "LIST", .help = "these ranks only: 0,3,8-11 (default: all)"},
           {.name = "--steps", .value = "A:B", .help = "steps A up to B - 1 only (default: all)"},
           {.name = "--samples",
            .value = "FILE",
            .help = "samples of the devices, of the same time (perfetto)",
            .repeatable = true,
            .takes_path = true},
           step_pattern_flag()}},
         {"Screen",
          {quiet_flag(), no_progress_flag()}}},
    .examples = {{"profgpu merge run7/ -o run7.pftrace", "all ranks, for Perfetto"},
                 {"profgpu merge run7/ --ranks 0,3 --steps 10:12 -o late.pftrace",
                  "two ranks side by side for two steps"},
                 {"profgpu merge run7/ --ranks 0-7 -o node0.json.gz", "as JSON for chrome://tracing"}},
    .notes =
        "Arrows lead from each kernel of a collective to the one of the rank that came last. With --steps, host "
        "ranges are cut at the ends of the chosen steps; what a device ran or was given in them is whole. A merged "
        "file is for viewers: analyze wants the traces.",
    .run = run_merge,
};

}  // namespace profgpu
