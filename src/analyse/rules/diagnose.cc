#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <mutex>

#include "analyse/rank/memory.h"
#include "analyse/rank/recorder_advice.h"
#include "analyse/rank/snapshot.h"
#include "analyse/rules/measure.h"
#include "base/tasks.h"

namespace profgpu {
namespace {

void sort_by_cost(std::vector<RuleFinding>& findings) {
  std::ranges::stable_sort(findings, std::greater(), [](const RuleFinding& f) {
    return std::pair(f.finding.cost_ns, f.finding.severity);   // an unknown cost comes last
  });
}

// A device is in use by the program if it has more than 1 % of the busiest one's compute and communication, over more
// than half its span.
constexpr int64_t kMinPart = 100;

// Indices in Devices, the busiest first; a single 0 without devices.
std::vector<size_t> devices_in_use(const Facts& facts) {
  const Devices& all = facts.get<Devices>();
  if (all.busiest < 0) return {0};
  std::vector<size_t> indices = {static_cast<size_t>(all.busiest)};
  const DeviceTime& busiest = all.devices[indices.front()];
  for (size_t i = 0; i < all.devices.size(); ++i) {
    const DeviceTime& d = all.devices[i];
    const int64_t of_busiest_ns = busiest.compute_ns + busiest.communication_ns;
    const bool used = d.compute_ns + d.communication_ns > of_busiest_ns / kMinPart && d.span_ns > busiest.span_ns / 2;
    if (i != indices.front() && used) indices.push_back(i);
  }
  return indices;
}

// The worst rank's finding represents all ranks that have one.
std::optional<Finding> worst_of_ranks(size_t index, const Evidence& evidence) {
  const Rule& rule = *rules()[index];
  std::optional<Finding> worst;
  std::vector<int> ranks;
  for (const RankDiagnosis& r : evidence.ranks) {
    if (!r.findings[index]) continue;
    Finding f = *r.findings[index];
    if (rule.settle != nullptr && !rule.settle(rule, evidence, r.measure, f)) continue;
    ranks.push_back(r.measure.rank);
    if (worst && !rule.beyond(*f.value, *worst->value)) continue;
    worst = std::move(f);
    worst->seen.rank = r.measure.rank;
  }
  if (worst) worst->ranks = std::move(ranks);
  return worst;
}

constexpr double kNegligiblePct = 1;   // of the steps: cheaper findings are not warnings

// All causes of waiting together cost at most the device's idle and exposed time; the cheapest findings are reduced
// first. In a job, where ranks wait for each other, the limit holds for each cause.
void cap_costs(const Evidence& evidence, std::vector<RuleFinding>& findings) {
  int64_t left = 0;
  for (const RankDiagnosis& r : evidence.ranks) left = std::max(left, r.measure.device.waiting_ns);
  for (auto& [rule, f] : findings) {
    const RankMeasure* m = evidence.measure(f);
    if (!f.cost_ns || m == nullptr) continue;
    if (!rule->of_kernels) {   // slow kernels keep the device busy
      if (evidence.first_device() != nullptr && *f.cost_ns > left) set_cost(f, m->wall_ns, left);
      if (evidence.ranks.size() == 1) left -= *f.cost_ns;
    }
    if (*f.cost_pct < kNegligiblePct) f.severity = Severity::kInfo;
  }
}

void set_job_cost(Finding& f, const WhatIf& change) {
  f.cost_ns = change.saved_ns_per_step * f.steps;
  f.cost_pct = percent_of(change.saved_ns_per_step, change.recorded_step_ns());
}

// With missing ranks or records waiting looks like transfer: the cost is known if that makes little difference.
bool known_well(const WhatIf& w) {
  return is_known_well(w.recorded_step_ns(), {w.saved_ns_per_step, w.most_saved_ns_per_step});
}

// The job may save less than one rank's communication time.
void clear_cost(const WhatIf* w, Finding& f) {
  f.cost_ns.reset(), f.cost_pct.reset();
  const std::string least = w == nullptr || w->saved_ns_per_step == 0
                                ? "" : fmt::format("without transfers a step takes at least {} less; ",
                                                   format_duration(static_cast<double>(w->saved_ns_per_step)));
  f.evidence.push_back(least + "waiting for ranks or records without a trace can't be told from transfer");
}

// What a rank saves by itself may be lost to waiting for others: with several ranks the cost is the saving of the job's
// steps. Late ranks have their own finding; other causes cost at most their saving on top of that.
void cost_of_job(const Evidence& evidence, std::vector<RuleFinding>& findings) {
  if (evidence.job == nullptr) return;
  const Job& job = *evidence.job;
  const bool late =
      std::ranges::any_of(findings, [](const RuleFinding& f) { return f.rule->job_cost.first != nullptr; });
  for (auto& [rule, f] : findings) {
    const JobCost& cost = rule->job_cost;
    const RankMeasure* m = evidence.measure(f);
    if (m == nullptr) continue;
    if (cost.first != nullptr)
      if (const WhatIf* w = cost.first(job)) set_job_cost(f, *w);
    if (const WhatIf* less = find_what_if(job.what_if_less, rule->id); less != nullptr && f.cost_ns)
      set_cost(f, m->wall_ns, less->saved_ns_per_step * f.steps);
    if (cost.change.empty() || !m->has_device) continue;   // what-ifs are about lanes of devices
    const WhatIf* other = find_what_if(job.what_if, cost.change);
    const bool known_cost = other != nullptr ? known_well(*other) : !cost.required;
    if (!known_cost) clear_cost(other, f);
    else if (other != nullptr) set_job_cost(f, *other);
    const WhatIf* on_top = late ? find_what_if(job.what_if_on_top, cost.change) : nullptr;
    if (on_top != nullptr && f.cost_ns)
      set_cost(f, m->wall_ns, std::min(*f.cost_ns, on_top->saved_ns_per_step * f.steps));
  }
}

// Straggler::kind of ranks that are late for what the rule is about; empty: none.
std::string_view lateness_of(const Rule& rule) {
  if (rule.of_kernels) return "uneven_work";
  if (rule.id == "python-gc") return "slow_host";
  switch (rule.cause.value_or(IdleCause::kUnknown)) {
    case IdleCause::kCheckpoint: return "checkpoint";
    case IdleCause::kMemoryAllocation: return "memory_allocation";
    case IdleCause::kDataLoading: return "slow_input";
    case IdleCause::kHostBound: return "slow_host";
    default: return "";
  }
}

// Whether the finding is why its rank is late: its cost is then that of the late rank.
bool makes_late(const Evidence& evidence, const Rule& rule, const Finding& f) {
  const RankMeasure* m = evidence.measure(f);
  if (evidence.job == nullptr || m == nullptr) return false;
  return std::ranges::any_of(evidence.job->stragglers, [&](const Straggler& s) {
    return s.rank == m->rank && s.kind == lateness_of(rule);
  });
}

// Why removing a cause may save nothing although it takes time.
void explain_no_saving(const Evidence& evidence, std::vector<RuleFinding>& findings) {
  const bool late = std::ranges::count(findings, "straggler-rank", [](const RuleFinding& f) { return f.rule->id; }) > 0;
  for (auto& [rule, f] : findings) {
    if (!f.cost_ns || f.why.empty()) continue;
    if (late && *f.cost_pct < kNegligiblePct && makes_late(evidence, *rule, f))
      f.why += " It is why the rank is late: its cost is in straggler-rank.";
    else if (f.cost_ns == 0)
      f.why += " Other work takes the same time, so fixing only this saves nothing.";
  }
}

// A symptom refers to its cause on the same device: a finding with a cost, else that of the largest cause of idle time.
// Without one it says itself what that is.
void explain_symptom(const Evidence& evidence, std::vector<RuleFinding>& findings) {
  RuleFinding* low = first_where(findings, [](const RuleFinding& f) { return f.rule->symptom; });
  if (low == nullptr) return;
  Finding& symptom = low->finding;
  const RankMeasure* of = evidence.measure(symptom);
  if (of == nullptr) return;   // of samples
  const auto same_device = [&](const RuleFinding& f) {
    return !f.finding.seen.device || !symptom.seen.device || *f.finding.seen.device == *symptom.seen.device;
  };
  const RuleFinding* cause = first_where(
      findings, [&](const RuleFinding& f) { return f.finding.cost_ns && !f.rule->symptom && same_device(f); });
  // Half of what the device idles, in the time that costs are of.
  const double idle_ns = (100 - *symptom.value) / 100 * static_cast<double>(of->wall_ns);
  if (cause != nullptr && static_cast<double>(*cause->finding.cost_ns) < idle_ns / 2) cause = nullptr;
  const bool of_first = symptom.seen.device && of->device.label == fmt::format("GPU {}", *symptom.seen.device);
  if (cause == nullptr && of_first && 2 * of->device.largest_idle_pct() >= 100 - *symptom.value)
    cause = first_where(findings, [&](const RuleFinding& f) {
      return f.rule->cause == of->device.largest_idle_cause && f.finding.severity != Severity::kInfo && same_device(f);
    });
  if (cause == nullptr) return;
  symptom.why = fmt::format("{} explains most of it: {}.", cause->rule->id, cause->finding.what);
  symptom.fix = {fmt::format("fix {} first", cause->rule->id)};
}

// Lowered clocks may be why kernels are slow.
void add_clock_loss(const Evidence& evidence, std::vector<RuleFinding>& findings) {
  for (auto& [rule, f] : findings) {
    const RankMeasure* m = evidence.measure(f);
    if (!rule->of_kernels || m == nullptr) continue;
    if (std::string loss = clock_loss(evidence, *m); !loss.empty()) f.evidence.push_back(std::move(loss));
  }
}

std::string_view stacks_advice(const RankMeasure& m) {
  const bool jax = m.recorder == Recorder::kOther && m.with.has(Framework::kJax);
  return jax ? jax_profiler_advice().stacks : recorder_advice(m.recorder).stacks;
}

// Suggests recording stacks, in the first finding that they would help.
void suggest_stacks(const Evidence& evidence, std::vector<Finding>& findings) {
  const auto has_stacks = [](const RankDiagnosis& r) { return r.measure.host.python_frames; };
  if (evidence.ranks.empty() || std::ranges::any_of(evidence.ranks, has_stacks)) return;
  Finding* f = first_where(
      findings, [](const Finding& x) { return !x.where.empty() && x.severity != Severity::kInfo; });
  const auto says_it = [](const std::string& fix) { return contains(fix, "with_stack=True"); };
  if (f == nullptr || std::ranges::any_of(f->fix, says_it)) return;
  if (std::ranges::all_of(f->where, [](const Place& p) { return p.file.empty(); }))
    f->evidence.push_back(fmt::format("no Python stacks were recorded; to see source lines, use {}",
                                      stacks_advice(evidence.ranks.front().measure)));
}

// What only training does.
bool is_of_training(std::string_view fix) {
  return contains_any(fix, std::array{"torch.optim", "optimizer", "micro-batch", "gradient accumulation", "zero_grad",
                                      "GradScaler"});
}

// Whether the program does so already, or is an engine whose users do not change the model, or none of PyTorch's.
bool is_done(std::string_view fix, const Frameworks& with) {
  if (with.has(Framework::kJax) && (contains(fix, "torch") || contains(fix, ".item()"))) return true;
  const bool graphs = contains(fix, "reduce-overhead") || contains(fix, "make_graphed_callables");
  const bool varies = with.has(Framework::kTorchRec) || with.has(Framework::kJagged);   // graphs need fixed sizes
  if (graphs) return with.has(Framework::kCudaGraphs) || with.serves() || varies;
  if (contains(fix, "torch.compile(model")) return with.has(Framework::kTorchCompile) || with.serves();
  if (fix.starts_with("DataLoader(…, pin_memory=True)") && with.has(Framework::kPinnedUploads)) return true;
  const bool fuses = fix.starts_with("fused=True") || fix.starts_with("foreach=True or fused=True");
  if (fuses && with.has(Framework::kFusedOptimizer)) return true;
  if (contains_any(fix, std::array{"--async-scheduling", "overlap scheduler on", "overlapping scheduling"}))
    return with.has(Framework::kOverlapScheduler);
  return with.serves() && fix.starts_with("DataLoader(");
}

// What the program's version of PyTorch does not have yet.
void name_version(const Frameworks& with, std::vector<std::string>& fixes) {
  if (!with.has(Framework::kOldTorch)) return;
  constexpr std::array kNewer = {"torch.compile", "fused=True", "foreach=True", "make_graphed_callables",
                                 "torch.cuda.graph", "inference_mode"};
  bool said = false;
  for (std::string& fix : fixes) {
    if (!contains_any(fix, kNewer)) continue;
    fix = fmt::format("with PyTorch 2{}: {}", said ? "" : " (this is a version before 1.10)", fix);
    said = true;
  }
}

// Fixes name NVIDIA's tools; these are AMD's for the same.
void name_amd_tools(std::vector<std::string>& fixes) {
  constexpr std::pair<std::string_view, std::string_view> kTools[] = {
      {"nvidia-smi -q -d PERFORMANCE,POWER,TEMPERATURE,ECC", "amd-smi metric --clock --power --temperature --ecc"},
      {"nvidia-smi -q -d CLOCK,PERFORMANCE,POWER,TEMPERATURE", "amd-smi metric --clock --power --temperature"},
      {"nvidia-smi -q -d CLOCK,PERFORMANCE,POWER", "amd-smi metric --clock --power"},
      {"nvidia-smi -q -d CLOCK,PERFORMANCE", "amd-smi metric --clock"},
      {"nvidia-smi -rac, -rgc, -pl", "amd-smi reset --clocks, amd-smi set --power-cap"},
      {"nvidia-smi nvlink -s, nvidia-smi topo -m", "amd-smi topology, amd-smi xgmi"},
      {"nvidia-smi topo -m", "amd-smi topology"},
      {"nccl-tests", "rccl-tests"}};
  for (std::string& fix : fixes)
    for (const auto& [nvidia, amd] : kTools)
      if (const size_t at = fix.find(nvidia); at != fix.npos) fix.replace(at, nvidia.size(), amd);
}

void add_framework_fixes(const Rule& rule, const Frameworks& with, Finding& f) {
  const std::vector<std::string> all = std::exchange(f.fix, {});
  std::vector<std::string> last;
  const auto is_there = [&](const FrameworkFix& fix) {   // said for what the trace shows
    const std::string_view setting = fix.fix.substr(0, fix.fix.find(' '));
    return fix.also && std::ranges::any_of(all, [&](const std::string& other) { return contains(other, setting); });
  };
  for (const FrameworkFix& fix : rule.by_framework)
    if (with.has(fix.of) && !(fix.unless && with.has(*fix.unless)) && !is_there(fix) && !is_done(fix.fix, with))
      (fix.also ? last : f.fix).push_back(fmt::format("{}: {}", framework_name(fix.of), fix.fix));
  if ((f.fix.empty() && last.empty()) || !with.serves())
    std::ranges::copy_if(all, std::back_inserter(f.fix), [&](const std::string& fix) { return !is_done(fix, with); });
  f.fix.insert(f.fix.end(), last.begin(), last.end());
  if (f.fix.empty() && with.serves()) f.fix.emplace_back(kEngineFix);   // what the trace shows is done
  if (f.fix.empty()) f.fix = all;
}

// What can only be done in Python with PyTorch.
bool is_of_pytorch(std::string_view fix) {
  return contains_any(fix, std::array{"torch", "TORCH", "DataLoader", "dataloader", "pin_memory", "non_blocking", ".item()",
                                      "print(tensor)", "tensor.", "foreach=True", "fused=True", "zero_grad", "ython",
                                      "scaled_dot_product", "masked_select", ".contiguous()", "out=,", "Liger",
                                      "make_graphed", "mark_dynamic", "batch", "sequences"});
}

// Calls of CUDA have the same names in HIP, but for their beginnings.
std::string in_words_of(Recorder recorder, std::string_view fix) {
  std::string text(fix);
  if (recorder != Recorder::kRocprof) return text;
  for (const auto& [cuda, hip] : {std::pair{"cuda", "hip"}, {"CUDA", "HIP"}})
    for (size_t at = text.find(cuda); at != text.npos; at = text.find(cuda, at + 3)) text.replace(at, 4, hip);
  return text;
}

void speak_of_native_programs(const Rule& rule, const Measured& m, Finding& f) {
  if (!m.facts().get<Frameworks>().has(Framework::kNative)) return;
  const size_t before = f.fix.size();
  std::erase_if(f.fix, is_of_pytorch);
  if (f.fix.size() == before && before > 0) return;
  std::vector<std::string> native;
  for (const std::string_view fix : rule.native_advice) native.push_back(in_words_of(m.trace().recorder, fix));
  f.fix.insert(f.fix.begin(), native.begin(), native.end());
}

// Input pipelines of JAX programs are others than PyTorch's.
void speak_of_jax(const Measured& m, Finding& f) {
  if (!m.facts().get<Frameworks>().has(Framework::kJax) || m.facts().get<Frameworks>().has(Framework::kEager)) return;
  const size_t before = f.fix.size();
  std::erase_if(f.fix, [](const std::string& fix) { return contains(fix, "DataLoader") || contains(fix, "non_blocking"); });
  if (f.fix.size() < before)
    f.fix.insert(f.fix.begin(), "prepare inputs ahead of the step, in other threads or processes: "
                                "dataset.prefetch(tf.data.AUTOTUNE), or Grain's worker processes");
}

void default_fix(const Rule& rule, Finding& f) {
  constexpr size_t kMost = 3;
  if (!f.fix.empty()) return;
  for (size_t i = 0; i < std::min(kMost, rule.advice.size()); ++i) f.fix.emplace_back(rule.advice[i]);
}

// What the allocator's settings have already.
void leave_out_settings(const Measured& m, Finding& f) {
  const auto& snapshot = m.facts().get<Snapshot>().section;
  if (!snapshot || !snapshot->expandable_segments) return;
  std::erase_if(f.fix, [](const std::string& fix) { return contains(fix, "expandable_segments:True"); });
}

// The device, and of gaps the longest that counts. The rank is assigned later.
void locate(const Measured& m, Finding& f) {
  if (!m.has_device()) return;
  const Memory& memory = m.facts().get<Memory>();
  const bool of_memory = f.seen.at == Locator::At::kMemoryPeak && memory.device >= 0;
  f.seen.device = of_memory ? memory.device : m.device().id;
  if (f.seen.at != Locator::At::kLongestGap || f.seen.start_ns) return;
  const auto counts = [&](const Gap& gap) {
    return idle_cause_name(gap.cause) == f.seen.of && m.counts(gap, gap.cause);
  };
  for (const Gap* gap : longest_gaps(m.gaps(), 1, counts)) see(f, {gap->start_ns, gap->end_ns});
}

// The worst of a rank's devices.
std::optional<Finding> finding_of_rank(const Rule& rule, const std::vector<Measured>& devices) {
  const Measured* worst = nullptr;
  double most = 0;
  for (const Measured& m : devices) {
    if ((!m.has_device() && !rule.rank.host_alone) || (m.is_capture() && !rule.rank.of_capture)) continue;
    const std::optional<double> value = rule.rank.value != nullptr ? rule.rank.value(m) : m.own_idle_pct(*rule.cause);
    if (!value || !rule.beyond(*value, m.threshold(rule)) || (worst != nullptr && !rule.beyond(*value, most))) continue;
    worst = &m, most = *value;
  }
  if (worst == nullptr) return std::nullopt;
  Finding f = rule.finding(most, worst->threshold(rule));
  f.ranks = {worst->rank()};
  f.steps = worst->steps();
  if (rule.cause && worst->has_device()) {
    set_saving(*worst, worst->own_saved_by_cause(*rule.cause), f);
    f.where = worst->places_in_gaps(*rule.cause);
  }
  rule.rank.describe(*worst, f);
  locate(*worst, f);
  default_fix(rule, f);
  if (infers(worst->facts()) && !std::ranges::all_of(f.fix, is_of_training)) std::erase_if(f.fix, is_of_training);
  leave_out_settings(*worst, f);
  if (!f.own_fixes) add_framework_fixes(rule, worst->facts().get<Frameworks>(), f);
  name_version(worst->facts().get<Frameworks>(), f.fix);
  speak_of_native_programs(rule, *worst, f);
  speak_of_jax(*worst, f);
  return f;
}

constexpr int64_t kShortestSampled_ns = 2'000'000'000;   // shorter runs are not evaluated

// The worst of the sampled devices that were in use.
std::optional<Finding> finding_of_samples(const Rule& rule, const Evidence& evidence) {
  if (rule.samples.value == nullptr) return std::nullopt;
  if (rule.samples.without_trace && evidence.first_device() != nullptr) return std::nullopt;
  const double limit = evidence.thresholds.of(rule);
  const DeviceTelemetry* worst = nullptr;
  double most = 0;
  size_t count = 0;
  for (const DeviceTelemetry& device : evidence.telemetry) {
    if (!device.used() || device.duration_ns() < kShortestSampled_ns) continue;
    const std::optional<double> value = rule.samples.value(device);
    if (!value || !rule.beyond(*value, limit)) continue;
    ++count;
    if (worst == nullptr || rule.beyond(*value, most)) worst = &device, most = *value;
  }
  if (worst == nullptr) return std::nullopt;
  Finding f = rule.finding(most, limit);
  if (count > 1)
    f.evidence.push_back(rule.below && rule.unit == "%"
                             ? fmt::format("{} GPUs are below {}; this is the lowest", count, format_percent(limit, 0))
                             : fmt::format("{} GPUs have this; this one is the worst", count));
  rule.samples.describe(*worst, f);
  return f;
}

std::optional<Finding> finding_of_logs(const Rule& rule, const Evidence& evidence) {
  if (rule.log.value == nullptr) return std::nullopt;
  const double limit = evidence.thresholds.of(rule);
  const LogReport* worst = nullptr;
  double most = 0;
  for (const LogReport& log : evidence.logs) {
    const std::optional<double> value = rule.log.value(log);
    if (!value || !rule.beyond(*value, limit) || (worst != nullptr && !rule.beyond(*value, most))) continue;
    worst = &log, most = *value;
  }
  if (worst == nullptr) return std::nullopt;
  Finding f = rule.finding(most, limit);
  rule.log.describe(*worst, f);
  return f;
}

}  // namespace

Severity Rule::severity_at(double value) const {
  const bool more = severe && (below ? value < *severe : value >= *severe);
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

double Evidence::waited_pct(const RankMeasure& measure) const {
  if (job == nullptr) return 0;
  const auto wait = job->wait_ns.find(measure.rank);
  return wait != job->wait_ns.end()
             ? percent_of(wait->second, measure.has_device ? measure.device.window_ns : measure.wall_ns)
             : 0;
}

const RankMeasure* Evidence::measure(int rank) const {
  const auto* found = first_where(ranks, [&](const RankDiagnosis& r) { return r.measure.rank == rank; });
  return found != nullptr ? &found->measure : nullptr;
}

namespace {

/// A rank's devices in use, the busiest first; read when a task first needs them.
class RankDevices {
 public:
  RankDevices(const RankFacts& rank, const Thresholds& thresholds) : rank_(rank), thresholds_(thresholds) {}

  const std::vector<Measured>& get() {
    std::call_once(once_, [this] {
      for (const size_t device : devices_in_use(*rank_.facts))
        devices_.emplace_back(rank_.rank, *rank_.facts, device, thresholds_);
    });
    return devices_;
  }

 private:
  RankFacts rank_;
  const Thresholds& thresholds_;
  std::once_flag once_;
  std::vector<Measured> devices_;
};

// A process with several devices communicates between these.
bool has_other_ranks(const std::vector<Measured>& devices) {
  const Measured& m = devices.front();
  if (const std::optional<int> world = m.trace().distributed.world_size) return *world > 1;
  return devices.size() == 1 && m.has_device() && m.device().communication_ns > 0;
}

RankMeasure measure_of(const std::vector<Measured>& devices) {
  RankMeasure measure = rank_measure(devices.front());
  for (const Measured& m : devices) {
    if (!m.has_device()) continue;
    measure.device.least_utilization_pct = std::min(measure.device.least_utilization_pct, m.known_utilization_pct());
    measure.device.waiting_ns = std::max(measure.device.waiting_ns, m.waiting_ns());
  }
  return measure;
}

}  // namespace

void add_rank_diagnosis(const RankFacts& rank, const Thresholds& thresholds, RankDiagnosis& out, Tasks& tasks) {
  const auto devices = std::make_shared<RankDevices>(rank, thresholds);
  tasks.add([devices, &out] {
    out.measure = measure_of(devices->get());
    out.of_several = has_other_ranks(devices->get());
  });
  out.findings.resize(rules().size());
  for (size_t i = 0; i < rules().size(); ++i)
    if (rules()[i]->rank.describe != nullptr)
      tasks.add([devices, &out, i] { out.findings[i] = finding_of_rank(*rules()[i], devices->get()); });
}

std::vector<OwnSavings> own_savings(std::span<const RankDiagnosis* const> ranks) {
  std::vector<OwnSavings> all;
  for (size_t i = 0; i < rules().size(); ++i) {
    OwnSavings savings{rules()[i]->id, !rules()[i]->of_kernels, {}};
    bool any = false;
    for (const RankDiagnosis* r : ranks) {
      const bool has = i < r->findings.size() && r->findings[i];
      savings.by_rank.push_back(has ? r->findings[i]->in_lane : std::vector<LaneSaving>());
      any |= !savings.by_rank.back().empty();
    }
    if (any) all.push_back(std::move(savings));
  }
  return all;
}

Diagnosis diagnose(const Evidence& evidence) {
  std::vector<RuleFinding> findings;
  for (size_t i = 0; i < rules().size(); ++i) {
    const Rule* rule = rules()[i];
    std::optional<Finding> finding = worst_of_ranks(i, evidence);
    if (!finding && rule->job != nullptr) finding = rule->job(*rule, evidence);
    if (!finding) finding = finding_of_samples(*rule, evidence);
    if (!finding) finding = finding_of_logs(*rule, evidence);
    if (!finding) continue;
    default_fix(*rule, *finding);
    if (const RankMeasure* first = evidence.first_device(); first != nullptr && is_amd_name(first->device.name))
      name_amd_tools(finding->fix);
    findings.push_back({rule, *std::move(finding)});
  }
  cost_of_job(evidence, findings);
  sort_by_cost(findings);
  cap_costs(evidence, findings);
  sort_by_cost(findings);
  explain_symptom(evidence, findings);
  explain_no_saving(evidence, findings);
  add_clock_loss(evidence, findings);
  if (const RankMeasure* m = evidence.main_rank(); m != nullptr && m->is_no_evidence()) {
    // Where the device's records are missing, what it seems to wait for is not known either.
    if (!m->no_evidence.empty())
      std::erase_if(findings, [](const RuleFinding& f) { return f.rule->cause.has_value() || f.rule->symptom; });
    for (RuleFinding& f : findings) f.finding.severity = Severity::kInfo;
  }
  Diagnosis diagnosis{{}, checklist(evidence, findings), verdict(evidence, findings)};
  for (RuleFinding& f : findings) diagnosis.findings.push_back(std::move(f.finding));
  suggest_stacks(evidence, diagnosis.findings);
  return diagnosis;
}

std::vector<Finding> telemetry_findings(const std::vector<DeviceTelemetry>& telemetry) {
  Evidence evidence;
  evidence.telemetry = telemetry;
  return diagnose(evidence).findings;
}

}  // namespace profgpu
