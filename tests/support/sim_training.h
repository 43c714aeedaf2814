// The training loop that the simulator runs on every rank.
#pragma once

#include <map>
#include <vector>

#include "tests/support/sim_layout.h"
#include "tests/support/sim_process.h"
#include "tests/support/simulator.h"

namespace profgpu::sim {

constexpr int64_t kLayerParameters = 12'600'000, kEmbeddingParameters = 51'400'000;
constexpr int kSequencesPerLayer = 12, kLayerParts = 4;

/// What the plan's faults scale themselves by.
Scale scale_of(const SimOptions& options);
Plan plan_of(const SimOptions& options);

/// Ends of the collectives of each rank, in the order in which it launches them: all that ranks need to know of each
/// other.
using CollectiveEnds = std::vector<std::vector<int64_t>>;

class Training {
 public:
  /// All ranks together, to learn when their collectives end.
  Training(const SimOptions& options, const Plan& plan, const Layout& layout);
  /// One rank alone, once that is known.
  Training(const SimOptions& options, const Plan& plan, const Layout& layout, int rank, const CollectiveEnds& known);
  Training(const Training&) = delete;  // the ranks refer to this one's plan
  /// `index` counts from the first step of the job; `last` one of all.
  void step(int number, int index, bool last);
  std::vector<Process>& ranks() { return ranks_; }
  void pause(int64_t ns);
  [[nodiscard]] const CollectiveEnds& ends() const { return ends_; }

 private:
  struct Stage;

  void add_rank(int rank);
  void begin(Process& p, int number, int index);
  void pipeline();
  bool run_action(Stage& s, std::map<int, Stage*>& by_rank);
  bool run_message(Stage& s, std::map<int, Stage*>& by_rank, bool sends, bool backward);
  void run_stage(Stage& s, int micro, bool backward);
  void load_batch(Process& p);
  void forward(int micro);
  [[nodiscard]] int compiled_piece(int layer) const;
  void enter_compiled(Process& p, int layer);
  void leave_compiled(Process& p);
  void begin_forward(Process& p, int micro);
  void embed(Process& p);
  void forward_layer(Process& p, int layer);
  void forward_part(Process& p, int layer, int part);
  void end_forward(Process& p, bool has_head);
  void loss(Process& p);
  void backward(bool reduce);
  void begin_backward(Process& p, bool has_head);
  void backward_layer(Process& p, int layer);
  void backward_part(Process& p, int layer, int part);
  void end_backward(Process& p, bool reduced);
  void backward_embedding(Process& p);
  void reduce_bucket(int64_t parameters);
  void gather_parameters();
  void exchange(int part, bool backward);
  [[nodiscard]] const char* wrapper() const;
  [[nodiscard]] bool shares_optimizer() const {
    return options_.ranks > 1 && (options_.strategy == Strategy::zero1 || options_.strategy == Strategy::zero2);
  }
  void optimizer(Process& p);
  void loop_optimizer(Process& p);
  void finish(Process& p, int index);
  void module(Process& p, const char* type, int number, const char* file, const OpScript& script,
              const std::vector<Role>& roles, uint32_t sequence);
  void collective(Role role, int64_t bytes, GroupSlot slot);
  void finish_call(Process& p, const Process::Arrival& arrival, int64_t end_ns);
  void device_wait(Process& p);
  int64_t transfer_ns(Role role, int64_t bytes, const Group& group) const;
  [[nodiscard]] bool is_slow(int rank) const;

  const SimOptions options_;
  const Plan plan_;
  const Layout& layout_;
  const CollectiveEnds* known_ = nullptr;
  CollectiveEnds ends_;
  std::vector<size_t> next_end_;   // of known_, by rank
  std::vector<Process> ranks_;
  bool slow_step_ = true;
  int index_ = 0;  // of the step
  int turn_ = 0;   // whose it is, with by_turns
  uint64_t step_ = 0, collective_ = 0, hanging_ = 0;
  uint32_t first_sequence_ = 0;  // of this micro-batch's forward pass
};

}  // namespace profgpu::sim
