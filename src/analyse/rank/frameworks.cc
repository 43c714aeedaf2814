#include "analyse/rank/frameworks.h"

#include <algorithm>
#include <array>

#include "analyse/rank/collectives.h"
#include "analyse/rank/names.h"
#include "analyse/rank/places.h"
#include "analyse/rank/steps.h"
#include "base/text.h"
#include "trace/xla_profile.h"

namespace profgpu {
namespace {

struct Sign {
  Framework framework;
  std::string_view part;   // of a name
};
constexpr Sign kSigns[] = {
    {Framework::kTorchCompile, "Torch-Compiled Region"},
    {Framework::kTorchCompile, "## Call CompiledFxGraph"},
    {Framework::kTorchCompile, "triton_poi_fused"},
    {Framework::kTorchCompile, "triton_red_fused"},
    {Framework::kTorchCompile, "triton_per_fused"},
    {Framework::kTorchCompile, "(dynamo_timed)"},
    {Framework::kGraphBreaks, "torch_dynamo_resume_in_"},
    {Framework::kCudaGraphs, "GraphLaunch"},
    {Framework::kCudaGraphs, "StreamBeginCapture"},
    {Framework::kVllm, "gpu_model_runner: "},
    {Framework::kSglang, "sglang::"},
    {Framework::kSglang, "sgl_kernel::"},
    {Framework::kSglang, "step[DECODE "},
    {Framework::kSglang, "step[EXTEND "},
    {Framework::kTensorRtLlm, "[Executor] _forward_step"},
    {Framework::kXdit, "execute_diffusion_"},
    {Framework::kTrainer, "transformers/trainer.py"},
    {Framework::kPipeline, "transformers/pipelines/"},
    {Framework::kLightning, "[pl]["},
    {Framework::kDdp, "DistributedDataParallel"},
    {Framework::kDdp, "torch/nn/parallel/distributed.py"},
    {Framework::kFsdp, "FullyShardedDataParallel"},
    {Framework::kFsdp, "torch/distributed/fsdp/fully_sharded_data_parallel.py"},
    {Framework::kFsdp2, "FSDP::"},
    {Framework::kFsdp2, "torch/distributed/fsdp/_fully_shard/"},
    {Framework::kFsdp2, "torch/distributed/_composable/fsdp/"},
    {Framework::kDeepSpeed, "DeepSpeedEngine"},
    {Framework::kTorchRec, "sparse_data_dist"},
    {Framework::kJax, "PjitFunction"},
    {Framework::kLoaderWorkers, "_MultiProcessingDataLoaderIter"},
    {Framework::kOverlapScheduler, "event_loop_overlap"},
    {Framework::kOverlapScheduler, "step_with_batch_queue"},
    {Framework::kOverlapScheduler, "_executor_loop_overlap"},
    {Framework::kPinnedUploads, "Memcpy HtoD (Pinned"},
    {Framework::kFusedOptimizer, "FusedAdam"},
    {Framework::kFusedOptimizer, "FusedSgd"},
    {Framework::kFusedOptimizer, "_fused_adam"},
    {Framework::kFusedOptimizer, "_fused_sgd"},
    {Framework::kHalfReductions, "AllReduce_Sum_bf16"},
    {Framework::kHalfReductions, "AllReduce_Sum_f16"},
    {Framework::kGenerate, "transformers/generation/utils.py"},
    {Framework::kJagged, "fbgemm::jagged_"},
    {Framework::kJagged, "aten::_nested_"},
};

// Autograd's own nodes, whose names have had a number at their end since PyTorch 1.10. A program's have none.
constexpr std::array<std::string_view, 7> kNodesWithoutNumber = {
    "AddmmBackward", "MmBackward", "TBackward", "CudnnConvolutionBackward", "CudnnBatchNormBackward",
    "LogSoftmaxBackward", "NllLossBackward"};

/// A Python package, with some of its folders and files.
struct Package {
  Framework framework;
  std::string_view name;
  std::array<std::string_view, 6> inside;
};
constexpr Package kPackages[] = {
    {Framework::kVllm, "vllm/", {"v1/", "worker/", "model_executor/", "engine/", "entrypoints/", "executor/"}},
    {Framework::kSglang, "sglang/", {"srt/", "launch_server.py"}},
    {Framework::kTensorRtLlm, "tensorrt_llm/", {"_torch/", "runtime/", "executor/", "models/"}},
    {Framework::kXdit, "xfuser/", {"core/", "model_executor/", "runner.py"}},
    {Framework::kDiffusers, "diffusers/", {"models/", "pipelines/", "schedulers/"}},
    {Framework::kTransformers,
     "transformers/",
     {"models/", "trainer", "generation/", "pipelines/", "modeling_", "image_"}},
    {Framework::kAccelerate, "accelerate/", {"accelerator.py", "data_loader.py", "optimizer.py", "hooks.py", "utils/"}},
    {Framework::kLightning, "lightning/", {"pytorch/", "fabric/"}},
    {Framework::kLightning, "pytorch_lightning/", {"trainer/", "core/", "loops/", "strategies/"}},
    {Framework::kDeepSpeed, "deepspeed/", {"runtime/", "ops/", "comm/", "utils/"}},
    {Framework::kMegatron, "megatron/", {"core/", "training/", "legacy/"}},
    {Framework::kTorchRec, "torchrec/", {"distributed/", "modules/", "sparse/", "optim/"}},
    {Framework::kJax, "jax/", {"_src/", "interpreters/", "experimental/"}},
};

// Whether a file of the package is named: its path begins with it, as profilers shorten paths, or has it where packages
// are installed or checked out, or with what is in it. A program's folder may have a package's name.
bool names_file_of(const Package& package, std::string_view name) {
  for (size_t at = name.find(package.name); at != name.npos; at = name.find(package.name, at + 1)) {
    const std::string_view before = name.substr(0, at), after = name.substr(at + package.name.size());
    if (before.empty() || before.ends_with("-packages/")) return true;
    if (before.back() != '/') continue;
    const bool inside = std::ranges::any_of(
        package.inside, [&](std::string_view part) { return !part.empty() && after.starts_with(part); });
    if (inside || before.ends_with("/" + std::string(package.name))) return true;
  }
  return false;
}

constexpr std::array<std::string_view, kFrameworks> kFrameworkNames = {
    "eager PyTorch", "torch.compile", "graph breaks", "CUDA graphs", "vLLM", "SGLang", "TensorRT-LLM", "xDiT",
    "Diffusers", "Transformers", "Trainer", "Transformers pipeline", "Accelerate", "Lightning", "DDP", "FSDP", "FSDP2",
    "DeepSpeed", "Megatron", "TorchRec", "JAX"};

// Engines other than vLLM mark steps as "execute_16_context_…", with a number.
bool is_vllm_step(std::string_view name) {
  return name.starts_with("execute_context_") || name.starts_with("execute_new_");
}

bool marks_served_steps(const Facts& facts) {
  const auto serves = [](const auto& step) { return is_served(step.batch.kind); };
  const Steps& steps = facts.get<Steps>();
  return std::ranges::any_of(steps.of_engine, serves) || std::ranges::any_of(steps.steps, serves);
}

bool replays_all(const Facts& facts) {
  const Trace& trace = facts.trace();
  std::vector<int64_t> launches;
  for (const HostId call : trace.launching)
    if (facts.get<Names>().graph_launch[trace.host.name[call.value].value])
      launches.push_back(trace.host.start_ns[call.value]);
  std::ranges::sort(launches);
  bool any = false;
  for (const EngineRange& step : facts.get<Steps>().of_engine) {
    if (step.batch.kind != StepKind::kDecode) continue;
    const auto first = std::ranges::lower_bound(launches, step.time.start);
    if (first == launches.end() || *first >= step.time.end) return false;
    any = true;
  }
  return any;
}

}  // namespace

std::string_view library_of(std::string_view file) {
  constexpr std::string_view kInstalled = "-packages/", kStandard = "lib/python3";
  if (const size_t at = file.rfind(kInstalled); at != file.npos) {
    const std::string_view inside = file.substr(at + kInstalled.size());
    return inside.substr(0, std::min(inside.find('/'), inside.find(".py")));
  }
  for (const Package& package : kPackages)
    if (names_file_of(package, file)) return package.name.substr(0, package.name.size() - 1);
  if (!is_library_file(file)) return "";
  const size_t folder = file.find('/');
  return contains(file, kStandard) || folder == file.npos ? "Python" : file.substr(0, folder);
}

std::string_view framework_name(Framework framework) { return kFrameworkNames[static_cast<size_t>(framework)]; }

bool Frameworks::serves() const {
  for (size_t i = 0; i < kFrameworks; ++i)
    if (seen[i] && is_engine(static_cast<Framework>(i))) return true;
  return false;
}

std::vector<std::string> Frameworks::names() const {
  std::vector<std::string> out;
  for (size_t i = 0; i < kFrameworks; ++i)
    if (seen[i] && !kFrameworkNames[i].empty()) out.emplace_back(kFrameworkNames[i]);
  return out;
}

namespace {

// RCCL's kernels have no type in their names.
bool reduces_halves(const Trace& trace) {
  int64_t reductions = 0, halves = 0;
  for (const Collective& c : trace.collectives) {
    if (collective_name(trace.strings[c.name]) != "all_reduce") continue;
    ++reductions;
    halves += is_any_of(trace.strings[c.dtype], std::array{"BFloat16", "Half"});
  }
  return 2 * halves > reductions;
}

}  // namespace

namespace {

// Tools that record any program; PyTorch's own profiler and profgpu's recorder show where Python is.
bool records_any_program(Recorder recorder) { return recorder == Recorder::kNsight || recorder == Recorder::kRocprof; }

// Names of PyTorch's kernels and operators, of other frameworks, of Python, and of training's phases.
bool is_of_framework(std::string_view name) {
  constexpr std::string_view kParts[] = {"aten::", "at::",        "at_cuda", "c10::", "torch", "triton", "tensorflow",
                                         "tensorrt", "Iterator::", "XLA",    "xla",   "jax",   ".py",    "python",
                                         "pt_main_thread"};
  return contains_any(name, kParts);
}

bool is_native(const Facts& facts, const Frameworks& all) {
  const Trace& trace = facts.trace();
  if (!records_any_program(trace.recorder)) return false;
  for (size_t i = 0; i < kFrameworks; ++i)
    if (all.seen[i] && !kFrameworkNames[i].empty() && static_cast<Framework>(i) != Framework::kCudaGraphs) return false;
  for (const auto& [key, value] : trace.metadata)
    if (key == "command" && contains(value, "python")) return false;
  const Names& names = facts.get<Names>();
  for (size_t i = 0; i < trace.strings.size(); ++i) {
    if (!names.on_host[i] && !names.on_device[i]) continue;
    if (names.phase[i] == Phase::kBackward || names.phase[i] == Phase::kOptimizer) return false;
    if (is_of_framework(trace.strings[StringId(i)])) return false;
  }
  return std::ranges::none_of(trace.threads, [](const Thread& t) { return is_of_framework(t.name); });
}

}  // namespace

Frameworks Frameworks::compute(const Facts& facts) {
  const Trace& trace = facts.trace();
  const Names& names = facts.get<Names>();
  Frameworks all;
  bool eager = false, tensorflow = false, pageable = false, old_torch = false;
  bool vllm_kernels = false, vllm_steps = false, sglang_steps = false;
  for (size_t i = 0; i < trace.strings.size(); ++i) {
    if (!names.on_host[i] && !names.on_device[i]) continue;
    const std::string_view name = trace.strings[StringId(i)];
    eager |= name.starts_with("aten::");
    tensorflow |= name.starts_with("ExecutorState::") || name.starts_with("EagerLocalExecute");
    vllm_kernels |= contains(name, "vllm::");
    old_torch |= is_any_of(name, kNodesWithoutNumber);
    pageable |= name.starts_with("Memcpy HtoD (Pageable");
    for (const Sign& sign : kSigns)
      if (!all.has(sign.framework) && contains(name, sign.part)) all.seen[static_cast<size_t>(sign.framework)] = true;
    for (const Package& package : kPackages)
      if (!all.has(package.framework) && names_file_of(package, name))
        all.seen[static_cast<size_t>(package.framework)] = true;
    vllm_steps |= is_vllm_step(name), sglang_steps |= name.starts_with("step[") && engine_step(name).has_value();
  }
  // Other engines use vLLM's kernels and modules, too: those whose steps are marked are the ones that serve.
  if (vllm_steps) all.seen[static_cast<size_t>(Framework::kVllm)] = true;
  if (vllm_kernels && !all.serves()) all.seen[static_cast<size_t>(Framework::kVllm)] = true;
  if (sglang_steps) all.seen[static_cast<size_t>(Framework::kSglang)] = true;
  if (sglang_steps && !vllm_steps) all.seen[static_cast<size_t>(Framework::kVllm)] = false;
  if (vllm_steps && !sglang_steps) all.seen[static_cast<size_t>(Framework::kSglang)] = false;
  if (pageable) all.seen[static_cast<size_t>(Framework::kPinnedUploads)] = false;
  if (is_xla_profile(trace) && !tensorflow) all.seen[static_cast<size_t>(Framework::kJax)] = true;
  all.seen[static_cast<size_t>(Framework::kMarkedEngine)] = marks_served_steps(facts);
  all.seen[static_cast<size_t>(Framework::kOldTorch)] = old_torch;
  all.seen[static_cast<size_t>(Framework::kAllGraphs)] = replays_all(facts);
  if (reduces_halves(trace)) all.seen[static_cast<size_t>(Framework::kHalfReductions)] = true;
  const bool captured = all.has(Framework::kTorchCompile) || all.has(Framework::kCudaGraphs);
  all.seen[static_cast<size_t>(Framework::kNative)] = is_native(facts, all);
  all.seen[static_cast<size_t>(Framework::kEager)] = eager && !captured && trace.activity.size() > 0;
  return all;
}

}  // namespace profgpu
