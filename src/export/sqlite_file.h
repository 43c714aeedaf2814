// An SQLite file that is filled once, from nothing, in one transaction.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "export/data_table.h"
#include "trace/string_pool.h"

struct sqlite3;
struct sqlite3_stmt;

namespace profgpu {

class SqliteFile {
 public:
  /// `path`: an empty file.
  static Result<std::unique_ptr<SqliteFile>> open(const std::string& path);
  ~SqliteFile();
  SqliteFile(const SqliteFile&) = delete;
  SqliteFile& operator=(const SqliteFile&) = delete;

  /// The first error is kept and nothing more is done; finish() gives it.
  void run(const std::string& sql);
  [[nodiscard]] bool failed() const { return !error_.message.empty(); }
  Status finish();

  /// Row of StringIds that has the text.
  int64_t string(std::string_view text);

 private:
  friend class SqliteRows;
  SqliteFile() = default;
  void fail();
  sqlite3* db_ = nullptr;
  Error error_;
  std::unique_ptr<class SqliteRows> strings_;
  StringPool texts_;                        ///< of StringIds, by row - 1
};

/// Rows for one table, cell by cell.
class SqliteRows {
 public:
  /// `columns`: how many; the table is there.
  SqliteRows(SqliteFile& file, std::string_view table, size_t columns);
  ~SqliteRows();
  SqliteRows(const SqliteRows&) = delete;
  SqliteRows& operator=(const SqliteRows&) = delete;

  SqliteRows& put(const Datum& cell);
  /// After the last cell.
  void end_row();

 private:
  SqliteFile& file_;
  sqlite3_stmt* statement_ = nullptr;
  int at_ = 0;
};

}  // namespace profgpu
