// The tables of a run as virtual tables of SQLite: rows are read where the trace has them.
#pragma once

#include <memory>
#include <vector>

#include "export/data_table.h"
#include "export/resident_ranks.h"

struct sqlite3;

namespace profgpu {

/// What the virtual tables of one connection stand on; must outlive it.
class VirtualTables {
 public:
  VirtualTables(const RunRows& run, int64_t most_idle_events);
  VirtualTables(const VirtualTables&) = delete;
  VirtualTables& operator=(const VirtualTables&) = delete;
  /// Makes one for every table. SQLite's result code.
  int make(sqlite3* db);

  /// A table in parts: one of each rank by its place, or a single one of the run.
  struct One {
    const RunRows& run;
    ResidentRanks& ranks;
    const DataTable& table;
    std::vector<std::unique_ptr<TableRows>> parts = {};   ///< made when first asked for, while the rank is there
    [[nodiscard]] size_t size() const { return table.of_run ? 1 : run.ranks.size(); }
    [[nodiscard]] Status pin(size_t part) { return table.of_run ? ok() : ranks.pin(part); }
    void unpin(size_t part) { if (!table.of_run) ranks.unpin(part); }
    [[nodiscard]] bool there(size_t part) const { return table.of_run || ranks.there(part); }
    /// Of a part that is there.
    const RowSource& source(size_t part);
    size_t rows(size_t part) { return table.rows(source(part)); }
  };

 private:
  const RunRows& run_;
  std::vector<std::unique_ptr<One>> tables_;
  ResidentRanks ranks_;
};

/// What SQLite's CREATE TABLE says of the columns: "(rank" INTEGER, ...)".
std::string column_declarations(const DataTable& table);

}  // namespace profgpu
