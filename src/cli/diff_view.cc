#include "analyse/rank/kernels.h"
#include "cli/diff_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>

#include "analyse/report/quantity.h"
#include "analyse/report/text.h"
#include "app/words.h"
#include "base/text.h"
#include "view/annotations.h"
#include "view/document.h"
#include "view/overview.h"
#include "view/wording.h"

namespace profgpu {
namespace {

struct DiffTable {
  std::string title;
  Grid grid;
  size_t left_out = 0;       ///< rows
  bool texts_below = false;  ///< the last column goes below the rows of a screen that is too narrow for it
};

constexpr std::string_view kWaterfallTitle = "Where the change is, per step", kFindingsTitle = "Findings";

struct DiffView {
  std::string headline;      ///< "Slower: a step takes 182 ms instead of 176 ms"
  Style style = Style::kStrong;
  std::vector<std::string> details;   ///< how sure that is
  std::vector<DiffTable> tables;
  std::vector<std::string> notes;
  std::vector<GateResult> gates;
};

constexpr size_t kFewSteps = 10;   // chance makes much of fewer

std::string signed_text(double value, std::string text) {
  return (value > 0 ? "+" : value < 0 ? "−" : "") + std::move(text);
}
std::string signed_duration(double ns) { return signed_text(ns, format_duration(std::abs(ns))); }
std::string signed_percent(double pct) { return signed_text(pct, fmt::format("{:.1f} %", std::abs(pct))); }

std::string relative(double before, double after) {
  if (before == 0) return after == 0 ? "" : "new";
  if (after == 0) return "gone";
  const double pct = 100 * (after / before - 1);
  return pct >= 1000 ? "+" + format_count(std::llround(pct)) + " %" : signed_percent(pct);
}

Style style_of(double delta) { return delta > 0 ? Style::kBad : delta < 0 ? Style::kGood : Style::kPlain; }

std::string percent_range(const Ratio& r) {
  return fmt::format("{} to {}", signed_percent(100 * (*r.low - 1)), signed_percent(100 * (*r.high - 1)));
}

bool excludes_none(const Ratio& r) { return r.low && r.high && (*r.low > 1 || *r.high < 1); }

// How sure the change is, by the mean and by the median. Where they disagree, why that may be.
std::string certainty_text(const StepRatio& s, size_t before, size_t after) {
  const std::string mean = percent_range(s.mean), median = percent_range(s.median);
  const std::string steps = fmt::format("{} and {} steps", before, after);
  const bool few = std::min(before, after) < kFewSteps;
  if (excludes_none(s.mean) && !excludes_none(s.median))
    return fmt::format("95 % confidence: the mean changes by {}, so the change is real; the median ({}) is undecided: {}",
                       mean, median,
                       few ? steps + " are few, record 10 or more" : "a few long steps may make the change");
  if (!excludes_none(s.mean) && excludes_none(s.median))
    return fmt::format("95 % confidence: the mean ({}) is undecided, the median changes by {}: a few long steps may hide the "
                       "change ({})",
                       mean, median, steps);
  return fmt::format("95 % confidence: mean {}, median {} ({})", mean, median, steps);
}

// Steps that wait for something else take as long whatever the GPU computes.
std::string compute_text(const Comparison& c) {
  constexpr double kMuch = 0.05;
  const auto* compute = first_where(c.states, [](const Difference& d) { return d.name == "compute"; });
  if (compute == nullptr || !compute->real.value_or(false)) return "";
  if (std::abs(compute->delta_ns()) < kMuch * std::max(compute->before_ns, compute->after_ns)) return "";
  return fmt::format(", but the GPU computes for {} instead of {} ({})", format_duration(compute->after_ns),
                     format_duration(compute->before_ns), relative(compute->before_ns, compute->after_ns));
}

void describe_steps(const Comparison& c, const Diff& diff, DiffView& view) {
  const StepRatio& s = *c.steps;
  const std::string before = format_duration(static_cast<double>(c.before_step_ns)),
                    after = format_duration(static_cast<double>(c.after_step_ns));
  const std::string change = signed_percent(100 * (s.mean.value - 1));
  const size_t a = diff.runs.front().steps_ns.size(), b = diff.runs.back().steps_ns.size();
  if (!c.without_device.empty()) {
    view.headline = fmt::format("Comparable only if {} used no GPU, since it has no GPU activity: a step takes {} instead "
                                "of {} ({}).",
                                c.without_device, after, before, change);
    return;
  }
  switch (s.change) {
    case Change::kFaster:
      view.headline = fmt::format("Faster: a step takes {} instead of {} ({}).", after, before, change);
      view.style = Style::kGood;
      break;
    case Change::kSlower:
      view.headline = fmt::format("Slower: a step takes {} instead of {} ({}).", after, before, change);
      view.style = Style::kBad;
      break;
    case Change::kNone:
      view.headline =
          s.mean.low
              ? fmt::format("No difference that these steps can show: {} before, {} after ({})", before, after, change)
              : fmt::format("Too few steps to compare ({} and {}): {} before, {} after ({})", a, b, before, after,
                            change);
      view.headline += compute_text(c) + ".";
  }
  if (c.saves_delta_ns) {
    view.headline = fmt::format("Alike but for saving checkpoints: a step takes {} instead of {} ({}).", after, before,
                                change);
    view.details.push_back(fmt::format("checkpoints make {} of the mean step; so few steps save that it may be chance how "
                                       "many were recorded: compare how often each run saves",
                                       signed_duration(static_cast<double>(*c.saves_delta_ns))));
    return;
  }
  if (!s.mean.low) {
    view.details.push_back("the difference may be chance: record ten steps or more of each");
    return;
  }
  view.details.push_back(certainty_text(s, a, b));
  if (s.change != Change::kNone) return;
  view.details.push_back(
      s.steps_needed
          ? fmt::format("about {} steps a run would tell whether {} is real", format_count(*s.steps_needed), change)
          : fmt::format("a change under {} cannot be told from chance here", format_percent(*s.resolution_pct)));
}

// `names`: the first columns; figures follow.
DiffTable time_table(std::string title, std::vector<GridColumn> names) {
  for (const char* name : {"before", "after", "change", ""}) names.push_back({name, true});
  return {std::move(title), Grid(std::move(names))};
}

std::string calls_text(const Difference& d) {
  const auto text = [](double calls) {
    return calls == std::round(calls) ? format_count(std::llround(calls)) : format_number(calls);
  };
  const std::string a = text(d.calls_before), b = text(d.calls_after);
  if (a == b) return a;
  return a + " → " + b;
}

std::vector<Cell> time_cells(double before, double after, bool sure) {
  const double delta = after - before;
  const Style style = sure ? style_of(delta) : Style::kFaint;
  return {{format_duration(before)}, {format_duration(after)}, {signed_duration(delta), style},
          {relative(before, after), style}};
}

void add_row(DiffTable& t, std::vector<Cell> first, std::vector<Cell> rest) {
  first.insert(first.end(), rest.begin(), rest.end());
  t.grid.add_row(std::move(first));
}

// The largest changes; what did not change at all is not worth a line.
template <class Rows, class Add>
void fill(DiffTable& t, const Rows& rows, int top, Add add) {
  for (const auto& row : rows) {
    if (row.delta_ns() == 0) continue;
    if (top > 0 && t.grid.rows().size() >= static_cast<size_t>(top)) {
      ++t.left_out;
      continue;
    }
    add(row);
  }
}

DiffTable waterfall_table(const Comparison& c, int top) {
  const bool device = std::ranges::any_of(c.waterfall, [](const WaterfallRow& r) { return r.state != "outside"; });
  const auto named = [&](Cell phase, std::string state) {
    std::vector<Cell> cells{std::move(phase)};
    if (device) cells.push_back({std::move(state)});
    return cells;
  };
  std::vector<GridColumn> names{{"phase"}};
  if (device) names.push_back({"what the GPU did"});
  DiffTable t = time_table(std::string(kWaterfallTitle), std::move(names));
  const bool sure = c.steps && c.steps->change != Change::kNone;   // better or worse only where it is no chance
  fill(t, c.waterfall, top, [&](const WaterfallRow& r) {
    add_row(t, named({phase_words(r.phase), Style::kPlain, Holds::kName}, words(r.state)),
            time_cells(static_cast<double>(r.before_ns), static_cast<double>(r.after_ns), sure));
  });
  if (t.grid.empty()) return t;
  add_row(t, named({"all of the step", Style::kStrong}, ""),
          time_cells(static_cast<double>(c.before_step_ns), static_cast<double>(c.after_step_ns), sure));
  return t;
}

std::map<std::string_view, std::string> shown_kernels(const std::vector<Difference>& rows) {
  std::vector<std::string_view> names;
  for (const Difference& d : rows)
    for (const std::string* name : {&d.name, &d.name_after})
      if (!name->empty()) names.emplace_back(*name);
  const std::vector<std::string> shown = distinct_short_names(names);
  std::map<std::string_view, std::string> by_name;
  for (size_t i = 0; i < names.size(); ++i) by_name.emplace(names[i], shown[i]);
  return by_name;
}

// Of other kernels of an operator: "aten::bmm [[37632, 8, 8], …]: Tensile gemm → cutlass gemm".
std::string operator_text(const Difference& d) {
  if (!d.within.empty()) return d.within + ": ";
  if (d.op.empty() || d.name_after.empty()) return "";
  return d.shapes.empty() ? d.op + ": " : fmt::format("{} {}: ", d.op, list_on_one_line(d.shapes));
}

// Of several kernels the first is named.
std::string more_text(const std::vector<std::string>& names) {
  return names.size() > 1 ? fmt::format(" and {} more", names.size() - 1) : "";
}

// Rows of the same names, which differ in shapes that no column has, as one; the largest change first.
std::vector<Difference> joined_rows(const std::vector<Difference>& rows) {
  std::vector<Difference> joined;
  std::map<std::pair<std::string, std::string>, size_t> row_of;
  for (const Difference& d : rows) {
    // Those of an operator that has other kernels now are told apart by it.
    const auto [it, fresh] = row_of.try_emplace({d.name, d.name_after + operator_text(d)}, joined.size());
    if (fresh) {
      joined.push_back(d);
      continue;
    }
    Difference& sum = joined[it->second];
    sum.calls_before += d.calls_before, sum.calls_after += d.calls_after;
    sum.before_ns += d.before_ns, sum.after_ns += d.after_ns;
    if (sum.change == "same") sum.change = d.change;
  }
  std::ranges::stable_sort(joined, std::greater(), [](const Difference& d) { return std::abs(d.delta_ns()); });
  return joined;
}

DiffTable difference_table(std::string title, const char* first, const std::vector<Difference>& rows, int top,
                           bool calls) {
  std::vector<GridColumn> names{{first}};
  const bool of_kernels = std::string_view(first) == "kernel";
  const bool of_trace = calls || std::string_view(first) == "function";   // its names, not ours
  std::map<std::string_view, std::string> short_names;
  if (of_kernels) short_names = shown_kernels(rows);
  if (calls) names.push_back({"calls", true});
  DiffTable t = time_table(std::move(title), std::move(names));
  fill(t, rows, top, [&](const Difference& d) {
    const auto shown = [&](const std::string& of) { return of_kernels ? short_names.at(of) : of; };
    std::string name = shown(d.name) + more_text(d.names_before);
    if (!d.name_after.empty()) name += " → " + shown(d.name_after) + more_text(d.names_after);
    if (of_kernels) name.insert(0, operator_text(d));
    const bool of_distance = std::string_view(first) == "part";
    std::vector<Cell> cells = {{of_trace      ? name
                                : of_distance ? distance_part_words(name)
                                              : words(name),
                                Style::kPlain, of_trace ? Holds::kName : Holds::kWords}};
    if (calls) cells.push_back({calls_text(d)});
    add_row(t, std::move(cells), time_cells(d.before_ns, d.after_ns, d.change != "same"));
  });
  return t;
}

std::string number_text(const std::string& name, double value) {
  if (unit_of(name) == Unit::kBytes) return format_bytes(value);
  if (unit_of(name) == Unit::kPercent) return format_percent(value);
  return format_number(value);
}

DiffTable number_table(std::string title, const std::vector<NumberChange>& rows) {
  DiffTable t{std::move(title), Grid({{""}, {"before", true}, {"after", true}, {"", true}})};
  for (const NumberChange& n : rows) {
    if (n.before.value_or(0) == 0 && n.after.value_or(0) == 0) continue;
    const auto text = [&](const std::optional<double>& x) {
      return x ? number_text(n.name, *x) : std::string(kUnknownText);
    };
    const std::string change = n.before && n.after ? relative(*n.before, *n.after) : "";
    t.grid.add_row({{column_title(n.name)}, {text(n.before)}, {text(n.after)}, {change}});
  }
  return t;
}

// "GPU 0 is busy 76.7 % of the time (56.6 % before)"
std::string with_before(const FindingChange& f) {
  if (f.before_what.empty()) return f.what;
  constexpr std::array<std::string_view, 9> kUnits = {"%", "s", "ms", "µs", "ns", "B", "KiB", "MiB", "GiB"};
  const std::vector<std::string_view> now = pieces_of(f.what, ' '), then = pieces_of(f.before_what, ' ');
  size_t at = now.size(), count = 0;
  for (size_t i = 0; i < now.size() && now.size() == then.size(); ++i)
    if (now[i] != then[i]) at = i, ++count;
  if (count != 1 || then[at].empty() || !is_digit(then[at].front()))
    return fmt::format("{} (before: {})", f.what, f.before_what);
  const bool unit = at + 1 < then.size() && std::ranges::find(kUnits, then[at + 1]) != kUnits.end();
  return fmt::format("{} ({}{}{} before)", f.what, then[at], unit ? " " : "", unit ? then[at + 1] : "");
}

DiffTable finding_table(const std::vector<FindingChange>& rows) {
  DiffTable t{std::string(kFindingsTitle), Grid({{""}, {"rule"}, {"cost before", true}, {"after, per step", true}, {"what is seen"}})};
  t.texts_below = true;
  const auto cost = [](const std::optional<double>& ns) {
    return !ns ? std::string(kUnknownText) : *ns > 0 ? format_duration(*ns) : "nothing";
  };
  for (const FindingChange& f : rows) {
    const Style style = f.change == "new" || f.change == "dearer" ? Style::kBad
                        : f.change == "gone" || f.change == "cheaper" ? Style::kGood
                                                                       : Style::kFaint;
    const std::string shown = f.change == "dearer"    ? "costs more"
                              : f.change == "cheaper" ? "costs less"
                                                      : words(f.change);
    t.grid.add_row({{shown, style}, {f.rule}, {cost(f.before_cost_ns)}, {cost(f.after_cost_ns)}, {with_before(f)}});
    if (f.change == "new" && !f.fix.empty()) t.grid.add_row({{""}, {""}, {""}, {""}, {"→ " + f.fix}});
  }
  return t;
}

void mark_best(std::vector<Cell>& row, const std::vector<double>& values, bool least) {
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  if (*low == *high) return;
  const auto best = least ? low : std::max_element(values.begin(), values.end());
  Cell& cell = row[static_cast<size_t>(best - values.begin()) + 1];
  cell.text += " *";
  cell.style = Style::kGood;
}

// Labels without the folder that all have; of long ones the places in the order, as the runs are listed above.
std::vector<std::string> run_heads(const std::vector<RunSummary>& runs) {
  constexpr size_t kMaxWidth = 56;   // beside the quantities' names on a narrow terminal
  std::string_view folder = runs.front().label;
  for (const RunSummary& run : runs) {
    const auto same = static_cast<size_t>(std::ranges::mismatch(folder, run.label).in1 - folder.begin());
    folder = folder.substr(0, folder.substr(0, same).rfind('/') + 1);
  }
  std::vector<std::string> heads;
  size_t width = 0;
  for (const RunSummary& run : runs) {
    heads.push_back(run.label.substr(folder.size()));
    width += display_width(heads.back()) + 2;
  }
  if (width <= kMaxWidth && std::ranges::find(heads, "") == heads.end()) return heads;
  for (size_t i = 0; i < heads.size(); ++i) heads[i] = fmt::format("run {}", i + 1);
  return heads;
}

// One row a quantity that all runs have.
DiffTable sweep_table(const Diff& diff) {
  DiffTable t{"All runs (* the best of its row)", Grid({{""}})};
  for (const std::string& head : run_heads(diff.runs)) t.grid.add_column(head, true);
  const auto add = [&](const std::string& name, const std::vector<double>& values, bool least, auto show) {
    std::vector<Cell> row{{name}};
    for (const double v : values) row.push_back({show(v)});
    mark_best(row, values, least);
    t.grid.add_row(std::move(row));
  };
  std::vector<double> values;
  const auto collect = [&](auto value) {
    values.clear();
    for (const RunSummary& run : diff.runs)
      if (const std::optional<double> v = value(run)) values.push_back(*v);
    return values.size() == diff.runs.size();
  };
  const auto of_map = [](const auto& map, const std::string& name) -> std::optional<double> {
    const auto it = map.find(name);
    return it == map.end() ? std::nullopt : std::optional(static_cast<double>(it->second));
  };
  const auto duration = [](double ns) { return format_duration(ns); };
  if (collect([](const RunSummary& r) { return r.step_count > 0 ? std::optional(r.mean_step_ns()) : std::nullopt; }))
    add("mean step", values, true, duration);
  std::vector<std::string> phases;
  for (const auto& [name, sums] : diff.runs.front().phases) phases.push_back(name);
  for (const std::string& name : phases)
    if (collect([&](const RunSummary& r) -> std::optional<double> {
          const auto it = r.phases.find(name);
          return it == r.phases.end() ? std::nullopt : std::optional(it->second.mean);
        }) && *std::max_element(values.begin(), values.end()) > 0)
      add("  " + phase_words(name), values, true, duration);
  for (const auto& [name, unused] : diff.runs.front().memory)
    if (collect([&](const RunSummary& r) { return of_map(r.memory, name); }))
      add(column_title(name), values, true, [&](double v) { return number_text(name, v); });
  for (const auto& [name, unused] : diff.runs.front().telemetry)
    if (collect([&](const RunSummary& r) { return of_map(r.telemetry, name); }))
      add(column_title(name), values, name != "utilization_pct" && name != "sm_clock_mhz",
          [&](double v) { return number_text(name, v); });
  return t;
}

// "The peak is 6.5 GiB instead of 7.0 GiB (−7.1 %): most of it by step (optim.py:77), optimizer_state."
std::string memory_headline(const Comparison& c) {
  const std::string_view name = c.held_only ? "held_bytes" : "peak_allocated_bytes";
  const std::string what = c.held_only ? "The memory held when the snapshot was taken" : "The memory peak";
  const auto* peak = first_where(c.memory, [&](const NumberChange& n) { return n.name == name; });
  if (peak == nullptr || !peak->before || !peak->after || c.memory_lines.empty())
    return "No steps to time: memory side by side.";
  if (*peak->before == *peak->after) return what + " is the same: " + format_bytes(*peak->after) + ".";
  const NumberChange& most = c.memory_lines.front();
  const double change = *most.after - *most.before;
  return fmt::format("{} is {} instead of {} ({}); the line with the largest change, {}, holds {} {}.", what,
                     format_bytes(*peak->after), format_bytes(*peak->before), relative(*peak->before, *peak->after),
                     most.name, format_bytes(std::abs(change)), change < 0 ? "less" : "more");
}

// Lines of the program, the largest change first.
DiffTable memory_line_table(const Comparison& c, int top) {
  const std::vector<NumberChange>& rows = c.memory_lines;
  DiffTable t{c.held_only ? "Memory held when the snapshot was taken, by line" : "Memory at the peak by line",
              Grid({{"line"}, {"before", true}, {"after", true}, {"change", true}})};
  const auto shown = top > 0 ? std::min(rows.size(), static_cast<size_t>(top)) : rows.size();
  for (size_t i = 0; i < shown; ++i) {
    const double before = *rows[i].before, after = *rows[i].after;
    if (before == after) break;
    t.grid.add_row({{rows[i].name},
                    {format_bytes(before)},
                    {format_bytes(after)},
                    {(after < before ? "−" : "+") + format_bytes(std::abs(after - before))}});
  }
  return t;
}

// "The hardware could run a step 2.1x as fast (3.4x before); largest change: GEMMs below peak, −12.0 ms per step"
std::string distance_text(const Comparison& c) {
  if (!c.before_times_limit || !c.after_times_limit) return "";
  const auto least = [](bool is) { return is ? "at least " : ""; };
  const bool far = std::max(*c.after_times_limit, *c.before_times_limit) >= kMaxTimesLimit;
  const char* words = far ? "A step takes {}{:.1f} times as long as at the hardware's limit ({}{:.1f} times before)"
                          : "The hardware could run a step {}{:.1f}x as fast ({}{:.1f}x before)";
  std::string text = fmt::format(fmt::runtime(words), least(c.after_times_limit_is_lower_bound), *c.after_times_limit,
                                 least(c.before_times_limit_is_lower_bound), *c.before_times_limit);
  // Necessary work is no distance.
  const Difference* most = first_where(c.distance, [](const Difference& d) { return d.name != "necessary_work"; });
  if (most != nullptr && most->change != "same")
    text += fmt::format("; largest change: {}, {} per step", distance_part_words(most->name),
                        signed_duration(most->delta_ns()));
  return text;
}

DiffView diff_view(const Diff& diff, int top) {
  const Comparison& c = diff.comparisons.back();
  DiffView view;
  view.notes = c.notes;
  view.gates = diff.gates;
  if (c.steps) {
    describe_steps(c, diff, view);
    if (std::string text = distance_text(c); !text.empty()) view.details.push_back(std::move(text));
  } else {
    const bool samples = c.memory_lines.empty() && c.memory.empty();
    view.headline = samples ? "No steps to time: the devices' samples side by side." : memory_headline(c);
  }
  const auto add = [&](DiffTable t) {
    if (!t.grid.empty()) view.tables.push_back(std::move(t));
  };
  if (diff.runs.size() > 2) add(sweep_table(diff));
  if (c.steps && c.without_device.empty() && !c.waterfall.empty()) add(waterfall_table(c, top));
  add(difference_table("Distance from the limit, per step", "part", c.distance, top, false));
  add(finding_table(c.findings));
  add(difference_table("Kernels by kind, per step", "kind", c.categories, top, false));
  add(difference_table("Kernels, per step", "kernel", joined_rows(c.kernels), top, true));
  add(difference_table("Functions of the program, per step", "function", c.functions, top, false));
  add(difference_table("Ops on the host, per step", "op", c.ops, top, true));
  add(difference_table("Collectives, per step", "collective", c.collectives, top, true));
  add(number_table("Throughput", c.throughput));
  add(number_table("Memory", c.memory));
  add(memory_line_table(c, top));
  add(number_table("Devices", c.telemetry));
  return view;
}

constexpr int kReadable = 120;

struct ChangeMark {
  std::string_view sign, word;
  Style style;
};
ChangeMark mark_of(GateVerdict verdict) {
  switch (verdict) {
    case GateVerdict::kPass: return {"✓", "passed", Style::kGood};
    case GateVerdict::kFail: return {"✗", "failed", Style::kBad};
    case GateVerdict::kUnknown: break;
  }
  return {"?", "not known", Style::kNote};
}

Lines title_lines(const Diff& diff, int width) {
  std::string title = diff.runs.front().label;
  for (size_t i = 1; i < diff.runs.size(); ++i) title += "  →  " + diff.runs[i].label;
  if (display_width(sanitised(title)) <= width) return {Line(sanitised(title), Style::kFaint)};
  Lines lines;
  for (const auto& run : diff.runs) {
    const std::string arrow = lines.empty() ? "" : "→ ";
    lines.emplace_back(arrow + truncated_front(sanitised(run.label), width - display_width(arrow)), Style::kFaint);
  }
  return lines;
}

// The last column's texts below their rows, which have the other columns.
Lines lines_with_texts_below(const Grid& grid, int width) {
  constexpr int kTextIndent = 6;   // behind the word for the change
  Grid figures({grid.columns().begin(), grid.columns().end() - 1});
  std::vector<Lines> below;   // each row
  for (const std::vector<Cell>& row : grid.rows()) {
    const bool first = std::any_of(row.begin(), row.end() - 1, [](const Cell& c) { return !c.text.empty(); });
    if (first) figures.add_row({row.begin(), row.end() - 1}), below.emplace_back();
    if (!below.empty()) append(below.back(), wrapped_after(Line().skip(kTextIndent), row.back().text, width));
  }
  const Lines drawn = figures.lines(width);
  if (drawn.size() != below.size() + 1) return grid.lines(width);   // it is in blocks
  Lines out{drawn.front()};
  for (size_t i = 0; i < below.size(); ++i) {
    out.push_back(drawn[i + 1]);
    append(out, std::move(below[i]));
  }
  return out;
}

Lines table_lines(const DiffTable& table, int width) {
  Lines lines{Line(table.title, Style::kStrong)};
  const int room = width > 2 ? width - 2 : 0;
  const Lines natural = table.grid.lines(0);
  const bool fits = room == 0 || std::ranges::all_of(natural, [&](const Line& l) { return l.width() <= room; });
  const Lines drawn = fits                ? natural
                      : table.texts_below ? lines_with_texts_below(table.grid, room)
                                          : table.grid.lines(room);
  for (const Line& line : drawn) lines.push_back(Line().skip(2).add(line));
  if (table.left_out > 0) lines.push_back(Line(fmt::format("  … and {} more: --top 0", table.left_out), Style::kFaint));
  return lines;
}

std::string xml(std::string_view text) {
  std::string out;
  for (const char c : sanitised(text)) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      default: out += c;
    }
  }
  return out;
}

bool fails(const GateResult& g, bool undecided_passes) {
  return g.verdict == GateVerdict::kFail || (g.verdict == GateVerdict::kUnknown && !undecided_passes);
}

std::string detail_of(const GateResult& g) {
  return (g.verdict == GateVerdict::kUnknown ? "undecided: " : "") + g.detail;
}

}  // namespace

namespace {

// Where the change is, and which findings are new, gone or changed.
void keep_most_important(DiffView& view, const Diff& diff) {
  constexpr size_t kMaxNotes = 2;
  std::erase_if(view.tables, [&](const DiffTable& t) {
    const bool waterfall = diff.runs.size() > 2 && t.title == kWaterfallTitle;
    return &t != &view.tables.front() && t.title != kFindingsTitle && !waterfall;
  });
  if (view.details.size() > kMaxNotes) view.details.resize(kMaxNotes);
  if (view.notes.size() <= kMaxNotes) return;
  const std::string more = fmt::format("{} more notes: --all", view.notes.size() - (kMaxNotes - 1));
  view.notes.resize(kMaxNotes - 1);
  view.notes.push_back(more);
}

// Those that are not the same, a line each.
DiffTable brief_findings(const DiffTable& table) {
  DiffTable brief{table.title, Grid({table.grid.columns().begin(), table.grid.columns().end() - 1})};
  for (const std::vector<Cell>& row : table.grid.rows())
    if (!row.front().text.empty() && row.front().text != "same") brief.grid.add_row({row.begin(), row.end() - 1});
  return brief;
}

// What fits into `most` lines with the title.
Lines brief_table_lines(DiffTable table, int width, size_t most) {
  if (table.title == kFindingsTitle) table = brief_findings(table);
  if (table.grid.empty()) return {};
  Lines lines = table_lines(table, width);
  if (lines.size() <= most) return lines;
  constexpr size_t kLeast = 5;   // title, header, two rows, what is left out
  if (most < kLeast) return {};
  lines.resize(most - 1);
  lines.emplace_back("  … more: --all", Style::kFaint);
  return lines;
}

}  // namespace

std::string diff_terminal(const Diff& diff, const PresentOptions& options) {
  constexpr int kMaxBriefRows = 3;
  constexpr size_t kScreen = 23;   // lines above the prompt
  const int width = options.width;
  const bool brief = options.section == "brief";
  DiffView view = diff_view(diff, brief ? kMaxBriefRows : options.top);
  if (brief) keep_most_important(view, diff);
  Lines lines = title_lines(diff, width);
  lines.emplace_back();
  append(lines, wrapped_after(Line(), view.headline, std::min(width, kReadable), view.style));
  for (const std::string& detail : view.details)
    append(lines, wrapped_after(Line().skip(2), detail, std::min(width, kReadable), Style::kFaint));
  for (const std::string& note : view.notes)
    append(lines, wrapped_after(Line("! ", Style::kWarn), note, std::min(width, kReadable)));
  for (const GateResult& g : view.gates) {
    const ChangeMark mark = mark_of(g.verdict);
    if (&g == &view.gates.front()) lines.emplace_back();
    Line line = Line(mark.sign, mark.style).skip(1).add(g.gate.text, Style::kStrong).skip(1);
    append(lines, wrapped_after(std::move(line), std::string(mark.word) + ": " + g.detail, std::min(width, kReadable)));
  }
  Lines next = next_lines({"profgpu analyze " + shell_line({diff.runs.back().label})}, width);
  constexpr std::string_view kEverything = "   (everything: --all)";
  if (brief && next.back().width() + display_width(kEverything) > width) next.push_back(Line().skip(3));
  if (brief) next.back().add(kEverything, Style::kFaint);
  for (const DiffTable& table : view.tables) {
    const size_t used = lines.size() + next.size() + 2;   // with the empty lines around the table
    const size_t room = kScreen > used ? kScreen - used : 0;
    Lines of_table = brief ? brief_table_lines(table, width, room) : table_lines(table, width);
    if (!of_table.empty()) append_apart(lines, std::move(of_table));
  }
  append_apart(lines, std::move(next));
  return rendered(lines, width, options.colour);
}

std::string diff_markdown(const Diff& diff, int top) {
  const DiffView view = diff_view(diff, top);
  std::string out = "### " + markdown_text(view.headline) + "\n\n";
  out += joined(diff.runs, " → ", [](const RunSummary& run) { return markdown_code(run.label, false); }) + "\n\n";
  for (const std::string& detail : view.details) out += markdown_text(detail) + "\n\n";
  for (const std::string& note : view.notes) out += "> " + markdown_text(note) + "\n\n";
  for (const GateResult& g : view.gates)
    out += fmt::format("- {} {} {}: {}\n", mark_of(g.verdict).sign, markdown_code(g.gate.text, false),
                       mark_of(g.verdict).word, markdown_text(g.detail));
  if (!view.gates.empty()) out += "\n";
  for (const DiffTable& table : view.tables) {
    // What explains the change stands open, the long tables fold.
    const bool open = &table == &view.tables.front();
    Grid grid = table.grid;
    for (auto& row : grid.rows())
      for (Cell& cell : row)
        if (cell.holds == Holds::kOurs) cell.holds = Holds::kWords;
    const std::string title = markdown_text(table.title);
    out += open ? "**" + title + "**\n\n" : "<details><summary>" + title + "</summary>\n\n";
    out += markdown_table(grid) + "\n";
    if (!open) out += "</details>\n\n";
  }
  return out;
}

std::string diff_junit(const Diff& diff, bool undecided_passes) {
  size_t failures = 0, skipped = 0;
  for (const GateResult& g : diff.gates) {
    failures += fails(g, undecided_passes);
    skipped += g.verdict == GateVerdict::kUnknown && undecided_passes;
  }
  std::string out = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n";
  out += fmt::format("<testsuite name=\"profgpu diff\" tests=\"{}\" failures=\"{}\" skipped=\"{}\">\n",
                     diff.gates.size(), failures, skipped);
  for (const GateResult& g : diff.gates) {
    out += fmt::format("  <testcase classname=\"profgpu\" name=\"{}\">", xml(g.gate.text));
    if (fails(g, undecided_passes)) out += fmt::format("<failure message=\"{}\"/>", xml(detail_of(g)));
    else if (g.verdict == GateVerdict::kUnknown) out += fmt::format("<skipped message=\"{}\"/>", xml(g.detail));
    out += fmt::format("<system-out>{}</system-out></testcase>\n", xml(g.detail));
  }
  return out + "</testsuite>\n";
}

std::string diff_github(const Diff& diff, bool undecided_passes) {
  std::string out = workflow_command(Severity::kInfo, "profgpu diff", sanitised(diff_view(diff, 1).headline));
  for (const GateResult& g : diff.gates) {
    if (g.verdict == GateVerdict::kPass) continue;
    const Severity severity = fails(g, undecided_passes) ? Severity::kCritical : Severity::kWarning;
    out += workflow_command(severity, "profgpu: " + sanitised(g.gate.text), sanitised(detail_of(g)));
  }
  return out;
}

}  // namespace profgpu
