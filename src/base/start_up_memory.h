// What a command that runs for long no longer needs of its start.
#pragma once

namespace profgpu {

/// Gives back freed memory, and pages of code and constants: those that are used again come back from the page cache,
/// the others were needed only to start. For programs, not for libraries: it concerns the whole process.
void release_start_up_memory();

}  // namespace profgpu
