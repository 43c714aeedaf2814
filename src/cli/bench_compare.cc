#include "cli/bench_compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "app/compared_runs.h"
#include "app/words.h"
#include "base/decimal.h"
#include "base/file_text.h"
#include "base/text.h"
#include "cli/bench_view.h"
#include "cli/output.h"
#include "cli/trace_command.h"
#include "view/json_text.h"

namespace profgpu {
namespace {

constexpr size_t kHead = 200;

/// `figure:PART < -5%`: a limit of the change of each figure whose name has that part.
struct BenchGate {
  std::string text, part;
  bool above = true;
  double limit_pct = 0;
};

Result<BenchGate> bench_gate(const std::string& text) {
  BenchGate gate{text, "", true, 0};
  const size_t at = text.find_last_of("<>");
  const std::string_view left = without_blanks(std::string_view(text).substr(0, at));
  const Error error{fmt::format("--fail-on: \"{}\" is no limit of figures of bench", text),
                    "figure:host_to_device < -5%, figure:launch_call > +10%"};
  if (at == std::string::npos || !left.starts_with("figure:")) return error;
  std::string_view limit = without_blanks(std::string_view(text).substr(at + 1));
  if (!limit.ends_with('%')) return error;
  limit = without_blanks(limit.substr(0, limit.size() - 1));
  const bool negative = limit.starts_with('-');
  if (negative || limit.starts_with('+')) limit.remove_prefix(1);
  const auto thousandths = scaled_decimal(limit, 3);
  if (!thousandths) return error;
  gate.part = without_blanks(left.substr(7)), gate.above = text[at] == '>';
  gate.limit_pct = (negative ? -1 : 1) * static_cast<double>(*thousandths) / 1e3;
  return gate;
}

// Why it fails; empty: it does not. A change within the spreads can be chance.
std::string failure(const BenchGate& gate, const std::vector<FigureChange>& all) {
  std::string over;
  bool any = false;
  for (const FigureChange& c : all) {
    if (!contains(c.after->name, gate.part)) continue;
    any = true;
    const bool passes = gate.above ? c.change_pct > gate.limit_pct : c.change_pct < gate.limit_pct;
    if (passes && c.verdict != 0)
      append_listed(over, fmt::format("{} {} {:+.1f} %", c.after->label, c.after->place(), c.change_pct));
  }
  if (!any) return "the results do not both have such a figure";
  return over;
}

Record change_record(const FigureChange& c) {
  return Record()
      .add("benchmark", c.after->benchmark)
      .add("name", c.after->name)
      .add("place", c.after->place())
      .add("unit", c.after->unit)
      .add("value", c.after->value)
      .add("change_pct", c.change_pct)
      .add("verdict", c.verdict > 0 ? "better" : c.verdict < 0 ? "worse" : "no_difference");
}

Result<BenchResult> bench_baseline(const std::string& history, const std::string& name) {
  auto file = History::open(history, false);
  if (!file) return file.error();
  auto document = file->latest_document(name);
  if (!document) return document.error();
  if (!is_bench_text(*document))
    return Error{fmt::format("{}: \"{}\" is no saved result of profgpu bench", history, name),
                 "`profgpu history` lists what is saved"};
  return bench_from_json(*std::move(document), name);
}

}  // namespace

bool is_bench_text(std::string_view text) {
  return contains(text.substr(0, kHead), "\"schema\"") && contains(text.substr(0, kHead), "profgpu.bench.v1");
}

bool is_bench_file(const std::string& path) {
  std::error_code error;
  return std::filesystem::is_regular_file(path, error) && is_bench_text(file_text(path, kHead).value_or(""));
}

Outcome save_bench(const std::string& history, const std::string& name, const std::string& path) {
  const auto result = read_bench(path);
  if (!result) return result.error();
  auto file = History::open(history, true);
  if (!file) return file.error();
  HistoryRun run = history_run(name, path, RunSummary());
  run.host = result->machine.host;
  const auto id = file->save(run, bench_json(*result));
  if (!id) return id.error();
  return write_text(fmt::format("{}: saved run {} as {}\nNext: profgpu diff --baseline {} machine.json\n",
                                printable(history), *id, printable(name), printable(shell_line({name}))));
}

Outcome diff_bench(const Arguments& arguments) {
  std::vector<BenchGate> gates;
  for (const std::string& text : arguments.values("--fail-on")) {
    auto gate = bench_gate(text);
    if (!gate) return Outcome::usage(gate.error());
    gates.push_back(*std::move(gate));
  }
  const std::string format = arguments.has("--json") ? "json" : arguments.value("--format");
  if (!format.empty() && format != "terminal" && format != "json")
    return Outcome::usage({"results of profgpu bench are compared in the terminal or as JSON"});
  const std::string baseline = arguments.value("--baseline");
  if (arguments.positional.size() + (baseline.empty() ? 0 : 1) != 2)
    return Outcome::usage({"two results of profgpu bench are compared, not more",
                           "profgpu bench --compare FOLDER compares many machines"});
  auto before = baseline.empty() ? read_bench(arguments.positional.front())
                                 : bench_baseline(history_path(arguments), baseline);
  if (!before) return before.error();
  const auto after = read_bench(arguments.positional.back());
  if (!after) return after.error();
  const std::vector<FigureChange> all = changes(*before, *after);
  if (all.empty()) return Error{"the results have no figure in common"};
  std::string text;
  if (format == "json") {
    List figures;
    for (const FigureChange& c : all) figures.push_back(change_record(c));
    text = json_document(Record().add("schema", "profgpu.bench-diff.v1").add("figures", std::move(figures)));
  } else {
    const int width = output_width();
    text = rendered(bench_lines(*after, &*before, width), width, output_colour(Colour::kAuto));
  }
  const std::string output = arguments.value("--output");
  if (const Status writable = refuse_overwrite(arguments.positional, output); !writable)
    return Outcome::usage(writable.error());
  if (const Status written = output.empty() ? write_text(text) : write_file(output, text); !written) return written;
  Outcome outcome;
  for (const BenchGate& gate : gates)
    if (const std::string why = failure(gate, all); !why.empty()) {
      outcome.code = ExitCode::kFindings;
      print_message(fmt::format("profgpu: diff: --fail-on '{}': {}", gate.text, why));
    }
  return outcome;
}

Result<std::vector<BenchResult>> read_bench_folder(const std::string& folder) {
  std::vector<std::string> paths;
  std::error_code error;
  for (std::filesystem::directory_iterator at(folder, error), end; !error && at != end; at.increment(error))
    if (is_bench_file(at->path())) paths.push_back(at->path());
  if (paths.empty())
    return Error{folder + ": no result of profgpu bench is in it",
                 "write one on each machine with `profgpu bench -o FILE`"};
  std::ranges::sort(paths, natural_less);
  std::vector<BenchResult> all;
  for (const std::string& path : paths) {
    auto result = read_bench(path);
    if (!result) return result.error();
    all.push_back(*std::move(result));
  }
  return all;
}

}  // namespace profgpu
