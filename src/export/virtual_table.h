// The tables of a run as virtual tables of SQLite: rows are read where the trace has them.
#pragma once

#include <memory>
#include <vector>

#include "export/data_table.h"

struct sqlite3;

namespace profgpu {

/// What the virtual tables of one connection stand on; must outlive it.
class VirtualTables {
 public:
  VirtualTables(const RunRows& run) : run_(run) {}
  /// Makes one for every table. SQLite's result code.
  int make(sqlite3* db);

  struct One {
    const RunRows& run;
    const DataTable& table;
    std::unique_ptr<TableRows> rows;         ///< made when first asked for
    std::vector<size_t> first;               ///< row number of each source's first row; then their sum
    void make_rows();
  };

 private:
  const RunRows& run_;
  std::vector<std::unique_ptr<One>> tables_;
};

/// What SQLite's CREATE TABLE says of the columns: "(rank" INTEGER, ...)".
std::string column_declarations(const DataTable& table);

}  // namespace profgpu
