// Every table as one CSV file.
#include "export/exporter.h"
#include "export/row_text.h"

namespace profgpu {
namespace {

// Tables that have rows; those without would only be in the way.
std::vector<std::string> tables(const RunRows& run) {
  std::vector<std::string> names;
  for (const DataTable* table : data_tables()) {
    const TableRows rows(run, *table);
    for (const RowSource& from : rows.sources()) {
      if (table->rows(from) == 0) continue;
      names.emplace_back(table->name);
      break;
    }
  }
  return names;
}

Status write(const RunRows& run, const ExportOptions& options, ByteWriter& out) {
  const DataTable* table = find_data_table(options.table);
  if (table == nullptr) return Error{"there is no table " + options.table, "`profgpu query --tables` lists them"};
  std::vector<std::string> names;
  for (const DataColumn& c : table->columns) names.emplace_back(c.name);
  RowText text(RowFormat::kCsv, names, 0, out);
  const TableRows rows(run, *table);
  std::vector<Datum> cells(names.size());
  for (const RowSource& from : rows.sources()) {
    const size_t count = table->rows(from);
    for (size_t row = 0; row < count && out.error() == 0; ++row) {
      for (size_t i = 0; i < cells.size(); ++i) cells[i] = table->columns[i].at(from, row, i);
      text.row(cells);
    }
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
    .write = write,
    .tables = tables,
};

}  // namespace profgpu
