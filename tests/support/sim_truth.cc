// What is true of a simulated run: device times by interval arithmetic over its own rows, and what steps take without
// each fault.
#include <algorithm>
#include <cmath>

#include "tests/support/sim_device.h"
#include "tests/support/sim_layout.h"
#include "tests/support/simulator.h"

namespace profgpu::sim {
namespace {

using Interval = std::pair<int64_t, int64_t>;

int64_t merge(std::vector<Interval>& v) {
  std::sort(v.begin(), v.end());
  int64_t total = 0;
  size_t kept = 0;
  for (const Interval& i : v) {
    if (kept > 0 && i.first <= v[kept - 1].second) v[kept - 1].second = std::max(v[kept - 1].second, i.second);
    else v[kept++] = i;
  }
  v.resize(kept);
  for (const Interval& i : v) total += i.second - i.first;
  return total;
}

/// Both merged.
int64_t overlap(const std::vector<Interval>& a, const std::vector<Interval>& b) {
  int64_t total = 0;
  for (size_t i = 0, k = 0; i < a.size() && k < b.size();) {
    total += std::max<int64_t>(0, std::min(a[i].second, b[k].second) - std::max(a[i].first, b[k].first));
    if (a[i].second < b[k].second) ++i;
    else ++k;
  }
  return total;
}

DeviceTruth device_truth(const RankTrace& t, const KinetoStyle& style) {
  DeviceTruth d{t.rank, t.window, t.device, static_cast<int64_t>(event_rows(t)), 0, 0, 0, 0, 0, 0, {}};
  const bool old = style.generation == KinetoGeneration::v1_8;
  if (!style.memory) d.events -= static_cast<int64_t>(t.memory.size());
  if (old) d.events -= static_cast<int64_t>(t.python.size() + t.syncs.size() + t.overhead.size() + t.gpu_spans.size());
  if (!style.steps) {
    d.events -= static_cast<int64_t>(t.steps.size());
    for (const GpuSpan& s : t.gpu_spans) d.events -= !old && s.step ? 1 : 0;
  }
  std::vector<Interval> all, compute, communication, memory;
  for (const DeviceRow& r : t.device_rows) {
    const WrittenTime w = written(t, r.start_ns, r.duration_ns, style);
    const Interval i{w.start_ns, w.start_ns + w.duration_ns};
    all.push_back(i);
    (r.kind != DeviceKind::kernel ? memory : r.collective != kNone ? communication : compute).push_back(i);
  }
  d.busy_ns = merge(all);
  d.compute_ns = merge(compute);
  d.communication_ns = merge(communication);
  d.memory_ns = merge(memory);
  d.span_ns = all.empty() ? 0 : all.back().second - all.front().first;
  d.exposed_communication_ns = d.communication_ns - overlap(communication, compute);
  for (const StepSpan& s : t.steps) d.step_ns.push_back(written(t, s.start_ns, s.duration_ns, style).duration_ns);
  return d;
}

/// Per step index over all windows, the slowest rank's duration.
std::vector<int64_t> job_steps(const std::vector<RankSteps>& all) {
  std::vector<int64_t> steps;
  size_t offset = 0, next = 0;
  int window = -1;
  for (const RankSteps& t : all) {
    if (t.window == 0) next = 0;
    if (t.window != window || t.window == 0) offset = next;
    window = t.window;
    next = offset + t.steps.size();
    if (steps.size() < next) steps.resize(next);
    for (size_t i = 0; i < t.steps.size(); ++i) steps[offset + i] = std::max(steps[offset + i], t.steps[i].duration_ns);
  }
  return steps;
}

int64_t lower_median(std::vector<int64_t> v) {
  if (v.empty()) return 0;
  std::sort(v.begin(), v.end());
  return v[(v.size() - 1) / 2];
}

WallTime wall_time(const std::vector<int64_t>& steps, size_t warm_up) {
  WallTime w;
  std::vector<int64_t> measured(steps.begin() + static_cast<long>(std::min(warm_up, steps.size())), steps.end());
  for (const int64_t s : measured) w.measured_ns += s;
  std::sort(measured.begin(), measured.end());
  if (!measured.empty()) w.step_median_ns = (measured[(measured.size() - 1) / 2] + measured[measured.size() / 2]) / 2;
  return w;
}

WallTime counterfactual(SimOptions options, const std::vector<FaultUse>& faults, size_t warm_up) {
  options.faults = faults;
  const auto result = simulate_steps(options);
  return result ? wall_time(job_steps(*result), warm_up) : WallTime{};
}

}  // namespace

Result<double> severity_for(SimOptions options, double excess_pct) {
  if (options.faults.size() != 1) return Error{"one fault is scaled at a time"};
  const auto healthy = static_cast<double>(counterfactual(options, {}, 0).step_median_ns);
  double low = 0, high = 0.5;
  const auto excess = [&](double severity) {
    const WallTime w = counterfactual(options, {{options.faults[0].name, severity}}, 0);
    return 100 * (static_cast<double>(w.step_median_ns) / healthy - 1);
  };
  while (high < 100 && excess(high) < excess_pct) low = high, high *= 2;
  for (int i = 0; i < 16; ++i) {
    const double middle = (low + high) / 2, found = excess(middle);
    if (std::abs(found - excess_pct) <= excess_pct / 20) return middle;
    (found < excess_pct ? low : high) = middle;
  }
  return Error{"no severity of " + options.faults[0].name + " makes steps " + std::to_string(excess_pct) + " % longer"};
}

namespace {

void add_unique(std::vector<std::string>& list, const char* name) {
  if (std::find(list.begin(), list.end(), name) == list.end()) list.emplace_back(name);
}

void name_rules(const SimOptions& options, Truth& truth) {
  for (const FaultUse& use : options.faults) {
    const Fault* f = find_fault(use.name);
    if (f == nullptr) continue;
    // A Tensile or MIOpen name does not say whether matrix cores run; and a pinned copy is named as a pageable one by
    // ROCm.
    const bool unsaid = facts(options.gpu).amd && (use.name == "full-precision-gemm" || use.name == "pageable-copies");
    for (const char* rule : f->expected)
      add_unique(unsaid || options.cpu_only ? truth.tolerated_rules : truth.expected_rules, rule);
    for (const char* rule : f->tolerated) add_unique(truth.tolerated_rules, rule);
  }
  std::erase_if(truth.tolerated_rules, [&](const std::string& r) {
    return std::find(truth.expected_rules.begin(), truth.expected_rules.end(), r) != truth.expected_rules.end();
  });
}

const char* straggler_kind(const std::string& fault) {
  constexpr std::pair<const char*, const char*> kKinds[] = {
      {"straggler-rank", "slow_compute"}, {"straggler-clocks", "low_clocks"}, {"straggler-loading", "slow_input"},
      {"straggler-work", "uneven_work"},  {"straggler-host", "slow_host"},    {"straggler-link", "slow_link"}};
  for (const auto& [name, kind] : kKinds)
    if (fault == name) return kind;
  return nullptr;
}

void describe_job(const SimOptions& options, const std::vector<TraceTruth>& traces, Truth& truth) {
  const Layout layout(options);
  size_t t = 0;
  for (int rank = 0; rank < options.ranks; ++rank) {
    const RankPlace& place = layout.ranks[static_cast<size_t>(rank)];
    int64_t first = INT64_MAX, last = INT64_MIN;
    for (; t < traces.size() && traces[t].steps.rank <= rank; ++t)
      if (traces[t].steps.rank == rank)
        first = std::min(first, traces[t].first_ns), last = std::max(last, traces[t].last_ns);
    truth.clocks.push_back(
        {rank, place.host_name, place.clock, first < last ? first + (last - first) / 2 : kJobStartNs});
  }
  for (const FaultUse& use : options.faults) {
    const char* kind = straggler_kind(use.name);
    for (int rank = 0; kind != nullptr && rank < options.ranks; ++rank) {
      const bool slow = use.name == "straggler-host" ? layout.slow_host(options, rank) : slow_rank(options, rank);
      if (slow) truth.stragglers.push_back({rank, kind});
    }
  }
}

void append_job(std::string& out, const Truth& truth) {
  out += ",\n  \"clocks\": [";
  for (const ClockTruth& c : truth.clocks) {
    out += (c.rank > 0 ? ",\n    " : "\n    ") + std::string("{\"rank\": ") + std::to_string(c.rank) +
           ", \"host\": " + (c.host.empty() ? "null" : "\"" + c.host + "\"") +
           ", \"ahead_ns\": " + std::to_string(c.clock.offset_ns) +
           ", \"drift_ppb\": " + std::to_string(c.clock.drift_ppb) + ", \"middle_ns\": " + std::to_string(c.middle_ns) +
           "}";
  }
  out += "],\n  \"job_start_ns\": " + std::to_string(kJobStartNs) + ",\n  \"stragglers\": [";
  for (size_t i = 0; i < truth.stragglers.size(); ++i)
    out += (i > 0 ? ", {\"rank\": " : "{\"rank\": ") + std::to_string(truth.stragglers[i].rank) + ", \"kind\": \"" +
           truth.stragglers[i].kind + "\"}";
  out += "]";
}

void append_wall(std::string& out, const WallTime& w) {
  out += "{\"measured_ns\": " + std::to_string(w.measured_ns) +
         ", \"step_median_ns\": " + std::to_string(w.step_median_ns) + "}";
}

void append_names(std::string& out, const std::vector<std::string>& names) {
  out += "[";
  for (size_t i = 0; i < names.size(); ++i) out += (i > 0 ? ", \"" : "\"") + names[i] + "\"";
  out += "]";
}

}  // namespace

TraceTruth trace_truth(const RankTrace& t, const KinetoStyle& style) {
  TraceTruth truth{device_truth(t, style), {t.rank, t.window, t.steps}, INT64_MAX, INT64_MIN, 0, 0, t.capacity_bytes};
  const auto extend = [&](const auto& rows) {
    for (const auto& r : rows)
      truth.first_ns = std::min(truth.first_ns, r.start_ns),
      truth.last_ns = std::max(truth.last_ns, r.start_ns + r.duration_ns);
  };
  for (const auto& rows : t.host) extend(rows);
  extend(t.calls);
  extend(t.device_rows);
  for (const MemoryRow& m : t.memory) {
    truth.peak_allocated_bytes = std::max(truth.peak_allocated_bytes, m.allocated_bytes);
    truth.peak_reserved_bytes = std::max(truth.peak_reserved_bytes, m.reserved_bytes);
  }
  return truth;
}

Truth make_truth(const SimOptions& options, const SimResult& result, const KinetoStyle& style) {
  std::vector<TraceTruth> traces;
  for (const RankTrace& t : result.traces) traces.push_back(trace_truth(t, style));
  return make_truth(options, traces);
}

Truth make_truth(const SimOptions& options, const std::vector<TraceTruth>& traces) {
  Truth truth;
  truth.faults = options.faults;
  name_rules(options, truth);
  std::vector<RankSteps> spans;
  for (const TraceTruth& t : traces) spans.push_back(t.steps);
  const std::vector<int64_t> steps = job_steps(spans);
  const int64_t limit = lower_median(steps) * 3 / 2;
  size_t warm_up = 0;
  while (warm_up < steps.size() && steps[warm_up] > limit) truth.warm_up_steps.push_back(static_cast<int>(warm_up++));
  truth.actual = wall_time(steps, warm_up);
  truth.healthy = options.faults.empty() ? truth.actual : counterfactual(options, {}, warm_up);
  for (size_t i = 0; i < options.faults.size(); ++i) {
    std::vector<FaultUse> others = options.faults;
    others.erase(others.begin() + static_cast<long>(i));
    truth.without.emplace_back(options.faults[i].name,
                               others.empty() ? truth.healthy : counterfactual(options, others, warm_up));
  }
  for (const TraceTruth& t : traces) {
    truth.devices.push_back(t.device);
    truth.capacity_bytes = t.capacity_bytes;
    truth.peak_allocated_bytes = std::max(truth.peak_allocated_bytes, t.peak_allocated_bytes);
    truth.peak_reserved_bytes = std::max(truth.peak_reserved_bytes, t.peak_reserved_bytes);
  }
  describe_job(options, traces, truth);
  return truth;
}

std::string truth_json(const SimOptions& options, const Truth& truth) {
  std::string out =
      "{\n  \"schema\": \"profgpu.sim_truth.v1\",\n  \"seed\": " + std::to_string(options.seed) + ",\n  \"faults\": [";
  for (size_t i = 0; i < truth.faults.size(); ++i) {
    const auto permille = static_cast<int64_t>(truth.faults[i].severity * 1000 + 0.5);
    out += (i > 0 ? ", " : "") + std::string("{\"name\": \"") + truth.faults[i].name +
           "\", \"severity\": " + std::to_string(permille / 1000) + "." +
           std::to_string(1000 + permille % 1000).substr(1) + "}";
  }
  out += "],\n  \"expected_rules\": ";
  append_names(out, truth.expected_rules);
  out += ",\n  \"tolerated_rules\": ";
  append_names(out, truth.tolerated_rules);
  out += ",\n  \"warm_up_steps\": [";
  for (size_t i = 0; i < truth.warm_up_steps.size(); ++i)
    out += (i > 0 ? ", " : "") + std::to_string(truth.warm_up_steps[i]);
  out += "],\n  \"step_ns_median\": " + std::to_string(truth.actual.step_median_ns) +
         ",\n  \"healthy_step_ns_median\": " + std::to_string(truth.healthy.step_median_ns) + ",\n  \"actual\": ";
  append_wall(out, truth.actual);
  out += ",\n  \"healthy\": ";
  append_wall(out, truth.healthy);
  out += ",\n  \"without\": {";
  for (size_t i = 0; i < truth.without.size(); ++i) {
    out += (i > 0 ? ", \"" : "\"") + truth.without[i].first + "\": ";
    append_wall(out, truth.without[i].second);
  }
  out += "},\n  \"memory\": {\"peak_allocated_bytes\": " + std::to_string(truth.peak_allocated_bytes) +
         ", \"peak_reserved_bytes\": " + std::to_string(truth.peak_reserved_bytes) +
         ", \"capacity_bytes\": " + std::to_string(truth.capacity_bytes) + "},\n  \"devices\": [\n";
  for (size_t i = 0; i < truth.devices.size(); ++i) {
    const DeviceTruth& d = truth.devices[i];
    out += "    {\"rank\": " + std::to_string(d.rank) + ", \"window\": " + std::to_string(d.window) + ", \"id\": \"" +
           std::to_string(d.device) + "\", \"events\": " + std::to_string(d.events) +
           ", \"span_ns\": " + std::to_string(d.span_ns) + ", \"busy_ns\": " + std::to_string(d.busy_ns) +
           ", \"compute_ns\": " + std::to_string(d.compute_ns) +
           ", \"communication_ns\": " + std::to_string(d.communication_ns) +
           ", \"memory_ns\": " + std::to_string(d.memory_ns) +
           ", \"exposed_communication_ns\": " + std::to_string(d.exposed_communication_ns) + ", \"step_ns\": [";
    for (size_t k = 0; k < d.step_ns.size(); ++k) out += (k > 0 ? ", " : "") + std::to_string(d.step_ns[k]);
    out += i + 1 < truth.devices.size() ? "]},\n" : "]}\n";
  }
  out += "  ]";
  if (options.describes_job()) append_job(out, truth);
  return out + "\n}\n";
}

}  // namespace profgpu::sim
