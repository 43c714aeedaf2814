// Where the ranks of a simulated job run, and who communicates with whom.
#pragma once

#include <string>
#include <vector>

#include "tests/support/sim_trace.h"

namespace profgpu::sim {

struct SimOptions;

/// Rows of RankTrace::groups. A job that is only data parallel has the first alone.
enum GroupSlot : uint32_t { kWorld, kModel, kData };

struct RankPlace {
  int host = 0, local_rank = 0;
  std::string host_name;          // empty: not recorded
  HostClock clock;
  std::vector<uint32_t> group;    // row of Layout::groups[slot], by slot
};

/// Whether straggler faults are planted on the rank; in the step, counted from the job's first.
bool slow_rank(const SimOptions& options, int rank);
bool slow_step(const SimOptions& options, int index);

/// Hosts take successive ranks, evenly. Tensor- and expert-parallel groups are neighbours, the stages of a pipeline are
/// as far apart as possible, as Megatron places them; the data-parallel groups are what is left.
class Layout {
 public:
  explicit Layout(const SimOptions& options);

  std::vector<RankPlace> ranks;
  std::vector<std::vector<Group>> groups;   // by slot

  [[nodiscard]] const Group& group(int rank, GroupSlot slot) const {
    return groups[slot][ranks[static_cast<size_t>(rank)].group[slot]];
  }
  /// A rank of the same host has straggler faults; of one host in all: the rank itself.
  [[nodiscard]] bool slow_host(const SimOptions& options, int rank) const;
  [[nodiscard]] bool split() const { return groups.size() > 1; }
  [[nodiscard]] GroupSlot data_slot() const { return split() ? kData : kWorld; }
  [[nodiscard]] int size(GroupSlot slot) const { return static_cast<int>(groups[slot].front().ranks.size()); }
  [[nodiscard]] int place_in_group(int rank, GroupSlot slot) const;
  /// As a rank's trace has them.
  [[nodiscard]] std::vector<Group> groups_of(int rank) const;

 private:
  void place_hosts(const SimOptions& options);
  void split_groups(const SimOptions& options);
};

}  // namespace profgpu::sim
