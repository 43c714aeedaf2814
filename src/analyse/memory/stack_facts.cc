#include "analyse/memory/stack_facts.h"

#include <algorithm>
#include <string_view>

#include "base/text.h"

namespace profgpu {
namespace {

constexpr std::string_view kOps = "at::_ops::";

/// What one frame says, wherever it stands.
struct FrameFacts {
  bool python = false, library = false;
  bool engine = false, accumulates = false, optimizer = false, module = false, forward = false, init = false;
  bool communicates = false, cache = false, workspace = false, attention = false, op = false, collector = false;
  bool zeroes = false, clips = false, autocast = false, graph = false;
  bool applies = false, backward = false;  ///< torch.autograd.Function's apply(), and what it calls in a backward pass
  bool step = false, closure = false;      ///< an optimizer's step(), and what such a step calls to compute the loss
  bool checkpoint = false, shards = false, masters = false;
  bool torch = false, builds = false;      ///< PyTorch's own code; code that makes modules
  bool softmax = false, dropout = false, linear = false, reduces = false, gradient_buffer = false;
  bool cross_entropy = false;
  bool compiled = false;                   ///< AOTAutograd's: its forward() runs compiled optimizers as well
};

// What Inductor writes for torch.compile.
bool is_generated(std::string_view file) {
  return contains_any(file, {"/torchinductor_", "/inductor_cache/", "/torch/inductor/"});
}

// Of Windows: "C:/Python311/Lib/runpy.py". A program may have a folder of that name as well.
bool is_in_lib_of_python(std::string_view file) {
  const size_t lib = file.find("/Lib/");
  if (lib == file.npos) return false;
  return contains_any(lower_case(file.substr(0, lib)), {"python", "conda", "/envs/"});
}

// Paths of Python's own library and of installed packages.
bool is_library(std::string_view file) {
  return contains_any(file, {"/site-packages/", "/dist-packages/", "/lib/python3"}) || is_in_lib_of_python(file) ||
         file.starts_with("<frozen") || file.starts_with("<string>") || file.starts_with("torch/") || is_generated(file);
}

bool is_fsdp(std::string_view file) { return contains_any(file, {"distributed/fsdp/", "_composable/fsdp/"}); }

// Packages whose objects are modules. PyTorch's own are made in torch/nn.
bool builds_modules(std::string_view file) {
  return (contains(file, "torch/nn/") && !file.ends_with("functional.py")) ||
         file.ends_with("torch/optim/swa_utils.py") ||
         contains_any(file, {"/transformers/", "/timm/", "/diffusers/", "/peft/", "/torchvision/models/",
                             "/tensor_parallel/", "/model_executor/", "/transformer_engine/", "/bitsandbytes/nn/",
                             "/flash_attn/", "/xformers/", "/torchtune/modules/", "/apex/"});
}

bool is_softmax(std::string_view name) { return contains(name, "softmax") && !contains(name, "log_softmax"); }

// What the autograd engine calls in its own threads. Without frames of C++ nothing else tells of the engine.
bool is_called_by_engine(std::string_view last, std::string_view file) {
  if (file.ends_with("torch/autograd/__init__.py") || file.ends_with("torch/autograd/graph.py"))
    return is_any_of(last, {"backward", "_engine_run_backward", "grad", "unpack_from_cpu"});
  if (file.ends_with("torch/utils/checkpoint.py")) return is_any_of(last, {"unpack_hook", "recompute_fn"});
  return is_fsdp(file) && contains_any(last, {"pre_backward", "post_backward"}) && !last.starts_with("_register");
}

// A program's own folder of such a name holds other code as well: there a step() is an optimizer's.
bool is_optimizer(std::string_view last, std::string_view file, bool library) {
  if (file.ends_with("lr_scheduler.py") || file.ends_with("swa_utils.py")) return false;
  if (contains_any(file, {"torch/optim/", "bitsandbytes/optim/", "apex/optimizers/", "/ops/adam/", "/ops/lamb/",
                          "/ops/lion/"}))
    return true;
  return contains_any(file, {"/optim/", "/optimizers/"}) && (library || last == "step");
}

std::string_view file_name(std::string_view path) { return path.substr(path.rfind('/') + 1); }

// Files that hold what keeps keys and values. The program's own may hold a whole model if they are called likewise.
bool is_cache_file(std::string_view file, bool library) {
  const std::string_view name = file_name(file);
  if (is_any_of(name, {"cache_utils.py", "cache_engine.py", "memory_pool.py", "kv_cache.py"})) return true;
  return (library && (contains(file, "/kv_cache") || contains_any(name, {"cache_engine"}))) ||
         contains_any(file, {"exllamav2/cache", "exllamav3/cache/"});
}

// Functions that make or extend a cache, and methods of caches; not those that only run something with one.
bool is_cache_function(std::string_view name, std::string_view last, std::string_view file) {
  const std::string all = lower_case(name), low = lower_case(last);
  if (is_any_of(last, {"setup_caches", "setup_cache", "allocate_inference_cache"})) return true;
  if (last == "_allocate_memory" && contains(file, "megatron/core/")) return true;
  if (contains_any(all.substr(0, all.size() - low.size()), {"kvcache", "kv_cache", "staticcache"})) return true;
  return contains_any(low, {"kvcache", "kv_cache", "staticcache"}) &&
         !contains_any(low, {"generate", "with_", "without_", "using_", "use_", "bench", "test_", "main", "train"});
}

FrameFacts python_facts(std::string_view name, std::string_view file) {
  FrameFacts f;
  f.python = true;
  f.library = is_library(file);
  // Since Python 3.11 names may be qualified: "Attention.forward".
  const std::string_view last = name.substr(name.rfind('.') + 1);
  f.engine = is_called_by_engine(last, file);
  f.applies = last == "apply" && file.ends_with("torch/autograd/function.py");
  f.backward = is_any_of(last, {"backward", "vjp"});
  f.optimizer = is_optimizer(last, file, f.library);
  f.clips = file.ends_with("torch/nn/utils/clip_grad.py");
  f.step = f.optimizer && last == "step";
  f.closure = contains(last, "closure");
  f.forward = last == "forward" || (last == "_call_impl" && file.ends_with("nn/modules/module.py"));
  f.compiled = contains(file, "torch/_functorch/");
  f.module = (file.ends_with("nn/modules/module.py") &&
              is_any_of(last, {"_apply", "convert", "to", "cuda", "half", "float", "bfloat16", "load_state_dict"})) ||
             file.ends_with("torch/nn/init.py") || file.ends_with("torch/nn/parameter.py") ||
             (file.ends_with("torch/serialization.py") && contains(last, "load")) ||
             is_any_of(last, {"from_pretrained", "_load_pretrained_model", "load_state_dict", "load_weights",
                              "set_module_tensor_to_device", "load_file", "reset_parameters"});
  f.init = last == "__init__";
  f.communicates = is_any_of(last, {"unshard", "_unshard", "all_gather_into_tensor", "_all_gather_base",
                                    "reduce_scatter_tensor", "_reduce_scatter_base", "all_reduce", "foreach_all_gather",
                                    "foreach_reduce", "_alloc_padded_unsharded_flat_param", "allreduce_bucket",
                                    "_ddp_init_helper", "_rebuild_buckets"});
  f.reduces = is_fsdp(file) && is_any_of(last, {"foreach_reduce", "reduce_scatter_tensor", "_reduce_scatter_base"});
  f.gradient_buffer = f.init && file.ends_with("distributed/param_and_grad_buffer.py");
  const std::string low = lower_case(last);
  const bool other_forward = f.forward && !contains(lower_case(name), "cache");
  f.cache = is_cache_function(name, last, file) || (is_cache_file(file, f.library) && !other_forward);
  f.softmax = is_softmax(low);
  f.cross_entropy = contains_any(low, {"cross_entropy", "forcausallmloss"});
  f.dropout = contains(low, "dropout") || file.ends_with("torch/nn/modules/dropout.py");
  f.linear = file.ends_with("torch/nn/modules/linear.py");
  f.attention = contains_any(low, {"attention", "attn"}) || f.softmax;
  f.torch = contains(file, "/torch/") || file.starts_with("torch/");
  f.builds = builds_modules(file);
  f.collector = last == "collect" && file.ends_with("gc.py");
  f.zeroes = last == "zero_grad";
  f.autocast = file.ends_with("torch/amp/autocast_mode.py");
  f.checkpoint = file.ends_with("torch/utils/checkpoint.py");
  f.shards = is_fsdp(file) || contains(file, "deepspeed/runtime/zero/");
  f.masters = contains(file, "deepspeed/runtime/") &&
              is_any_of(last, {"__init__", "_create_fp32_partitions", "_setup_for_real_optimizer"});
  f.graph = file.ends_with("torch/cuda/graphs.py") || contains_any(file, {"cudagraph", "cuda_graph"});
  return f;
}

FrameFacts native_facts(std::string_view name) {
  FrameFacts f;
  f.accumulates = contains(name, "AccumulateGrad");
  f.engine = contains_any(name, {"torch::autograd::Engine::", "torch::autograd::generated::"}) &&
             !contains(name, "VariableType");
  f.communicates = contains_any(name, {"c10d::Reducer", "c10d::ProcessGroup", "c10d::nccl", "torch::cuda::nccl"});
  f.workspace = contains_any(name, {"Workspace", "workspace", "CUDABlasHandle", "cublasCreate", "cudnnCreate",
                                    "run_conv_plan", "try_plans", "generate_and_filter_plans"});
  f.op = name.starts_with(kOps);
  f.softmax = f.op && is_softmax(name);
  f.dropout = f.op && contains(name, "dropout");
  f.cross_entropy = contains_any(name, {"::_log_softmax", "::log_softmax", "::nll_loss", "::cross_entropy_loss",
                                        "LogSoftmaxBackward", "NllLossBackward"});
  f.collector = contains_any(name, {"gc_collect", "PyGC_Collect", "delete_garbage"});
  f.autocast = contains(name, "at::autocast::");
  return f;
}

FrameFacts facts_of(std::string_view name, std::string_view file) {
  const bool python = file.ends_with(".py") || file.starts_with("<ipython") || file.starts_with("<stdin>") ||
                      file.starts_with("<frozen") || file.starts_with("<string>") || file.starts_with("/tmp/ipykernel");
  return python ? python_facts(name, file) : native_facts(name);
}

// "torch::autograd::generated::MulBackward0::apply(...)" to "MulBackward0".
std::string node_of(std::string_view name) {
  constexpr std::string_view kGenerated = "torch::autograd::generated::";
  const size_t at = name.find(kGenerated);
  if (at == name.npos) return {};
  const std::string_view node = name.substr(at + kGenerated.size());
  if (node.starts_with("details::")) return {};   // what a node calls; the node itself is further out
  return std::string(node.substr(0, std::min(node.find_first_of("_:("), node.size())));
}

// Keeps what the frames of one stack say, from the innermost outward.
class StackReading {
 public:
  StackReading(const MemorySnapshot& snapshot, const std::vector<FrameFacts>& frames)
      : snapshot_(snapshot), frames_(frames) {}

  StackFacts read(const uint32_t* begin, const uint32_t* end) {
    for (const uint32_t* frame = begin; frame != end; ++frame) add(*frame, frames_[*frame]);
    facts_.scope = scope(begin, end);
    if (facts_.line == UINT32_MAX) facts_.line = library_line_;
    facts_.role = role();
    facts_.attention = attention_ && facts_.role != MemoryRole::kOptimizer;
    facts_.collector = seen_.collector;
    facts_.zeroes_gradients = seen_.zeroes;
    facts_.clips = seen_.clips;
    facts_.in_forward = seen_.forward;
    facts_.checkpointed = seen_.checkpoint;
    facts_.in_backward = seen_.engine || seen_.accumulates;
    facts_.graph = seen_.graph;
    facts_.cross_entropy = seen_.cross_entropy;
    facts_.softmax = seen_.softmax, facts_.dropout = seen_.dropout, facts_.linear = seen_.linear;
    facts_.reduces = seen_.reduces;
    return std::move(facts_);
  }

 private:
  void add(uint32_t frame, const FrameFacts& f) {
    if (f.op && !python_) facts_.op = snapshot_.stacks.frame(frame).name;
    if (!python_ && f.engine && facts_.node.empty())
      facts_.node = node_of(snapshot_.strings[snapshot_.stacks.frame(frame).name]);
    // A layer of attention's own is a module like any other.
    if (f.python && f.attention && !seen_.forward) attention_ = true;
    if (f.python && facts_.line == UINT32_MAX) {
      if (!f.library)
        facts_.line = frame;
      else if (library_line_ == UINT32_MAX)
        library_line_ = frame;
    }
    if (f.masters && !python_) facts_.masters = frame;
    python_ |= f.python;
    const bool engine = f.engine || (f.applies && called_.backward);
    if (f.python) called_ = f;
    // What calls a model, or an optimizer, does not make a cache, whatever it is called.
    seen_.cache |= f.cache && !seen_.forward && !calls_back_ && !seen_.optimizer;
    add_phase(f, engine);
    if (f.python && f.init && !seen_.forward) seen_.init = true;
    // What converts and moves modules, and is called from nowhere within a forward.
    if (f.module && !seen_.forward) seen_.module = true;
    if (!seen_.forward) seen_.softmax |= f.softmax, seen_.dropout |= f.dropout, seen_.linear |= f.linear;
    seen_.engine |= engine, seen_.accumulates |= f.accumulates;
    seen_.forward |= f.forward, seen_.communicates |= f.communicates, seen_.clips |= f.clips;
    seen_.workspace |= f.workspace, seen_.collector |= f.collector, seen_.python |= f.python;
    seen_.cross_entropy |= f.cross_entropy;
    seen_.zeroes |= f.zeroes, seen_.graph |= f.graph, seen_.checkpoint |= f.checkpoint;
    if (f.gradient_buffer && facts_.buffer == UINT32_MAX) facts_.buffer = frame;
    seen_.reduces |= f.reduces, seen_.builds |= f.builds, seen_.gradient_buffer |= f.gradient_buffer;
    any_ = true;
  }
  // An optimizer counts unless something further in computes a loss or gradients for it; within the engine its step()
  // alone does: other parts of it gather gradients there.
  void add_phase(const FrameFacts& f, bool engine) {
    // Moving a model is no step, wherever that is called.
    if (!calls_back_ && !seen_.module) seen_.optimizer |= f.optimizer, seen_.step |= f.step;
    calls_back_ |= engine || f.accumulates || f.closure || (f.forward && !f.compiled);
  }
  // Of the innermost function that is not PyTorch's, and of all that calls it, but not of the line it is at.
  [[nodiscard]] uint64_t scope(const uint32_t* begin, const uint32_t* end) const {
    const uint32_t* frame = std::find_if(begin, end, [&](uint32_t f) { return frames_[f].python && !frames_[f].torch; });
    if (frame == end) return 0;
    const MemoryFrame& inner = snapshot_.stacks.frame(*frame);
    uint64_t hash = mixed(mixed(1, inner.name.value), inner.file.value);
    for (++frame; frame != end; ++frame) hash = mixed(hash, *frame);
    return hash | 1;
  }
  static uint64_t mixed(uint64_t hash, uint64_t value) {
    hash = (hash ^ value) * 0x9e3779b97f4a7c15;
    return hash ^ (hash >> 29);
  }
  [[nodiscard]] MemoryRole role() const {
    if (seen_.workspace) return MemoryRole::kWorkspace;
    if (seen_.cache) return MemoryRole::kCache;
    if (seen_.gradient_buffer) return MemoryRole::kGradientBuffer;
    if (seen_.communicates) return MemoryRole::kCommunication;
    if (seen_.step) return MemoryRole::kOptimizer;
    if (seen_.accumulates) return MemoryRole::kGradient;
    if (seen_.engine) return MemoryRole::kBackward;
    if (seen_.optimizer) return MemoryRole::kOptimizer;
    if (seen_.module && !seen_.forward) return MemoryRole::kParameter;
    if (seen_.forward) return MemoryRole::kForward;
    if (seen_.init) return seen_.builds ? MemoryRole::kParameter : MemoryRole::kMade;
    return any_ ? MemoryRole::kProgram : MemoryRole::kUnknown;
  }

  const MemorySnapshot& snapshot_;
  const std::vector<FrameFacts>& frames_;
  StackFacts facts_;
  FrameFacts seen_, called_;  // the second: the frame of Python further in
  uint32_t library_line_ = UINT32_MAX;
  bool python_ = false, attention_ = false, any_ = false, calls_back_ = false;
};

// PyTorch's own modules and wrappers call others only to pass on what they get.
ModuleCall call_of(const FrameFacts& f, std::string_view file) {
  if (!f.python || !f.forward) return ModuleCall::kNone;
  const bool own = contains_any(file, {"torch/nn/", "torch/distributed/", "torch/_dynamo/", "torch/_functorch/"});
  return own ? ModuleCall::kPyTorchs : ModuleCall::kPrograms;
}

// As other systems write it.
std::string with_slashes(std::string_view path) {
  std::string text(path);
  std::ranges::replace(text, '\\', '/');
  return text;
}

// The last two parts say where it is; what is before differs between machines.
std::string short_path(std::string_view path) {
  const size_t last = path.rfind('/');
  if (last == path.npos || last == 0) return std::string(path);
  const size_t before = path.rfind('/', last - 1);
  return std::string(before == path.npos ? path : path.substr(before + 1));
}

}  // namespace

StackBook::StackBook(const MemorySnapshot& snapshot) : snapshot_(snapshot) {
  const MemoryStacks& stacks = snapshot.stacks;
  std::vector<FrameFacts> frames;
  frames.reserve(stacks.frames());
  for (uint32_t i = 0; i < stacks.frames(); ++i) {
    const MemoryFrame& f = stacks.frame(i);
    const std::string file = with_slashes(snapshot.strings[f.file]);
    frames.push_back(facts_of(snapshot.strings[f.name], file));
    native_ |= !frames.back().python;
    autocast_ |= frames.back().autocast, checkpoints_ |= frames.back().checkpoint, shards_ |= frames.back().shards;
    modules_.push_back(call_of(frames.back(), file));
  }
  facts_.reserve(stacks.stacks());
  for (uint32_t s = 0; s < stacks.stacks(); ++s) {
    const auto [begin, end] = stacks.frames_of(s);
    facts_.push_back(StackReading(snapshot, frames).read(begin, end));
  }
}

MemoryLine StackBook::line(uint32_t stack) const {
  const StackFacts& facts = of(stack);
  if (facts.line != UINT32_MAX) return line_of_frame(facts.line);
  if (!facts.node.empty()) return {facts.node, "", 0};
  if (facts.role == MemoryRole::kGradient) return {"AccumulateGrad", "", 0};
  if (const std::string name = op(stack); !name.empty()) return {"aten::" + name, "", 0};
  return {facts.role == MemoryRole::kUnknown ? "(no stack recorded)" : "(library code)", "", 0};
}

MemoryLine StackBook::line_of_frame(uint32_t frame) const {
  const MemoryFrame& f = snapshot_.stacks.frame(frame);
  return {std::string(snapshot_.strings[f.name]), short_path(with_slashes(snapshot_.strings[f.file])), f.line};
}

std::string StackBook::module(uint32_t stack) const {
  constexpr std::string_view kForward = ".forward";
  std::string path;
  const auto [begin, end] = snapshot_.stacks.frames_of(stack);
  for (const uint32_t* frame = end; frame != begin;) {
    std::string_view name = snapshot_.strings[snapshot_.stacks.frame(*--frame).name];
    if (modules_[*frame] == ModuleCall::kNone || !name.ends_with(kForward)) continue;
    name.remove_suffix(kForward.size());
    if (!path.empty()) path += '.';
    path += name.substr(name.rfind('.') + 1);   // of a class within a function the last part
  }
  return path;
}

std::string StackBook::op(uint32_t stack) const {
  const StackFacts& facts = of(stack);
  if (!facts.op.valid()) return {};
  const std::string_view name = snapshot_.strings[facts.op].substr(kOps.size());
  return std::string(name.substr(0, std::min(name.find(':'), name.size())));
}

}  // namespace profgpu
