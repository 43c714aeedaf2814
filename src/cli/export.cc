// profgpu export, profgpu merge: a run in other tools' formats; or chosen ranks and steps of one in a timeline.
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "analyse/report/quantity.h"
#include "app/export/data_table.h"
#include "app/loaded_run.h"
#include "cli/output.h"
#include "cli/trace_command.h"
#include "view/wording.h"

namespace profgpu {
namespace {

namespace fs = std::filesystem;

// What an event takes in a timeline; tests/python/test_merge.py holds real traces to it within a factor of two.
struct EventSize {
  double bytes, gzip_bytes;
};
constexpr EventSize kPerfettoEvent{90, 22}, kChromeEvent{340, 28};
// From here on viewers in a browser take minutes, if they open it at all.
constexpr double kMuchBytes = 1e9;

struct ExportCommand {
  TraceCommand trace;                ///< how traces are read, and where the file goes
  const Exporter* exporter = nullptr;
  ExportOptions options;
  bool merges = false;               ///< one timeline of the chosen ranks and steps
  std::optional<RankRanges> ranks;   ///< none: all

  /// Tables go into a folder, a file each.
  [[nodiscard]] bool to_folder() const { return exporter->tables != nullptr && options.table.empty(); }
  [[nodiscard]] LoadOptions loading() const {
    LoadOptions load{.analysis = {trace.read.analysis.step_pattern}};
    // A folder goes through all ranks for each of its tables.
    if (to_folder() || merges) load.most_kept = SIZE_MAX;
    if (merges) load.most_kept_bytes = kMinBytes;
    if (trace.read.chooses_steps())
      load.shown_steps = std::pair(trace.read.analysis.first_step, trace.read.analysis.end_step);
    return load;
  }
};

const Exporter* find_exporter(std::string_view name) {
  for (const Exporter* e : exporters())
    if (e->name == name) return e;
  return nullptr;
}

// The name of a file without the extensions of traces: "trace" for "runs/trace.json.gz" and for "trace/".
std::string stem(const std::vector<std::string>& paths) {
  if (paths.size() > 1) return "profgpu";
  fs::path path = fs::path(paths.front()).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();
  std::string name = path.filename();
  for (const std::string_view ending : {".gz", ".zst", ".json", ".jsonl", ".csv", ".pgt", ".pt.trace"})
    if (name.size() > ending.size() && name.ends_with(ending)) name.resize(name.size() - ending.size());
  return name.empty() || name == "." || name == ".." ? "profgpu" : name;
}

// A name of our own choice never replaces a file.
Status choose_output(ExportCommand& c) {
  std::string& output = c.trace.output;
  if (output == "-" && (c.to_folder() || c.exporter->write == nullptr))
    return Error{fmt::format("{} cannot be written to standard output", c.exporter->name),
                 c.to_folder() ? "choose one table: --table activity" : "-o FILE"};
  if (!output.empty()) return ok();
  output = stem(c.trace.read.paths) + (c.to_folder() ? "-" : c.options.table.empty() ? "" : "-" + c.options.table);
  output += c.to_folder() ? std::string(c.exporter->name) : std::string(c.exporter->extension);
  struct stat s{};
  if (::lstat(output.c_str(), &s) == 0 && !c.to_folder())
    return Error{output + " exists", "-o " + output + " replaces it; -o FILE chooses another name"};
  return ok();
}

Status check_options(const ExportCommand& c, bool weighed) {
  const std::string& table = c.options.table;
  if (!table.empty() && c.exporter->tables == nullptr)
    return Error{fmt::format("--table needs --to csv; {} has all tables in one file", c.exporter->name)};
  if (!table.empty() && find_data_table(table) == nullptr)
    return Error{"there is no table \"" + table + "\"",
                 did_you_mean(table, names_of(data_tables()), "`profgpu query --tables` lists them")};
  if (weighed && c.exporter->name != "folded" && c.exporter->name != "speedscope")
    return Error{fmt::format("--weight needs --to folded or speedscope, not {}", c.exporter->name)};
  return ok();
}

Result<ExportCommand> export_command(const Arguments& arguments) {
  ExportCommand command;
  if (!arguments.has("--to")) return Error{"--to FORMAT is missing", "profgpu export trace.json.gz --to perfetto"};
  command.exporter = find_exporter(arguments.value("--to"));
  command.options.table = arguments.value("--table");
  command.options.weight = arguments.value("--weight") == "device" ? Weight::kDevice : Weight::kHost;
  auto trace = trace_command(arguments);
  if (!trace) return trace.error();
  command.trace = *std::move(trace);
  if (auto status = check_options(command, arguments.has("--weight")); !status) return status.error();
  if (auto status = choose_output(command); !status) return status.error();
  auto csv = csv_text(arguments, command.exporter->name, command.trace.output);
  if (!csv) return csv.error();
  command.options.csv = *csv;
  return command;
}

// The format of timelines with such a name.
std::string_view format_of(std::string_view path) {
  if (path.ends_with(".gz")) path.remove_suffix(3);
  if (path.ends_with(".json")) return "chrome";
  return path.ends_with(".pftrace") || path.ends_with(".perfetto-trace") ? "perfetto" : "";
}

Result<ExportCommand> merge_command(const Arguments& arguments) {
  ExportCommand command;
  command.merges = true;
  if (!arguments.has("--output")) return Error{"-o FILE is missing", "profgpu merge run7/ -o run7.pftrace"};
  const std::string output = arguments.value("--output");
  command.exporter = find_exporter(arguments.value("--to", format_of(output)));
  if (command.exporter == nullptr)
    return Error{"cannot infer the format from the name " + output,
                 "use .pftrace (Perfetto), .json or .json.gz (Chrome), or add --to"};
  if (arguments.has("--ranks")) {
    command.ranks = rank_ranges(arguments.value("--ranks"));
    if (!command.ranks)
      return Error{"--ranks takes a list such as 0,3,8-11, not \"" + arguments.value("--ranks") + "\""};
  }
  auto trace = trace_command(arguments);
  if (!trace) return trace.error();
  command.trace = *std::move(trace);
  return command;
}

/// What is written, and what is missing from it.
struct ChosenRows {
  RunRows rows;
  std::vector<int> without_steps;   ///< chosen ranks that have none of the chosen steps
};

// Chooses what is shown; clocks come from all ranks and steps that were read.
Result<ChosenRows> choose(const LoadedRun& run, const ExportCommand& command) {
  std::vector<int> ranks, without_steps;
  for (const auto& [rank, outline] : run.read.outlines) ranks.push_back(rank);
  if (command.ranks) {
    auto named = chosen_ranks(*command.ranks, ranks);
    if (!named) return named.error();
    ranks = *named;
  }
  const auto with_steps = std::stable_partition(ranks.begin(), ranks.end(),
                                                [&](int rank) { return run.read.outlines.at(rank).part.has_value(); });
  without_steps.assign(with_steps, ranks.end());
  ranks.erase(with_steps, ranks.end());
  if (ranks.empty() && !run.only_samples())
    return Error{"none of the chosen ranks has any of the chosen steps",
                 fmt::format("the traces have steps {} to {}: --steps {}:{} chooses all", run.first_step,
                             run.last_step, run.first_step, run.last_step + 1)};
  return ChosenRows{run_rows(run, ranks), std::move(without_steps)};
}

double estimated_bytes(const RunRows& rows, const ExportCommand& command) {
  int64_t events = 0;
  for (const RankRows& rank : rows.ranks) events += rank.outline().events;
  const EventSize& each = command.exporter->name == "chrome" ? kChromeEvent : kPerfettoEvent;
  return static_cast<double>(events) * (command.trace.output.ends_with(".gz") ? each.gzip_bytes : each.bytes);
}

void print_what_is_missing(const ChosenRows& chosen, double bytes) {
  if (!chosen.without_steps.empty())
    print_message("profgpu: left out, without any of the chosen steps: " + ranks_text(chosen.without_steps));
  std::map<std::string_view, std::vector<int>> notes;
  for (const RankRows& rank : chosen.rows.ranks)
    if (const RankClock* clock = chosen.rows.job_clock(rank))
      if (const std::string_view note = clock_note(*clock); !note.empty()) notes[note].push_back(rank.rank());
  for (const auto& [note, ranks] : notes)
    print_message(fmt::format("profgpu: clock of {}: {}", ranks_text(ranks), note));
  if (bytes > kMuchBytes)
    print_message(fmt::format("profgpu: writing about {}, which viewers open slowly if at all; choose less with --ranks "
                              "and --steps", format_bytes(bytes)));
}

// Tables in a folder of traces would be read as traces.
Status check_output(const LoadedRun& run, const ExportCommand& c) {
  const std::string& output = c.trace.output;
  if (!c.to_folder()) return refuse_overwrite(run.paths(), output);
  for (const std::string& path : run.paths())
    if (std::error_code error; fs::equivalent(fs::absolute(path).parent_path(), output, error))
      return Error{output + " holds an input file; not writing into it", "choose another folder with -o"};
  return ok();
}

// Names in .gz are compressed, unless the format is written in place. The error names the path.
Status write_exported(const Exporter& exporter, const ExportOptions& options, const RunRows& run,
                      const std::string& path, Progress& progress) {
  auto file = OutputFile::open(path, &progress.done_bytes);
  if (!file) return file.error();
  if (exporter.write_file != nullptr) {
    const std::string& partial = (*file)->partial();
    if (partial.empty()) return Error{path + " is not a regular file, which " + std::string(exporter.name) + " needs"};
    auto status = exporter.write_file(run, partial, &progress.done_bytes);
    if (!status) return status.error().within(path);
  } else {
    if (path.ends_with(".gz")) (*file)->bytes().compress();
    auto status = exporter.write(run, options, (*file)->bytes());
    if (!status) return status;
  }
  return (*file)->finish();
}

Status write_folder(ExportCommand c, const RunRows& run, Progress& progress, size_t& count) {
  const std::string& folder = c.trace.output;
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) return cannot_write(folder, error.value());
  const auto tables = c.exporter->tables(run);
  if (!tables) return tables.error();
  for (const std::string& table : *tables) {
    c.options.table = table;
    const std::string path = folder + "/" + table + std::string(c.exporter->extension);
    auto status = write_exported(*c.exporter, c.options, run, path, progress);
    if (!status) return status;
    ++count;
  }
  return ok();
}

// On standard error: what was written where, how much, and what opens it. `tables`: files of a folder.
void print_written(const ExportCommand& c, const Progress& progress, size_t tables) {
  if (c.trace.output == "-") return;
  if (c.to_folder()) {
    const std::string folder = c.trace.output + (c.trace.output.ends_with('/') ? "" : "/");
    print_message(fmt::format("profgpu: wrote {} into the folder {}, {}, for {}",
                              plural(static_cast<int64_t>(tables), "table", "tables"), folder,
                              format_bytes(static_cast<double>(progress.done_bytes)), c.exporter->reader));
    if (c.trace.output.ends_with(c.exporter->extension))
      print_message("  hint: -o names a folder; for one file add --table kernels_by_name");
    return;
  }
  // What reads the profiler's traces expects one rank per file.
  const std::string_view reader = c.merges ? "Perfetto (ui.perfetto.dev)" : c.exporter->reader;
  print_message(fmt::format("profgpu: wrote {}, {}, for {}", c.trace.output,
                            format_bytes(static_cast<double>(progress.done_bytes)), reader));
}

Outcome write_run(const Result<ExportCommand>& parsed) {
  if (!parsed) return Outcome::usage(parsed.error());
  const ExportCommand& c = *parsed;
  Progress progress;
  auto bar = std::make_unique<ProgressBar>(progress, c.trace.draws());
  auto run = load_run(c.trace.read.paths, c.loading(), progress);
  bar.reset();
  if (!run) return run.error();
  if (c.merges && run->only_samples())
    return Error{"the input has only device samples and no ranks", "`profgpu export` writes them in other formats"};
  if (Status writable = check_output(*run, c); !writable) return Outcome::usage(writable.error());
  const auto chosen = choose(*run, c);
  if (!chosen) return chosen.error();
  if (!c.trace.quiet) print_issues(*run);
  if (!c.trace.quiet && c.merges) print_what_is_missing(*chosen, estimated_bytes(chosen->rows, c));
  progress.total_bytes = progress.done_bytes = 0;
  progress.stage = "writing";
  bar = std::make_unique<ProgressBar>(progress, c.trace.draws());
  size_t tables = 0;
  const Status status = c.to_folder() ? write_folder(c, chosen->rows, progress, tables)
                                      : write_exported(*c.exporter, c.options, chosen->rows, c.trace.output, progress);
  bar.reset();
  if (status && !c.trace.quiet) print_written(c, progress, tables);
  return status;
}

Outcome run_export(const Arguments& arguments) { return write_run(export_command(arguments)); }
Outcome run_merge(const Arguments& arguments) { return write_run(merge_command(arguments)); }

std::vector<std::string_view> export_names() {
  std::vector<std::string_view> all;
  for (const Exporter* e : exporters()) all.push_back(e->name);
  return all;
}

}  // namespace

extern const Command kExport, kMerge;
const Command kExport{
    .name = "export",
    .summary = "write a trace for Perfetto, SQLite, CSV or flame graphs",
    .positional = "PATH...",
    .positional_help = "what analyze reads; several ranks of one job go into one file",
    .groups = {{"What to write",
                {{"--to FORMAT", "format", export_names()},
                 {"-o, --output FILE",
                  "file, or folder for csv; - is standard output (default: named after PATH, in the current folder)"},
                 {"--table NAME", "csv: only this table, into one file"},
                 kRawFlag,
                 {"--weight WHAT",
                  "folded, speedscope: weigh stacks by host time, or by the device time of what they launched (default "
                  "host)",
                  {"host", "device"}},
                 kStepPatternFlag}},
               {"Screen", {kQuietFlag, kNoProgressFlag}}},
    .examples = {{"profgpu export trace.json.gz --to perfetto", "a timeline with steps, phases and idle causes"},
                 {"profgpu export run7/ --to sqlite -o run7.sqlite",
                  "all ranks; also for scripts that query Nsight Systems' exports"},
                 {"profgpu export trace.json.gz --to csv -o tables/", "every table"},
                 {"profgpu export trace.json.gz --to folded -o - | flamegraph.pl > flame.svg",
                  "a flame graph of the host; with --weight device, of the device"}},
    .notes =
        "Formats: perfetto (timeline as protobuf), chrome (timeline as JSON in torch.profiler's form, with the arguments "
        "that profgpu keeps), sqlite (docs/sqlite.md), csv, speedscope and folded (flame graphs).",
    .run = run_export,
};

const Command kMerge{
    .name = "merge",
    .summary = "put ranks of a job into one timeline, on one clock",
    .positional = "PATH...",
    .positional_help = "all ranks of the job: clocks are aligned by the collectives that ranks share",
    .groups = {{"What to write",
                {{"-o, --output FILE", "file; - is standard output"},
                 {"--to FORMAT",
                  "format (default: chrome for .json and .json.gz, perfetto for .pftrace)",
                  {"perfetto", "chrome"}},
                 {"--ranks LIST", "only these ranks: 0,3,8-11 (default: all)"},
                 {"--steps A:B", "only steps A to B - 1 (default: all)"},
                 {"--samples FILE...", "device samples of the same time (perfetto)"},
                 kStepPatternFlag}},
               {"Screen", {kQuietFlag, kNoProgressFlag}}},
    .examples = {{"profgpu merge run7/ -o run7.pftrace", "all ranks, for Perfetto"},
                 {"profgpu merge run7/ --ranks 0,3 --steps 10:12 -o late.pftrace", "two ranks side by side for two steps"},
                 {"profgpu merge run7/ --ranks 0-7 -o node0.json.gz", "as JSON for chrome://tracing"}},
    .notes =
        "Arrows lead from each kernel of a collective to that of the rank that arrived last. With --steps, host ranges "
        "are cut at the ends of the chosen steps; device activity and what launched it stay whole. A merged file is for "
        "viewers: analyze needs the original traces.",
    .run = run_merge,
};

}  // namespace profgpu
