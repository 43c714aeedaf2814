#include <algorithm>

#include "present/first_screen.h"
#include "present/grid.h"
#include "present/job_overview.h"
#include "present/wording.h"
#include "report/quantity.h"
#include "report/text.h"

namespace profgpu {
namespace {

constexpr size_t kFewRanks = 8;   // that many are shown even if --top asks for fewer rows
constexpr size_t kFewTexts = 2;

Lines marked_lines(const std::vector<std::string>& texts, Style style, const PresentOptions& options) {
  Lines out;
  for (size_t i = 0; i < std::min(texts.size(), kFewTexts); ++i)
    append(out, wrapped_after(Line("  ! ", style), sanitised(texts[i]), options.width, style, 3));
  if (texts.size() > kFewTexts) out.push_back(more_line(texts.size() - kFewTexts, "--section cluster"));
  return out;
}

}  // namespace

Lines rank_lines(const Report& report, const PresentOptions& options) {
  const std::vector<RankStanding>& ranks = report.standings;
  if (ranks.empty()) return {};
  const auto any = [&](auto has) { return std::any_of(ranks.begin(), ranks.end(), has); };
  const bool hosts = any([](const RankStanding& r) { return !r.host.empty(); });
  const bool busy = any([](const RankStanding& r) { return r.busy_pct.has_value(); });
  const bool late = any([](const RankStanding& r) { return r.straggler != nullptr; });
  Grid grid;
  grid.add_column("  rank", true);
  if (hosts) grid.add_column("host");
  grid.add_column("mean step", true);
  if (busy) grid.add_column("GPU busy", true);
  if (late) grid.add_column("");
  const auto rows = static_cast<size_t>(first_screen_rows(options));
  const size_t shown = rows > 0 ? std::min(ranks.size(), std::max(kFewRanks, rows)) : ranks.size();
  for (size_t i = 0; i < shown; ++i) {
    const RankStanding& rank = ranks[i];
    std::vector<Cell> cells{{std::to_string(rank.rank)}};
    if (hosts) cells.push_back({rank.host});
    cells.push_back({format_fixed(rank.step_ns, Unit::kNanoseconds, 0)});
    if (busy) cells.push_back({format_value(rank.busy_pct, Unit::kPercent)});
    if (late) cells.push_back({late_text(rank), Style::kWarn});
    grid.add_row(std::move(cells));
  }
  const JobOverview job = job_overview(report);
  Lines out = wrapped_after(Line(), job.title, options.width, Style::kStrong, 3);
  append(out, marked_lines(job.missing, Style::kBad, options));
  append(out, grid.lines(options.width));
  if (shown < ranks.size())
    out.push_back(more_line(ranks.size() - shown, "--section cluster"));
  append(out, marked_lines(job.notes, Style::kWarn, options));
  for (const std::string& remark : job.remarks)
    append(out, wrapped_after(Line().skip(2), remark, options.width, Style::kPlain, 3));
  return out;
}

}  // namespace profgpu
