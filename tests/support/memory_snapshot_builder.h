// Memory snapshots for tests, event by event.
#pragma once

#include <string_view>
#include <vector>

#include "trace/memory_snapshot.h"

namespace profgpu {

class SnapshotBuilder {
 public:
  enum Stack : uint8_t { kNoStack, kForward, kBackward, kGradient, kOptimizer, kMoved, kConverted, kCaptured };

  SnapshotBuilder() {
    stacks_[kForward] = stack({{"at::_ops::mul_Tensor::call(at::Tensor const&)", "??", 0},
                               {"forward", "/home/me/job/model.py", 12},
                               {"_call_impl", "/x/site-packages/torch/nn/modules/module.py", 1790},
                               {"main", "/home/me/job/train.py", 40}});
    stacks_[kBackward] = stack({{"torch::autograd::generated::MulBackward0::apply(std::vector&&)", "Functions.cpp", 0},
                                {"torch::autograd::Engine::evaluate_function()", "??", 0}});
    stacks_[kGradient] = stack({{"torch::autograd::AccumulateGrad::apply(std::vector&&)", "??", 0},
                                {"torch::autograd::Engine::evaluate_function()", "??", 0}});
    stacks_[kOptimizer] = stack({{"at::_ops::zeros_like::call(at::Tensor const&)", "??", 0},
                                 {"step", "/x/site-packages/torch/optim/adamw.py", 77},
                                 {"main", "/home/me/job/train.py", 41}});
    stacks_[kMoved] = stack({{"_apply", "/x/site-packages/torch/nn/modules/module.py", 900},
                             {"main", "/home/me/job/train.py", 20}});
    stacks_[kConverted] = stack({{"_apply", "/x/site-packages/torch/nn/modules/module.py", 900},
                                 {"main", "/home/me/job/train.py", 21}});
    stacks_[kCaptured] = stack({{"forward", "/home/me/job/model.py", 12},
                                {"make_graphed_callables", "/x/site-packages/torch/cuda/graphs.py", 490},
                                {"main", "/home/me/job/train.py", 30}});
  }

  void alloc(uint64_t address, int64_t bytes, Stack where = kNoStack) {
    push(AllocationAction::kAlloc, address, bytes, where);
  }
  void free(uint64_t address, int64_t bytes) {
    push(AllocationAction::kFreeRequested, address, bytes, kNoStack);
    push(AllocationAction::kFreeCompleted, address, bytes, kNoStack);
  }
  void action(AllocationAction action, uint64_t address, int64_t bytes) { push(action, address, bytes, kNoStack); }

  struct Block {
    uint64_t address;
    int64_t size, requested;
    BlockState state = BlockState::kAllocated;
  };
  void segment(int32_t device, uint64_t address, int64_t total, const std::vector<Block>& blocks, bool large = true) {
    MemorySegment s;
    s.device = device, s.address = address, s.total = total, s.large = large;
    s.first_block = static_cast<uint32_t>(snapshot_.blocks.size());
    s.blocks = static_cast<uint32_t>(blocks.size());
    for (const Block& b : blocks) {
      snapshot_.blocks.push_back({b.address, b.size, b.requested, b.state, MemoryStacks::kNone});
      if (b.state == BlockState::kAllocated) s.allocated += b.size;
      if (b.state != BlockState::kInactive) s.active += b.size, s.requested += b.requested;
    }
    snapshot_.segments.push_back(s);
  }
  MemorySnapshot finish() {
    if (snapshot_.events.size() > 0) snapshot_.traces = {{0, 0, snapshot_.events.size()}};
    return std::move(snapshot_);
  }

 private:
  struct Frame {
    std::string_view name, file;
    int32_t line;
  };
  uint32_t stack(const std::vector<Frame>& frames) {
    std::vector<uint32_t> places;
    for (const Frame& f : frames)
      places.push_back(
          snapshot_.stacks.frame({snapshot_.strings.intern(f.name), snapshot_.strings.intern(f.file), f.line}));
    return snapshot_.stacks.stack(places);
  }
  void push(AllocationAction action, uint64_t address, int64_t bytes, Stack where) {
    AllocationKind kind;
    kind.action = action;
    AllocationEvent e;
    e.kind = snapshot_.events.kind(kind);
    e.address = address, e.size = bytes, e.time_us = time_us_ += 10;
    e.stack = where == kNoStack ? MemoryStacks::kNone : stacks_[where];
    snapshot_.events.push(e);
  }

  MemorySnapshot snapshot_;
  uint32_t stacks_[kCaptured + 1] = {};
  int64_t time_us_ = 1'700'000'000'000'000;
};

}  // namespace profgpu
