#include "analyse/rank/recorder_advice.h"

#include <algorithm>

#include "base/text.h"
#include "trace/xla_profile.h"

namespace profgpu {

const RecorderAdvice& recorder_advice(Recorder recorder) {
  static constexpr RecorderAdvice kTorch = {
      "was ProfilerActivity.CUDA on?", "ProfilerActivity.CPU", "call prof.step() once per step",
      "record fewer steps: schedule(wait=5, warmup=3, active=3)",
      "turn off what you do not need: with_stack, record_shapes, profile_memory",
      "profile after warm-up: schedule(wait=1, warmup=3, active=5), or run the model a few times first",
      "record the shapes of operators' inputs: profile(record_shapes=True)",
      "with_stack=True in torch.profiler, or profgpu run --trace"};
  static constexpr RecorderAdvice kOwn = {
      "no GPU was used, or none was found (`profgpu doctor`).", "", "use profgpu.step() once per step",
      "record fewer steps: profgpu run --trace --steps 100:110",
      "turn off what you do not need: --python-stacks 0", "record after warm-up: profgpu run --trace --steps 100:110",
      "record the shapes of operators' inputs beside it: profgpu run --trace --torch-steps 5 -- COMMAND",
      "leave --python-stacks on (default 20ms), or with_stack=True in torch.profiler"};
  static constexpr RecorderAdvice kNsys = {
      "was it recorded with --trace=cuda, and could Nsight Systems trace this process?",
      "nsys profile --trace=cuda,nvtx,osrt",
      "mark each with an NVTX range, such as torch.cuda.nvtx.range(f\"step {i}\")",
      "record a part of the run: nsys profile --capture-range=cudaProfilerApi, and cudaProfilerStart() and Stop() around "
      "a few steps",
      "turn off what you do not need: nsys profile --trace=cuda,nvtx --sample=none --cpuctxsw=none",
      "record after warm-up: nsys profile --capture-range=cudaProfilerApi, with cudaProfilerStart() after the first steps",
      "record the shapes of operators' inputs: torch.autograd.profiler.emit_nvtx(record_shapes=True)",
      "profgpu run --trace instead of nsys profile"};
  static constexpr RecorderAdvice kRocm = {
      "was it recorded with rocprofv3 --kernel-trace --memory-copy-trace?",
      "rocprofv3 --hip-trace --marker-trace",
      "mark each with a ROCTx range, and record with --marker-trace",
      "record a part of the run: rocprofv3 --collection-period, or roctxProfilerPause() and Resume() around a few steps",
      "turn off what you do not need: rocprofv3 --kernel-trace --memory-copy-trace",
      "record after warm-up: rocprofv3 --collection-period with a delay",
      "record the shapes of operators' inputs: torch.profiler, with record_shapes=True",
      "torch.profiler, with with_stack=True"};
  static constexpr RecorderAdvice kAny = {"", "", "mark each by a range", "record a shorter part of the run",
                                          "turn off what you do not need", "record after warm-up",
                                          "record the shapes of operators' inputs",
                                          "with_stack=True in torch.profiler, or profgpu run --trace"};
  switch (recorder) {
    case Recorder::kPyTorch: return kTorch;
    case Recorder::kProfgpu: return kOwn;
    case Recorder::kNsight: return kNsys;
    case Recorder::kRocprof: return kRocm;
    case Recorder::kOther: break;
  }
  return kAny;
}

const RecorderAdvice& recorder_advice(const Trace& trace) {
  return is_xla_profile(trace) ? jax_profiler_advice() : recorder_advice(trace.recorder);
}

namespace {

// The names of its threads tell where neither frames nor operators were recorded.
bool runs_python(const Trace& trace) {
  constexpr std::string_view kNames[] = {"python", "pt_main_thread"};
  const auto is_python = [&](const Thread& t) { return contains_any(t.name, kNames); };
  const auto tells = [](HostKind kind) { return kind == HostKind::kPython || kind == HostKind::kOp; };
  return std::ranges::any_of(trace.threads, is_python) || std::ranges::any_of(trace.host.kind, tells);
}

}  // namespace

std::string_view mark_steps_advice(const Trace& trace) {
  if (!trace.recorded) return recorder_advice(trace).mark_steps;
  return runs_python(trace) ? recorder_advice(Recorder::kProfgpu).mark_steps
                            : "mark each with an NVTX range: nvtxRangePushA(\"step\") and nvtxRangePop(); in Python, "
                              "profgpu.step()";
}

const RecorderAdvice& jax_profiler_advice() {
  static constexpr RecorderAdvice kJaxProfiler = {
      "", "", "mark each with jax.profiler.StepTraceAnnotation(\"train\", step_num=i)",
      "record a few steps between jax.profiler.start_trace() and stop_trace()",
      "turn off what you do not need: python_tracer_level = 0 in jax.profiler.ProfileOptions",
      "record after warm-up: call jax.profiler.start_trace() after the first steps",
      "record the shapes of operators' inputs", "python_tracer_level = 1 in jax.profiler.ProfileOptions"};
  return kJaxProfiler;
}

}  // namespace profgpu
