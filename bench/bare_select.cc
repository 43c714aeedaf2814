// The yardstick of the Nsight Systems importer: SQLite alone, selecting the columns that the importer reads, table after
// table on one core, and taking each cell once. Prints JSON with seconds and rows.
#include <sqlite3.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>

#include "trace/import/nsight_rows.h"
#include "trace/import/sqlite_source.h"

namespace {

int64_t rows = 0, sum = 0;

void select(sqlite3* db, const profgpu::SqliteSource& source, std::string_view table,
            const std::vector<std::string_view>& columns) {
  std::string sql;
  for (const std::string_view column : columns)
    if (source.has(table, column)) sql += (sql.empty() ? "SELECT \"" : ", \"") + std::string(column) + '"';
  if (sql.empty()) return;
  sqlite3_stmt* statement = nullptr;
  if (sqlite3_prepare_v2(db, (sql + " FROM " + std::string(table)).c_str(), -1, &statement, nullptr) != SQLITE_OK) return;
  const int count = sqlite3_column_count(statement);
  while (sqlite3_step(statement) == SQLITE_ROW) {
    ++rows;
    for (int i = 0; i < count; ++i) {
      const int type = sqlite3_column_type(statement, i);
      if (type == SQLITE_INTEGER) sum += sqlite3_column_int64(statement, i);
      else if (type == SQLITE_TEXT) sum += reinterpret_cast<intptr_t>(sqlite3_column_text(statement, i));
    }
  }
  sqlite3_finalize(statement);
}

}  // namespace

int main(int count, char** words) {
  if (count < 2) return std::fprintf(stderr, "usage: bare_select FILE\n"), 2;
  auto source = profgpu::SqliteSource::open(words[1]);
  if (!source) return std::fprintf(stderr, "bare_select: %s\n", source.error().message.c_str()), 1;
  const auto begin = std::chrono::steady_clock::now();
  sqlite3* db = nullptr;
  const std::string uri = std::string("file:") + words[1] + "?mode=ro&immutable=1";
  if (sqlite3_open_v2(uri.c_str(), &db, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX, nullptr) != SQLITE_OK)
    return 1;
  select(db, *source, "StringIds", {"id", "value"});
  for (const profgpu::NsightTable& table : profgpu::nsight_tables())
    if (source->has(table.name)) select(db, *source, table.name, table.columns);
  sqlite3_close(db);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  std::printf("{\"rows\": %lld, \"seconds\": %.6f, \"sum\": %lld}\n", static_cast<long long>(rows), seconds,
              static_cast<long long>(sum));
}
