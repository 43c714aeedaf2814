// Our own kernels, as PTX text that the driver assembles for its device.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"

namespace profgpu {

/// PTX 6.3 for sm_70: every driver since CUDA 10 assembles it, for every device since Volta. Entries:
///   profgpu_empty()
///   profgpu_read(from, sink, count)       adds up all of `from`; writes to `sink` only if that is a certain number
///   profgpu_reread(from, sink, count, mask)   the same over and over: addresses are modulo mask + 1 bytes, a power of
///                                         two, and only the level-2 cache keeps what was read
///   profgpu_sum(from, sink, count)        adds the sum of the 32-bit numbers of `from` to `sink`
///   profgpu_write(to, count)
///   profgpu_copy(from, to, count)
///   profgpu_triad(a, b, to, count)        to = a + 3 b, in FP32
///   profgpu_sort(data, count, stride, block)     one step of a bitonic sort of 32-bit numbers
///   profgpu_butterfly(data, count, stride, 0)    one pass of sums and differences at a distance, in FP32
/// `count`: of elements, see below; of the last two, of 32-bit numbers, a power of two. Any grid of one dimension.
std::string kernel_text();
/// The same entries for AMD's devices: a code object for the current device, by libhiprtc (PROFGPU_HIPRTC_LIBRARY).
Result<std::string> hip_kernels();

constexpr int64_t kKernelElementBytes = 16;

}  // namespace profgpu
