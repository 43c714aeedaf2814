// The first sentence of a report: where the time goes, and what fixing it gains; and the checklist.
#include <fmt/format.h>

#include <algorithm>

#include "analyse/rank/recorder_advice.h"
#include "analyse/report/quantity.h"
#include "analyse/rules/log_checks.h"
#include "analyse/rules/measure.h"
#include "analyse/rules/rule.h"
#include "base/text.h"

namespace profgpu {

extern const Rule kExposedCommunication;

namespace {

// A smaller gain is not mentioned.
constexpr double kMinGainPct = 3;
constexpr double kMinKernelGainPct = 10;   // of slow kernels: less is not what the job is about

// No single change makes a program this many times faster: other causes then come to the fore.
constexpr double kManyTimes = 10;
// Of the time: where so much is not in the trace, what is in it says little of the run.
constexpr double kMuchUntracedPct = 25;

std::string where(const RuleFinding& f, const Job* job) {
  if (!f.finding.verdict.empty()) return f.finding.verdict;
  if (f.rule->verdict_of != nullptr) return f.rule->verdict_of(f.finding, job);
  return f.rule->verdict.empty() ? fmt::format("The main finding is {}: {}.", f.rule->id, f.finding.what)
                                 : fmt::format(fmt::runtime(f.rule->verdict), format_percent(*f.finding.value, 0));
}

// With several ranks the step is the job's, as in its what-ifs.
std::optional<StepSaving> saving_of(const Finding& f, const RankMeasure& m, const Job* job) {
  const bool of_job = job != nullptr && !job->what_if.empty();
  const int64_t step = of_job ? job->what_if.front().recorded_step_ns() : m.wall_ns / std::max<int64_t>(m.steps, 1);
  const int64_t without = step - *f.cost_ns / std::max<int64_t>(f.steps, 1);
  return only_if(without > 0, StepSaving{f.rule, step, without});
}

// Whether the verdict names a place that has only a part of the cost: fixing that place alone gains less.
bool names_a_part(const Finding& f) {
  constexpr double kMost = 0.8;
  if (f.where.empty() || !contains(f.verdict, f.where.front().name)) return false;
  return static_cast<double>(f.where.front().ns) < kMost * static_cast<double>(*f.cost_ns);
}

std::string gain(const std::optional<StepSaving>& saving, const Finding& f, const RankMeasure& m) {
  if (!saving) return "";
  const auto step = static_cast<double>(saving->step_ns), without = static_cast<double>(saving->without_ns);
  const char* what = m.annotated ? "a step" : "the time";
  const double faster = step / std::max(without, 1.0);
  const std::string from = format_duration(step), to = format_duration(without);
  const char* fixing = names_a_part(f) ? "Fixing all of these waits" : "Fixing it";
  if (f.cost_is_most)
    return fmt::format(" {} would cut {} from {} to {} at best, at most {:.{}f}x as fast: recording slowed the host.",
                       fixing, what, from, to, faster, faster < 1.095 ? 2 : 1);
  if (faster > kManyTimes) return fmt::format(" {} would cut {} from {} to {} at best.", fixing, what, from, to);
  return fmt::format(" {} would cut {} from {} to about {} ({:.{}f}x as fast).", fixing, what, from, to, faster,
                     faster < 1.095 ? 2 : 1);
}

// Communication below its own threshold that takes more than the finding which the verdict names.
std::string larger_communication(const Evidence& evidence, const Finding& named, const RankMeasure& m) {
  const double pct = m.exposed_communication_pct - evidence.waited_pct(m);
  const double threshold = evidence.thresholds.of(kExposedCommunication);
  if (!m.has_device || pct <= named.cost_pct.value_or(0) || pct > threshold) return "";
  return fmt::format(" Exposed communication takes more, {} of the time, but stays below the {} from which it is a "
                     "finding.",
                     format_percent(pct, 0), format_percent(threshold, 0));
}

// "GPU 0 is busy 95 % of the time", of the least busy one that was used; empty: none was.
std::string busy_by_samples(const std::vector<DeviceTelemetry>& telemetry) {
  const DeviceTelemetry* least = nullptr;
  for (const DeviceTelemetry& d : telemetry)
    if (d.used() && d.busy_pct() && (!least || *d.busy_pct() < *least->busy_pct())) least = &d;
  if (!least) return {};
  const std::string who = telemetry.size() > 1 ? least->label() + ", the least busy," : least->label();
  return fmt::format("{} is busy {} of the time", who, format_percent(*least->busy_pct(), 0));
}

// Empty: utilization was measured on one of them.
std::string not_known_how_busy(const std::vector<DeviceTelemetry>& telemetry) {
  const auto measured = [](const DeviceTelemetry& d) { return d.busy_pct().has_value(); };
  if (telemetry.empty() || std::ranges::any_of(telemetry, measured)) return {};
  return fmt::format("These samples do not tell how busy {}: they have no utilization. `profgpu log` writes it, and so does "
                     "nvidia-smi's utilization.gpu; in MIG mode a GPU has none, and its instances' comes from DCGM.",
                     telemetry.size() == 1 ? telemetry.front().label() + " is" : std::string("the devices are"));
}

// Empty: no device was used.
std::string verdict_of_samples(const std::vector<DeviceTelemetry>& telemetry,
                               const std::vector<RuleFinding>& findings) {
  const std::string is_busy = busy_by_samples(telemetry);
  if (is_busy.empty()) return {};
  const RuleFinding* other = first_where(findings, [](const RuleFinding& f) { return !f.rule->symptom; });
  if (other != nullptr) return fmt::format("{}; {}.", is_busy, other->finding.what);
  return findings.empty() ? is_busy + ", and there are no findings."
                          : fmt::format("{}. {}", is_busy, findings.front().finding.why);
}

// A hang is more important than anything else.
std::string hang(const Evidence& evidence) {
  if (evidence.flight && evidence.flight->hangs()) return flight_sentence(evidence);
  const MissingCalls* never = evidence.hang();
  if (never == nullptr) return "";
  const std::string step = never->step >= 0 ? fmt::format(" in step {}", never->step) : "";
  return fmt::format("Rank {} never arrives at {}{}, and {} in it until the trace ends: the job hangs there.",
                     never->rank, never->name, step,
                     never->others == 1 ? "another rank waits" : fmt::format("{} other ranks wait", never->others));
}

bool is_serious(const RuleFinding& f) { return f.finding.severity != Severity::kInfo; }

// What a reader must answer first; empty: nothing.
std::string device_question(const RankMeasure& m) {
  if (m.has_device || m.host.mpi || m.cut_off) return "";
  if (m.unread_pct >= kMuchUntracedPct)
    return fmt::format("Of this trace profgpu does not know the kind of many rows ({}): GPU activity may be among them. ",
                       format_percent(m.unread_pct, 0));
  if (m.host.launches)
    return "This trace has launches of GPU work but no GPU activity: the profiler could not record it. ";
  const std::string_view reason = recorder_advice(m.recorder).device_activity;
  return reason.empty() ? "" : fmt::format("This trace has no GPU activity: {} ", reason);
}

// How much of the time the ranks of a program without a device are in MPI.
ReportVerdict verdict_of_mpi(const Evidence& evidence) {
  constexpr double kNotableMpiPct = 10;
  const RankMeasure *most = nullptr, *least = nullptr;
  for (const RankDiagnosis& r : evidence.ranks) {
    if (!r.measure.host.mpi) continue;
    if (most == nullptr || r.measure.host.mpi->pct() > most->host.mpi->pct()) most = &r.measure;
    if (least == nullptr || r.measure.host.mpi->pct() < least->host.mpi->pct()) least = &r.measure;
  }
  const MpiFunction* longest = most->host.mpi->longest();
  const double pct = most->host.mpi->pct();
  if (pct < kNotableMpiPct || longest == nullptr)
    return {fmt::format("Calls of MPI take {}{} of the time; the rest is the program's own work, which this recording "
                        "does not show.",
                        most == least ? "" : "at most ", format_percent(pct, 0)),
            VerdictKind::kInconclusive};
  std::string text = fmt::format("Rank {} is in calls of MPI {} of the time, most of it in {}", most->rank,
                                 format_percent(pct, 0), longest->name);
  if (most != least) text += fmt::format("; rank {} {}", least->rank, format_percent(least->host.mpi->pct(), 0));
  return {text + ".", VerdictKind::kBottleneck};
}

// A CPU program's trace looks like one in which GPU activity was not recorded.
ReportVerdict verdict_of_host(const RankMeasure& m) {
  if (m.wall_ns == 0)   // as in execution traces
    return {"This trace has no times: it tells which operators ran, how often and on what shapes. Record times "
            "with torch.profiler or `profgpu run --trace`.",
            VerdictKind::kInconclusive};
  // The step reaches beyond the cut: that no operator runs there is not known.
  if (m.cut_off && m.host.places.empty())
    return {"This trace has no GPU activity, and it is cut off: record fewer steps, or let the job end.",
            VerdictKind::kInconclusive};
  std::string places;
  for (const Place& p : m.host.places)
    append_listed(places, fmt::format("{} ({}{})", place_text(p),
                                      format_duration(static_cast<double>(p.ns / std::max<int64_t>(m.steps, 1))),
                                      m.annotated ? " per step" : ""));
  std::string first = device_question(m);
  if (first.empty())
    first = fmt::format("This trace has no GPU activity{}. ",
                        m.cut_off ? "; it is cut off: record fewer steps, or let the job end" : "");
  return {fmt::format("{}On the host {}.", first, places.empty() ? m.mostly : "most time goes into " + places),
          VerdictKind::kInconclusive};
}

std::string busy_text(const RankMeasure& m) {
  const double untraced = m.device.idle_pct[static_cast<size_t>(IdleCause::kUntracedWork)];
  const double no_requests = m.device.idle_pct[static_cast<size_t>(IdleCause::kNoRequests)];
  if (std::max(untraced, no_requests) < kMinGainPct)
    return fmt::format("The GPU is busy {} of the time", format_percent(m.device.utilization_pct, 0));
  const bool waits = no_requests > untraced;
  return fmt::format("For {} of the time the {}; for the rest the GPU is busy {}",
                     format_percent(waits ? no_requests : untraced, 0),
                     waits ? "engine seems to have no requests" : "trace does not show what the GPU does",
                     format_percent(m.device.known_utilization_pct, 0));
}

// What would show the work that the recording lacks.
std::string missing_work_advice(const std::vector<RuleFinding>& findings) {
  const RuleFinding* missing =
      first_where(findings, [](const RuleFinding& f) { return f.rule->cause == IdleCause::kUntracedWork; });
  return missing == nullptr ? "" : fmt::format(" For a full picture, {}.", missing->finding.fix.front());
}

std::string host_advice(const RankMeasure& m) {
  const std::string_view how = recorder_advice(m.recorder).host;
  return how.empty() ? "" : fmt::format(" Record the host as well: {}.", how);
}

constexpr double kFarFromLimit = 2.5;   // well-tuned training takes about twice its limit

// If no single cause has a cost worth mentioning.
ReportVerdict verdict_of_use(const Evidence& evidence, const std::vector<RuleFinding>& findings, const RankMeasure& m) {
  const RuleFinding* other = nullptr;   // the first of the most severe
  for (const RuleFinding& f : findings)
    if (is_serious(f) && !f.rule->symptom && (other == nullptr || f.finding.severity > other->finding.severity))
      other = &f;
  const std::string_view rule = other != nullptr ? other->rule->id : std::string_view();
  if (other != nullptr && !other->finding.cost_ns && !other->finding.verdict.empty())
    return {other->finding.verdict, VerdictKind::kBottleneck, {}, rule};
  std::string also = other == nullptr ? "" : fmt::format(" Also: {}.", other->finding.what);
  if (std::string loss = clock_loss(evidence, m); !loss.empty()) {
    loss.front() = 'T';
    also += " " + loss + ".";
  }
  const double untraced = m.device.idle_pct[static_cast<size_t>(IdleCause::kUntracedWork)];
  const std::string busy = busy_text(m);
  const bool busy_enough = m.device.known_utilization_pct >= 80;
  const bool cause_unknown = m.device.largest_idle_cause == IdleCause::kUnknown;
  const bool unclear = untraced >= kMuchUntracedPct || (!busy_enough && cause_unknown);
  const VerdictKind if_unclear = other == nullptr && unclear ? VerdictKind::kInconclusive : VerdictKind::kBottleneck;
  std::string record;
  if (unclear && (other == nullptr || untraced >= kMuchUntracedPct))
    record = untraced >= kMuchUntracedPct ? missing_work_advice(findings) : host_advice(m);
  if (!busy_enough)
    return {fmt::format("{}; most of the idle time is {} ({} of the time).{}{}", busy,
                        m.device.largest_idle_words, format_percent(m.device.largest_idle_pct(), 0), also,
                        record),
            if_unclear, {}, rule};
  double least = 100;
  for (const RankDiagnosis& r : evidence.ranks) least = std::min(least, r.measure.device.least_utilization_pct);
  if (least < 80)
    return {fmt::format("{}, another one {}; {}.{}", busy, format_percent(least, 0), m.mostly, also),
            VerdictKind::kBottleneck, {}, rule};
  if (!also.empty()) return {fmt::format("{}; {}.{}", busy, m.mostly, also), VerdictKind::kBottleneck, {}, rule};
  if (unclear) return {fmt::format("{}, and there are no serious findings.{}", busy, record), VerdictKind::kInconclusive};
  if (m.device.times_limit.value_or(0) >= kFarFromLimit)
    return {fmt::format("{}, but takes {:.{}f} times as long as its work needs at the GPU's limit; {}.", busy,
                        *m.device.times_limit, *m.device.times_limit < 9.95 ? 1 : 0, m.mostly),
            VerdictKind::kBottleneck};
  const std::string_view unnamed =
      m.device.name.empty() && !m.device.times_limit
          ? " How near it comes to the GPU's limit is not known: name the GPU with --gpu."
          : "";
  return {fmt::format("{}, and there are no serious findings; {}.{}", busy, m.mostly, unnamed),
          VerdictKind::kHealthy};
}

// Whose finding stands for those of all ranks.
const RankMeasure* described(const Evidence& evidence, const RuleFinding& f) {
  const auto index = static_cast<size_t>(std::ranges::find(rules(), f.rule) - rules().begin());
  const RankDiagnosis* rank = first_where(evidence.ranks, [&](const RankDiagnosis& r) {
    return r.findings[index] && r.findings[index]->what == f.finding.what;
  });
  return rank != nullptr ? &rank->measure : nullptr;
}

// They know nothing of time.
bool only_snapshots(const Evidence& evidence) {
  return std::ranges::all_of(evidence.ranks, [](const RankDiagnosis& r) { return r.measure.snapshot.alone; });
}

ReportVerdict verdict_of_snapshots(const Evidence& evidence, const std::vector<RuleFinding>& findings) {
  const RuleFinding* serious = first_where(findings, is_serious);
  const RankMeasure* concerned = serious != nullptr ? described(evidence, *serious) : nullptr;
  const auto peak = [](const RankDiagnosis& r) { return r.measure.snapshot.peak_bytes; };
  const RankMeasure& m =
      concerned != nullptr ? *concerned : std::ranges::max_element(evidence.ranks, {}, peak)->measure;
  const std::string rank = evidence.ranks.size() > 1 ? fmt::format("Rank {}: ", m.rank) : "";
  if (serious == nullptr)
    return {rank + m.snapshot.peak, m.snapshot.peak_known ? VerdictKind::kHealthy : VerdictKind::kInconclusive};
  const Finding& f = serious->finding;
  if (!f.verdict.empty())
    return {fmt::format("{}{} {}", rank, f.verdict, m.snapshot.peak), VerdictKind::kBottleneck, {}, serious->rule->id};
  std::string what = f.what;
  what.front() = static_cast<char>(std::toupper(static_cast<unsigned char>(what.front())));
  return {fmt::format("{}{} {}.", rank, m.snapshot.peak, what), VerdictKind::kBottleneck, {}, serious->rule->id};
}

ReportVerdict verdict_of_steps(const Evidence& evidence, const std::vector<RuleFinding>& findings) {
  const RankMeasure* with_device = evidence.first_device();
  const RankMeasure& m = *evidence.main_rank();
  if (!m.no_evidence.empty()) return {m.no_evidence, VerdictKind::kInconclusive};
  if (m.device.captures)
    return {"A CUDA graph is being captured and almost nothing runs, so this is not a run to evaluate.",
            VerdictKind::kCapture};
  if (m.is_too_little())
    return {fmt::format("The trace has only {} GPU {}, too little to evaluate: record a few whole steps.",
                        m.device.activities, m.device.activities == 1 ? "activity" : "activities"),
            VerdictKind::kInconclusive};
  const RuleFinding* costly = first_where(
      findings, [](const RuleFinding& f) {
        return is_serious(f) && f.finding.cost_pct.value_or(0) >= (f.rule->of_kernels ? kMinKernelGainPct : kMinGainPct);
      });
  if (costly != nullptr) {
    const RankMeasure* named = evidence.measure(costly->finding);
    const bool fits = named != nullptr && named->has_device == m.has_device;
    const RankMeasure& of = fits ? *named : m;
    std::optional<StepSaving> saving = saving_of(costly->finding, of, evidence.job);
    std::string text = device_question(of) + where(*costly, evidence.job) + gain(saving, costly->finding, of) +
                       larger_communication(evidence, costly->finding, of);
    return {std::move(text), VerdictKind::kBottleneck, std::move(saving), costly->rule->id};
  }
  if (with_device != nullptr) return verdict_of_use(evidence, findings, m);
  return m.host.mpi ? verdict_of_mpi(evidence) : verdict_of_host(m);
}

constexpr std::string_view kRecordDevice =
    "GPU activity: ProfilerActivity.CUDA in torch.profiler, nsys profile --trace=cuda, rocprofv3 --kernel-trace (AMD), "
    "or profgpu run --trace";

constexpr std::string_view kRecordRanks = "the traces of all ranks of the job, and give them together";

struct WorstValue {
  double value = 0;
  const RankMeasure* of = nullptr;
};

// Over the ranks with one.
std::optional<WorstValue> worst(const Evidence& evidence, const ChecklistEntry& entry) {
  std::optional<WorstValue> result;
  if (entry.of_several && evidence.ranks.size() < 2) return result;
  for (const RankDiagnosis& r : evidence.ranks) {
    const bool tells = (r.measure.has_device || entry.host_alone) && r.measure.no_evidence.empty();
    const std::optional<double> v = tells ? entry.value(evidence, r.measure) : std::nullopt;
    if (v && (!result || (entry.above ? *v < result->value : *v > result->value))) result = {*v, &r.measure};
  }
  return result;
}

std::string label_of(const ChecklistEntry& entry, const RankMeasure* m) {
  return std::string(m != nullptr && entry.label_of != nullptr ? entry.label_of(*m) : entry.label);
}

// What would answer the question; empty: another recording of this rank would not.
std::string_view to_record(const Evidence& evidence, const ChecklistEntry& entry) {
  if (entry.of_several && evidence.ranks.size() < 2) return evidence.lacks_ranks() ? kRecordRanks : "";
  const bool own = evidence.first_device() != nullptr || (entry.host_alone && !entry.record.empty());
  return own ? entry.record : kRecordDevice;
}

Check measured_check(const Evidence& evidence, const ChecklistEntry& entry) {
  const std::optional<WorstValue> most = worst(evidence, entry);
  const std::optional<double> value = most ? std::optional(most->value) : std::nullopt;
  const std::string label = label_of(entry, most ? most->of : nullptr);
  Check c{std::string(entry.id), std::string(entry.question), Verdict::kUnknown, value, entry.limit, label};
  if (value) {
    c.verdict = (entry.above ? *value > entry.limit : *value < entry.limit) ? Verdict::kPass : Verdict::kFail;
    c.brief = fmt::format("{} {:.1f} % ({} {:.0f})", label, *value, entry.above ? "over" : "under", entry.limit);
  } else if (entry.of_several && evidence.ranks.size() < 2 && !evidence.lacks_ranks()) {
    c.brief = label + " (one rank)";
    c.applies = false;
  }
  return c;
}

}  // namespace

ReportVerdict verdict(const Evidence& evidence, const std::vector<RuleFinding>& findings) {
  if (std::string hung = hang(evidence); !hung.empty()) return {std::move(hung), VerdictKind::kHang};
  // With samples beside them, too.
  const bool from_logs = !evidence.ranks.empty() && std::ranges::all_of(evidence.ranks, [](const RankDiagnosis& r) {
    return r.measure.of_log;
  });
  if (evidence.first_device() == nullptr && !evidence.logs.empty() && (evidence.telemetry.empty() || from_logs)) {
    ReportVerdict of_log = verdict_of_logs(evidence.logs, findings);
    if (const std::string busy = busy_by_samples(evidence.telemetry); !busy.empty()) of_log.text += " " + busy + ".";
    return of_log;
  }
  if (evidence.ranks.empty() && evidence.telemetry.empty() && evidence.flight)
    return {sentence_of_no_hang(*evidence.flight), VerdictKind::kInconclusive};
  if (evidence.ranks.empty()) {
    const std::string samples = verdict_of_samples(evidence.telemetry, findings);
    if (const std::string unknown = not_known_how_busy(evidence.telemetry); samples.empty() && !unknown.empty())
      return {unknown, VerdictKind::kInconclusive};
    if (samples.empty())
      return {"No device was used while these samples were taken. Take them while the job runs: `profgpu run -- COMMAND`.",
              VerdictKind::kInconclusive};
    return {samples, std::ranges::any_of(findings, is_serious) ? VerdictKind::kBottleneck : VerdictKind::kHealthy};
  }
  if (only_snapshots(evidence))
    return verdict_of_snapshots(evidence, findings);
  return verdict_of_steps(evidence, findings);
}

std::vector<Check> checklist(const Evidence& evidence, const std::vector<RuleFinding>& findings) {
  if (only_snapshots(evidence)) return {};
  const RankMeasure* first = evidence.first_device();
  std::vector<std::pair<const ChecklistEntry*, const Rule*>> entries;
  for (const Rule* rule : rules())
    for (const ChecklistEntry& entry : rule->checklist) entries.emplace_back(&entry, rule);
  std::ranges::stable_sort(entries, {}, [](const auto& e) { return e.first->order; });
  std::vector<Check> list;
  for (const auto& [entry, rule] : entries) {
    if (entry->value != nullptr) {
      list.push_back(measured_check(evidence, *entry));
      continue;
    }
    const bool found = std::ranges::count(findings, rule, &RuleFinding::rule) > 0;
    const RankMeasure* of = first == nullptr && entry->host_alone ? evidence.main_rank() : first;
    const bool applies = of == nullptr || !of->infers || !entry->of_training;
    const Verdict result = of == nullptr || !applies ? Verdict::kUnknown : entry->judge(*of, found);
    list.push_back({std::string(entry->id), std::string(entry->question), result, {}, {}, label_of(*entry, of)});
    list.back().applies = applies;
    if (!applies) list.back().brief += " (no training)";
  }
  for (size_t i = 0; i < list.size(); ++i)
    if (list[i].verdict == Verdict::kUnknown && list[i].applies) list[i].record = to_record(evidence, *entries[i].first);
  return list;
}

}  // namespace profgpu
