#include "cli/bench_compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "app/compare/gate.h"
#include "app/compared_runs.h"
#include "app/words.h"
#include "base/decimal.h"
#include "base/file_text.h"
#include "base/json_reader.h"
#include "base/text.h"
#include "cli/bench_view.h"
#include "cli/diff_view.h"
#include "cli/output.h"
#include "cli/trace_command.h"
#include "view/annotations.h"
#include "view/document.h"
#include "view/json_text.h"
#include "view/wording.h"

namespace profgpu {
namespace {

constexpr size_t kHead = 200;
constexpr size_t kMostText = 8 << 20;   // results have thousands of figures at most
constexpr std::string_view kSchema = "profgpu.bench.v1", kTraceMember = "\"traceEvents\"";

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
  const Error error{fmt::format("--fail-on: \"{}\" is not a limit for figures of bench", text),
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

// A change within the spreads can be chance. Unknown: the results do not both have such a figure.
GateResult checked_bench_gate(const BenchGate& gate, const BenchComparison& all) {
  GateResult result;
  result.gate.text = gate.text;
  std::string over;
  int64_t compared = 0;
  // What got lost is worse than any limit.
  for (const Figure* f : all.lost_figures)
    if (contains(f->name, gate.part)) append_listed(over, fmt::format("{} {} is lost", f->label, f->place()));
  for (const FigureChange& c : all.figures) {
    if (!contains(c.after->name, gate.part)) continue;
    ++compared;
    const bool passes = gate.above ? c.change_pct > gate.limit_pct : c.change_pct < gate.limit_pct;
    if (passes && c.verdict != 0)
      append_listed(over, fmt::format("{} {} {:+.1f} %", c.after->label, c.after->place(), c.change_pct));
  }
  if (!over.empty()) return result.verdict = GateVerdict::kFail, result.detail = over, result;
  if (compared == 0) return result.detail = "the results do not both have such a figure", result;
  result.verdict = GateVerdict::kPass, result.detail = plural(compared, "figure", "figures") + " compared";
  return result;
}

bool bench_gate_fails(const GateResult& g, bool undecided_passes) {
  return g.verdict == GateVerdict::kFail || (g.verdict == GateVerdict::kUnknown && !undecided_passes);
}

std::string bench_headline(const BenchComparison& all) {
  const auto count = [&](int verdict) {
    return std::ranges::count(all.figures, verdict, &FigureChange::verdict);
  };
  return fmt::format("{} compared: {} worse, {} better, {} lost",
                     plural(static_cast<int64_t>(all.figures.size()), "figure", "figures"), count(-1), count(1),
                     all.lost_figures.size());
}

std::string bench_github(const BenchComparison& all, const std::vector<GateResult>& gates, bool undecided_passes) {
  std::string out = workflow_command(Severity::kInfo, "profgpu diff", bench_headline(all));
  for (const GateResult& g : gates)
    if (g.verdict != GateVerdict::kPass)
      out += workflow_command(bench_gate_fails(g, undecided_passes) ? Severity::kCritical : Severity::kWarning,
                              "profgpu: " + printable(g.gate.text), printable(g.detail));
  return out;
}

// What changed, with what was before; what did not change is counted only.
std::string bench_markdown(const BenchComparison& all, const std::vector<GateResult>& gates) {
  std::string out = "### " + markdown_text(bench_headline(all)) + "\n\n";
  for (const GateResult& g : gates)
    out += fmt::format("- {} {}: {}\n", markdown_code(g.gate.text, false), gate_verdict_name(g.verdict),
                       markdown_text(g.detail));
  for (const std::string& lost : all.lost) out += "- lost: " + markdown_text(lost, false) + "\n";
  for (const std::string& why : all.not_judged) out += "- not judged: " + markdown_text(why, false) + "\n";
  Grid grid({{"figure"}, {"place"}, {"before", true}, {"after", true}, {"change", true}, {""}});
  for (const FigureChange& c : all.figures) {
    if (c.verdict == 0) continue;
    const double before = c.after->value / (1 + c.change_pct / 100);
    grid.add_row({{c.after->label}, {c.after->place()}, {c.after->text_of(before)}, {c.after->text_of(c.after->value)},
                  {fmt::format("{:+.1f} %", c.change_pct)}, {c.verdict < 0 ? "worse" : "better"}});
  }
  return grid.empty() ? out : out + "\n" + markdown_table(grid);
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
    return Error{fmt::format("{}: \"{}\" is not a saved result of profgpu bench", history, name),
                 "`profgpu history` lists what is saved"};
  return bench_from_json(*std::move(document), name);
}

std::string bench_diff_json(const BenchComparison& all) {
  List figures;
  for (const FigureChange& c : all.figures) figures.push_back(change_record(c));
  return json_document(Record()
                           .add("schema", "profgpu.bench-diff.v1")
                           .add("figures", std::move(figures))
                           .add("lost", value_of(all.lost))
                           .add("not_judged", value_of(all.not_judged)));
}

std::string bench_diff_text(std::string_view format, const BenchResult& before, const BenchResult& after,
                          const BenchComparison& all, const std::vector<GateResult>& gates, bool undecided_passes) {
  if (format == "json") return bench_diff_json(all);
  if (format == "junit") return diff_junit({{}, {}, gates}, undecided_passes);
  if (format == "github") return bench_github(all, gates, undecided_passes);
  if (format == "markdown") return bench_markdown(all, gates);
  const int width = output_width();
  return rendered(bench_lines(after, &before, width), width, output_colour(Colour::kAuto));
}

}  // namespace

bool is_bench_text(std::string_view text) {
  if (!without_blanks(text.substr(0, kHead)).starts_with('{') || !contains(text, kSchema)) return false;
  const std::string_view head = text.substr(0, kHead);
  if (contains(head, "\"schema\"") && contains(head, kSchema)) return true;
  // Other programs put the members in another order.
  bool found = false;
  std::string whole(text);
  JsonReader in = JsonReader::over(whole);
  (void)read_object(in, [&](std::string_view key) {
    std::string value;
    if (key != "schema" || in.peek() != '"') return in.skip_value();
    found = read_text(in, value) && value == kSchema;
    return !found;
  });
  return found;
}

bool is_bench_file(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return false;
  const std::string head = file_text(path, kHead).value_or("");
  if (!without_blanks(head).starts_with('{') || contains(head, kTraceMember)) return false;
  return is_bench_text(head) || is_bench_text(file_text(path, kMostText).value_or(""));
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
  if (format == "junit" && gates.empty())
    return Outcome::usage({"--format junit writes a test case for each --fail-on, and there is none",
                           "profgpu diff a.json b.json --format junit --fail-on 'figure:host_to_device < -5%'"});
  const std::string baseline = arguments.value("--baseline");
  if (arguments.positional.size() + (baseline.empty() ? 0 : 1) != 2)
    return Outcome::usage({"two results of profgpu bench are compared, not more",
                           "profgpu bench --compare FOLDER compares many machines"});
  auto before = baseline.empty() ? read_bench(arguments.positional.front())
                                 : bench_baseline(history_path(arguments), baseline);
  if (!before) return before.error();
  const auto after = read_bench(arguments.positional.back());
  if (!after) return after.error();
  const BenchComparison all = compare_results(*before, *after);
  if (all.figures.empty() && all.lost.empty())
    return Error{fmt::format("the results have no figure in common{}",
                             all.not_judged.empty() ? "" : ": " + all.not_judged.front())};
  const bool undecided_passes = arguments.has("--allow-inconclusive");
  std::vector<GateResult> decided;
  for (const BenchGate& gate : gates) decided.push_back(checked_bench_gate(gate, all));
  const std::string text = bench_diff_text(format, *before, *after, all, decided, undecided_passes);
  const std::string output = arguments.value("--output");
  if (const Status writable = refuse_overwrite(arguments.positional, output); !writable)
    return Outcome::usage(writable.error());
  if (const Status written = output.empty() ? write_text(text) : write_file(output, text); !written) return written;
  Outcome outcome;
  for (const GateResult& g : decided) {
    if (!bench_gate_fails(g, undecided_passes)) continue;
    outcome.code = ExitCode::kFindings;
    print_message(fmt::format("profgpu: diff: --fail-on '{}': {}", g.gate.text, g.detail));
  }
  return outcome;
}

Result<std::vector<BenchHistoryRow>> bench_history(History& file, const std::vector<HistoryRun>& runs) {
  std::vector<BenchHistoryRow> rows;
  std::map<std::string, BenchResult> latest;   // by name
  for (const HistoryRun& run : runs) {
    if (run.step_mean_ns) continue;
    auto document = file.document(run.id);
    if (!document) return document.error();
    if (!is_bench_text(*document)) continue;
    auto result = bench_from_json(*std::move(document), run.name);
    if (!result) return result.error();
    BenchHistoryRow row{run.id, static_cast<int64_t>(result->figures.size()), {}, {}, {}, {}, {}};
    for (const Figure& f : result->figures) {
      if (!f.precision.empty()) row.product_tflops = std::max(row.product_tflops.value_or(0), f.value);
      if (f.name.starts_with("device_memory_")) row.memory_gbps = std::max(row.memory_gbps.value_or(0), f.value);
    }
    if (const auto before = latest.find(run.name); before != latest.end()) {
      const BenchComparison all = compare_results(before->second, *result);
      row.worse = std::ranges::count(all.figures, -1, &FigureChange::verdict);
      row.better = std::ranges::count(all.figures, 1, &FigureChange::verdict);
      row.lost = static_cast<int64_t>(all.lost_figures.size());
    }
    rows.push_back(row);
    latest.insert_or_assign(run.name, *std::move(result));
  }
  return rows;
}

Result<BenchFolder> read_bench_folder(const std::string& folder) {
  std::vector<std::string> paths;
  const auto add = [&](const std::string& of, bool deeper, const auto& self) -> void {
    std::error_code error;
    for (std::filesystem::directory_iterator at(of, error), end; !error && at != end; at.increment(error))
      if (deeper && at->is_directory(error)) self(at->path().string(), false, self);
      else if (is_bench_file(at->path())) paths.push_back(at->path());
  };
  add(folder, true, add);
  std::ranges::sort(paths, natural_less);
  BenchFolder all;
  for (const std::string& path : paths) {
    auto result = read_bench(path);
    if (result) all.results.push_back(*std::move(result));
    else all.broken.push_back(result.error().message);
  }
  if (all.results.empty())
    return Error{all.broken.empty() ? folder + ": no result of profgpu bench is in it" : all.broken.front(),
                 "write one on each machine with `profgpu bench -o FILE`"};
  return all;
}

}  // namespace profgpu
