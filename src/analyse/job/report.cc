#include "analyse/job/report.h"

#include <algorithm>
#include <array>
#include <functional>

namespace profgpu {
namespace {

constexpr double kAlikePct = 2;     // ranks whose steps differ by less are not ordered by duration
constexpr double kHangRatio = 1.01; // beyond rounding: the mean includes the step in which the job hangs

RankStanding standing(const Job* job, const RankReport& rank, const std::map<int, const Straggler*>& stragglers) {
  RankStanding out;
  out.rank = rank.rank;
  out.host = rank.host;
  if (rank.average_step) out.step_ns = rank.average_step->elapsed_ns;
  if (job && (job->hangs() || !rank.average_step))   // without the step that hangs
    if (const auto mean = job->step_mean_ns.find(rank.rank); mean != job->step_mean_ns.end())
      out.step_ns = mean->second;
  if (const DeviceRow* busiest = rank.busiest()) {
    const DeviceUse* use = first_where(rank.use, [&](const DeviceUse& u) { return u.device == busiest->id; });
    if (use != nullptr && use->window_ns > 0) out.busy_pct = use->busy_pct();
  }
  if (rank.mpi && rank.devices.empty()) {
    out.mpi_pct = rank.mpi->pct();
    if (const MpiFunction* longest = rank.mpi->longest()) out.mpi_function = longest->name;
  }
  if (const auto late = stragglers.find(rank.rank); late != stragglers.end()) out.straggler = late->second;
  return out;
}

// Whether a rank's records are complete.
bool is_whole(const Report& report, int rank) {
  constexpr std::array<std::string_view, 4> kLost = {"truncated", "damaged", "out_of_range", "dropped"};
  const auto lost = [&](std::string_view kind) { return std::ranges::count(kLost, kind) > 0; };
  return std::ranges::none_of(report.inputs, [&](const InputFile& file) {
    return file.rank == rank && std::ranges::any_of(file.issues, lost, &Issue::kind);
  });
}

void put_in_order(std::vector<RankStanding>& all) {
  const auto [least, most] = std::ranges::minmax_element(all, {}, &RankStanding::step_ns);
  const auto longest = static_cast<double>(most->step_ns.value_or(0)),
             shortest = static_cast<double>(least->step_ns.value_or(0));
  const bool alike = longest - shortest < kAlikePct / 100 * longest;
  std::ranges::stable_sort(all, std::greater(), [&](const RankStanding& s) {
    return std::pair(s.straggler ? s.straggler->excess_ns_per_step : 0, alike ? 0 : s.step_ns.value_or(0));
  });
}

// A memory snapshot alone tells nothing of time.
bool is_snapshot_alone(const RankReport& rank) { return rank.snapshot && rank.devices.empty() && rank.ops.empty(); }

}  // namespace

void compare_ranks(Report& report) {
  report.standings.clear();
  report.focus = report.ranks.empty() ? -1 : 0;
  if (report.ranks.size() < 2) return;
  if (std::ranges::all_of(report.ranks, is_snapshot_alone)) {
    const auto need = [](const RankReport& r) {
      return std::pair(r.snapshot->oom ? r.snapshot->oom->requested_bytes : -1, r.snapshot->peak.allocated_bytes);
    };
    report.focus = static_cast<int>(std::ranges::max_element(report.ranks, {}, need) - report.ranks.begin());
    return;
  }
  std::map<int, const Straggler*> stragglers;
  if (report.job)
    for (const Straggler& s : report.job->stragglers) stragglers.try_emplace(s.rank, &s);
  for (RankReport& rank : report.ranks) {
    report.standings.push_back(standing(report.job.get(), rank, stragglers));
    if (!rank.average_step || !report.job || !report.job->hangs()) continue;
    const double usual_ns = static_cast<double>(report.standings.back().step_ns.value_or(0));
    rank.average_step->includes_hang = static_cast<double>(rank.average_step->duration_ns) > kHangRatio * usual_ns;
  }
  put_in_order(report.standings);
  const RankStanding* telling = first_where(report.standings, [&](const RankStanding& s) {
    return s.straggler || (s.busy_pct && is_whole(report, s.rank));
  });
  const int rank = telling != nullptr ? telling->rank : report.standings.front().rank;
  const auto found = std::ranges::find(report.ranks, rank, &RankReport::rank);
  report.focus = static_cast<int>(found - report.ranks.begin());
}

}  // namespace profgpu
