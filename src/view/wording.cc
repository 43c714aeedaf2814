#include "view/wording.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>

#include "analyse/report/quantity.h"
#include "analyse/report/text.h"
#include "base/text.h"

namespace profgpu {
namespace {

struct Title {
  std::string_view column, title;
};
// Where dropping the unit and the underscores is not enough.
constexpr std::array kTitles = {
    Title{"span_pct", "of span"},       Title{"wall_pct", "of wall"},   Title{"kernel_pct", "of kernels"},
    Title{"edge_ns", "at the ends"},    Title{"window_pct", "of window"}, Title{"window_idle_ns", "idle time"},
    Title{"window_utilization_pct", "busy"},
    Title{"cost_pct", "of steps"},      Title{"excess_pct", "of step"}, Title{"duration_ns", "duration"},
    Title{"utilization_pct", "busy"},   Title{"busy_ns", "busy time"},  Title{"idle_ns", "idle time"},
    Title{"file_bytes", "size"},        Title{"warmup", "warm-up"},     Title{"short_kernel_pct", "short ones"},
    Title{"limit_pct", "of limit"},     Title{"tflops", "TFLOP/s"},     Title{"memory_gbps", "memory"},
    Title{"in_mpi_pct", "in MPI"},      Title{"outside_mpi_ns", "outside MPI"},
    Title{"sm_clock_mhz", "SM clock, MHz"}, Title{"on_gpu_ns", "on GPU"},
};

// Columns of our own codes; in others, underscores are part of a name.
bool holds_codes(std::string_view column) {
  return column == "cause" || column == "kind" || column == "category" || column == "phase" || column == "part" ||
         column == "severity";
}

constexpr size_t kMaxItems = 6;

std::string_view without_unit(std::string_view column) {
  for (const std::string_view unit : {"_ns", "_bytes", "_pct", "_gbps"})
    if (column.ends_with(unit) && column.size() > unit.size()) return column.substr(0, column.size() - unit.size());
  return column;
}

// "growth_bytes_per_step": the unit is in the middle.
std::string without_inner_unit(std::string name) {
  for (const std::string_view unit : {"_ns_", "_bytes_"})
    if (const size_t at = name.find(unit); at != std::string::npos) name.replace(at, unit.size(), "_");
  return name;
}

std::string table_summary(const Table& table) {
  const int64_t rows = static_cast<int64_t>(table.rows.size());
  if (rows == 0) return std::string(kUnknownText);
  double longest = -1;
  for (size_t i = 0; i < table.rows.size(); ++i) longest = std::max(longest, table.at(i, "duration_ns").number(-1));
  return longest < 0 ? plural(rows, "row", "rows") : "up to " + format_duration(longest);
}

std::string list_summary(const List& list, const Origin& origin) {
  std::string out;
  for (size_t i = 0; i < list.size() && i < kMaxItems; ++i) append_listed(out, cell_text("", list[i], origin));
  const auto left = static_cast<int64_t>(list.size()) - static_cast<int64_t>(kMaxItems);
  if (left > 0) out += ", and " + format_count(left) + " more";
  return out.empty() ? std::string(kUnknownText) : out;
}

std::string record_summary(const Record& record, const Origin& origin) {
  std::string out;
  for (const auto& [name, field] : std::span(record.fields).first(std::min(record.fields.size(), kMaxItems)))
    append_listed(out, name + " " + cell_text(name, field, origin));
  return out.empty() ? std::string(kUnknownText) : out;
}

// With enough digits to tell two events apart: 1.052134 s.
std::string instant_text(int64_t ns) { return fmt::format("{:.6f} s", static_cast<double>(ns) / 1e9); }

}  // namespace

std::string column_title(std::string_view column) {
  for (const Title& t : kTitles)
    if (t.column == column) return std::string(t.title);
  std::string name = without_inner_unit(std::string(without_unit(column)));
  std::replace(name.begin(), name.end(), '_', ' ');
  for (const std::string_view acronym : {"cpu", "gpu"})
    if (name.starts_with(acronym)) name.replace(0, acronym.size(), acronym == "cpu" ? "CPU" : "GPU");
  return name;
}

std::string part_title(std::string_view name) {
  constexpr std::array kParts = {
      Title{"at_least", "Kernels whose work is known from their tiles"}, Title{"unknown", "Kernels of unknown work"},
      Title{"makeup", "What the device does in each phase"}, Title{"families", "Families of operators"},
      Title{"parts", "Parts of the time"}, Title{"peaks", "Peak rates"}, Title{"states", "States of the device"},
  };
  const Title* known = first_where(kParts, [&](const Title& t) { return t.column == name; });
  std::string title = known != nullptr ? std::string(known->title) : column_title(name);
  if (!title.empty()) title.front() = static_cast<char>(std::toupper(static_cast<unsigned char>(title.front())));
  return title;
}

std::string plural(int64_t n, std::string_view one, std::string_view many) {
  return format_count(n).append(" ").append(n == 1 ? one : many);
}

Origin origin_of(const RankReport& rank) {
  Origin origin;
  for (const Step& step : rank.steps.steps)
    origin.first_step_ns = std::min(origin.first_step_ns.value_or(step.start_ns), step.start_ns);
  return origin;
}

bool is_instant(std::string_view column) { return column == "start_ns" || column == "end_ns" || column == "time_ns"; }

std::string cell_text(std::string_view column, const Value& value, const Origin& origin) {
  if (is_instant(column) && value.integer() && origin.first_step_ns)
    return instant_text(*value.integer() - *origin.first_step_ns);
  if (value.text() && column == "phase") return phase_words(*value.text());
  if (value.text()) return holds_codes(column) ? words(*value.text()) : *value.text();
  if (const Table* table = value.table()) return table_summary(*table);
  if (const List* list = value.list()) return list_summary(*list, origin);
  if (const Record* record = value.record()) return record_summary(*record, origin);
  return format_value(value, unit_of(column));
}

bool is_numeric_column(const Table& table, size_t column) {
  return std::all_of(table.rows.begin(), table.rows.end(), [&](const std::vector<Value>& row) {
    if (column >= row.size()) return true;
    const Value& v = row[column];
    return v.is_null() || v.integer() || v.real();
  });
}

namespace {

Cell value_cell(std::string_view column, const Value& value, const ValueGrid& how) {
  if (column == "rank" && value.integer()) return {std::to_string(*value.integer())};
  if (column.empty() && value.is_null()) return {};   // a remark, which most rows have not
  const bool nested = value.table() || value.list() || value.record();
  if (how.aligned && !nested && !value.text() && !is_instant(column)) return {format_fixed(value, unit_of(column), 0)};
  Cell cell{cell_text(column, value, how.origin)};
  cell.holds = value.text() ? how.holds : value.list() || value.record() ? Holds::kWords : Holds::kOurs;
  if (how.most > 0 && cell.holds != Holds::kOurs) cell.text = truncated(sanitised(cell.text), how.most);
  return cell;
}

// No column without a value; of a device's figures those of its window, not those of its span.
std::vector<size_t> columns_for_people(const Table& table) {
  const bool of_window = std::ranges::any_of(table.columns, [](std::string_view c) { return c.starts_with("window_"); });
  std::vector<size_t> shown;
  for (size_t c = 0; c < table.columns.size(); ++c) {
    constexpr std::array<std::string_view, 4> kOfSpan = {"span_ns", "span_pct", "idle_ns", "utilization_pct"};
    if (of_window && std::ranges::find(kOfSpan, table.columns[c]) != kOfSpan.end()) continue;
    const auto has_value = [&](const std::vector<Value>& row) { return c < row.size() && !row[c].is_null(); };
    if (table.rows.empty() || std::ranges::any_of(table.rows, has_value)) shown.push_back(c);
  }
  return shown;
}

}  // namespace

Grid value_grid(const Table& table, const ValueGrid& how) {
  const std::vector<size_t> shown = columns_for_people(table);
  Grid grid;
  for (const size_t c : shown) grid.add_column(column_title(table.columns[c]), is_numeric_column(table, c));
  for (size_t r = 0; r < std::min(how.rows, table.rows.size()); ++r) {
    std::vector<Cell> cells;
    for (const size_t c : shown)
      cells.push_back(value_cell(table.columns[c], c < table.rows[r].size() ? table.rows[r][c] : Value(), how));
    grid.add_row(std::move(cells));
  }
  return grid;
}

Grid record_grid(const Record& record, const ValueGrid& how) {
  Grid grid({{""}, {"", true}});
  for (const auto& [name, field] : record.fields)
    if (!field.table() && !field.record())
      grid.add_row({{column_title(name), Style::kPlain, Holds::kWords}, value_cell(name, field, how)});
  return grid;
}

void drop_column(Table& table, size_t column) {
  const auto at = static_cast<ptrdiff_t>(column);
  table.columns.erase(table.columns.begin() + at);
  for (std::vector<Value>& row : table.rows) row.erase(row.begin() + at);
}

std::string rank_suffix(const Report& report, const RankReport& rank) {
  return report.ranks.size() > 1 ? ", rank " + std::to_string(rank.rank) : "";
}

std::string location_text(const Place& place) {
  return place.file.empty() ? place.name : fmt::format("{} ({}:{})", place.name, place.file, place.line.value_or(0));
}

std::string_view check_mark(const Check& check) {
  if (check.verdict != Verdict::kUnknown) return check.verdict == Verdict::kPass ? "✓ " : "✗ ";
  return check.applies ? "? " : "· ";
}

Style verdict_style(Verdict verdict) {
  return verdict == Verdict::kPass ? Style::kGood : verdict == Verdict::kFail ? Style::kBad : Style::kFaint;
}

}  // namespace profgpu
