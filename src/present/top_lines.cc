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

struct Field {
  std::string_view column;
  std::string_view header;
};

size_t shown_rows(const Table& table, const PresentOptions& options) {
  const int most = first_screen_rows(options);
  return most > 0 ? std::min(table.rows.size(), static_cast<size_t>(most)) : table.rows.size();
}

size_t noteworthy_rows(const Table& kernels, size_t shown) {
  while (shown > 1 && kernels.at(shown - 1, "kernel_pct").number(100) < kNoteworthyPct) --shown;
  return shown;
}

bool is_all_zero(const Table& table, std::string_view column) {
  for (size_t i = 0; i < table.rows.size(); ++i)
    if (table.at(i, column).number() != 0) return false;
  return true;
}

Lines table_lines(const std::string& title, std::string_view name_column, const std::vector<Field>& fields,
                  const Table& table, size_t shown, const char* section, const PresentOptions& options) {
  Grid grid;
  // Both tables' numbers begin in the same column.
  grid.add_column(padded_right(title, std::clamp(layout_width(options) - 52, 24, 64)));
  for (const Field& f : fields) grid.add_column(std::string(f.header), true);
  for (size_t i = 0; i < shown; ++i) {
    const Value& name = table.at(i, name_column);
    std::vector<Cell> cells{{"  " + format_value(name.is_null() ? table.at(i, "name") : name, Unit::kNone)}};
    for (const Field& f : fields) cells.push_back({aligned_cell_text(f.column, table.at(i, f.column), {})});
    grid.add_row(std::move(cells));
  }
  Lines out = grid.lines(options.width > 0 ? std::min(options.width, 140) : 0);
  if (shown < table.rows.size())
    out.push_back(more_line(table.rows.size() - shown, std::string("--section ") + section));
  return out;
}

Lines kernel_table(const RankReport& rank, const std::string& whose, const PresentOptions& options) {
  const Table* kernels = table_of(rank, "kernels");
  if (!kernels || kernels->rows.empty()) return {};
  std::vector<Field> fields{
      {"count", "calls"}, {"total_ns", "total"}, {"mean_ns", "mean"}, {"kernel_pct", "of kernels"}};
  const Table* devices = table_of(rank, "devices");
  if (devices && devices->rows.size() > 1) fields.insert(fields.begin(), {"device", "GPU"});
  const size_t shown = noteworthy_rows(*kernels, shown_rows(*kernels, options));
  return table_lines("Top kernels" + whose, "short_name", fields, *kernels, shown, "kernels", options);
}

Lines op_table(const RankReport& rank, const std::string& whose, const PresentOptions& options) {
  const Table* ops = table_of(rank, "ops");
  if (!ops || ops->rows.empty()) return {};
  std::vector<Field> fields{{"calls", "calls"}, {"cpu_self_ns", "CPU self"}};
  if (!is_all_zero(*ops, "device_total_ns")) fields.push_back({"device_total_ns", "on GPU"});
  return table_lines("Top ops" + whose, "name", fields, *ops, shown_rows(*ops, options), "ops", options);
}

}  // namespace

Lines top_lines(const Report& report, const PresentOptions& options) {
  const RankReport* rank = rank_in_focus(report);
  if (!rank) return {};
  const std::string whose = report.ranks.size() > 1 ? ", rank " + std::to_string(rank->rank) : "";
  Lines out = kernel_table(*rank, whose, options);
  out.emplace_back();
  append(out, op_table(*rank, whose, options));
  return out;
}

}  // namespace profgpu
