#include "app/export/data_table.h"

#include "analyse/rank/rank_report.h"

namespace profgpu {
namespace {

// A record is a table of one row.
Table section_table(std::string_view name, const Facts& facts) {
  const Value shown = section_value(facts, name);
  if (const Table* table = shown.table()) return *table;
  Table one;
  if (const Record* record = shown.record()) {
    one.rows.emplace_back();
    for (const auto& [field, value] : record->fields) one.columns.push_back(field), one.rows.front().push_back(value);
  }
  return one;
}

}  // namespace

TableRows::TableRows(const RunRows& run, const DataTable& table) {
  if (table.of_run) sources_.push_back({run, nullptr, nullptr, table});
  else
    for (const RankRows& rank : run.ranks) add(run, table, rank);
}

void TableRows::add(const RunRows& run, const DataTable& table, const RankRows& rank) {
  if (!table.section.empty()) sections_.push_back(section_table(table.section, rank.facts()));
  sources_.push_back({run, &rank, table.section.empty() ? nullptr : &sections_.back(), table});
}

const DataTable* find_data_table(std::string_view name) {
  for (const DataTable* t : data_tables())
    if (t->name == name) return t;
  return nullptr;
}

std::vector<DataColumn> of_rank(std::vector<DataColumn> columns) {
  const auto rank = [](const RowSource& from, size_t, size_t) -> Datum { return from.rank->rank(); };
  columns.insert(columns.begin(), {"rank", Datum::Kind::kInteger, "rank of the job", rank});
  return columns;
}

Datum row_cell(const RowSource&, size_t row, size_t) { return row; }

Datum section_cell(const RowSource& from, size_t row, size_t column) {
  const Value& value = from.section->at(row, from.table.columns[column].name);
  if (const bool* b = value.boolean()) return *b;
  if (const int64_t* n = value.integer()) return *n;
  if (const double* x = value.real()) return *x;
  if (const std::string* s = value.text()) return std::string_view(*s);
  return {};
}
size_t section_rows(const RowSource& from) { return from.section->rows.size(); }

std::string_view unit_in_name(std::string_view column) {
  const bool per_step = column.ends_with("_per_step");
  switch (unit_of(column == "bytes" ? "_bytes" : column)) {
    case Unit::kNanoseconds: return per_step ? "ns per step" : "ns";
    case Unit::kBytes: return per_step ? "bytes per step" : "bytes";
    case Unit::kPercent: return "%";
    case Unit::kGbps: return "GB/s";
    case Unit::kNone: break;
  }
  return {};
}

}  // namespace profgpu
