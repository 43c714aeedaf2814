#include <algorithm>

#include "present/first_screen.h"
#include "present/grid.h"
#include "present/overview.h"
#include "present/wording.h"
#include "report/quantity.h"

namespace profgpu {
namespace {

constexpr size_t kFewRanks = 8;   // that many are shown even if --top asks for fewer rows

Cell duration_cell(std::optional<double> ns) {
  return {aligned_cell_text("_ns", ns ? Value(*ns) : Value(), {})};
}

std::string title_of(const Report& report, const std::vector<RankOverview>& ranks) {
  std::string title = plural(static_cast<int64_t>(ranks.size()), "rank", "ranks");
  std::vector<std::string_view> hosts;
  for (const RankOverview& rank : ranks)
    if (!rank.host.empty()) hosts.push_back(rank.host);
  std::sort(hosts.begin(), hosts.end());
  hosts.erase(std::unique(hosts.begin(), hosts.end()), hosts.end());
  if (hosts.size() > 1) title += " on " + plural(static_cast<int64_t>(hosts.size()), "host", "hosts");
  const Record* cluster = report.cluster.record();
  const Value spread = cluster ? cluster->at("step_spread_pct") : Value();
  if (!spread.is_null()) title += ", steps differ by " + format_value(spread, Unit::kPercent);
  return title;
}

std::string late_text(const RankOverview& rank) {
  if (!rank.straggler) return {};
  return "late by " + format_duration(rank.straggler->excess_ns) + " a step (" +
         format_percent(rank.straggler->excess_pct, 0) + ")";
}

}  // namespace

Lines rank_lines(const Report& report, const PresentOptions& options) {
  const std::vector<RankOverview> ranks = rank_overviews(report);
  if (ranks.empty()) return {};
  const auto any = [&](auto has) { return std::any_of(ranks.begin(), ranks.end(), has); };
  const bool hosts = any([](const RankOverview& r) { return !r.host.empty(); });
  const bool busy = any([](const RankOverview& r) { return r.busy_pct.has_value(); });
  const bool late = any([](const RankOverview& r) { return r.straggler.has_value(); });
  Grid grid;
  grid.add_column("  rank", true);
  if (hosts) grid.add_column("host");
  grid.add_column("mean step", true);
  if (busy) grid.add_column("GPU busy", true);
  if (late) grid.add_column("");
  const auto rows = static_cast<size_t>(first_screen_rows(options));
  const size_t shown = rows > 0 ? std::min(ranks.size(), std::max(kFewRanks, rows)) : ranks.size();
  for (size_t i = 0; i < shown; ++i) {
    const RankOverview& rank = ranks[i];
    std::vector<Cell> cells{{std::to_string(rank.rank)}};
    if (hosts) cells.push_back({rank.host});
    cells.push_back(duration_cell(rank.step_ns));
    if (busy) cells.push_back({format_value(rank.busy_pct, Unit::kPercent)});
    if (late) cells.push_back({late_text(rank), Style::kWarn});
    grid.add_row(std::move(cells));
  }
  Lines out = wrapped_after(Line(), title_of(report, ranks), options.width, Style::kStrong, 2);
  append(out, grid.lines(options.width));
  if (shown < ranks.size())
    out.push_back(more_line(ranks.size() - shown, "--section cluster"));
  return out;
}

}  // namespace profgpu
