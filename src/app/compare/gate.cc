#include "app/compare/gate.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "analyse/report/document.h"
#include "analyse/report/quantity.h"
#include "base/text.h"

namespace profgpu {
namespace {

enum class Kind : uint8_t { kTime, kBytes, kJoules, kWatts, kPercent, kRate, kFinding };

struct Metric {
  std::string_view name;
  Kind kind;
  bool named;
};
constexpr Metric kMetrics[] = {
    {"step_time", Kind::kTime, false},      {"step_time_median", Kind::kTime, false},
    {"peak_memory", Kind::kBytes, false},   {"memory_growth", Kind::kBytes, false},
    {"energy_per_step", Kind::kJoules, false}, {"power", Kind::kWatts, false},
    {"gpu_utilization", Kind::kPercent, false}, {"samples_per_s", Kind::kRate, false},
    {"tokens_per_s", Kind::kRate, false},   {"phase", Kind::kTime, true},
    {"idle", Kind::kTime, true},            {"device", Kind::kTime, true},
    {"kernel", Kind::kTime, true},          {"category", Kind::kTime, true},
    {"op", Kind::kTime, true},              {"collective", Kind::kTime, true},
    {"finding", Kind::kFinding, true}};

const Metric* find_metric(std::string_view name) {
  for (const Metric& m : kMetrics)
    if (m.name == name) return &m;
  return nullptr;
}

struct UnitFactor {
  std::string_view unit;
  Kind kind;
  double factor;
};
constexpr UnitFactor kUnits[] = {
    {"ns", Kind::kTime, 1},       {"us", Kind::kTime, 1e3},      {"µs", Kind::kTime, 1e3},
    {"ms", Kind::kTime, 1e6},     {"s", Kind::kTime, 1e9},       {"B", Kind::kBytes, 1},
    {"KiB", Kind::kBytes, 1024},  {"MiB", Kind::kBytes, 1048576}, {"GiB", Kind::kBytes, 1073741824},
    {"kB", Kind::kBytes, 1e3},    {"MB", Kind::kBytes, 1e6},     {"GB", Kind::kBytes, 1e9},
    {"J", Kind::kJoules, 1},      {"W", Kind::kWatts, 1}};

constexpr const char* kHint =
    "write METRIC > LIMIT: 'step_time > +3%', 'peak_memory > 70GiB', 'phase:backward > +5%', 'kernel:NAME > +10%', "
    "'finding:exposed-communication'";

bool read_limit(std::string_view text, Kind kind, Gate& gate) {
  const bool sign = !text.empty() && (text.front() == '+' || text.front() == '-');
  if (!text.empty() && text.front() == '+') text.remove_prefix(1);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), gate.limit);
  if (error != std::errc() || !std::isfinite(gate.limit)) return false;
  const std::string unit(without_blanks(text.substr(static_cast<size_t>(end - text.data()))));
  if (unit == "%") {
    gate.relative = kind != Kind::kPercent;
    gate.change = kind == Kind::kPercent && sign;
    return true;
  }
  if (kind == Kind::kRate && unit.empty()) return gate.change = sign, true;
  for (const UnitFactor& u : kUnits) {
    if (u.unit != unit || u.kind != kind) continue;
    gate.limit *= u.factor;
    gate.change = sign;
    return true;
  }
  return false;
}

/// What a gate looks at, in both runs.
struct Measured {
  double before = 0, after = 0;
  std::optional<bool> real;         ///< none: chance cannot be told; true where it plays no part
  std::optional<double> certain;    ///< of a sum: `after`, had only the parts changed whose change is real
  std::string_view why_unknown = "the steps are too few to tell it from chance";
};

double percent_changed(double before, double after) {
  if (before > 0) return 100 * (after / before - 1);
  return after > std::max(before, 0.0) ? INFINITY : 0;   // below 0: memory that grows by less than nothing
}

bool passed(const Gate& gate, double before, double after) {
  const double value = gate.relative ? percent_changed(before, after) : gate.change ? after - before : after;
  return gate.above ? value > gate.limit : value < gate.limit;
}

bool has_part(const Difference& d, const std::string& name) {
  const auto has = [&](const std::string& text) { return text.find(name) != std::string::npos; };
  return has(d.name) || has(d.name_after) || std::ranges::any_of(d.names_before, has) ||
         std::ranges::any_of(d.names_after, has);
}

std::optional<Measured> of_differences(const std::vector<Difference>& all, const std::string& name, bool part) {
  Measured sum;
  bool found = false;
  for (const Difference& d : all) {
    const bool hit = part ? has_part(d, name) : d.name == name;
    if (!hit) continue;
    sum.before += d.before_ns;
    sum.after += d.after_ns;
    sum.certain = sum.certain.value_or(0) + (d.real == true ? d.after_ns : d.before_ns);
    if (!found || d.real == true) sum.real = d.real;
    found = true;
  }
  return found ? std::optional(sum) : std::nullopt;
}

// How these vary from step to step is not recorded.
std::optional<Measured> of_sums_alone(const std::vector<Difference>& all, const std::string& name, bool part) {
  auto m = of_differences(all, name, part);
  if (m) m->why_unknown = "its time is known of all steps together, which doesn't tell it from chance";
  return m;
}

std::optional<Measured> of_numbers(const std::vector<NumberChange>& all, std::string_view name) {
  for (const NumberChange& n : all)
    if (n.name == name && n.before && n.after) return Measured{*n.before, *n.after, true, {}};
  return std::nullopt;
}

// Without a device, steps end when the host is done.
std::optional<Measured> of_steps(const Gate& gate, const Comparison& c) {
  if (!c.steps || !c.without_device.empty()) return std::nullopt;
  const Ratio& ratio = gate.metric == "step_time" ? c.steps->mean : c.steps->median;
  Measured m{static_cast<double>(c.before_step_ns), static_cast<double>(c.before_step_ns) * ratio.value, {}, {}};
  if (ratio.low) m.real = *ratio.low > 1 || *ratio.high < 1;
  return m;
}

// Its change is as certain as that of the steps; batches are no chance.
std::optional<Measured> of_rate(const Gate& gate, const Comparison& c) {
  auto m = of_numbers(c.throughput, gate.metric);
  if (!m || !c.steps) return m;
  const Ratio& ratio = c.steps->mean;
  const double batch = m->after > 0 ? m->before / m->after / ratio.value : 0;
  m->real = ratio.low ? std::optional(*ratio.low * batch > 1 || *ratio.high * batch < 1) : std::nullopt;
  return m;
}

std::optional<Measured> measured(const Gate& gate, const Comparison& c) {
  if (gate.metric == "step_time" || gate.metric == "step_time_median") return of_steps(gate, c);
  if (gate.metric == "peak_memory") {
    const auto reserved = of_numbers(c.memory, "peak_reserved_bytes");
    const auto allocated = of_numbers(c.memory, "peak_allocated_bytes");
    // Snapshots know to the byte what was asked for; what is reserved for it grows in steps.
    const bool of_snapshots = !c.memory_lines.empty() && allocated.has_value();
    return reserved && !of_snapshots ? reserved : allocated;
  }
  if (gate.metric == "memory_growth") return of_numbers(c.memory, "growth_bytes_per_step");
  if (gate.metric == "energy_per_step") return of_numbers(c.telemetry, "energy_per_step_j");
  if (gate.metric == "power") return of_numbers(c.telemetry, "power_w");
  if (gate.metric == "samples_per_s" || gate.metric == "tokens_per_s") return of_rate(gate, c);
  if (gate.metric == "gpu_utilization") return of_numbers(c.telemetry, "utilization_pct");
  if (gate.metric == "phase") return of_differences(c.phases, gate.name, false);
  if (gate.metric == "idle") return of_differences(c.states, "idle: " + gate.name, false);
  if (gate.metric == "device") return of_differences(c.states, gate.name, false);
  if (gate.metric == "category") return of_differences(c.categories, gate.name, false);
  if (gate.metric == "kernel") return of_differences(c.kernels, gate.name, true);
  if (gate.metric == "collective") return of_sums_alone(c.collectives, gate.name, true);
  return of_differences(c.ops, gate.name, false);
}

std::string quantity(Kind kind, double value) {
  switch (kind) {
    case Kind::kTime: return format_duration(value);
    case Kind::kBytes: return format_bytes(value);
    case Kind::kJoules: return format_number(value) + " J";
    case Kind::kWatts: return format_number(value) + " W";
    case Kind::kRate: return format_number(value);
    default: return format_percent(value);
  }
}

GateResult check_finding(const Gate& gate, const Comparison& c) {
  const auto it = std::find_if(c.findings.begin(), c.findings.end(),
                               [&](const FindingChange& f) { return f.rule == gate.name; });
  if (it == c.findings.end() || it->change == "gone") {
    if (c.after_inconclusive.empty()) return {gate, GateVerdict::kPass, "the run after does not have it"};
    return {gate, GateVerdict::kUnknown, "the run after is inconclusive. " + c.after_inconclusive};
  }
  if (it->change == "not_seen") return {gate, GateVerdict::kUnknown, "the run after has no GPU activity to tell"};
  if (it->change == "not_seen_before") return {gate, GateVerdict::kUnknown, "the run before has no GPU activity to tell"};
  if (!gate.limited) {
    if (it->change == "new") return {gate, GateVerdict::kFail, "new: " + it->what};
    return {gate, GateVerdict::kPass, "the run before has it too"};
  }
  if (it->change == "new") return {gate, GateVerdict::kFail, "new: " + it->what};
  if (!it->before_cost_ns || !it->after_cost_ns) return {gate, GateVerdict::kUnknown, "its cost is not estimated"};
  return {gate, passed(gate, *it->before_cost_ns, *it->after_cost_ns) ? GateVerdict::kFail : GateVerdict::kPass,
          "its cost went from " + format_duration(*it->before_cost_ns) + " to " + format_duration(*it->after_cost_ns) +
              " per step"};
}

}  // namespace

Result<Gate> parse_gate(const std::string& text) {
  Gate gate;
  gate.text = text;
  // A kernel's name may hold < and >: the comparison is the last one that has a blank before it or a limit behind it.
  size_t at = text.find_last_of("<>");
  const std::string left(without_blanks(std::string_view(text).substr(0, at)));
  const size_t colon = left.find(':');
  gate.metric = left.substr(0, colon);
  if (colon != std::string::npos) gate.name = without_blanks(std::string_view(left).substr(colon + 1));
  const Metric* metric = find_metric(gate.metric);
  if (!metric) return Error{"--fail-on: nothing is measured as \"" + gate.metric + "\"", kHint};
  if (metric->named == gate.name.empty())
    return Error{"--fail-on: \"" + text +
                     (metric->named ? "\" names no " + gate.metric : "\": " + gate.metric + " takes no name"),
                 kHint};
  if (at == std::string::npos) {
    if (metric->kind != Kind::kFinding) return Error{"--fail-on: \"" + text + "\" has no limit", kHint};
    gate.limited = false;
    return gate;
  }
  gate.above = text[at] == '>';
  std::string limit(without_blanks(std::string_view(text).substr(at + 1)));
  if (!limit.empty() && limit.front() == '=') limit = std::string(without_blanks(std::string_view(limit).substr(1)));
  if (!read_limit(limit, metric->kind == Kind::kFinding ? Kind::kTime : metric->kind, gate))
    return Error{"--fail-on: \"" + limit + "\" is not a limit for " + gate.metric, kHint};
  return gate;
}

GateResult check_gate(const Gate& gate, const Comparison& c) {
  const Kind kind = find_metric(gate.metric)->kind;
  if (kind == Kind::kFinding) return check_finding(gate, c);
  const std::optional<Measured> m = measured(gate, c);
  if (!m && c.steps && !c.without_device.empty())
    return {gate, GateVerdict::kUnknown, c.without_device + " has no GPU activity to tell"};
  if (!m) return {gate, GateVerdict::kUnknown, "the runs do not both have it"};
  const double pct = percent_changed(m->before, m->after);
  std::string detail = quantity(kind, m->before) + " to " + quantity(kind, m->after);
  if (std::isfinite(pct) && m->before > 0)
    detail += pct < 0 ? " (−" + format_number(-pct) + " %)" : " (+" + format_number(pct) + " %)";
  if (!passed(gate, m->before, m->after)) return {gate, GateVerdict::kPass, detail};
  // A limit of the value itself is passed or not; only a change can be chance.
  if (!gate.relative && !gate.change) return {gate, GateVerdict::kFail, detail};
  if (!m->real) return {gate, GateVerdict::kUnknown, fmt::format("{}, but {}", detail, m->why_unknown)};
  if (!*m->real || !passed(gate, m->before, m->certain.value_or(m->after)))
    return {gate, GateVerdict::kPass, detail + ", which can be chance"};
  return {gate, GateVerdict::kFail, detail};
}

namespace {

int64_t whole(double x) { return std::llround(x); }

Record run_record(const RunSummary& run) {
  Record r;
  r.add("path", run.label).add("devices", value_of(run.devices)).add("ranks", run.ranks);
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
  t.columns.insert(t.columns.end(), {"category", "matched_by", "name_after", "op", "shapes", "within", "names_before",
                                           "names_after"});
  for (size_t i = 0; i < rows.size(); ++i)
    t.rows[i].insert(t.rows[i].end(),
                     {rows[i].category, unless_empty(rows[i].matched_by), unless_empty(rows[i].name_after),
                      unless_empty(rows[i].op), unless_empty(rows[i].shapes), unless_empty(rows[i].within),
                      value_of(rows[i].names_before), value_of(rows[i].names_after)});
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
  r.add("verdict", c.without_device.empty() ? Value(change_name(s.change)) : Value());
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
  List runs;
  for (const RunSummary& run : diff.runs) runs.emplace_back(run_record(run));
  Record r;
  r.add("schema", "profgpu.diff.v1").add("a", diff.runs.front().label).add("b", diff.runs.back().label);
  add_ratio(r, c);
  r.add("steps_a", diff.runs.front().steps_ns.size()).add("steps_b", diff.runs.back().steps_ns.size());
  r.add("before_step_ns", c.steps ? Value(c.before_step_ns) : Value());
  r.add("after_step_ns", c.steps ? Value(c.after_step_ns) : Value());
  r.add("waterfall", waterfall_table(c.waterfall));
  r.add("phases", difference_table(c.phases, false)).add("states", difference_table(c.states, false));
  r.add("before_times_limit", c.before_times_limit).add("after_times_limit", c.after_times_limit);
  const auto bound = [](const std::optional<double>& times, bool is) { return times ? Value(is) : Value(); };
  r.add("before_times_limit_is_lower_bound", bound(c.before_times_limit, c.before_times_limit_is_lower_bound));
  r.add("after_times_limit_is_lower_bound", bound(c.after_times_limit, c.after_times_limit_is_lower_bound));
  r.add("distance", difference_table(c.distance, false));
  r.add("kernels", kernel_table(c.kernels)).add("categories", difference_table(c.categories, false));
  r.add("ops", difference_table(c.ops, true)).add("collectives", difference_table(c.collectives, true));
  r.add("functions", difference_table(c.functions, false));
  r.add("throughput", number_table(c.throughput));
  r.add("memory", number_table(c.memory)).add("memory_lines", number_table(c.memory_lines));
  r.add("telemetry", number_table(c.telemetry));
  r.add("findings", finding_table(c.findings)).add("gates", gate_table(diff.gates));
  r.add("runs", runs).add("notes", value_of(c.notes));
  return r;
}

}  // namespace profgpu
