// The tables of Nsight Systems' SQLite exports that scripts ask for, as far as a trace fills them.
#pragma once

#include "export/run.h"
#include "export/sqlite_file.h"

namespace profgpu {

/// docs/sqlite.md says what stands in them. As there, a table without rows is left out. Times are on the first rank's clock.
void write_nsight_tables(SqliteFile& file, const RunRows& run);

}  // namespace profgpu
