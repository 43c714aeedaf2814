#include "analyse/rank/names.h"

#include <algorithm>
#include <array>
#include <string>

#include "base/text.h"

namespace profgpu {
namespace {

using std::string_view;

bool contains_ignoring_case(string_view text, string_view lower_case) {
  const auto same = [](char a, char b) { return lower(a) == b; };
  return std::search(text.begin(), text.end(), lower_case.begin(), lower_case.end(), same) != text.end();
}

// Lower case, without spaces, '#' and '_', which names of ranges spell differently.
std::string folded(string_view name) {
  std::string out;
  for (const char c : name)
    if (c != ' ' && c != '#' && c != '_') out.push_back(lower(c));
  return out;
}

/// Folded names of the ranges of one phase. After a prefix anything may follow.
struct RangeNames {
  Phase phase;
  std::vector<string_view> names, prefixes;
};

// Names in PyTorch, Lightning ("[pl]"), Accelerate, DeepSpeed (its timers, too), FSDP and Megatron ("batch-generator",
// "forward-compute", ...), and names that people choose.
const std::vector<RangeNames>& range_names() {
  static const std::vector<RangeNames> all = {
      {Phase::kDataLoading,
       {"dataloading", "dataloader", "dataload", "loaddata", "loadbatch", "fetchbatch", "nextbatch", "getbatch",
        "batchgenerator", "batch-generator", "[pl][profile][trainingepochloop].traindataloadernext",
        "[pl][profile]traindataloadernext", "traindataloadernext"},
       // tf.data, and TensorFlow's op that waits for it; of TPUs, the operation that waits for the host's data
       {"enumerate(dataloader)", "[dataloader]", "iterator::", "iteratorgetnext", "infeed"}},
      {Phase::kForward,
       {"forward", "fwd", "forwardpass", "forward-compute", "deepspeedengine.forward",
        "distributeddataparallel.forward", "fullyshardeddataparallel.forward", "fsdp.forward", "fwdmicrostep",
        "[pl][profile][strategy]ddpstrategy.trainingstep", "[pl][profile][strategy]singledevicestrategy.trainingstep",
        "[pl][profile]runtrainingstep"},
       {}},
      {Phase::kBackward,
       {"backward", "bwd", "backwardpass", "backward-compute", "deepspeedengine.backward", "bwdmicrostep",
        "bwdinnermicrostep", "accelerator.backward", "[pl][profile]backward",
        "[pl][profile][strategy]ddpstrategy.backward", "[pl][profile][strategy]singledevicestrategy.backward"},
       {}},
      {Phase::kOptimizer,
       {"optimizer", "optimizerstep", "stepoptimizer", "deepspeedengine.step", "stepmicrostep"},
       {"optimizer.step", "optimizer.zerograd", "[pl][profile][lightningmodule]optimizerstep"}},
      {Phase::kCheckpoint,
       {"checkpointingsave", "checkpointing-save", "torch.save", "savemodel", "deepspeedengine.savecheckpoint"},
       {"savecheckpoint", "checkpointsave", "save-checkpoint"}}};
  return all;
}

constexpr std::array<string_view, kPhases> kPhaseNames = {"data_loading",  "forward",    "backward", "optimizer",
                                                          "communication", "checkpoint", "other"};

// Not cudaStreamWaitEvent: it only queues a wait on the device.
constexpr string_view kSynchronize[] = {
    "cudaDeviceSynchronize", "cudaStreamSynchronize", "cudaEventSynchronize", "cudaThreadSynchronize", "cudaMemcpy",
    "cudaMemcpyToSymbol", "cudaMemcpyFromSymbol", "cudaMemcpy2D", "hipDeviceSynchronize", "hipStreamSynchronize",
    "hipEventSynchronize", "hipMemcpy", "hipMemcpyWithStream", "hipMemcpyDtoH", "hipMemcpyHtoD", "cuCtxSynchronize",
    "cuStreamSynchronize", "cuEventSynchronize", "cuMemcpyDtoH_v2", "cuMemcpyHtoD_v2", "urQueueFinish", "urEventWait",
    "zeCommandQueueSynchronize", "zeCommandListHostSynchronize", "zeEventHostSynchronize", "zeFenceHostSynchronize",
    "Context Sync", "Stream Sync", "Event Sync"};
constexpr string_view kMemory[] = {
    "cudaMalloc", "cudaFree", "cudaMallocAsync", "cudaFreeAsync", "cudaMallocHost", "cudaFreeHost", "cudaHostAlloc",
    "cudaMallocManaged", "cudaMalloc3D", "cudaMallocPitch", "cudaHostRegister", "cudaHostUnregister",
    "hipMalloc", "hipFree", "hipMallocAsync", "hipFreeAsync", "hipHostMalloc", "hipHostFree", "hipMallocManaged",
    "hipExtMallocWithFlags", "hipMallocHost", "hipFreeHost",
    "cuMemAlloc_v2", "cuMemFree_v2", "cuMemAllocAsync", "cuMemFreeAsync", "cuMemCreate", "cuMemMap", "cuMemUnmap",
    "cuMemRelease", "cuMemAddressReserve", "cuMemSetAccess"};
constexpr string_view kLaunchPrefixes[] = {
    "cudaLaunch", "cuLaunch", "hipLaunch", "hipModuleLaunch", "hipExtLaunch", "hipExtModuleLaunch", "cudaGraphLaunch",
    "cuGraphLaunch", "hipGraphLaunch", "cudaMemset", "hipMemset", "cuMemset", "cudaMemcpy", "hipMemcpy", "cuMemcpy",
    "hipDrvLaunch"};

// Calls may be recorded with suffixes for their version and default stream: cudaMemcpyAsync_v3020,
// cudaStreamSynchronize_ptsz_v7000, hipStreamSynchronize_spt.
string_view without_suffixes(string_view name) {
  const size_t at = name.rfind("_v");
  const bool versioned = at != name.npos && name.size() - at == 6 && is_digit(name[at + 2]);
  if (versioned) name = name.substr(0, at);
  for (const string_view stream : {"_ptsz", "_ptds", "_spt"})
    if (name.ends_with(stream)) return name.substr(0, name.size() - stream.size());
  return name;
}

}  // namespace

string_view phase_name(Phase phase) { return kPhaseNames[static_cast<size_t>(phase)]; }

std::optional<Phase> phase_called(string_view name) {
  for (size_t p = 0; p < kPhases; ++p)
    if (kPhaseNames[p] == name) return static_cast<Phase>(p);
  return std::nullopt;
}

std::string phase_words(string_view name) { return phase_called(name) ? words(name) : std::string(name); }

bool may_be_own_phase(string_view name) {
  constexpr string_view kOfFrameworks[] = {"Torch-Compiled", "Compiled", "FullyShardedDataParallel", "DeepSpeed",
                                           "DistributedDataParallel", "TorchDynamo", "Inductor", "PyTorch", "Pregraph",
                                           "nccl", "gloo:", "mpi:", "ucc:", "rccl", "aten", "autograd", "torch", "jit",
                                           "execute_", "capture_", "nn.Module", "cudnn", "cublas"};
  if (name.empty() || name.size() > 60 || !is_letter(name.front()) || name.find("::") != name.npos) return false;
  if (starts_with_any(name, kOfFrameworks)) return false;
  return std::ranges::all_of(name, [](char c) {
    const bool of_utf8 = static_cast<unsigned char>(c) >= 0x80;   // whether or not a char has a sign
    return is_letter(c) || is_digit(c) || of_utf8 || string_view("_-. /:").find(c) != string_view::npos;
  });
}

namespace {

// Lightning names its hooks after the program's class: "[pl][profile][LightningModule]Net.optimizer_step".
Phase phase_of_hook(string_view folded_name) {
  if (!folded_name.starts_with("[pl][profile]")) return Phase::kOther;
  if (folded_name.ends_with(".optimizerstep")) return Phase::kOptimizer;
  if (folded_name.ends_with("strategy.trainingstep")) return Phase::kForward;
  return folded_name.ends_with("strategy.backward") ? Phase::kBackward : Phase::kOther;
}

}  // namespace

Phase phase_of_range(string_view name) {
  if (name.size() > 160) return Phase::kOther;
  const std::string text = folded(name);
  for (const RangeNames& r : range_names())
    if (std::ranges::count(r.names, text) > 0 || starts_with_any(text, r.prefixes)) return r.phase;
  return phase_of_hook(text);
}

Phase phase_of_frame(string_view name) {
  constexpr string_view kSaves[] = {"torch/serialization.py: save", "torch/distributed/checkpoint/state_dict_saver.py: save",
                                    "torch/distributed/checkpoint/state_dict_saver.py: async_save",
                                    "safetensors/torch.py: save_file"};
  const size_t open = name.find('('), close = name.find("): ");
  if (open == name.npos || close == name.npos || close < open) return Phase::kOther;
  const std::string function = std::string(name.substr(0, open)).append(name.substr(close + 1));
  const bool saves = std::ranges::any_of(kSaves, [&](string_view save) {
    return function.ends_with(save) && (function.size() == save.size() || function[function.size() - save.size() - 1] == '/');
  });
  return saves ? Phase::kCheckpoint : Phase::kOther;
}

bool is_profiler_overhead(string_view name) {
  return name != kFullQueue && name != "Runtime Triggered Module Loading" && name != "Lazy Function Loading" &&
         name != "Driver Compiler";
}

namespace {

// Operations of XLA: "all-reduce.7", "all-gather-start.3".
bool is_xla_communication(string_view name) {
  constexpr string_view kParts[] = {"all-reduce", "all-gather", "reduce-scatter", "all-to-all", "ragged-all-to-all",
                                    "collective-permute", "collective-broadcast", "send", "recv"};
  return std::ranges::any_of(kParts, [&](string_view part) {
    if (!name.starts_with(part)) return false;
    const string_view rest = name.substr(part.size());
    return rest.empty() || rest.front() == '.' || rest.front() == '-' || rest.front() == ':';
  });
}

}  // namespace

bool is_communication_kernel(string_view name) {
  // The last ones are (one|two)_?shot_all_?reduce and multimem_all_?(reduce|gather).
  constexpr string_view kParts[] = {
      "nccl", "rccl", "cross_device_reduce", "nvshmem", "deep_ep", "mscclpp", "one_shot_all_reduce",
      "one_shot_allreduce", "oneshot_all_reduce", "oneshot_allreduce", "two_shot_all_reduce", "two_shot_allreduce",
      "twoshot_all_reduce", "twoshot_allreduce", "multimem_all_reduce", "multimem_allreduce", "multimem_all_gather",
      "multimem_allgather"};
  return is_xla_communication(name) ||
         std::ranges::any_of(kParts, [&](string_view part) { return contains_ignoring_case(name, part); });
}

CallKind call_kind(string_view name) {
  const string_view plain = without_suffixes(name);
  if (std::ranges::count(kSynchronize, plain) > 0) return CallKind::kSynchronize;
  if (std::ranges::count(kMemory, plain) > 0) return CallKind::kMemory;
  return starts_with_any(plain, kLaunchPrefixes) ? CallKind::kLaunch : CallKind::kOther;
}

bool is_autograd_op(string_view name) {
  if (name.starts_with("autograd::engine::evaluate_function")) return true;
  if (name.starts_with("torch::autograd::")) return true;   // AccumulateGrad, CopySlices
  if (name.find("::") != name.npos || name.find(' ') != name.npos) return false;
  // MulBackward0, NllLossBackward (1.8), CompiledFunctionBackward: a node of the graph.
  const size_t at = name.rfind("Backward");
  if (at == name.npos || at == 0) return false;
  const string_view rest = name.substr(at + 8);
  return std::ranges::all_of(rest, is_digit);
}

bool Names::launches() const { return std::ranges::count(call, CallKind::kLaunch) > 0; }

Names Names::compute(const Facts& facts) {
  const StringPool& strings = facts.trace().strings;
  Names names;
  const size_t n = strings.size();
  names.phase.resize(n, Phase::kOther);
  names.call.resize(n, CallKind::kOther);
  for (std::vector<bool>* flags : {&names.on_host, &names.on_device, &names.communication, &names.autograd,
                                   &names.graph_launch, &names.host_function})
    flags->resize(n);
  for (const StringId name : facts.trace().host.name) names.on_host[name.value] = true;
  names.frame_phase.resize(n, Phase::kOther);
  for (const StringId name : facts.trace().activity.name) names.on_device[name.value] = true;
  for (size_t i = 0; i < n; ++i) {
    const string_view text = strings[StringId(i)];
    if (names.on_device[i]) names.communication[i] = is_communication_kernel(text);
    if (!names.on_host[i]) continue;
    names.phase[i] = phase_of_range(text);
    names.frame_phase[i] = phase_of_frame(text);
    names.call[i] = call_kind(text);
    names.autograd[i] = is_autograd_op(text);
    names.graph_launch[i] = contains(text, "GraphLaunch");
    names.host_function[i] = contains(text, "HostFunc") || contains(text, "StreamAddCallback");
  }
  return names;
}

}  // namespace profgpu
