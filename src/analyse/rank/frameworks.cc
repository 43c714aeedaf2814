#include "analyse/rank/frameworks.h"

#include <algorithm>

#include "analyse/rank/names.h"
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
    {Framework::kTorchCompile, "Torch-Compiled Region"}, {Framework::kTorchCompile, "## Call CompiledFxGraph"},
    {Framework::kTorchCompile, "triton_poi_fused"},      {Framework::kTorchCompile, "triton_red_fused"},
    {Framework::kTorchCompile, "triton_per_fused"},      {Framework::kTorchCompile, "(dynamo_timed)"},
    {Framework::kGraphBreaks, "torch_dynamo_resume_in_"},  {Framework::kCudaGraphs, "GraphLaunch"},
    {Framework::kCudaGraphs, "StreamBeginCapture"},      {Framework::kVllm, "vllm/"},
    {Framework::kVllm, "gpu_model_runner: "},
    {Framework::kSglang, "sglang/"},                     {Framework::kSglang, "sglang::"},
    {Framework::kSglang, "sgl_kernel::"},                {Framework::kSglang, "step[DECODE "},
    {Framework::kSglang, "step[EXTEND "},                {Framework::kTensorRtLlm, "[Executor] _forward_step"},
    {Framework::kTensorRtLlm, "tensorrt_llm/"},          {Framework::kXdit, "execute_diffusion_"},
    {Framework::kXdit, "xfuser/"},                       {Framework::kDiffusers, "diffusers/"},
    {Framework::kTransformers, "transformers/"},         {Framework::kTrainer, "transformers/trainer.py"},
    {Framework::kPipeline, "transformers/pipelines/"},   {Framework::kAccelerate, "accelerate/"},
    {Framework::kLightning, "[pl]["},                    {Framework::kLightning, "lightning/"},
    {Framework::kDdp, "DistributedDataParallel"},        {Framework::kDdp, "torch/nn/parallel/distributed.py"},
    {Framework::kFsdp, "FullyShardedDataParallel"},
    {Framework::kFsdp, "torch/distributed/fsdp/fully_sharded_data_parallel.py"},
    {Framework::kFsdp2, "FSDP::"},                       {Framework::kFsdp2, "torch/distributed/fsdp/_fully_shard/"},
    {Framework::kFsdp2, "torch/distributed/_composable/fsdp/"},
    {Framework::kDeepSpeed, "DeepSpeedEngine"},          {Framework::kDeepSpeed, "deepspeed/"},
    {Framework::kMegatron, "megatron/"},                 {Framework::kTorchRec, "torchrec/"},
    {Framework::kTorchRec, "## sparse_data_dist"},       {Framework::kJax, "PjitFunction"},
    {Framework::kJax, "jax/"},
};

constexpr std::array<std::string_view, kFrameworks> kFrameworkNames = {
    "eager PyTorch", "torch.compile", "graph breaks", "CUDA graphs", "vLLM", "SGLang", "TensorRT-LLM", "xDiT",
    "Diffusers", "Transformers", "Trainer", "Transformers pipeline", "Accelerate", "Lightning", "DDP", "FSDP", "FSDP2",
    "DeepSpeed", "Megatron", "TorchRec", "JAX", ""};

bool is_vllm_step(std::string_view name) {
  return name.starts_with("execute_context_") || name.starts_with("execute_new_");
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

Frameworks Frameworks::compute(const Facts& facts) {
  const Trace& trace = facts.trace();
  const Names& names = facts.get<Names>();
  Frameworks all;
  bool eager = false, tensorflow = false, vllm_kernels = false, vllm_steps = false, sglang_steps = false;
  for (size_t i = 0; i < trace.strings.size(); ++i) {
    if (!names.on_host[i] && !names.on_device[i]) continue;
    const std::string_view name = trace.strings[StringId(i)];
    eager |= name.starts_with("aten::");
    tensorflow |= name.starts_with("ExecutorState::") || name.starts_with("EagerLocalExecute");
    vllm_kernels |= contains(name, "vllm::");
    for (const Sign& sign : kSigns)
      if (!all.has(sign.framework) && contains(name, sign.part)) all.seen[static_cast<size_t>(sign.framework)] = true;
    vllm_steps |= is_vllm_step(name), sglang_steps |= name.starts_with("step[") && engine_step(name).has_value();
  }
  // Other engines use vLLM's kernels and modules, too: those whose steps are marked are the ones that serve.
  if (vllm_steps) all.seen[static_cast<size_t>(Framework::kVllm)] = true;
  if (vllm_kernels && !all.serves()) all.seen[static_cast<size_t>(Framework::kVllm)] = true;
  if (sglang_steps) all.seen[static_cast<size_t>(Framework::kSglang)] = true;
  if (sglang_steps && !vllm_steps) all.seen[static_cast<size_t>(Framework::kVllm)] = false;
  if (vllm_steps && !sglang_steps) all.seen[static_cast<size_t>(Framework::kSglang)] = false;
  if (is_xla_profile(trace) && !tensorflow) all.seen[static_cast<size_t>(Framework::kJax)] = true;
  all.seen[static_cast<size_t>(Framework::kAllGraphs)] = replays_all(facts);
  const bool captured = all.has(Framework::kTorchCompile) || all.has(Framework::kCudaGraphs);
  all.seen[static_cast<size_t>(Framework::kEager)] = eager && !captured && trace.activity.size() > 0;
  return all;
}

}  // namespace profgpu
