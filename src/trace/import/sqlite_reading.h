// How SQLite gets at the files that we read: by plain reads of one descriptor. It never locks, never looks for a
// journal and cannot write, whatever the file says; and a file without a name will do.
#pragma once

namespace profgpu {

/// The name of that way for sqlite3_open_v2(), which is registered by the first call; null: there is no memory for it.
/// By any thread.
const char* sqlite_reading();

}  // namespace profgpu
