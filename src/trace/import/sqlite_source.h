// SQLite files of other tools, only read: ordinary tables by name, row by row.
//
// Nothing is ever written, locked or created beside the file. The schema comes from strangers: views, triggers, virtual
// tables and generated columns are passed over, and a table of a cut or damaged file gives the rows that are there.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "trace/trace.h"

struct sqlite3;
struct sqlite3_stmt;

namespace profgpu {

/// Whether a file with these first bytes is an SQLite database.
bool is_sqlite(std::string_view head);

/// One connection, for one thread.
class SqliteSource {
 public:
  /// A compressed file, and what comes through a pipe, is unpacked into a file without a name first.
  static Result<SqliteSource> open(const std::string& path);
  /// Another connection to the same file, for another thread.
  [[nodiscard]] Result<SqliteSource> again() const { return open(path_); }

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] int64_t file_bytes() const { return file_bytes_; }
  [[nodiscard]] bool has(std::string_view table) const { return tables_.contains(table); }
  /// Names compare as SQL's do: without regard to case.
  [[nodiscard]] bool has(std::string_view table, std::string_view column) const;
  /// Ordinary tables and their columns, by name.
  [[nodiscard]] const std::map<std::string, std::vector<std::string>, std::less<>>& tables() const { return tables_; }
  /// Views and virtual tables: what they say is computed, so they are not read.
  [[nodiscard]] const std::vector<std::string>& computed() const { return computed_; }
  /// The highest row number of a table, which is about how many rows it has; 0: none, or not known.
  [[nodiscard]] int64_t last_row(std::string_view table) const;
  /// A file that is cut, or changes that lie in a file beside it.
  void add_issues(std::vector<TraceIssue>& issues) const;

 private:
  friend class SqliteScan;
  struct Close {
    void operator()(sqlite3* db) const;
  };
  SqliteSource() = default;
  void read_schema();
  void look_beside(const std::string& path);

  std::string path_;
  std::unique_ptr<sqlite3, Close> db_;
  int64_t file_bytes_ = 0, whole_bytes_ = 0;   // the second: as its header has it; 0: it does not say
  std::string beside_;
  std::map<std::string, std::vector<std::string>, std::less<>> tables_;
  std::vector<std::string> computed_;
};

/// Row numbers from `first` up to `last`, both included.
struct RowNumbers {
  int64_t first = INT64_MIN, last = INT64_MAX;
  [[nodiscard]] bool all() const { return first == INT64_MIN && last == INT64_MAX; }
};

/// The wanted columns of a table, row by row in the order of the file. Columns that the table lacks are null in every
/// row. Budget: SQLite's own time, and 10 ns a cell.
class SqliteScan {
 public:
  /// Names of the table and the columns are constants of the caller's. `where`: an SQL condition on columns that are
  /// there; empty: all rows.
  SqliteScan(SqliteSource& source, std::string_view table, const std::vector<std::string_view>& columns,
             const std::string& where = {}, RowNumbers rows = {});

  /// False after the last row that can be read.
  bool next();
  /// Why rows may be missing behind those that were read; empty: nothing is.
  [[nodiscard]] const std::string& problem() const { return problem_; }
  [[nodiscard]] int64_t rows() const { return rows_; }

  [[nodiscard]] bool is_null(int column) const;
  /// The table has no such column.
  [[nodiscard]] bool lacks(int column) const { return lacks_[static_cast<size_t>(column)]; }
  /// Whole numbers; nullopt for null and for what is none.
  [[nodiscard]] std::optional<int64_t> integer(int column) const;
  [[nodiscard]] int64_t integer(int column, int64_t otherwise) const { return integer(column).value_or(otherwise); }
  /// Finite numbers.
  [[nodiscard]] std::optional<double> real(int column) const;
  /// Until the next row; empty for null and numbers. Bytes are given as they are.
  [[nodiscard]] std::string_view text(int column) const;

 private:
  struct Finish {
    void operator()(sqlite3_stmt* statement) const;
  };
  std::unique_ptr<sqlite3_stmt, Finish> statement_;
  std::string problem_;
  std::vector<bool> lacks_;
  int64_t rows_ = 0;
};

}  // namespace profgpu
