// The first sentence of a report: where the time goes, and what is to be gained.
#include <fmt/format.h>

#include <algorithm>

#include "analyse/report/quantity.h"
#include "analyse/rules/measure.h"
#include "analyse/rules/rule.h"
#include "base/text.h"

namespace profgpu {
namespace {

// A gain below this is not worth a sentence.
constexpr double kWorthPct = 3;

// Nobody gets a program so many times faster by one change: what is left would have its own causes.
constexpr double kManyTimes = 10;

// By Phase.
constexpr std::array<std::string_view, kPhases> kPhaseWords = {
    "data loading", "forward", "backward", "the optimizer", "waiting for communication", "saving checkpoints",
    "work outside the known phases"};

std::string where(const Answer& a, const Job* job) {
  if (!a.finding.verdict.empty()) return a.finding.verdict;
  if (a.rule->verdict_of != nullptr) return a.rule->verdict_of(a.finding, job);
  return a.rule->verdict.empty() ? fmt::format("{} stands out: {}.", a.rule->id, a.finding.what)
                                 : fmt::format(fmt::runtime(a.rule->verdict), share_text(a.finding));
}

std::string gain(const Finding& f, const RankMeasure& m) {
  const double step = static_cast<double>(m.wall_ns) / static_cast<double>(std::max<int64_t>(m.steps, 1));
  const double without = step * (1 - *f.cost_pct / 100);
  if (without <= 0) return "";
  const char* unit = m.annotated ? "a step" : "this";
  const double faster = step / without;
  if (faster > kManyTimes)
    return fmt::format(" Without that {} would take {} at best instead of {}.", unit, duration_text(without),
                       duration_text(step));
  return fmt::format(" Without that {} would take about {} instead of {} ({:.{}f} times as fast).", unit,
                     duration_text(without), duration_text(step), faster, faster < 1.095 ? 2 : 1);
}

std::string largest_part(const RankMeasure& m) {
  const auto largest = std::ranges::max_element(m.phases, {}, &PhaseShare::wall_ns);
  if (largest == m.phases.end()) return "nothing ran";
  const std::optional<Phase> phase = phase_called(largest->name);
  if (phase == Phase::kOther && largest->wall_pct > 95) return "no phase of training was recognised";
  const std::string_view words = phase ? kPhaseWords[static_cast<size_t>(*phase)] : std::string_view(largest->name);
  return fmt::format("the largest part of the time is {} ({:.0f} %)", words, largest->wall_pct);
}

std::string verdict_of_samples(const std::vector<DeviceTelemetry>& telemetry, const std::vector<Answer>& answers) {
  const DeviceTelemetry* least = nullptr;
  const auto busy = [](const DeviceTelemetry& d) {
    const SeriesSummary* s = d.find(Metric::kUtilization);
    return s ? s->mean : std::nullopt;
  };
  for (const DeviceTelemetry& d : telemetry)
    if (d.used() && busy(d) && (!least || *busy(d) < *busy(*least))) least = &d;
  if (!least) return "No device in these samples did anything.";
  const Answer* other = first_where(answers, [](const Answer& a) { return !a.rule->symptom; });
  const std::string who = telemetry.size() > 1 ? least->label() + ", the least busy," : least->label();
  if (other != nullptr)
    return fmt::format("{} is busy {:.0f} % of the time; {}.", who, *busy(*least), other->finding.what);
  if (answers.empty())
    return fmt::format("{} is busy {:.0f} % of the time and nothing stands out.", who, *busy(*least));
  return fmt::format("{} is busy {:.0f} % of the time. {}", who, *busy(*least), answers.front().finding.why);
}

// A job that hangs has no other trouble worth the first word.
std::string hang(const Evidence& evidence) {
  const MissingCalls* never = evidence.hang();
  if (never == nullptr) return "";
  const std::string step = never->step >= 0 ? fmt::format(" in step {}", never->step) : "";
  return fmt::format("Rank {} never arrives at {}{}, in which {} to the end: the job hangs there.",
                     never->rank, never->name, step,
                     never->others == 1 ? "another rank waits" : fmt::format("{} other ranks wait", never->others));
}

bool is_grave(const Answer& a) { return a.finding.severity != Severity::kInfo; }

// The trace of a program on the CPU looks the same as one in which GPU activity was not recorded.
FirstSentence verdict_of_host(const RankMeasure& m) {
  std::string places;
  for (const Place& p : m.host_places)
    append_listed(places, fmt::format("{} ({} a step)", place_text(p),
                                      duration_text(static_cast<double>(p.ns / std::max<int64_t>(m.steps, 1)))));
  return {fmt::format("No GPU activity is in this trace{} On the host {}.",
                      m.cut_off ? ", which is cut off." : ": was ProfilerActivity.CUDA on?",
                      places.empty() ? largest_part(m) : "most time goes into " + places),
          VerdictKind::kInconclusive};
}

// Where no single cause has a cost that is worth a sentence.
FirstSentence verdict_of_use(const Evidence& evidence, const std::vector<Answer>& answers, const RankMeasure& m) {
  const Answer* other = first_where(answers, [&](const Answer& a) { return is_grave(a) && !a.rule->symptom; });
  if (other != nullptr && !other->finding.verdict.empty()) return {other->finding.verdict, VerdictKind::kBottleneck};
  std::string also = other == nullptr ? "" : fmt::format(" What stands out: {}.", other->finding.what);
  if (std::string loss = clock_loss(evidence, m); !loss.empty()) {
    loss.front() = static_cast<char>(std::toupper(static_cast<unsigned char>(loss.front())));
    also += " " + loss + ".";
  }
  const auto kind = [&](VerdictKind without) { return other != nullptr ? VerdictKind::kBottleneck : without; };
  const double untraced = m.idle_pct[static_cast<size_t>(IdleCause::kUntracedWork)];
  const std::string busy =
      untraced < kWorthPct
          ? fmt::format("The GPU is busy {:.0f} % of the time", m.utilization_pct)
          : fmt::format("For {:.0f} % of the time the GPU works on something that is not in the trace; of the rest it is "
                        "busy {:.0f} %",
                        untraced, m.known_utilization_pct);
  const bool little_known = untraced >= 50 || (m.known_utilization_pct < 80 &&
                                               m.largest_idle_cause() == IdleCause::kUnknown);
  if (m.known_utilization_pct < 80)
    return {fmt::format("{}; most of the idle time is {} ({:.0f} % of the time).{}", busy,
                        idle_cause_words(m.largest_idle_cause()), m.largest_idle_pct(), also),
            kind(little_known ? VerdictKind::kInconclusive : VerdictKind::kBottleneck)};
  const VerdictKind alone = little_known ? VerdictKind::kInconclusive : VerdictKind::kHealthy;
  double least = 100;
  for (const RankDiagnosis& r : evidence.ranks) least = std::min(least, r.measure.least_utilization_pct);
  if (least < 80)
    return {fmt::format("{}, another {:.0f} % of it; {}.{}", busy, least, largest_part(m), also),
            kind(VerdictKind::kBottleneck)};
  if (!also.empty()) return {fmt::format("{}; {}.{}", busy, largest_part(m), also), VerdictKind::kBottleneck};
  return {fmt::format("{} and nothing stands out; {}.", busy, largest_part(m)), alone};
}

FirstSentence verdict_of_steps(const Evidence& evidence, const std::vector<Answer>& answers) {
  const RankMeasure* with_device = evidence.first_device();
  const RankMeasure& m = with_device != nullptr ? *with_device : evidence.ranks.front().measure;
  if (m.captures)
    return {"A CUDA graph is captured: almost nothing runs, so this is no run to judge.", VerdictKind::kCapture};
  if (m.is_too_little())
    return {fmt::format("The trace holds only {} of GPU work, too little to judge: record a few whole steps.",
                        m.activities == 1 ? "one piece" : fmt::format("{} pieces", m.activities)),
            VerdictKind::kInconclusive};
  const Answer* costly = first_where(
      answers, [&](const Answer& a) { return is_grave(a) && a.finding.cost_pct.value_or(0) >= kWorthPct; });
  if (costly != nullptr) {
    const RankMeasure* named = evidence.measure(costly->finding);
    const bool fits = named != nullptr && named->has_device == m.has_device;
    return {where(*costly, evidence.job) + gain(costly->finding, fits ? *named : m), VerdictKind::kBottleneck};
  }
  if (with_device == nullptr) return verdict_of_host(m);
  return verdict_of_use(evidence, answers, m);
}

// The lowest (or highest) value over the ranks that have one.
std::optional<double> worst(const Evidence& evidence, const ChecklistEntry& entry) {
  std::optional<double> result;
  if (entry.of_several && evidence.ranks.size() < 2) return result;
  for (const RankDiagnosis& r : evidence.ranks) {
    const std::optional<double> v = r.measure.has_device ? entry.value(r.measure) : std::nullopt;
    if (v && (!result || (entry.above ? *v < *result : *v > *result))) result = v;
  }
  return result;
}

Check measured_check(const Evidence& evidence, const ChecklistEntry& entry) {
  const std::optional<double> value = worst(evidence, entry);
  const std::string label(entry.label);
  Check c{std::string(entry.id), std::string(entry.question), Verdict::kUnknown, value, entry.limit, label};
  if (value) {
    c.verdict = (entry.above ? *value > entry.limit : *value < entry.limit) ? Verdict::kPass : Verdict::kFail;
    c.brief = fmt::format("{} {:.1f} % ({} {:.0f})", label, *value, entry.above ? "over" : "under", entry.limit);
  } else if (entry.of_several && evidence.ranks.size() < 2) {
    c.brief = label + " (one rank)";
  }
  return c;
}

}  // namespace

FirstSentence verdict(const Evidence& evidence, const std::vector<Answer>& answers) {
  if (evidence.ranks.empty()) {
    const bool quiet = std::ranges::none_of(answers, is_grave);
    return {verdict_of_samples(evidence.telemetry, answers), quiet ? VerdictKind::kHealthy : VerdictKind::kBottleneck};
  }
  if (std::string hung = hang(evidence); !hung.empty()) return {std::move(hung), VerdictKind::kHang};
  return verdict_of_steps(evidence, answers);
}

std::vector<Check> checklist(const Evidence& evidence, const std::vector<Answer>& answers) {
  if (evidence.ranks.empty()) return {};
  const RankMeasure* first = evidence.first_device();
  std::vector<std::pair<const ChecklistEntry*, const Rule*>> entries;
  for (const Rule* rule : rules())
    for (const ChecklistEntry& entry : rule->checklist) entries.emplace_back(&entry, rule);
  std::ranges::stable_sort(entries, {}, [](const auto& e) { return e.first->place; });
  std::vector<Check> list;
  for (const auto& [entry, rule] : entries) {
    if (entry->value != nullptr) {
      list.push_back(measured_check(evidence, *entry));
      continue;
    }
    const bool found = std::ranges::count(answers, rule, &Answer::rule) > 0;
    const Verdict said = first == nullptr ? Verdict::kUnknown : entry->judge(*first, found);
    list.push_back({std::string(entry->id), std::string(entry->question), said, {}, {}, std::string(entry->label)});
  }
  return list;
}

}  // namespace profgpu
