#include <fmt/format.h>

#include <algorithm>

#include "diagnose/measure.h"

namespace profgpu {
namespace {

bool dearer(const Finding& a, const Finding& b) {
  if (a.cost_ns.has_value() != b.cost_ns.has_value()) return a.cost_ns.has_value();
  if (a.cost_ns && *a.cost_ns != *b.cost_ns) return *a.cost_ns > *b.cost_ns;
  return a.severity > b.severity;
}

// All causes of waiting together cost at most the time in which the device idled or ran nothing but what others wait
// for. What is over goes off the cheapest.
void cap_costs(const Evidence& evidence, std::vector<Finding>& findings) {
  if (evidence.ranks.size() != 1) return;
  const Measured m(evidence.ranks.front().rank, *evidence.ranks.front().facts);
  if (!m.has_device()) return;
  int64_t left = m.device().idle_ns + m.device().exposed_communication_ns + m.device().exposed_memory_ns;
  for (Finding& f : findings) {
    if (!f.cost_ns) continue;
    set_cost(f, m, std::min(*f.cost_ns, left));
    left -= *f.cost_ns;
  }
}

// The symptom names its cause: a finding with a cost, else the largest cause of idle time.
void explain_utilization(const Evidence& evidence, std::vector<Finding>& findings) {
  const auto low = std::find_if(findings.begin(), findings.end(),
                                [](const Finding& f) { return f.rule == "low-gpu-utilization"; });
  if (low == findings.end()) return;
  const auto cause = std::find_if(findings.begin(), findings.end(), [](const Finding& f) {
    return f.cost_ns.value_or(0) > 0 && f.rule != "low-gpu-utilization";
  });
  if (cause == findings.end()) {
    for (const RankFacts& r : evidence.ranks) {
      if (low->ranks.empty() || r.rank != low->ranks.front()) continue;
      const Measured m(r.rank, *r.facts);
      const IdleCause largest = m.largest_idle_cause();
      low->why = fmt::format("Most of the idle time is {} ({} of the span).", idle_cause_words(largest),
                             percent_text(m.idle_pct(largest)));
    }
    return;
  }
  low->why = fmt::format("{} explains most of it: {}.", cause->rule, cause->what);
  low->fix = {"fix " + cause->rule + " first"};
}

}  // namespace

std::vector<Finding> diagnose(const Evidence& evidence) {
  std::vector<Finding> findings;
  for (const Rule* rule : rules())
    if (auto finding = rule->check(*rule, evidence)) findings.push_back(*std::move(finding));
  std::stable_sort(findings.begin(), findings.end(), dearer);
  cap_costs(evidence, findings);
  std::stable_sort(findings.begin(), findings.end(), dearer);
  explain_utilization(evidence, findings);
  return findings;
}

std::vector<Finding> telemetry_findings(const std::vector<DeviceTelemetry>& telemetry) {
  Evidence evidence;
  evidence.telemetry = telemetry;
  return diagnose(evidence);
}

}  // namespace profgpu
