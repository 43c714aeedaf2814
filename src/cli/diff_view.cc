#include "cli/diff_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "present/wording.h"
#include "report/quantity.h"

namespace profgpu {
namespace {

std::string signed_text(double value, std::string text) {
  return (value > 0 ? "+" : value < 0 ? "−" : "") + std::move(text);
}
std::string signed_duration(double ns) { return signed_text(ns, format_duration(std::abs(ns))); }
std::string signed_percent(double pct) { return signed_text(pct, fmt::format("{:.1f} %", std::abs(pct))); }

std::string relative(double before, double after) {
  if (before == 0) return after == 0 ? "" : "new";
  if (after == 0) return "gone";
  if (after / before >= 10) return fmt::format("{:.0f} times", after / before);
  return signed_percent(100 * (after / before - 1));
}

Style style_of(double delta) { return delta > 0 ? Style::kBad : delta < 0 ? Style::kGood : Style::kPlain; }

std::string percent_range(const Ratio& r) {
  return fmt::format("{} to {}", signed_percent(100 * (*r.low - 1)), signed_percent(100 * (*r.high - 1)));
}

void describe_steps(const Comparison& c, const Diff& diff, DiffView& view) {
  const StepRatio& s = *c.steps;
  const std::string before = format_duration(static_cast<double>(c.before_step_ns)),
                    after = format_duration(static_cast<double>(c.after_step_ns));
  const std::string change = signed_percent(100 * (s.mean.value - 1));
  const size_t a = diff.runs.front().steps_ns.size(), b = diff.runs.back().steps_ns.size();
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
      view.headline = fmt::format("No difference that these steps can show: {} before, {} after ({}).", before, after, change);
  }
  if (!s.mean.low) {
    view.details.push_back("with one step in a run nothing can be said of chance: record ten or more");
    return;
  }
  view.details.push_back(fmt::format("95 % interval of the mean {}, of the median {} ({} and {} steps)",
                                     percent_range(s.mean), percent_range(s.median), a, b));
  if (s.change != Change::kNone) return;
  view.details.push_back(s.steps_needed
                             ? fmt::format("about {} steps a run would tell whether {} is real", format_count(*s.steps_needed), change)
                             : fmt::format("a change under {} cannot be told from chance here", format_percent(*s.resolution_pct)));
}

DiffTable time_table(std::string title, const char* first, bool calls) {
  DiffTable t;
  t.title = std::move(title);
  t.columns = {{first, false}};
  if (calls) t.columns.push_back({"calls", true});
  for (const char* name : {"before", "after", "change", ""}) t.columns.push_back({name, true});
  return t;
}

std::string calls_text(const Difference& d) {
  const std::string a = format_number(d.calls_before), b = format_number(d.calls_after);
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
  t.rows.push_back(std::move(first));
}

// The largest changes; what did not change at all is not worth a line.
template <class Rows, class Add>
void fill(DiffTable& t, const Rows& rows, int top, Add add) {
  for (const auto& row : rows) {
    if (row.delta_ns() == 0) continue;
    if (top > 0 && t.rows.size() >= static_cast<size_t>(top)) {
      ++t.left_out;
      continue;
    }
    add(row);
  }
}

DiffTable waterfall_table(const Comparison& c, int top) {
  DiffTable t = time_table("Where the change is, a step", "phase", false);
  t.columns.insert(t.columns.begin() + 1, {"what the GPU did", false});
  fill(t, c.waterfall, top, [&](const WaterfallRow& r) {
    add_row(t, {{words(r.phase)}, {words(r.state)}},
            time_cells(static_cast<double>(r.before_ns), static_cast<double>(r.after_ns), true));
  });
  if (t.rows.empty()) return t;
  add_row(t, {{"all of the step", Style::kStrong}, {""}},
          time_cells(static_cast<double>(c.before_step_ns), static_cast<double>(c.after_step_ns), true));
  return t;
}

DiffTable difference_table(std::string title, const char* first, const std::vector<Difference>& rows, int top, bool calls,
                           bool code) {
  DiffTable t = time_table(std::move(title), first, calls);
  t.code = code;
  fill(t, rows, top, [&](const Difference& d) {
    const std::string name = d.name_after.empty() ? d.name : d.name + " → " + d.name_after;
    std::vector<Cell> cells = {{code ? name : words(name)}};
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
  DiffTable t;
  t.title = std::move(title);
  t.columns = {{"", false}, {"before", true}, {"after", true}, {"", true}};
  for (const NumberChange& n : rows) {
    if (n.before.value_or(0) == 0 && n.after.value_or(0) == 0) continue;
    t.rows.push_back({{column_title(n.name)},
                      {n.before ? number_text(n.name, *n.before) : std::string(kUnknownText)},
                      {n.after ? number_text(n.name, *n.after) : std::string(kUnknownText)},
                      {n.before && n.after ? relative(*n.before, *n.after) : ""}});
  }
  return t;
}

DiffTable finding_table(const std::vector<FindingChange>& rows) {
  DiffTable t;
  t.title = "Findings";
  t.columns = {{"", false}, {"rule", false}, {"cost before", true}, {"after, a step", true}, {"what is seen", false}};
  const auto cost = [](const std::optional<double>& ns) { return ns ? format_duration(*ns) : std::string(kUnknownText); };
  for (const FindingChange& f : rows) {
    const Style style = f.change == "new" || f.change == "dearer" ? Style::kBad
                        : f.change == "gone" || f.change == "cheaper" ? Style::kGood
                                                                       : Style::kFaint;
    t.rows.push_back({{f.change, style}, {f.rule}, {cost(f.before_cost_ns)}, {cost(f.after_cost_ns)}, {f.what}});
  }
  return t;
}

void mark_best(std::vector<std::vector<Cell>>& rows, const std::vector<double>& values, bool least) {
  const auto best = least ? std::min_element(values.begin(), values.end()) : std::max_element(values.begin(), values.end());
  if (*std::min_element(values.begin(), values.end()) == *std::max_element(values.begin(), values.end())) return;
  Cell& cell = rows.back()[static_cast<size_t>(best - values.begin()) + 1];
  cell.text += " *";
  cell.style = Style::kGood;
}

// One row a quantity that all runs have.
DiffTable sweep_table(const Diff& diff) {
  DiffTable t;
  t.title = "All runs (* the best of its row)";
  t.columns.push_back({"", false});
  for (const RunSummary& run : diff.runs) t.columns.push_back({run.label, true});
  const auto add = [&](const std::string& name, const std::vector<double>& values, bool least, auto show) {
    t.rows.push_back({{name}});
    for (const double v : values) t.rows.back().push_back({show(v)});
    mark_best(t.rows, values, least);
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
      add("  " + words(name), values, true, duration);
  for (const auto& [name, unused] : diff.runs.front().memory)
    if (collect([&](const RunSummary& r) { return of_map(r.memory, name); }))
      add(column_title(name), values, true, [&](double v) { return number_text(name, v); });
  for (const auto& [name, unused] : diff.runs.front().telemetry)
    if (collect([&](const RunSummary& r) { return of_map(r.telemetry, name); }))
      add(column_title(name), values, name != "utilization_pct" && name != "sm_clock_mhz",
          [&](double v) { return number_text(name, v); });
  return t;
}

}  // namespace

DiffView diff_view(const Diff& diff, int top) {
  const Comparison& c = diff.comparisons.back();
  DiffView view;
  view.notes = c.notes;
  view.gates = diff.gates;
  if (c.steps) {
    describe_steps(c, diff, view);
  } else {
    view.headline = "No steps to time: the devices' samples side by side.";
  }
  const auto add = [&](DiffTable t) {
    if (!t.rows.empty()) view.tables.push_back(std::move(t));
  };
  if (diff.runs.size() > 2) add(sweep_table(diff));
  if (c.steps) add(waterfall_table(c, top));
  add(finding_table(c.findings));
  add(difference_table("Kernels by kind, a step", "kind", c.categories, top, false, false));
  add(difference_table("Kernels, a step", "kernel", c.kernels, top, true, true));
  add(difference_table("Ops on the host, a step", "op", c.ops, top, true, true));
  add(difference_table("Collectives, a step", "collective", c.collectives, top, true, true));
  add(number_table("Memory", c.memory));
  add(number_table("Devices", c.telemetry));
  return view;
}

}  // namespace profgpu
