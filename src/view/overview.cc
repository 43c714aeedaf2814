#include "view/overview.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <set>
#include <tuple>
#include <utility>

#include "analyse/report/quantity.h"
#include "base/text.h"
#include "view/wording.h"

namespace profgpu {
namespace {

constexpr double kVisiblePct = 0.05;  // less would read 0.0 %
constexpr double kNotablePct = 1;     // whether less than that hides behind compute does not matter

void add_note(DeviceOverview& device, const char* name, double pct, double exposed) {
  if (pct < kVisiblePct) return;
  std::string note = fmt::format("{} {}", name, format_percent(pct));
  if (exposed >= kVisiblePct && pct >= kNotablePct)
    note += fmt::format(", {} exposed", std::abs(exposed - pct) < kVisiblePct ? "all" : format_percent(exposed));
  device.notes.push_back(std::move(note));
}

constexpr double kNotableUntracedPct = 3;   // of the window

// Of a step of a program without a device: its own work, and the calls.
std::vector<Share> mpi_shares(const MpiTime& mpi, double step_ns) {
  const double outside_pct = percent_of(mpi.outside_ns, mpi.wall_ns);
  std::vector<Share> all = {{"outside MPI", step_ns * outside_pct / 100, outside_pct},
                            {"in MPI", step_ns * mpi.pct() / 100, mpi.pct()}};
  if (const double rest = 100 - outside_pct - mpi.pct(); rest >= kVisiblePct)
    all.push_back({"starting MPI", step_ns * rest / 100, rest});
  return all;
}

// "GPU 0 over 6 steps (1.05 s)": the window of its shares.
std::string device_title(const std::string& name, const DeviceUse& use, const RankReport& rank) {
  const std::string time = format_duration(static_cast<double>(use.window_ns));
  const int64_t measured = rank.average_step && rank.steps.marked() ? rank.average_step->steps : 0;
  const auto all = static_cast<int64_t>(rank.steps.steps.size());
  // The window may go on to work that no step waits for.
  const bool fits = measured > 0 && 100 * use.window_ns <= 105 * measured * rank.average_step->elapsed_ns;
  if (fits && (use.of_steps || measured == all))
    return fmt::format("{} over {} ({})", name, plural(measured, "step", "steps"), time);
  return name + ", " + time;
}

DeviceOverview device_overview(const DeviceUse& use, const RankReport& rank) {
  DeviceOverview out;
  out.name = "GPU " + format_count(use.device);
  const std::string of_host = use.host_index >= 0 ? fmt::format(" (GPU {} of the host)", use.host_index) : "";
  out.title = device_title(out.name + of_host, use, rank);
  for (const IdleShare& idle : use.idle)
    if (idle.window_pct >= kVisiblePct && idle.cause != IdleCause::kUntracedWork)
      out.causes.push_back({words(idle_cause_name(idle.cause)), static_cast<double>(idle.total_ns), idle.window_pct});
  if (use.window_ns <= 0) return out;
  const auto share = [&](int64_t ns) { return percent_of(ns, use.window_ns); };
  out.busy_pct = use.busy_pct();
  const double untraced_pct = use.idle_pct(IdleCause::kUntracedWork);
  out.unrecorded_pct = untraced_pct >= kVisiblePct ? untraced_pct : 0;
  out.idle_pct = std::max(0.0, share(use.window_ns - use.busy_ns) - out.unrecorded_pct);
  const double no_requests_pct = use.idle_pct(IdleCause::kNoRequests);
  if (const double without = untraced_pct + no_requests_pct; without >= kNotableUntracedPct && without < 100)
    out.notes.push_back(fmt::format("busy {} of {}", format_percent(100 * *out.busy_pct / (100 - without)),
                                    no_requests_pct > untraced_pct ? "the time with requests" : "the recorded time"));
  add_note(out, "communication", share(use.communication_ns), share(use.exposed_communication_ns));
  add_note(out, "copies", share(use.memory_ns), share(use.exposed_memory_ns));
  return out;
}

}  // namespace

std::string folder_of_inputs(const Report& report) {
  constexpr size_t kNamedEach = 2;
  if (report.inputs.size() <= kNamedEach) return {};
  const auto folder = [](const InputFile& input) { return input.path.substr(0, input.path.rfind('/') + 1); };
  std::string common = folder(report.inputs.front());
  for (const InputFile& input : report.inputs)
    if (folder(input) != common) return {};
  if (common.size() > 1) common.pop_back();
  return common;
}

bool is_whole_trace(const Report& report) {
  return !report.ranks.empty() && report.ranks.front().steps.is_whole_trace();
}

StepOverview step_overview(const RankReport& rank) {
  const bool steps = rank.steps.marked();
  StepOverview out{steps ? "A step" : "The whole trace", {}};
  if (!rank.average_step) return out;
  const auto mean_ns = static_cast<double>(rank.average_step->duration_ns);
  out.title += (steps ? " of " : ", ") + format_duration(mean_ns);
  // The host launches and goes on, or the loop does something between the ranges that it marks.
  const auto elapsed_ns = static_cast<double>(rank.average_step->elapsed_ns);
  const bool later = steps && format_duration(elapsed_ns) != format_duration(mean_ns);
  const double whole_ns = later && elapsed_ns > mean_ns ? elapsed_ns : mean_ns;
  if (later) out.title = "A step of " + format_duration(elapsed_ns);
  if (later && elapsed_ns < mean_ns)
    out.title += fmt::format(", shares of {} {}", format_duration(mean_ns),
                             rank.average_step->works_between ? "in its range" : "on the host");
  if (rank.average_step->includes_hang) out.title += " with the one that hangs";
  const bool no_phase = std::ranges::all_of(rank.average_step->phases, [](const PhaseShare& phase) {
    return phase.name == phase_name(Phase::kOther) || phase.wall_pct < kVisiblePct;
  });
  if (no_phase && rank.mpi && rank.devices.empty()) {
    out.phases = mpi_shares(*rank.mpi, mean_ns);
    return out;
  }
  const auto add_share = [&](std::string name, double ns) {
    const double pct = whole_ns > 0 ? 100 * ns / whole_ns : 0;
    if (pct >= kVisiblePct) out.phases.push_back({std::move(name), ns, pct});
  };
  for (const PhaseShare& phase : rank.average_step->phases)
    add_share(phase_words(phase.name), mean_ns * phase.wall_pct / 100);
  const bool between = rank.average_step->works_between || rank.devices.empty();   // no device finishes later
  if (whole_ns > mean_ns) add_share(between ? "between steps" : "GPU finishing", whole_ns - mean_ns);
  return out;
}

std::vector<DeviceOverview> device_overviews(const RankReport& rank) {
  std::vector<DeviceOverview> out;
  for (const DeviceUse& use : rank.use) out.push_back(device_overview(use, rank));
  return out;
}

double per_step(const Report& report, const Finding& finding, int64_t ns) {
  const int64_t steps = finding.steps > 0 ? finding.steps : report.measured_steps;
  return static_cast<double>(ns) / static_cast<double>(std::max<int64_t>(steps, 1));
}

std::optional<double> cost_of_step(const Report& report, const Finding& finding) {
  if (!finding.cost_ns) return std::nullopt;
  return per_step(report, finding, *finding.cost_ns);
}

std::string ranks_concerned(const Report& report, const Finding& finding) {
  const std::vector<int>& ranks = finding.ranks;
  if (report.ranks.size() < 2 || ranks.empty() || ranks.size() >= report.ranks.size()) return {};
  return finding.names_ranks ? "" : ranks_text(ranks);
}

namespace {

constexpr double kNotableGainPct = 3;    // of a step: a change that gains less is no advice
constexpr double kSpreadPct = 2;         // ranks that synchronize in every step differ by less
constexpr double kClockApart_ns = 1e6;   // a timeline of both ranks without alignment would mislead
constexpr double kClockError_ns = 1e5, kClockErrorPct = 1;   // of a step: shorter waits are uncertain
constexpr size_t kMaxWays = 3, kMaxChanges = 3;

// "pipeline parallel in groups of 4 (bubble 51 % of a step)"
std::string way_text(const Parallelism& way) {
  std::string text = parallelism_name(way);
  if (way.groups > 1 && way.group_size > 0) text += fmt::format(" in groups of {}", format_count(way.group_size));
  if (way.pipeline) text += fmt::format(" (bubble {} of a step)", format_percent(way.pipeline->bubble_pct, 0));
  return text;
}

// Only where exposed communication is transfers: in a pipeline it is the bubble, with a late rank the waiting for it.
std::string hidden_text(const Report& report, const Job& job) {
  if (std::ranges::all_of(report.ranks, &std::vector<DeviceRow>::empty, &RankReport::devices)) return {};
  if (job.hangs() || !job.stragglers.empty() || job.late_by_turns) return {};
  double communication = 0, exposed = 0;
  for (const Parallelism& way : job.parallelism) {
    if (way.kind == ParallelKind::kPipeline) return {};
    communication += static_cast<double>(way.communication_ns_per_step);
    exposed += static_cast<double>(way.exposed_ns_per_step);
  }
  if (communication <= 0) return {};
  return format_percent(100 * std::max(0.0, communication - exposed) / communication, 0) + " of communication hidden";
}

std::string job_title(const Report& report, const Job& job) {
  const auto here = static_cast<int64_t>(report.ranks.size());
  const int64_t all = job.world_size.value_or(0);
  std::string title =
      all > here ? format_count(here) + " of " + plural(all, "rank", "ranks") : plural(here, "rank", "ranks");
  std::set<std::string_view> hosts;
  for (const RankReport& rank : report.ranks)
    if (!rank.host.empty()) hosts.insert(rank.host);
  if (hosts.size() > 1) title += " on " + plural(static_cast<int64_t>(hosts.size()), "host", "hosts");
  std::vector<std::string> facts;
  for (const Parallelism& way : job.parallelism)
    if (way.kind != ParallelKind::kUnknown && facts.size() < kMaxWays) facts.push_back(way_text(way));
  if (const std::string hidden = hidden_text(report, job); !hidden.empty()) facts.push_back(hidden);
  if (job.step_spread_pct >= kSpreadPct) facts.push_back("steps differ by " + format_percent(job.step_spread_pct));
  return facts.empty() ? title : title + ": " + joined(facts);
}

// Ranks that miss the same call are named together; they follow each other.
std::vector<std::string> missing_texts(const std::vector<MissingCalls>& all) {
  const auto same = [](const MissingCalls& a, const MissingCalls& b) {
    const auto call = [](const MissingCalls& m) {
      return std::tie(m.kind, m.name, m.process_group, m.number, m.step, m.calls, m.first_ns, m.others);
    };
    return call(a) == call(b);
  };
  std::vector<std::string> out;
  for (size_t i = 0, end = 0; i < all.size(); i = end) {
    const MissingCalls& m = all[i];
    std::vector<int> ranks;
    for (; end < all.size() && same(m, all[end]); ++end) ranks.push_back(all[end].rank);
    std::string where = m.process_group.empty() ? "" : " of group " + m.process_group;
    if (m.step != -1) where += ", step " + std::to_string(m.step);
    const std::string others = plural(m.others, "other rank", "other ranks");
    if (m.never_arrived())
      out.push_back(fmt::format("{} never arrived at {} {}{}: {} wait in it to the end of their traces",
                                ranks_text(ranks), m.name, m.number, where, others));
    else
      out.push_back(fmt::format("{}: no record of {} to {}{}{}, which {} made: the trace lost it, or the rank took "
                                "another branch",
                                ranks_text(ranks), plural(m.calls, "call", "calls"), m.name, where,
                                m.calls > 1 ? " and later" : "", others));
  }
  return out;
}

// Of the clocks that collectives tie to the first rank's.
struct ClockRange {
  double offset_ns = 0, error_ns = 0, drift_ppm = 0;   // largest, by absolute value
  int ahead = 0;                                       // whose offset it is

  explicit ClockRange(const std::vector<RankClock>& clocks) {
    for (const RankClock& c : clocks) {
      if (!c.known()) continue;
      if (take(offset_ns, static_cast<double>(c.offset_ns))) ahead = c.rank;
      take(error_ns, static_cast<double>(c.error_ns.value_or(0)));
      take(drift_ppm, c.drift_ppm);
    }
  }

 private:
  static bool take(double& largest, double value) {
    if (std::abs(value) <= std::abs(largest)) return false;
    largest = value;
    return true;
  }
};

std::vector<std::string> notes_of(const Job& job, const ClockRange& clocks) {
  std::vector<std::string> out = job.notes;
  double step_ns = 0;
  for (const auto& [rank, ns] : job.step_mean_ns) step_ns = std::max(step_ns, static_cast<double>(ns));
  if (clocks.error_ns > std::max(kClockError_ns, kClockErrorPct / 100 * step_ns))
    out.push_back(fmt::format("clocks are aligned only to within {}, so waits of ranks for each other are as uncertain",
                              format_duration(clocks.error_ns)));
  return out;
}

std::string clocks_text(const ClockRange& clocks) {
  if (std::abs(clocks.offset_ns) < kClockApart_ns) return {};
  const double drift = std::abs(clocks.drift_ppm);
  return fmt::format("Clocks: rank {}'s is {} {} the first rank's{}; aligned to within {}", clocks.ahead,
                     format_duration(std::abs(clocks.offset_ns)), clocks.offset_ns < 0 ? "ahead of" : "behind",
                     drift >= 1 ? fmt::format(" and drifts by {} ppm", format_number(drift)) : "",
                     format_duration(clocks.error_ns));
}

std::string what_if_of(const std::vector<WhatIf>& all) {
  std::vector<const WhatIf*> notable;
  bool like_others = false;   // the first such row is of all stragglers together
  for (const WhatIf& w : all) {
    const bool straggler = w.change == "straggler_median";
    if (w.saved_pct >= kNotableGainPct && !(straggler && like_others)) notable.push_back(&w);
    like_others |= straggler;
  }
  std::ranges::stable_sort(notable, std::greater(), &WhatIf::saved_ns_per_step);
  if (notable.empty()) return {};
  notable.resize(std::min(notable.size(), kMaxChanges));
  const auto step_ns = static_cast<double>(notable[0]->step_ns + notable[0]->saved_ns_per_step);
  return fmt::format("A step of {} would take {}", format_duration(step_ns), joined(notable, ", ", [](const WhatIf* w) {
                       return fmt::format("{}{} {}", w->lower_bound ? "at most " : "",
                                          format_duration(static_cast<double>(w->step_ns)), change_words(*w));
                     }));
}

}  // namespace

JobOverview job_overview(const Report& report) {
  if (report.job == nullptr) return {};
  const Job& job = *report.job;
  const ClockRange clocks(job.clocks);
  JobOverview out{job_title(report, job), missing_texts(job.missing), notes_of(job, clocks), {}};
  for (const std::string& remark : {what_if_of(job.what_if), clocks_text(clocks)})
    if (!remark.empty()) out.remarks.push_back(remark);
  return out;
}

std::string late_text(const RankStanding& rank) {
  if (!rank.straggler) return {};
  const Straggler& s = *rank.straggler;
  return fmt::format("{} by {} per step ({}): {}", s.kind == "slow_link" ? "transfers longer" : "late",
                     format_duration(static_cast<double>(s.excess_ns_per_step)), format_percent(s.excess_pct, 0),
                     straggler_words(s.kind));
}

std::string straggler_words(std::string_view kind) {
  return kind.empty() || kind == "unknown" ? "cause unknown" : words(kind);
}

std::string parallelism_name(const Parallelism& way) {
  if (way.kind == ParallelKind::kFsdpOrZero2) return "FSDP or ZeRO-2";
  if (way.kind == ParallelKind::kFsdpOrZero3) return "FSDP or ZeRO-3";
  if (way.kind == ParallelKind::kUnknown) return "no known pattern";
  const std::string sentence = way.words();
  const size_t colon = sentence.find(':');
  return colon == std::string::npos ? words(parallel_kind_name(way.kind)) : sentence.substr(0, colon);
}

std::string change_words(const WhatIf& change) {
  using Words = std::pair<std::string_view, std::string_view>;
  constexpr std::array kNames = {Words{"communication_free", "without transfers"},
                                 Words{"input_free", "with input always ready"},
                                 Words{"host_bound_free", "if work were launched in time"},
                                 Words{"even_ranks", "with all ranks alike in each step"},
                                 Words{"even_stages", "with even pipeline stages"}};
  if (change.change == "straggler_median") return "with " + ranks_text(change.ranks) + " like the others";
  for (const auto& [code, text] : kNames)
    if (code == change.change) return std::string(text);
  return "with " + words(change.change);
}

}  // namespace profgpu
