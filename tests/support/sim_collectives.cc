// The collectives, in which the ranks meet.
#include <algorithm>

#include "tests/support/sim_training.h"

namespace profgpu::sim {
namespace {

constexpr int64_t kActivationBytes = 16 << 20;   // of a micro-batch between two layers
constexpr uint64_t kTransferPlace = 4096, kJitterPlace = 1 << 20;   // of the noise
constexpr int kHangSteps = 10;

Collective described(Role role, int64_t bytes, GroupSlot slot, int group_size) {
  const int64_t whole = bytes / 2, part = whole / group_size;
  switch (role) {
    case Role::all_gather:
      return {"_allgather_base", "c10d::_allgather_base_", "nccl:_all_gather_base", part, whole, slot};
    case Role::reduce_scatter:
      return {"_reduce_scatter_base", "c10d::_reduce_scatter_base_", "nccl:_reduce_scatter_base", whole, part, slot};
    case Role::send_recv: return {"all_to_all", "c10d::alltoall_base_", "nccl:all_to_all", whole, whole, slot};
    default: return {"allreduce", "c10d::allreduce_", "nccl:all_reduce", whole, whole, slot};
  }
}

}  // namespace

const char* Training::wrapper() const {
  switch (options_.strategy) {
    case Strategy::fsdp: return "FullyShardedDataParallel.forward";
    case Strategy::zero1:
    case Strategy::zero2: return "DeepSpeedEngine.forward";
    default: return "DistributedDataParallel.forward";
  }
}

int64_t Training::transfer_ns(Role role, int64_t bytes, const Group& group) const {
  const auto n = static_cast<int64_t>(group.ranks.size());
  const int64_t factor = role == Role::all_reduce ? 2 * (n - 1) : n - 1;
  const int64_t gbps = facts(options_.gpu).bus_gbps;
  const int64_t ns = 9'000 + bytes / n * factor / gbps * 1000 / plan_.bus_permille;
  const bool slow = std::any_of(group.ranks.begin(), group.ranks.end(), [&](int r) { return is_slow(r); });
  return slow ? ns * plan_.link_permille / 1000 : ns;
}

void Training::finish_call(Process& p, const Process::Arrival& arrival, int64_t end_ns) {
  const auto rank = static_cast<size_t>(p.rank());
  if (known_ == nullptr) ends_[rank].push_back(end_ns);
  p.complete(arrival, end_ns);
}

/// All groups of a slot at once: every rank is in one of them.
void Training::collective(Role role, int64_t bytes, GroupSlot slot) {
  const uint64_t place = 1 + collective_++;
  const bool hangs = hanging_ == place;
  const Collective what = described(role, bytes, slot, layout_.size(slot));
  if (known_ != nullptr) {
    for (Process& p : ranks_) {
      if (hangs && p.rank() == options_.hang_rank) continue;
      const auto rank = static_cast<size_t>(p.rank());
      const Process::Arrival arrival = p.arrive(role, what);
      p.complete(arrival, (*known_)[rank][next_end_[rank]++]);
    }
    return;
  }
  const std::vector<Group>& groups = layout_.groups[slot];
  std::vector<int64_t> end(groups.size(), 0);
  std::vector<Process::Arrival> arrivals(ranks_.size());
  const auto group_of = [&](const Process& p) { return layout_.ranks[static_cast<size_t>(p.rank())].group[slot]; };
  for (size_t r = 0; r < ranks_.size(); ++r) {
    if (hangs && ranks_[r].rank() == options_.hang_rank) continue;
    arrivals[r] = ranks_[r].arrive(role, what);
    int64_t& last = end[group_of(ranks_[r])];
    last = std::max(last, arrivals[r].start_ns);
  }
  Noise noise;
  for (size_t g = 0; g < groups.size(); ++g) {
    noise.reseed(options_.seed, kTransferPlace + (g << 32), step_, place);
    end[g] += noise.around(transfer_ns(role, bytes, groups[g]), 15);
    const std::vector<int>& members = groups[g].ranks;
    if (hangs && std::find(members.begin(), members.end(), options_.hang_rank) != members.end())
      end[g] += kHangSteps * scale_of(options_).step_ns;
  }
  for (size_t r = 0; r < ranks_.size(); ++r) {
    if (hangs && ranks_[r].rank() == options_.hang_rank) continue;
    noise.reseed(options_.seed, kJitterPlace + static_cast<uint64_t>(ranks_[r].rank()), step_, place);
    finish_call(ranks_[r], arrivals[r], end[group_of(ranks_[r])] + noise.below(options_.end_jitter_ns));
  }
}

/// What the ranks of a model's group hand each other after a part of a layer.
void Training::exchange(int part, bool backward) {
  if (!layout_.split() || layout_.size(kModel) < 2) return;
  const bool tensor = options_.strategy == Strategy::tp && (part == 2 || part == (backward ? 1 : 0));
  const bool expert = options_.strategy == Strategy::ep && (part == 1 || part == (backward ? 0 : 2));
  if (!tensor && !expert) return;
  collective(tensor ? Role::all_reduce : Role::send_recv, kActivationBytes, kModel);
  for (Process& p : ranks_) p.wait_event(kComputeStream, kCommStream);
}

/// Gradients of so many parameters.
void Training::reduce_bucket(int64_t parameters) {
  const GroupSlot slot = layout_.data_slot();
  int64_t bytes = parameters * 2;
  if (plan_.communication_ns > 0) {
    const int64_t each = std::max<int64_t>(plan_.communication_ns / (options_.layers + 1) - 12'000, 1000);
    const int n = layout_.size(slot);
    bytes = each * facts(options_.gpu).bus_gbps * n / (2 * (n - 1)) / 2 * 2;
  }
  collective(options_.strategy == Strategy::zero2 ? Role::reduce_scatter : Role::all_reduce, bytes, slot);
}

/// Where ranks share the optimizer's state, each has its part of the new parameters only.
void Training::gather_parameters() {
  if (!shares_optimizer()) return;
  for (int layer = 0; layer < options_.layers; ++layer) collective(Role::all_gather, kLayerParameters * 2, kWorld);
  collective(Role::all_gather, kEmbeddingParameters * 2, kWorld);
  for (Process& p : ranks_) p.wait_event(kComputeStream, kCommStream);
}

}  // namespace profgpu::sim
