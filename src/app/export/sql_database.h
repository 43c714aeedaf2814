// A run as a database to be read: every table and view, and nothing that could write.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "app/export/data_table.h"
#include "app/export/virtual_table.h"
#include "base/result.h"
#include "trace/string_pool.h"

struct sqlite3;
struct sqlite3_stmt;
struct sqlite3;
struct sqlite3_stmt;

namespace profgpu {

// An SQLite file that is filled once, from nothing, in one transaction.

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

/// The rows that a query gives, one after the other.
class SqlRows {
 public:
  /// Several columns of one name are told apart by a number: "name", "name_2".
  [[nodiscard]] const std::vector<std::string>& columns() const { return columns_; }
  /// False after the last row.
  Result<bool> next();
  /// Of the row that next() went to; text lives until the next one. Bytes are given as text of hexadecimal digits.
  const std::vector<Datum>& row();

 private:
  friend class SqlDatabase;
  struct Close {
    void operator()(sqlite3_stmt* statement) const;
  };
  explicit SqlRows(sqlite3_stmt* statement);
  std::unique_ptr<sqlite3_stmt, Close> statement_;
  std::vector<std::string> columns_;
  std::vector<Datum> row_;
  std::vector<std::string> bytes_;
};

/// Why a query cannot be run, and where in its text.
struct SqlError {
  std::string message;
  int offset = -1;   ///< in bytes; -1: unknown
};

class SqlDatabase {
 public:
  /// `run` must outlive it. Ranks whose events are not there are read when a query gets to them, and dropped again
  /// where there is no room for them (see ResidentRanks).
  static Result<std::unique_ptr<SqlDatabase>> open(const RunRows& run,
                                                   int64_t most_idle_events = ResidentRanks::kMaxIdleEvents);
  SqlDatabase(const SqlDatabase&) = delete;
  SqlDatabase& operator=(const SqlDatabase&) = delete;

  /// One query. What `error` says if there is none. `most_ns`: its rows are an error after so long; 0: never.
  std::unique_ptr<SqlRows> query(const std::string& sql, SqlError& error, int64_t most_ns = 0);
  /// Columns of a table or view.
  std::vector<std::string> columns_of(std::string_view table);

 private:
  struct Close {
    void operator()(sqlite3* db) const;
  };
  SqlDatabase(const RunRows& run, int64_t most_idle_events) : tables_(run, most_idle_events) {}
  VirtualTables tables_;
  std::unique_ptr<sqlite3, Close> db_;
  int64_t deadline_ns_ = 0;   // of the query at hand, on the monotonic clock
};

}  // namespace profgpu
