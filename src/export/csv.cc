// Every table as one CSV file.
#include <algorithm>
#include <set>

#include "export/exporter.h"
#include "export/row_text.h"

namespace profgpu {
namespace {

bool has_rows(const TableRows& rows) {
  return std::any_of(rows.sources().begin(), rows.sources().end(), [](const RowSource& from) { return from.table.rows(from) > 0; });
}

// Tables that have rows; those without would only be in the way.
Result<std::vector<std::string>> tables(const RunRows& run) {
  std::set<const DataTable*> filled;
  for (const DataTable* table : data_tables())
    if (table->of_run && has_rows(TableRows(run, *table))) filled.insert(table);
  const Status status = run.each_rank([&](const RankRows& rank) {
    for (const DataTable* table : data_tables())
      if (!table->of_run && !filled.contains(table) && has_rows(TableRows(run, *table, rank))) filled.insert(table);
  });
  if (!status) return status.error();
  std::vector<std::string> names;
  for (const DataTable* table : data_tables())
    if (filled.contains(table)) names.emplace_back(table->name);
  return names;
}

void write_rows(const TableRows& rows, RowText& text, const ByteWriter& out) {
  for (const RowSource& from : rows.sources()) {
    std::vector<Datum> cells(from.table.columns.size());
    const size_t count = from.table.rows(from);
    for (size_t row = 0; row < count && out.error() == 0; ++row) {
      for (size_t i = 0; i < cells.size(); ++i) cells[i] = from.table.columns[i].at(from, row, i);
      text.row(cells);
    }
  }
}

Status write_csv(const RunRows& run, const ExportOptions& options, ByteWriter& out) {
  const DataTable* table = find_data_table(options.table);
  if (table == nullptr) return Error{"there is no table " + options.table, "`profgpu query --tables` lists them"};
  std::vector<std::string> names;
  for (const DataColumn& c : table->columns) names.emplace_back(c.name);
  RowText text(RowFormat::kCsv, names, 0, out);
  if (table->of_run) {
    write_rows(TableRows(run, *table), text, out);
  } else {
    Status status = run.each_rank([&](const RankRows& rank) { write_rows(TableRows(run, *table, rank), text, out); });
    if (!status) return status;
  }
  text.finish();
  return ok();
}

}  // namespace

extern const Exporter kCsvExport;
const Exporter kCsvExport{
    .name = "csv",
    .summary = "a folder with every table as CSV (RFC 4180)",
    .reader = "a spreadsheet or pandas",
    .extension = ".csv",
    .write = write_csv,
    .tables = tables,
};

}  // namespace profgpu
