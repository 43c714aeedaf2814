// Profiles of a process' Python code that other tools took, beside the trace of its device: alone, they are a trace of
// the host; beside a trace, their frames become the stacks of its threads.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "trace/trace.h"

namespace profgpu {

/// "/path/file.py(12): function", as PyTorch's profiler names frames; the function alone where it has no place.
std::string frame_name(std::string_view function, std::string_view file, int64_t line);

/// Puts what `profile` has of the time of `trace` into it, cut to that time, as sampled stacks of the threads with the
/// same number, or of new threads. `shift_ns` is added to their times. Returns how many threads are those of the trace.
int64_t add_stacks(const Trace& profile, int64_t shift_ns, Trace& trace);

/// What has to be added to times of `profile` so that its calls are where `trace` has the operators of the same name:
/// "aten::matmul" for "Tensor.matmul". The shift that most operators agree on.
struct ClockShift {
  int64_t shift_ns = 0;
  int64_t agree = 0;      ///< operators that it puts within some microseconds of a call, each of its own
  int64_t pairs = 0;      ///< operators that were tried
  [[nodiscard]] bool found() const { return agree >= 8 && 4 * agree >= pairs; }
};
ClockShift shift_by_calls(const Trace& profile, const Trace& trace);

/// When the file was written last, in Unix time; 0: unknown.
int64_t written_ns(const std::string& path);

}  // namespace profgpu
