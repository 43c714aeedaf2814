// An SQLite file: our tables and views, and beside them those that scripts for Nsight Systems' exports ask for.
#include <sys/stat.h>

#include "export/exporter.h"
#include "export/sqlite_nsight.h"
#include "export/virtual_table.h"

namespace profgpu {
namespace {

// Long tables keep their texts in StringIds, and are read through a view of the table's name.
bool has_string_ids(const DataTable& table) {
  return table.name == "host" || table.name == "activity" || table.name == "gaps";
}

std::string quoted(std::string_view column) { return '"' + std::string(column) + '"'; }

void make_table(SqliteFile& file, const DataTable& table) {
  const std::string name(table.name);
  if (!has_string_ids(table)) return file.run("CREATE TABLE " + name + column_declarations(table));
  std::string columns, shown;
  bool numbered = false;
  for (const DataColumn& c : table.columns) {
    const bool text = c.kind == Datum::Kind::kText;
    numbered |= c.name == "id";
    if (!shown.empty()) columns += ", ", shown += ", ";
    columns += quoted(c.name) + (text ? " INTEGER REFERENCES StringIds(id)" : " INTEGER");
    shown += text ? "(SELECT value FROM StringIds WHERE StringIds.id = r." + quoted(c.name) + ") AS " + quoted(c.name)
                  : "r." + quoted(c.name);
  }
  file.run("CREATE TABLE " + name + "_rows(" + columns + (numbered ? ", PRIMARY KEY(rank, id)) WITHOUT ROWID" : ")"));
  file.run("CREATE VIEW " + name + " AS SELECT " + shown + " FROM " + name + "_rows AS r");
}

int64_t file_bytes(const std::string& path) {
  struct stat s{};
  return ::stat(path.c_str(), &s) == 0 ? s.st_size : 0;
}

void fill_table(SqliteFile& file, const DataTable& table, const TableRows& all) {
  const bool ids = has_string_ids(table);
  SqliteRows rows(file, std::string(table.name) + (ids ? "_rows" : ""), table.columns.size());
  for (const RowSource& from : all.sources()) {
    const size_t count = table.rows(from);
    for (size_t row = 0; row < count && !file.failed(); ++row) {
      for (size_t i = 0; i < table.columns.size(); ++i) {
        const Datum cell = table.columns[i].at(from, row, i);
        rows.put(ids && cell.kind() == Datum::Kind::kText ? Datum(file.string(cell.text())) : cell);
      }
      rows.end_row();
    }
  }
}

Status write_file(const RunRows& run, const std::string& path, std::atomic<int64_t>* written) {
  auto file = SqliteFile::open(path);
  if (!file) return file.error();
  for (const DataTable* table : data_tables()) {
    make_table(**file, *table);
    if (table->of_run) fill_table(**file, *table, TableRows(run, *table));
  }
  for (const DataView& view : data_views())
    (*file)->run("CREATE VIEW " + std::string(view.name) + " AS " + std::string(view.select));
  auto nsight = std::make_unique<NsightTables>(**file, run);
  const Status filled = run.each_rank([&](const RankRows& rank) {
    for (const DataTable* table : data_tables())
      if (!table->of_run) fill_table(**file, *table, TableRows(run, *table, rank));
    nsight->add(rank);
    if (written != nullptr) *written = file_bytes(path);
  });
  if (!filled) return filled;
  nsight.reset();
  auto status = (*file)->finish();
  if (written != nullptr) *written = file_bytes(path);
  return status;
}

}  // namespace

extern const Exporter kSqliteExport;
const Exporter kSqliteExport{
    .name = "sqlite",
    .summary = "every table and view as an SQLite file, with the tables of Nsight Systems' exports (docs/sqlite.md)",
    .reader = "sqlite3, Python's sqlite3, DuckDB",
    .extension = ".sqlite",
    .write_file = write_file,
};

}  // namespace profgpu
