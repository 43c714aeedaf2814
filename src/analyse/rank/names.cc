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

// Lower case, without spaces, '#' and '_': how ranges are compared.
std::string folded(string_view name) {
  std::string out;
  for (const char c : name)
    if (c != ' ' && c != '#' && c != '_') out.push_back(lower(c));
  return out;
}

struct RangeName {
  string_view text;    // folded
  Phase phase;
  bool prefix;         // the rest of the name does not matter
};

// The names that PyTorch, Lightning, Accelerate, DeepSpeed, FSDP and Megatron give to phases of a step, and those that
// people give. Folded as above.
constexpr RangeName kRanges[] = {
    {"enumerate(dataloader)", Phase::kDataLoading, true},
    {"dataloading", Phase::kDataLoading, false},
    {"dataloader", Phase::kDataLoading, false},
    {"dataload", Phase::kDataLoading, false},
    {"loaddata", Phase::kDataLoading, false},
    {"loadbatch", Phase::kDataLoading, false},
    {"fetchbatch", Phase::kDataLoading, false},
    {"nextbatch", Phase::kDataLoading, false},
    {"getbatch", Phase::kDataLoading, false},
    {"batchgenerator", Phase::kDataLoading, false},                     // Megatron's batch-generator, below as well
    {"batch-generator", Phase::kDataLoading, false},
    {"[pl][profile][trainingepochloop].traindataloadernext", Phase::kDataLoading, false},
    {"[pl][profile]traindataloadernext", Phase::kDataLoading, false},
    {"traindataloadernext", Phase::kDataLoading, false},
    {"[dataloader]", Phase::kDataLoading, true},
    {"forward", Phase::kForward, false},
    {"fwd", Phase::kForward, false},
    {"forwardpass", Phase::kForward, false},
    {"forward-compute", Phase::kForward, false},                        // Megatron
    {"forward-backward", Phase::kOther, false},
    {"deepspeedengine.forward", Phase::kForward, false},
    {"distributeddataparallel.forward", Phase::kForward, false},
    {"fullyshardeddataparallel.forward", Phase::kForward, false},
    {"fsdp.forward", Phase::kForward, false},
    {"fwdmicrostep", Phase::kForward, false},                           // DeepSpeed's timers
    {"[pl][profile][strategy]ddpstrategy.trainingstep", Phase::kForward, false},
    {"[pl][profile][strategy]singledevicestrategy.trainingstep", Phase::kForward, false},
    {"[pl][profile]runtrainingstep", Phase::kForward, false},
    {"backward", Phase::kBackward, false},
    {"bwd", Phase::kBackward, false},
    {"backwardpass", Phase::kBackward, false},
    {"backward-compute", Phase::kBackward, false},
    {"deepspeedengine.backward", Phase::kBackward, false},
    {"bwdmicrostep", Phase::kBackward, false},
    {"bwdinnermicrostep", Phase::kBackward, false},
    {"accelerator.backward", Phase::kBackward, false},
    {"[pl][profile]backward", Phase::kBackward, false},
    {"[pl][profile][strategy]ddpstrategy.backward", Phase::kBackward, false},
    {"[pl][profile][strategy]singledevicestrategy.backward", Phase::kBackward, false},
    {"optimizer.step", Phase::kOptimizer, true},
    {"optimizer.zerograd", Phase::kOptimizer, true},
    {"optimizer", Phase::kOptimizer, false},
    {"optimizerstep", Phase::kOptimizer, false},
    {"stepoptimizer", Phase::kOptimizer, false},
    {"deepspeedengine.step", Phase::kOptimizer, false},
    {"stepmicrostep", Phase::kOptimizer, false},
    {"[pl][profile][lightningmodule]optimizerstep", Phase::kOptimizer, true},
    {"savecheckpoint", Phase::kCheckpoint, true},
    {"checkpointsave", Phase::kCheckpoint, true},
    {"checkpointingsave", Phase::kCheckpoint, false},
    {"checkpointing-save", Phase::kCheckpoint, false},
    {"save-checkpoint", Phase::kCheckpoint, true},
    {"torch.save", Phase::kCheckpoint, false},
    {"savemodel", Phase::kCheckpoint, false},
    {"deepspeedengine.savecheckpoint", Phase::kCheckpoint, false},
};

constexpr std::array<string_view, kPhases> kPhaseNames = {"data_loading",  "forward",    "backward", "optimizer",
                                                          "communication", "checkpoint", "other"};

// cudaStreamWaitEvent only queues a wait on the device; it is not here.
constexpr string_view kSynchronize[] = {"cudaDeviceSynchronize",
                                        "cudaStreamSynchronize",
                                        "cudaEventSynchronize",
                                        "cudaThreadSynchronize",
                                        "cudaMemcpy",
                                        "cudaMemcpyToSymbol",
                                        "cudaMemcpyFromSymbol",
                                        "cudaMemcpy2D",
                                        "hipDeviceSynchronize",
                                        "hipStreamSynchronize",
                                        "hipEventSynchronize",
                                        "hipMemcpy",
                                        "hipMemcpyWithStream",
                                        "hipMemcpyDtoH",
                                        "hipMemcpyHtoD",
                                        "cuCtxSynchronize",
                                        "cuStreamSynchronize",
                                        "cuEventSynchronize",
                                        "cuMemcpyDtoH_v2",
                                        "cuMemcpyHtoD_v2",
                                        "urQueueFinish",
                                        "urEventWait",
                                        "zeCommandQueueSynchronize",
                                        "zeCommandListHostSynchronize",
                                        "zeEventHostSynchronize",
                                        "zeFenceHostSynchronize",
                                        "Context Sync",
                                        "Stream Sync",
                                        "Event Sync"};
constexpr string_view kMemory[] = {
    "cudaMalloc", "cudaFree", "cudaMallocAsync", "cudaFreeAsync", "cudaMallocHost", "cudaFreeHost", "cudaHostAlloc",
    "cudaMallocManaged", "cudaMalloc3D", "cudaMallocPitch", "cudaHostRegister", "cudaHostUnregister",
    "hipMalloc", "hipFree", "hipMallocAsync", "hipFreeAsync", "hipHostMalloc", "hipHostFree", "hipMallocManaged",
    "hipExtMallocWithFlags", "hipMallocHost", "hipFreeHost",
    "cuMemAlloc_v2", "cuMemFree_v2", "cuMemAllocAsync", "cuMemFreeAsync", "cuMemCreate", "cuMemMap", "cuMemUnmap",
    "cuMemRelease", "cuMemAddressReserve", "cuMemSetAccess"};

// Calls are recorded with suffixes of their version and of the default stream they mean: cudaMemcpyAsync_v3020,
// cudaStreamSynchronize_ptsz_v7000, hipStreamSynchronize_spt.
string_view without_suffixes(string_view name) {
  const size_t at = name.rfind("_v");
  const bool versioned = at != name.npos && name.size() - at == 6 && is_digit(name[at + 2]);
  if (versioned) name = name.substr(0, at);
  for (const string_view stream : {"_ptsz", "_ptds", "_spt"})
    if (name.ends_with(stream)) return name.substr(0, name.size() - stream.size());
  return name;
}

template <size_t N>
bool listed(const string_view (&list)[N], string_view name) {
  return std::find(std::begin(list), std::end(list), name) != std::end(list);
}

bool is_launch(string_view name) {
  constexpr string_view kPrefixes[] = {"cudaLaunch",  "cuLaunch",       "hipLaunch",        "hipModuleLaunch",
                                       "hipExtLaunch", "hipExtModuleLaunch", "cudaGraphLaunch",  "cuGraphLaunch",
                                       "hipGraphLaunch", "cudaMemset",  "hipMemset",        "cuMemset",
                                       "cudaMemcpy",  "hipMemcpy",      "cuMemcpy",         "hipDrvLaunch"};
  return std::any_of(std::begin(kPrefixes), std::end(kPrefixes), [&](string_view p) { return name.starts_with(p); });
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
  if (std::ranges::any_of(kOfFrameworks, [&](string_view start) { return name.starts_with(start); })) return false;
  return std::ranges::all_of(name, [](char c) {
    return is_letter(c) || is_digit(c) || c == '_' || c == '-' || c == '.' || c == ' ' || c == '/' || c == ':' || c < 0;
  });
}

Phase phase_of_range(string_view name) {
  if (name.size() > 160) return Phase::kOther;
  const std::string text = folded(name);
  for (const RangeName& r : kRanges)
    if (r.prefix ? string_view(text).starts_with(r.text) : text == r.text) return r.phase;
  return Phase::kOther;
}

bool is_communication_kernel(string_view name) {
  for (const string_view part : {"nccl", "rccl", "cross_device_reduce", "nvshmem", "deep_ep", "mscclpp"})
    if (contains_ignoring_case(name, part)) return true;
  // (one|two)_?shot_all_?reduce and multimem_all_?(reduce|gather)
  for (const string_view part : {"one_shot_all_reduce", "one_shot_allreduce", "oneshot_all_reduce", "oneshot_allreduce",
                                 "two_shot_all_reduce", "two_shot_allreduce", "twoshot_all_reduce", "twoshot_allreduce",
                                 "multimem_all_reduce", "multimem_allreduce", "multimem_all_gather",
                                 "multimem_allgather"})
    if (contains_ignoring_case(name, part)) return true;
  return false;
}

CallKind call_kind(string_view name) {
  const string_view plain = without_suffixes(name);
  if (listed(kSynchronize, plain)) return CallKind::kSynchronize;
  if (listed(kMemory, plain)) return CallKind::kMemory;
  return is_launch(plain) ? CallKind::kLaunch : CallKind::kOther;
}

bool is_autograd_op(string_view name) {
  if (name.starts_with("autograd::engine::evaluate_function")) return true;
  if (name.starts_with("torch::autograd::")) return true;   // AccumulateGrad, CopySlices
  if (name.find("::") != name.npos || name.find(' ') != name.npos) return false;
  // MulBackward0, NllLossBackward (1.8), CompiledFunctionBackward: a node of the graph.
  const size_t at = name.rfind("Backward");
  if (at == name.npos || at == 0) return false;
  const string_view rest = name.substr(at + 8);
  return std::all_of(rest.begin(), rest.end(), is_digit);
}

Names Names::compute(const Facts& facts) {
  const StringPool& strings = facts.trace().strings;
  Names names;
  const size_t n = strings.size();
  names.phase.resize(n, Phase::kOther);
  names.call.resize(n, CallKind::kOther);
  names.communication.resize(n);
  names.autograd.resize(n);
  // Most strings name neither (shapes, arguments), and few name both.
  std::vector<bool> on_host(n), on_device(n);
  for (const StringId name : facts.trace().host.name) on_host[name.value] = true;
  for (const StringId name : facts.trace().activity.name) on_device[name.value] = true;
  for (size_t i = 0; i < n; ++i) {
    const string_view text = strings[StringId(i)];
    if (on_device[i]) names.communication[i] = is_communication_kernel(text);
    if (!on_host[i]) continue;
    names.phase[i] = phase_of_range(text);
    names.call[i] = call_kind(text);
    names.autograd[i] = is_autograd_op(text);
  }
  return names;
}

}  // namespace profgpu
