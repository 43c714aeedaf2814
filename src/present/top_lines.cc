#include <algorithm>

#include "present/first_screen.h"
#include "present/grid.h"
#include "present/overview.h"
#include "present/wording.h"
#include "report/quantity.h"
#include "report/text.h"

namespace profgpu {
namespace {

constexpr double kNoteworthyPct = 1;   // of all kernels' time; less is not on a first screen

template <class Row>
struct Column {
  std::string_view header;
  Unit unit;
  Value (*at)(const Row& row);
};

size_t first_rows(size_t rows, const PresentOptions& options) {
  const int most = first_screen_rows(options);
  return most > 0 ? std::min(rows, static_cast<size_t>(most)) : rows;
}

template <class Row>
Lines table_lines(const std::string& title, const std::string Row::*name, const std::vector<Column<Row>>& columns,
                  const std::vector<Row>& rows, size_t shown, const char* section, const PresentOptions& options) {
  Grid grid;
  // Both tables' numbers begin in the same column.
  grid.add_column(padded_right(title, std::clamp(layout_width(options) - 52, 24, 64)));
  for (const Column<Row>& c : columns) grid.add_column(std::string(c.header), true);
  for (size_t i = 0; i < shown; ++i) {
    std::vector<Cell> cells{{"  " + rows[i].*name}};
    for (const Column<Row>& c : columns) cells.push_back({format_fixed(c.at(rows[i]), c.unit, 0)});
    grid.add_row(std::move(cells));
  }
  Lines out = grid.lines(options.width > 0 ? std::min(options.width, 140) : 0);
  if (shown < rows.size()) out.push_back(more_line(rows.size() - shown, std::string("--section ") + section));
  return out;
}

Lines kernel_table(const RankReport& rank, const std::string& whose, const PresentOptions& options) {
  const std::vector<KernelRow>& kernels = rank.kernels;
  if (kernels.empty()) return {};
  std::vector<Column<KernelRow>> columns{
      {"calls", Unit::kNone, [](const KernelRow& k) { return Value(k.count); }},
      {"total", Unit::kNanoseconds, [](const KernelRow& k) { return Value(k.total_ns); }},
      {"mean", Unit::kNanoseconds, [](const KernelRow& k) { return Value(whole_ns(k.mean_ns)); }},
      {"of kernels", Unit::kPercent, [](const KernelRow& k) { return Value(k.kernel_pct); }}};
  if (rank.devices.size() > 1)
    columns.insert(columns.begin(), {"GPU", Unit::kNone, [](const KernelRow& k) { return Value(k.device); }});
  size_t shown = first_rows(kernels.size(), options);
  while (shown > 1 && kernels[shown - 1].kernel_pct < kNoteworthyPct) --shown;
  return table_lines("Top kernels" + whose, &KernelRow::short_name, columns, kernels, shown, "kernels", options);
}

Lines op_table(const RankReport& rank, const std::string& whose, const PresentOptions& options) {
  const std::vector<OpRow>& ops = rank.ops;
  if (ops.empty()) return {};
  std::vector<Column<OpRow>> columns{{"calls", Unit::kNone, [](const OpRow& o) { return Value(o.calls); }},
                                     {"CPU self", Unit::kNanoseconds, [](const OpRow& o) { return Value(o.cpu_self_ns); }}};
  if (std::any_of(ops.begin(), ops.end(), [](const OpRow& o) { return o.device_total_ns != 0; }))
    columns.push_back({"on GPU", Unit::kNanoseconds, [](const OpRow& o) { return Value(o.device_total_ns); }});
  return table_lines("Top ops" + whose, &OpRow::text, columns, ops, first_rows(ops.size(), options), "ops", options);
}

}  // namespace

Lines top_lines(const Report& report, const PresentOptions& options) {
  const RankReport* rank = report.rank_in_focus();
  if (!rank) return {};
  const std::string whose = report.ranks.size() > 1 ? ", rank " + std::to_string(rank->rank) : "";
  Lines out = kernel_table(*rank, whose, options);
  out.emplace_back();
  append(out, op_table(*rank, whose, options));
  return out;
}

}  // namespace profgpu
