// Recording of the device through CUPTI's activity interface: what is enabled, the windows, and who else wants the same.
#pragma once

#include "inject/cupti_types.h"

namespace profgpu::inject::cupti {

/// Starts it where the recorder runs and wants it; a second call changes nothing. Called within the driver's cuInit:
/// whatever goes wrong, the process goes on, and the recording says what is missing.
void start_session();

/// Gives CUPTI's callbacks to another profiler: what is ours is brought in, the window is closed with its name. Called
/// on the other's thread, before its own call is carried out.
void yield_to(const char* whom);
/// The other one is done; our own thread takes up recording again after a while. `finalized`: CUPTI has forgotten us.
void resume_after(bool finalized);
/// Whether another one, of whom we know because this library is preloaded, records now.
bool rival_records();
/// The functions of the libcupti that we use; null where we use none.
const Calls* session_calls();

}  // namespace profgpu::inject::cupti
