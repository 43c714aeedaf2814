// A process that takes longer for its steps than the others, by what each of them prints.
#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "analyse/report/quantity.h"
#include "analyse/rules/log_checks.h"
#include "base/statistics.h"

namespace profgpu {
namespace {

constexpr size_t kFewestProcesses = 3;   // processes: of two it is not known which is the slow one

// In one log, or in one each.
const std::vector<LogProcess>& processes_beside(const LogReport& log) {
  return log.processes.empty() ? log.beside : log.processes;
}

// Of the processes but the slowest, which comes first.
double others_ns(const LogReport& log) {
  std::vector<double> means;
  for (const LogProcess& p : std::span(processes_beside(log)).subspan(1)) means.push_back(static_cast<double>(p.mean_ns));
  return median_of(means);
}

double longer_pct(const LogProcess& p, double usual_ns) {
  return usual_ns > 0 ? 100 * (static_cast<double>(p.mean_ns) / usual_ns - 1) : 0;
}

std::optional<double> slow_rank_pct(const LogReport& log) {
  if (processes_beside(log).size() < kFewestProcesses) return std::nullopt;
  return longer_pct(processes_beside(log).front(), others_ns(log));
}

// "rank 5 on node07", "pid 4711 on 10.0.0.1"
std::string process_text(const LogProcess& p) {
  std::string text = p.rank ? fmt::format("rank {}", *p.rank) : p.pid > 0 ? fmt::format("pid {}", p.pid) : "";
  if (p.node.empty()) return text.empty() ? "a process" : text;
  return text.empty() ? p.node : text + " on " + p.node;
}

const LogRank* steps_of(const LogReport& log, const LogProcess& p) {
  if (log.processes.empty()) return &log.log->ranks.front();
  return first_where(log.log->ranks,
                     [&](const LogRank& r) { return r.rank == p.rank && r.node == p.node && r.pid == p.pid; });
}

// From which step on all of its steps are longer, where earlier ones are not.
std::optional<int64_t> slow_since(const std::vector<LogStep>& steps, double usual_ns, double limit_pct) {
  const double limit_ns = usual_ns * (1 + limit_pct / 100);
  const auto is_usual = [&](const LogStep& s) { return static_cast<double>(s.duration_ns.value_or(0)) <= limit_ns; };
  const auto last = std::find_if(steps.rbegin(), steps.rend(), is_usual);
  if (last == steps.rbegin() || last == steps.rend()) return std::nullopt;
  const auto earlier = std::count_if(last, steps.rend(), is_usual), later = std::distance(steps.rbegin(), last);
  constexpr ptrdiff_t kSteady = 3;   // lines
  return earlier >= kSteady && later >= kSteady ? std::optional(std::prev(last)->number) : std::nullopt;
}

void describe_slow_rank(const LogReport& log, Finding& f) {
  constexpr size_t kMostNamed = 4;
  const double usual_ns = others_ns(log), limit_pct = f.threshold.value_or(0);
  const LogProcess& slowest = processes_beside(log).front();
  const LogRank* of = steps_of(log, slowest);
  const auto since = of != nullptr ? slow_since(of->steps, usual_ns, limit_pct) : std::nullopt;
  f.what = fmt::format("{} takes {} per step, where {} is usual{}", process_text(slowest),
                       format_duration(static_cast<double>(slowest.mean_ns)), format_duration(usual_ns),
                       since ? fmt::format("; it is slower from step {} on", *since) : "");
  f.why = "The times are those that each process prints of its own steps. Where processes wait for each other, the "
          "slowest sets the pace.";
  f.fix = {"clocks and temperature of that GPU: nvidia-smi -q -d CLOCK,PERFORMANCE; Xid messages: profgpu doctor",
           "the load on that host: its CPU, its disk, other programs, the data that this process reads",
           "record a trace on that rank and on another one with `profgpu run --trace`, then `profgpu diff`"};
  if (since) f.seen.step = since;
  for (const LogProcess& p : processes_beside(log)) {
    if (longer_pct(p, usual_ns) <= limit_pct || f.evidence.size() >= kMostNamed) break;
    if (p.rank) f.ranks.push_back(*p.rank);
    f.evidence.push_back(fmt::format("{}: {} per step ({} more)", process_text(p),
                                     format_duration(static_cast<double>(p.mean_ns)),
                                     format_percent(longer_pct(p, usual_ns), 0)));
  }
}

}  // namespace

extern const Rule kSlowRank = {
    .id = "slow-rank",
    .summary = "one process's steps take longer than the others', by the job's own log",
    .unit = "%",
    .threshold = 10,
    .severe = 50,
    .meaning =
        "Processes that do the same work take the same time for it. One that takes longer has a slower GPU or host, or "
        "more to do, and holds up all others where they wait for it.",
    .computation =
        "Value: by how much the mean measured step of the slowest process exceeds the median of the others' means, "
        "where the log has steps of at least three processes. No cost: what the others wait, the log does not say.",
    .advice = {"clocks, temperature and errors of that GPU: nvidia-smi -q, profgpu doctor",
               "the load on its host: CPU, disk, network, other programs",
               "equal work per rank: DistributedSampler, bucketing by length"},
    .verdict = "One process's steps take {} longer than the others'.",
    .log = {.value = slow_rank_pct, .describe = describe_slow_rank},
};

}  // namespace profgpu
