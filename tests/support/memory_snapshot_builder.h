// Memory snapshots for tests, event by event.
#pragma once

#include <string_view>
#include <vector>

#include "trace/memory_snapshot.h"

namespace profgpu {

class SnapshotBuilder {
 public:
  enum Stack : uint8_t { kNoStack, kForward, kBackward, kGradient, kOptimizer, kMoved, kConverted, kCaptured, kOwn };
  struct Frame {
    std::string_view name, file;
    int32_t line;
  };

  SnapshotBuilder() {
    frames_[kForward] = {{"at::_ops::mul_Tensor::call(at::Tensor const&)", "??", 0},
                         {"forward", "/home/me/job/model.py", 12},
                         {"_call_impl", "/x/site-packages/torch/nn/modules/module.py", 1790},
                         {"main", "/home/me/job/train.py", 40}};
    frames_[kBackward] = {{"torch::autograd::generated::MulBackward0::apply(std::vector&&)", "Functions.cpp", 0},
                          {"torch::autograd::Engine::evaluate_function()", "??", 0}};
    frames_[kGradient] = {{"torch::autograd::AccumulateGrad::apply(std::vector&&)", "??", 0},
                          {"torch::autograd::Engine::evaluate_function()", "??", 0}};
    frames_[kOptimizer] = {{"at::_ops::zeros_like::call(at::Tensor const&)", "??", 0},
                           {"step", "/x/site-packages/torch/optim/adamw.py", 77},
                           {"main", "/home/me/job/train.py", 41}};
    frames_[kMoved] = {{"_apply", "/x/site-packages/torch/nn/modules/module.py", 900},
                       {"main", "/home/me/job/train.py", 20}};
    frames_[kConverted] = {{"_apply", "/x/site-packages/torch/nn/modules/module.py", 900},
                           {"main", "/home/me/job/train.py", 21}};
    frames_[kCaptured] = {{"forward", "/home/me/job/model.py", 12},
                          {"make_graphed_callables", "/x/site-packages/torch/cuda/graphs.py", 490},
                          {"main", "/home/me/job/train.py", 30}};
  }

  void alloc(uint64_t address, int64_t bytes, Stack where = kNoStack) {
    push(AllocationAction::kAlloc, address, bytes, where);
  }
  /// In a stack of the test's own: its frames, the innermost first.
  void alloc(uint64_t address, int64_t bytes, const std::vector<Frame>& frames) {
    frames_[kOwn] = frames;
    push(AllocationAction::kAlloc, address, bytes, kOwn);
  }
  void free(uint64_t address, int64_t bytes, const std::vector<Frame>& frames = {}) {
    const Stack where = frames.empty() ? kNoStack : kOwn;
    frames_[kOwn] = frames;
    push(AllocationAction::kFreeRequested, address, bytes, where);
    push(AllocationAction::kFreeCompleted, address, bytes, where);
  }
  /// Memory runs out at this line.
  void fail(int64_t device_free_bytes, int64_t bytes, const std::vector<Frame>& frames) {
    frames_[kOwn] = frames;
    push(AllocationAction::kOom, static_cast<uint64_t>(device_free_bytes), bytes, kOwn);
  }
  /// A range of PyTorch's own begins or ends between the last event and the next.
  void annotate(std::string_view name, bool start) {
    snapshot_.annotations.push_back({time_us_ + 5, snapshot_.strings.intern(name), 0, start});
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
    e.stack = where == kNoStack ? MemoryStacks::kNone : stack(frames_[where]);
    snapshot_.events.push(e);
  }

  MemorySnapshot snapshot_;
  std::vector<Frame> frames_[kOwn + 1];  // by Stack
  int64_t time_us_ = 1'700'000'000'000'000;
};

}  // namespace profgpu
