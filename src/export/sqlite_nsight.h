// The tables of Nsight Systems' SQLite exports that scripts ask for, as far as a trace fills them.
#pragma once

#include "export/run.h"
#include "export/sqlite_file.h"

namespace profgpu {

class NsightRows;

/// docs/sqlite.md says what stands in them. As there, a table without rows is left out. Times are on the first rank's clock.
class NsightTables {
 public:
  NsightTables(SqliteFile& file, const RunRows& run);
  /// Before the file is finished.
  ~NsightTables();
  NsightTables(const NsightTables&) = delete;
  NsightTables& operator=(const NsightTables&) = delete;

  /// A rank of the run.
  void add(const RankRows& rank);

 private:
  SqliteFile& file_;
  const RunRows& run_;
  std::unique_ptr<NsightRows> rows_;   // null: samples alone
};

}  // namespace profgpu
