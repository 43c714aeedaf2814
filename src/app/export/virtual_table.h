// The tables of a run as virtual tables of SQLite: rows are read where the trace has them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "app/export/data_table.h"
#include "app/export/run.h"
#include "base/result.h"

struct sqlite3;

namespace profgpu {

// Which ranks' events are in memory while a query reads tables: those that it reads now, and of the others what fits.
class ResidentRanks {
 public:
  /// Ranges and activities of ranks that nobody reads just now; at some 40 bytes each.
  static constexpr int64_t kMaxIdleEvents = 4'000'000;
  /// A rank that a query comes back to so often is beside others all the time: it stays.
  static constexpr int kOftenRead = 3;

  /// `dropped` is called with a rank's place before its events go. `run` must outlive this.
  ResidentRanks(const RunRows& run, std::function<void(size_t place)> dropped,
                int64_t most_idle_events = kMaxIdleEvents)
      : run_(run), dropped_(std::move(dropped)), most_idle_events_(most_idle_events), ranks_(run.ranks.size()) {}

  /// Its events are there until as many unpin(). The error: they cannot be read again.
  Status pin(size_t place);
  void unpin(size_t place);
  [[nodiscard]] bool there(size_t place) const { return run_.ranks[place].stays() || ranks_[place].there; }

 private:
  struct Rank {
    bool there = false;
    int pins = 0, reads = 0;
    uint64_t used = 0;   // when it was last unpinned
  };
  void make_room(int64_t events);

  const RunRows& run_;
  std::function<void(size_t)> dropped_;
  int64_t most_idle_events_;
  std::vector<Rank> ranks_;
  uint64_t now_ = 0;
};

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
