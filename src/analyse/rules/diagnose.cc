#include <fmt/format.h>

#include <algorithm>

#include "analyse/rules/measure.h"

namespace profgpu {
namespace {

bool costs_more(const Finding& a, const Finding& b) {
  if (a.cost_ns.has_value() != b.cost_ns.has_value()) return a.cost_ns.has_value();
  if (a.cost_ns && *a.cost_ns != *b.cost_ns) return *a.cost_ns > *b.cost_ns;
  return a.severity > b.severity;
}

// A device that has this little of the busiest one's compute, or was in use for less than half of its span, is none
// that the program works on.
constexpr int64_t kMinPart = 100;

// Places in Devices, the busiest first; a single 0 where there is none.
std::vector<size_t> judged_devices(const Facts& facts) {
  const Devices& all = facts.get<Devices>();
  if (all.busiest < 0) return {0};
  std::vector<size_t> places = {static_cast<size_t>(all.busiest)};
  const DeviceTime& busiest = all.devices[places.front()];
  for (size_t i = 0; i < all.devices.size(); ++i) {
    const DeviceTime& d = all.devices[i];
    const bool works = d.compute_ns > busiest.compute_ns / kMinPart && d.span_ns > busiest.span_ns / 2;
    if (i != places.front() && works) places.push_back(i);
  }
  return places;
}

// The worst rank's finding stands for all ranks that have one.
std::optional<Finding> worst_of_ranks(size_t place, const Evidence& evidence) {
  const Rule& rule = *rules()[place];
  std::optional<Finding> worst;
  std::vector<int> ranks;
  for (const RankDiagnosis& r : evidence.ranks) {
    if (!r.findings[place]) continue;
    Finding f = *r.findings[place];
    if (rule.settle != nullptr && !rule.settle(rule, evidence, r.measure, f)) continue;
    ranks.push_back(r.measure.rank);
    if (!worst || rule.beyond(*f.value, *worst->value)) worst = std::move(f);
  }
  if (worst) worst->ranks = std::move(ranks);
  return worst;
}

constexpr double kNothingPct = 1;   // of the steps: what costs less is no warning

// What has a rule of its own is not the more general rule's, too.
void take_parts_out(const Evidence& evidence, std::vector<Answer>& answers) {
  for (const Answer& part : answers) {
    Answer* whole = first_where(answers, [&](const Answer& a) { return a.rule->id == part.rule->part_of; });
    if (whole == nullptr || !whole->finding.cost_ns || !part.finding.cost_ns) continue;
    if (const RankMeasure* m = evidence.measure(whole->finding))
      set_cost(whole->finding, m->wall_ns, std::max<int64_t>(0, *whole->finding.cost_ns - *part.finding.cost_ns));
  }
}

// All causes of waiting together cost at most the time in which the device idled or ran nothing but what others wait
// for. What is over goes off the cheapest. In a job, where ranks wait for each other, that holds of each cause.
void cap_costs(const Evidence& evidence, std::vector<Answer>& answers) {
  int64_t left = 0;
  for (const RankDiagnosis& r : evidence.ranks) left = std::max(left, r.measure.waiting_ns);
  for (auto& [rule, f] : answers) {
    const RankMeasure* m = evidence.measure(f);
    if (!f.cost_ns || m == nullptr) continue;
    if (!rule->of_kernels) {   // slow kernels keep the device busy
      if (evidence.first_device() != nullptr && *f.cost_ns > left) set_cost(f, m->wall_ns, left);
      if (evidence.ranks.size() == 1) left -= *f.cost_ns;
    }
    if (*f.cost_pct < kNothingPct) f.severity = Severity::kInfo;
  }
}

void set_job_cost(Finding& f, const RankMeasure& m, const WhatIf& change) {
  const int64_t step_ns = change.step_ns + change.saved_ns_per_step;
  f.cost_ns = change.saved_ns_per_step * m.steps;
  f.cost_pct = percent_of(change.saved_ns_per_step, step_ns);
}

// Where ranks or records are missing, waiting looks like transfer: known as far as it makes no difference.
bool known_well(const WhatIf& w) {
  const int64_t step_ns = w.step_ns + w.saved_ns_per_step, open_ns = w.most_saved_ns_per_step - w.saved_ns_per_step;
  return open_ns <= std::max(step_ns / 100, w.saved_ns_per_step / 4);
}

// What one rank spends in communication the job need not gain.
void leave_open(const WhatIf* w, Finding& f) {
  f.cost_ns.reset(), f.cost_pct.reset();
  const std::string least = w == nullptr || w->saved_ns_per_step == 0
                                ? "" : fmt::format("without transfers a step takes {} less at least; ",
                                                   duration_text(w->saved_ns_per_step));
  f.evidence.push_back(least + "what is waiting for ranks or records that are not here is not known");
}

// What a rank would gain by itself it may lose by waiting for the others: with several ranks a cost is what the job's
// steps would take less. What late ranks cost is said there; another cause costs at most what it would save on top.
void cost_of_job(const Evidence& evidence, std::vector<Answer>& answers) {
  if (evidence.job == nullptr) return;
  const Job& job = *evidence.job;
  const bool late = std::ranges::any_of(answers, [](const Answer& a) { return a.rule->job_cost.first != nullptr; });
  for (auto& [rule, f] : answers) {
    const JobCost& cost = rule->job_cost;
    const RankMeasure* m = evidence.measure(f);
    if (m == nullptr) continue;
    if (cost.first != nullptr)
      if (const WhatIf* w = cost.first(job)) set_job_cost(f, *m, *w);
    if (cost.change.empty()) continue;
    const WhatIf* other = find_what_if(job.what_if, cost.change);
    const bool known_cost = other != nullptr ? known_well(*other) : !cost.required;
    if (!known_cost) leave_open(other, f);
    else if (other != nullptr) set_job_cost(f, *m, *other);
    const WhatIf* on_top = late ? find_what_if(job.what_if_on_top, cost.change) : nullptr;
    if (on_top != nullptr && f.cost_ns)
      set_cost(f, m->wall_ns, std::min(*f.cost_ns, on_top->saved_ns_per_step * m->steps));
  }
}

// A symptom names its cause: a finding with a cost, else the largest cause of idle time.
void explain_symptom(const Evidence& evidence, std::vector<Answer>& answers) {
  Answer* low = first_where(answers, [](const Answer& a) { return a.rule->symptom; });
  if (low == nullptr) return;
  Finding& symptom = low->finding;
  const Answer* cause = first_where(
      answers, [](const Answer& a) { return a.finding.cost_ns.value_or(0) > 0 && !a.rule->symptom; });
  if (cause == nullptr) {
    if (const RankMeasure* m = evidence.measure(symptom))
      symptom.why = fmt::format("Most of the idle time is {} ({} of the time).",
                                idle_cause_words(m->largest_idle_cause()), percent_text(m->largest_idle_pct()));
    return;
  }
  symptom.why = fmt::format("{} explains most of it: {}.", cause->rule->id, cause->finding.what);
  symptom.fix = {fmt::format("fix {} first", cause->rule->id)};
}

// Kernels may be slow for the clock.
void add_clock_loss(const Evidence& evidence, std::vector<Answer>& answers) {
  for (Answer& a : answers) {
    const RankMeasure* m = evidence.measure(a.finding);
    if (!a.rule->of_kernels || m == nullptr) continue;
    if (std::string loss = clock_loss(evidence, *m); !loss.empty()) a.finding.evidence.push_back(std::move(loss));
  }
}

// Once, where it would help.
void say_that_stacks_are_missing(std::vector<Finding>& findings) {
  for (Finding& f : findings) {
    if (f.where.empty() || f.severity == Severity::kInfo) continue;
    if (std::ranges::all_of(f.where, [](const Place& p) { return p.file.empty(); }))
      f.evidence.emplace_back("no Python stacks were recorded: with_stack=True in torch.profiler, or profgpu run --trace, names the lines");
    return;
  }
}

// Where compiled code or graphs are seen, advice to use them is none; users of an engine have settings for the model.
bool is_done(std::string_view fix, const Frameworks& with) {
  const bool graphs = fix.find("reduce-overhead") != fix.npos || fix.find("make_graphed_callables") != fix.npos;
  if (graphs) return with.has(Framework::kCudaGraphs) || with.serves();
  if (fix.find("torch.compile(model") != fix.npos) return with.has(Framework::kTorchCompile) || with.serves();
  return with.serves() && fix.starts_with("DataLoader(");
}

void speak_as_frameworks(const Rule& rule, const Frameworks& with, Finding& f) {
  const std::vector<std::string> all = std::exchange(f.fix, {});
  std::vector<std::string> last;
  for (const FrameworkFix& fix : rule.by_framework)
    if (with.has(fix.of) && !(fix.unless && with.has(*fix.unless)))
      (fix.also ? last : f.fix).push_back(fmt::format("{}: {}", framework_name(fix.of), fix.fix));
  if (f.fix.empty() || !with.serves())
    std::ranges::copy_if(all, std::back_inserter(f.fix), [&](const std::string& fix) { return !is_done(fix, with); });
  f.fix.insert(f.fix.end(), last.begin(), last.end());
  if (f.fix.empty()) f.fix = all;
}

// The worst of a rank's devices.
std::optional<Finding> said_of_rank(const Rule& rule, const std::vector<Measured>& devices) {
  const Measured* worst = nullptr;
  double most = 0;
  if (rule.rank.say == nullptr) return std::nullopt;
  for (const Measured& m : devices) {
    if ((!m.has_device() && !rule.rank.host_alone) || (m.is_capture() && !rule.rank.of_capture)) continue;
    const std::optional<double> value = rule.rank.value != nullptr ? rule.rank.value(m) : m.idle_pct(*rule.cause);
    if (!value || !rule.beyond(*value, m.threshold(rule)) || (worst != nullptr && !rule.beyond(*value, most))) continue;
    worst = &m, most = *value;
  }
  if (worst == nullptr) return std::nullopt;
  Finding f = rule.finding(most, worst->threshold(rule));
  f.ranks = {worst->rank()};
  if (rule.cause && worst->has_device()) {
    set_cost(f, worst->wall_ns(), worst->saved_by_cause(*rule.cause));
    f.where = places_in_gaps(*worst, *rule.cause);
  }
  rule.rank.say(*worst, f);
  if (!f.own_fixes) speak_as_frameworks(rule, worst->facts().get<Frameworks>(), f);
  return f;
}

// Devices that nothing used, and runs that are shorter than this, say nothing.
constexpr int64_t kShortestSampled = 2'000'000'000;

// The worst of the devices of which there are samples.
std::optional<Finding> said_of_samples(const Rule& rule, const Evidence& evidence) {
  if (rule.samples.value == nullptr) return std::nullopt;
  if (rule.samples.without_trace && evidence.first_device() != nullptr) return std::nullopt;
  const double limit = evidence.thresholds.of(rule);
  const DeviceTelemetry* worst = nullptr;
  double most = 0;
  size_t count = 0;
  for (const DeviceTelemetry& device : evidence.telemetry) {
    if (!device.used() || device.duration_ns() < kShortestSampled) continue;
    const std::optional<double> value = rule.samples.value(device);
    if (!value || !rule.beyond(*value, limit)) continue;
    ++count;
    if (worst == nullptr || rule.beyond(*value, most)) worst = &device, most = *value;
  }
  if (worst == nullptr) return std::nullopt;
  Finding f = rule.finding(most, limit);
  if (count > 1) f.evidence.push_back(fmt::format("{} devices are beyond the threshold; this is the worst", count));
  rule.samples.say(*worst, f);
  return f;
}

}  // namespace

Severity Rule::severity_at(double value) const {
  const bool more = grave && (below ? value < *grave : value >= *grave);
  return more ? static_cast<Severity>(static_cast<int>(severity) + 1) : severity;
}

Finding Rule::finding(double value, double limit) const {
  Finding f;
  f.rule = id;
  f.severity = severity_at(value);
  f.unit = unit;
  f.value = value;
  f.threshold = limit;
  f.seen = cause ? Locator{Locator::At::kLongestGap, std::string(idle_cause_name(*cause))} : seen;
  return f;
}

const RankMeasure* Evidence::first_device() const {
  const auto* first = first_where(ranks, &RankMeasure::has_device, &RankDiagnosis::measure);
  return first != nullptr ? &first->measure : nullptr;
}

const RankMeasure* Evidence::measure(int rank) const {
  const auto* found = first_where(ranks, [&](const RankDiagnosis& r) { return r.measure.rank == rank; });
  return found != nullptr ? &found->measure : nullptr;
}

RankDiagnosis diagnose_rank(const RankFacts& rank, const Thresholds& thresholds) {
  std::vector<Measured> devices;
  for (const size_t place : judged_devices(*rank.facts))
    devices.emplace_back(rank.rank, *rank.facts, place, thresholds);
  RankDiagnosis said{rank_measure(devices.front()), {}};
  for (const Measured& m : devices) {
    if (!m.has_device()) continue;
    said.measure.least_utilization_pct = std::min(said.measure.least_utilization_pct, m.known_utilization_pct());
    said.measure.waiting_ns = std::max(said.measure.waiting_ns, m.waiting_ns());
  }
  for (const Rule* rule : rules()) said.findings.push_back(said_of_rank(*rule, devices));
  return said;
}

Diagnosis diagnose(const Evidence& evidence) {
  std::vector<Answer> answers;
  for (size_t place = 0; place < rules().size(); ++place) {
    const Rule* rule = rules()[place];
    std::optional<Finding> finding = worst_of_ranks(place, evidence);
    if (!finding && rule->job != nullptr) finding = rule->job(*rule, evidence);
    if (!finding) finding = said_of_samples(*rule, evidence);
    if (finding) answers.push_back({rule, *std::move(finding)});
  }
  cost_of_job(evidence, answers);
  take_parts_out(evidence, answers);
  std::ranges::stable_sort(answers, costs_more, &Answer::finding);
  cap_costs(evidence, answers);
  std::ranges::stable_sort(answers, costs_more, &Answer::finding);
  explain_symptom(evidence, answers);
  add_clock_loss(evidence, answers);
  if (const RankMeasure* m = evidence.first_device(); m != nullptr && m->is_too_little())
    for (Answer& a : answers) a.finding.severity = Severity::kInfo;
  Diagnosis diagnosis;
  diagnosis.checklist = checklist(evidence, answers);
  diagnosis.verdict = verdict(evidence, answers);
  for (Answer& a : answers) diagnosis.findings.push_back(std::move(a.finding));
  say_that_stacks_are_missing(diagnosis.findings);
  return diagnosis;
}

std::vector<Finding> telemetry_findings(const std::vector<DeviceTelemetry>& telemetry) {
  Evidence evidence;
  evidence.telemetry = telemetry;
  return diagnose(evidence).findings;
}

}  // namespace profgpu
