// How to record better, in the words of the tool that recorded a trace.
#pragma once

#include <string_view>

#include "trace/trace.h"

namespace profgpu {

struct RecorderAdvice {
  std::string_view device_activity;   ///< why there may be none: "was ProfilerActivity.CUDA on?"; may be empty
  std::string_view host;              ///< how to record the host as well; may be empty
  std::string_view mark_steps;        ///< "call prof.step() once a step"
  std::string_view fewer_steps;       ///< a fix: how to record a part of the run
  std::string_view less_detail;       ///< a fix: what costs the profiled program time
  std::string_view warm;              ///< a fix: how to leave out what happens once
  std::string_view shapes;            ///< how to know what operators compute
  std::string_view stacks;            ///< how to record the lines of Python that run
};
const RecorderAdvice& recorder_advice(Recorder recorder);
const RecorderAdvice& recorder_advice(const Trace& trace);
/// RecorderAdvice::mark_steps, of a recording of profgpu in terms of what the program is written in.
std::string_view mark_steps_advice(const Trace& trace);
/// In the words of JAX' profiler.
const RecorderAdvice& jax_profiler_advice();

}  // namespace profgpu
