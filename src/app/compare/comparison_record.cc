#include "app/compare/comparison_record.h"

#include <cmath>

namespace profgpu {
namespace {

int64_t whole(double x) { return std::llround(x); }

Value text_or_null(const std::string& text) { return text.empty() ? Value() : Value(text); }

Record run_record(const RunSummary& run) {
  List devices;
  for (const std::string& name : run.devices) devices.emplace_back(name);
  Record r;
  r.add("path", run.label).add("devices", devices).add("ranks", run.ranks);
  r.add("steps", run.steps_ns.size());
  r.add("step_mean_ns", run.step_count > 0 ? Value(whole(run.mean_step_ns())) : Value());
  for (const auto& [name, value] : run.memory) r.add(name, value);
  for (const auto& [name, value] : run.telemetry) r.add(name, value);
  return r;
}

Table waterfall_table(const std::vector<WaterfallRow>& rows) {
  Table t;
  t.columns = {"part", "name", "before_ns", "after_ns", "delta_ns"};
  for (const WaterfallRow& r : rows) t.rows.push_back({r.phase, r.state, r.before_ns, r.after_ns, r.delta_ns()});
  return t;
}

Table difference_table(const std::vector<Difference>& rows, bool calls) {
  Table t;
  t.columns = {"name", "change", "real", "before_ns", "after_ns", "delta_ns"};
  if (calls) t.columns.insert(t.columns.end(), {"calls_before", "calls_after"});
  for (const Difference& d : rows) {
    t.rows.push_back(
        {d.name, d.change, d.real, whole(d.before_ns), whole(d.after_ns), whole(d.after_ns) - whole(d.before_ns)});
    if (calls) t.rows.back().insert(t.rows.back().end(), {d.calls_before, d.calls_after});
  }
  return t;
}

Table kernel_table(const std::vector<Difference>& rows) {
  Table t = difference_table(rows, true);
  t.columns.insert(t.columns.end(), {"category", "matched_by", "name_after"});
  for (size_t i = 0; i < rows.size(); ++i)
    t.rows[i].insert(t.rows[i].end(),
                     {rows[i].category, text_or_null(rows[i].matched_by), text_or_null(rows[i].name_after)});
  return t;
}

Table number_table(const std::vector<NumberChange>& rows) {
  Table t;
  t.columns = {"name", "before", "after", "delta"};
  for (const NumberChange& n : rows)
    t.rows.push_back({n.name, n.before, n.after, n.before && n.after ? Value(*n.after - *n.before) : Value()});
  return t;
}

Table finding_table(const std::vector<FindingChange>& rows) {
  const auto cost = [](const std::optional<double>& ns) { return ns ? Value(whole(*ns)) : Value(); };
  Table t;
  t.columns = {"rule", "change", "severity", "what", "before_cost_ns", "after_cost_ns"};
  for (const FindingChange& f : rows)
    t.rows.push_back({f.rule, f.change, f.severity, f.what, cost(f.before_cost_ns), cost(f.after_cost_ns)});
  return t;
}

Table gate_table(const std::vector<GateResult>& gates) {
  Table t;
  t.columns = {"text", "verdict", "detail"};
  for (const GateResult& g : gates) t.rows.push_back({g.gate.text, gate_verdict_name(g.verdict), g.detail});
  return t;
}

void add_ratio(Record& r, const Comparison& c) {
  if (!c.steps) {
    for (const char* name : {"verdict", "ratio", "ratio_low", "ratio_high"}) r.add(name, Value());
    return;
  }
  const StepRatio& s = *c.steps;
  r.add("verdict", change_name(s.change));
  r.add("ratio", s.mean.value).add("ratio_low", s.mean.low).add("ratio_high", s.mean.high);
  r.add("median_ratio", s.median.value).add("median_ratio_low", s.median.low).add("median_ratio_high", s.median.high);
  r.add("resolution_pct", s.resolution_pct).add("steps_needed", s.steps_needed);
}

}  // namespace

std::string_view change_name(Change change) {
  constexpr std::string_view kNames[] = {"no_difference", "faster", "slower"};
  return kNames[static_cast<size_t>(change)];
}

std::string_view gate_verdict_name(GateVerdict verdict) {
  constexpr std::string_view kNames[] = {"pass", "fail", "unknown"};
  return kNames[static_cast<size_t>(verdict)];
}

Record diff_record(const Diff& diff) {
  const Comparison& c = diff.comparisons.back();
  List runs, notes;
  for (const RunSummary& run : diff.runs) runs.emplace_back(run_record(run));
  for (const std::string& note : c.notes) notes.emplace_back(note);
  Record r;
  r.add("schema", "profgpu.diff.v1").add("a", diff.runs.front().label).add("b", diff.runs.back().label);
  add_ratio(r, c);
  r.add("steps_a", diff.runs.front().steps_ns.size()).add("steps_b", diff.runs.back().steps_ns.size());
  r.add("before_step_ns", c.steps ? Value(c.before_step_ns) : Value());
  r.add("after_step_ns", c.steps ? Value(c.after_step_ns) : Value());
  r.add("waterfall", waterfall_table(c.waterfall));
  r.add("phases", difference_table(c.phases, false)).add("states", difference_table(c.states, false));
  r.add("kernels", kernel_table(c.kernels)).add("categories", difference_table(c.categories, false));
  r.add("ops", difference_table(c.ops, true)).add("collectives", difference_table(c.collectives, true));
  r.add("memory", number_table(c.memory)).add("telemetry", number_table(c.telemetry));
  r.add("findings", finding_table(c.findings)).add("gates", gate_table(diff.gates));
  r.add("runs", runs).add("notes", notes);
  return r;
}

}  // namespace profgpu
