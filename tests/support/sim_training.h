// The training loop that the simulator runs on every rank.
#pragma once

#include <vector>

#include "tests/support/sim_process.h"
#include "tests/support/simulator.h"

namespace profgpu::sim {

constexpr int64_t kLayerParameters = 12'600'000, kEmbeddingParameters = 51'400'000;
constexpr int kSequencesPerLayer = 12;

/// What the plan's faults scale themselves by.
Scale scale_of(const SimOptions& options);
Plan plan_of(const SimOptions& options);

class Training {
 public:
  Training(const SimOptions& options, const Plan& plan);
  Training(const Training&) = delete;  // the ranks refer to this one's plan
  void step(int number, int index);
  std::vector<Process>& ranks() { return ranks_; }
  void pause(int64_t ns);

 private:
  void load_batch(Process& p);
  void forward(int index, int micro);
  void forward_layer(Process& p, int layer);
  void loss(Process& p);
  void backward(int index, bool reduce);
  void backward_layer(Process& p, int layer);
  void optimizer(Process& p);
  void loop_optimizer(Process& p);
  void finish(Process& p, int index);
  void module(Process& p, const char* type, int number, const char* file, const OpScript& script, const std::vector<Role>& roles, uint32_t sequence);
  void collective(Role role, int64_t bytes);
  void device_wait(Process& p);
  int64_t transfer_ns(Role role, int64_t bytes) const;

  const SimOptions options_;
  const Plan plan_;
  std::vector<Process> ranks_;
  uint64_t step_ = 0, collective_ = 0;
  uint32_t first_sequence_ = 0;  // of this micro-batch's forward pass
};

}  // namespace profgpu::sim
