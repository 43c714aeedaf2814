// Ranges of what the Python hook tells.
#pragma once

#include <stdint.h>

namespace profgpu::inject {

/// A frame of the Python stack of a thread, by the kernel's number of it, begins; name 0: the innermost ends.
void post_frame(uint32_t tid, uint32_t name);

}  // namespace profgpu::inject
