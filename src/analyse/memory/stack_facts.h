// What a call stack says of the memory that was allocated in it: by which part of training, and at which line of the
// program.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trace/memory_snapshot.h"

namespace profgpu {

enum class MemoryRole : uint8_t {
  kUnknown,   ///< no stack
  kProgram,   ///< the program's own code, outside of any module's forward
  kForward,   ///< a module's forward
  kBackward,  ///< the autograd engine
  kGradient,  ///< its accumulation of gradients
  kOptimizer,      ///< its step, but not what a closure computes that it calls
  kParameter,      ///< modules are made, loaded, moved or converted
  kMade,           ///< an object is made: a module's, or anything else's
  kGradientBuffer, ///< of all gradients of a model together
  kCommunication,  ///< buckets and gathered shards
  kCache,          ///< keys and values that an inference engine keeps
  kWorkspace,      ///< scratch memory of cuBLAS, cuDNN and the like
};

struct StackFacts {
  MemoryRole role = MemoryRole::kUnknown;
  bool attention = false;      ///< within attention, but in none of its layers
  bool softmax = false;        ///< within a softmax that is no logarithm
  bool dropout = false, linear = false;
  bool reduces = false;        ///< FSDP shards gradients in it
  bool collector = false;      ///< Python's garbage collector is in it
  bool zeroes_gradients = false;
  bool clips = false;          ///< gradients are clipped in it, between the backward pass and the optimizer's step
  bool in_forward = false;     ///< a module's forward is in it, whatever calls that
  bool checkpointed = false;   ///< within torch.utils.checkpoint
  bool in_backward = false;    ///< the autograd engine is in it, whatever it calls there
  bool cross_entropy = false;  ///< within a cross entropy, or in the backward pass of one
  bool graph = false;          ///< CUDA graphs are captured or kept in it
  uint32_t line = UINT32_MAX;  ///< frame of the program's own code, the innermost; else of a library; UINT32_MAX: none
  uint32_t buffer = UINT32_MAX;  ///< frame that makes a buffer of gradients
  uint32_t masters = UINT32_MAX;  ///< frame of DeepSpeed that makes master weights, if it allocates itself
  uint64_t scope = 0;          ///< same for all stacks of one call of one function that is not PyTorch's; 0: none
  StringId op;                 ///< outermost "at::_ops::NAME::call" that the line calls; invalid: none
  std::string node;            ///< of the backward pass: "MulBackward0"; else empty
};

/// Whose module's forward a frame is.
enum class ModuleCall : uint8_t { kNone, kPyTorchs, kPrograms };

/// The line of code that an allocation counts for.
struct MemoryLine {
  std::string function;  ///< or "MulBackward0", "(no stack recorded)"
  std::string file;      ///< the last two parts of its path; empty: none
  int32_t line = 0;
  auto operator<=>(const MemoryLine&) const = default;
};

/// Of every stack of a snapshot, worked out once.
class StackBook {
 public:
  explicit StackBook(const MemorySnapshot& snapshot);
  /// Of no stack, too.
  [[nodiscard]] const StackFacts& of(uint32_t stack) const { return stack < facts_.size() ? facts_[stack] : none_; }
  [[nodiscard]] MemoryLine line(uint32_t stack) const;
  /// Classes whose forward() calls each other, the outermost first: "GPT.Block.MLP". Empty: none is in the stack, or
  /// the names of functions have no class (Python before 3.11).
  [[nodiscard]] std::string module(uint32_t stack) const;
  /// "mul" of at::_ops::mul_Tensor::call; empty: not known.
  [[nodiscard]] std::string op(uint32_t stack) const;
  /// Whether frames of C++ were recorded: else what autograd's own threads allocate has no stack at all.
  [[nodiscard]] bool has_native_frames() const { return native_; }
  [[nodiscard]] bool empty() const { return facts_.empty(); }
  [[nodiscard]] bool has_autocast() const { return autocast_; }
  [[nodiscard]] bool has_checkpoints() const { return checkpoints_; }
  /// Whether FSDP or ZeRO shard parameters, gradients or states.
  [[nodiscard]] bool has_shards() const { return shards_; }
  [[nodiscard]] ModuleCall module_call(uint32_t frame) const { return modules_[frame]; }
  [[nodiscard]] MemoryLine line_of_frame(uint32_t frame) const;

 private:
  const MemorySnapshot& snapshot_;
  std::vector<StackFacts> facts_;
  StackFacts none_;
  std::vector<ModuleCall> modules_;  ///< by frame
  bool native_ = false, autocast_ = false, checkpoints_ = false, shards_ = false;
};

}  // namespace profgpu
