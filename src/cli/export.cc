// profgpu export: a run in other tools' formats.
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "app/export/data_table.h"
#include "app/export/run.h"
#include "cli/analyze_options.h"
#include "cli/command.h"
#include "cli/loaded_run.h"
#include "cli/output.h"
#include "cli/progress_bar.h"
#include "cli/words.h"

namespace profgpu {
namespace {

namespace fs = std::filesystem;

struct ExportCommand {
  AnalyzeOptions analysis;      ///< how traces are read, and where the file goes
  const Exporter* exporter = nullptr;
  ExportOptions options;
};

// What a file is called without the endings of traces: "trace" of "runs/trace.json.gz" and of "trace/".
std::string stem(const std::vector<std::string>& paths) {
  if (paths.size() > 1) return "profgpu";
  fs::path path = fs::path(paths.front()).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();
  std::string name = path.filename();
  for (const std::string_view ending : {".gz", ".zst", ".json", ".jsonl", ".csv", ".pgt", ".pt.trace"})
    if (name.size() > ending.size() && name.ends_with(ending)) name.resize(name.size() - ending.size());
  return name.empty() || name == "." || name == ".." ? "profgpu" : name;
}

bool is_folder(const ExportCommand& c) { return c.exporter->tables != nullptr && c.options.table.empty(); }

// A name of our own choosing never replaces anything.
Status choose_output(ExportCommand& c) {
  std::string& output = c.analysis.output;
  if (output == "-" && (is_folder(c) || c.exporter->write == nullptr))
    return Error{fmt::format("{} does not go to standard output", c.exporter->name),
                 is_folder(c) ? "one table does: --table activity" : "-o FILE"};
  if (!output.empty()) return ok();
  output = stem(c.analysis.paths) + (is_folder(c) ? "-" : c.options.table.empty() ? "" : "-" + c.options.table);
  output += is_folder(c) ? std::string(c.exporter->name) : std::string(c.exporter->extension);
  struct stat s{};
  if (::lstat(output.c_str(), &s) == 0 && !is_folder(c))
    return Error{output + " is there already", "-o " + output + " replaces it; -o FILE names another"};
  return ok();
}

Status check_table(const ExportCommand& c) {
  const std::string& table = c.options.table;
  if (table.empty()) return ok();
  if (c.exporter->tables == nullptr)
    return Error{fmt::format("--table is for csv; {} has everything", c.exporter->name)};
  if (find_data_table(table) != nullptr) return ok();
  std::vector<std::string> export_names;
  for (const DataTable* t : data_tables()) export_names.emplace_back(t->name);
  const std::string near = nearest(table, export_names);
  return Error{"there is no table \"" + table + "\"",
               near.empty() ? "`profgpu query --tables` lists them" : "did you mean " + near + "?"};
}

Result<ExportCommand> export_command(const Arguments& arguments) {
  ExportCommand command;
  if (!arguments.has("--to")) return Error{"--to FORMAT is needed", "profgpu export trace.json.gz --to perfetto"};
  command.exporter = find_exporter(arguments.value("--to"));
  if (command.exporter == nullptr) return Error{"nothing is called " + arguments.value("--to")};
  command.options.table = arguments.value("--table");
  command.options.weight = arguments.value("--weight") == "device" ? Weight::kDevice : Weight::kHost;
  auto read = analyze_options(arguments);
  if (!read) return read.error();
  command.analysis = *read;
  if (auto status = check_table(command); !status) return status.error();
  if (arguments.has("--weight") && command.exporter->name != "folded" && command.exporter->name != "speedscope")
    return Error{fmt::format("--weight is for folded and speedscope, not for {}", command.exporter->name)};
  if (auto status = choose_output(command); !status) return status.error();
  return command;
}

// Tables in a folder of traces would be read with them.
Status check_output(const LoadedRun& run, const ExportCommand& c) {
  const std::string& output = c.analysis.output;
  if (!is_folder(c)) return refuse_overwrite(run, output);
  for (const InputSource& s : run.read.sources)
    if (std::error_code error; fs::equivalent(fs::absolute(s.path).parent_path(), output, error))
      return Error{output + " is what is read", "choose another name for what is written"};
  return ok();
}

Status write_folder(ExportCommand c, const RunRows& run, Progress& progress) {
  const std::string& folder = c.analysis.output;
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
  }
  return ok();
}

Outcome run_export(const Arguments& arguments) {
  auto command = export_command(arguments);
  if (!command) return Outcome::usage(command.error());
  const std::string& output = command->analysis.output;
  Progress progress;
  auto bar = std::make_unique<ProgressBar>(progress, command->analysis.progress && stderr_is_terminal());
  // A folder goes through all ranks for each of its tables.
  auto run = load_run(command->analysis.paths,
                      {.analysis = {command->analysis.step_pattern}, .most_kept = is_folder(*command) ? SIZE_MAX : 1},
                      progress);
  if (!run) return bar.reset(), Outcome::failed(run.error());
  if (Status writable = check_output(*run, *command); !writable) return bar.reset(), Outcome::usage(writable.error());
  const RunRows rows = run_rows(*run);
  progress.total_bytes = 0;
  progress.done_bytes = 0;
  progress.stage = "writing";
  const Status status = is_folder(*command)
                            ? write_folder(*command, rows, progress)
                            : write_exported(*command->exporter, command->options, rows, output, progress);
  bar.reset();
  if (!status) return Outcome::failed(status.error());
  if (command->analysis.quiet) return {};
  say_issues(*run);
  say_written(output, progress, command->exporter->reader);
  return {};
}

std::vector<std::string_view> export_names() {
  std::vector<std::string_view> all;
  for (const Exporter* e : exporters()) all.push_back(e->name);
  return all;
}

}  // namespace

extern const Command kExport;
const Command kExport{
    .name = "export",
    .summary = "write a trace for Perfetto, SQLite, CSV or flame graphs",
    .positional = "PATH...",
    .positional_help = "what analyze reads; several ranks of one job go into one file",
    .groups =
        {{"What to write",
          {{.name = "--to", .value = "FORMAT", .help = "format", .choices = export_names()},
           {.name = "--output",
            .short_name = "-o",
            .value = "FILE",
            .help = "file, or folder of csv; - is standard output (default: named after PATH, here)",
            .takes_path = true},
           {.name = "--table", .value = "NAME", .help = "csv: only this table, into one file"},
           {.name = "--weight",
            .value = "WHAT",
            .help = "folded, speedscope: stacks by time on the host, or by device time of what they launched (default "
                    "host)",
            .choices = {"host", "device"}},
           step_pattern_flag()}},
         {"Screen",
          {quiet_flag(), no_progress_flag()}}},
    .examples = {{"profgpu export trace.json.gz --to perfetto", "a timeline, with steps, phases and idle causes"},
                 {"profgpu export run7/ --to sqlite -o run7.sqlite",
                  "all ranks; also for scripts that query Nsight's exports"},
                 {"profgpu export trace.json.gz --to csv -o tables/", "every table"},
                 {"profgpu export trace.json.gz --to folded -o - | flamegraph.pl > flame.svg",
                  "a flame graph of the host; with --weight device, of the device"}},
    .notes =
        "Formats: perfetto (timeline as protobuf), chrome (timeline as JSON in torch.profiler's form, with the "
        "arguments that "
        "profgpu keeps), sqlite (docs/sqlite.md), csv, speedscope and folded (flame graphs).",
    .run = run_export,
};

}  // namespace profgpu
