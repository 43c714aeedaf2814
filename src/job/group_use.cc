#include "job/group_use.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

namespace profgpu {
namespace {

using GroupKey = std::tuple<std::string, std::string, std::string, int64_t, int64_t>;

// Bare kernels have no group: those of one stream are taken for one.
GroupKey group_key(const CollectiveKind& kind, const CollectiveCall& call) {
  if (!kind.described) return {"", "", "", 0, call.elements};
  return {kind.group, kind.description, kind.members, kind.group_size, 0};
}

class Grouping {
 public:
  void add(const RankDigest& rank) {
    std::vector<uint32_t> group_of = groups_of(rank);
    std::set<uint32_t> met;
    for (size_t i = 0; i < group_of.size(); ++i) {
      const CollectiveCall& call = rank.calls.calls[i];
      GroupUse& group = out.groups[group_of[i]];
      out.trains |= call.phase == Phase::kBackward || call.phase == Phase::kOptimizer;
      out.phased |= call.phase == Phase::kForward || call.phase == Phase::kBackward;
      if (!call.measured) continue;
      group.counts.at(op_of(rank, i), step_part(rank, i)).add(call);
      if (!met.insert(group_of[i]).second) continue;
      group.ranks.push_back(rank.rank);
      group.steps += rank.measured_steps();
    }
    out.group_of_call.push_back(std::move(group_of));
    out.trains |= !rank.sites.backward.empty();
    JobLibraries& all = out.libraries;
    const JobLibraries& seen = rank.sites.libraries;
    all = {all.ddp || seen.ddp, all.fsdp || seen.fsdp, all.deepspeed || seen.deepspeed, all.megatron || seen.megatron,
           all.torchrec || seen.torchrec};
  }
  GroupUses out;

 private:
  uint32_t place(const CollectiveKind& kind, const CollectiveCall& call) {
    const auto [it, fresh] = places_.try_emplace(group_key(kind, call), static_cast<uint32_t>(out.groups.size()));
    if (fresh) {
      GroupUse g;
      g.group = kind.group, g.description = kind.description, g.members = kind.members;
      g.size = kind.described ? kind.group_size : 0;
      out.groups.push_back(std::move(g));
    }
    out.groups[it->second].deep_ep |= !kind.described && kind.name.find("deep_ep") != kind.name.npos;
    return it->second;
  }

  // A communicator has a stream of its own: a bare kernel on one where a single group is recorded is of that group.
  std::vector<uint32_t> groups_of(const RankDigest& rank) {
    std::map<std::pair<uint32_t, int64_t>, uint32_t> known;   // of this rank: few strings are compared
    std::map<uint16_t, std::set<uint32_t>> on_queue;
    std::vector<uint32_t> out_of;
    out_of.reserve(rank.calls.calls.size());
    for (const CollectiveCall& call : rank.calls.calls) {
      const CollectiveKind& kind = rank.kind(call);
      const auto recorded = on_queue.find(call.queue);   // described calls come first
      if (!kind.described && recorded != on_queue.end() && recorded->second.size() == 1) {
        out_of.push_back(*recorded->second.begin());
        continue;
      }
      const auto [it, fresh] = known.try_emplace({call.kind, kind.described ? 0 : call.elements}, 0);
      if (fresh) it->second = place(kind, call);
      out_of.push_back(it->second);
      if (kind.described) on_queue[call.queue].insert(it->second);
    }
    return out_of;
  }

  std::map<GroupKey, uint32_t> places_;
};

}  // namespace

CollectiveOp op_of(const RankDigest& rank, size_t call) {
  return call < rank.sites.calls.size() ? rank.sites.calls[call].op : CollectiveOp::kUnknown;
}

StepPart step_part(const RankDigest& rank, size_t call) {
  if (call < rank.sites.calls.size() && rank.sites.calls[call].gradient_hook) return StepPart::kBackward;
  const Phase phase = rank.calls.calls[call].phase;
  if (phase == Phase::kForward) return StepPart::kForward;
  return phase == Phase::kBackward ? StepPart::kBackward : StepPart::kOther;
}

void CallCount::add(const CollectiveCall& call) {
  ++calls;
  largest = std::max(largest, call.message_bytes);
  if (call.message_bytes < 0) sized = false;
  else bytes += call.message_bytes;
}

void CallCount::add(const CallCount& other) {
  calls += other.calls;
  bytes += other.bytes;
  largest = std::max(largest, other.largest);
  sized = sized && other.sized;
}

CallCount CallCounts::of(CollectiveOp op) const {
  CallCount sum;
  for (const CallCount& part : count[static_cast<size_t>(op)]) sum.add(part);
  return sum;
}

GroupUses group_uses(std::span<const RankDigest> ranks) {
  Grouping grouping;
  for (const RankDigest& rank : ranks) grouping.add(rank);
  return std::move(grouping.out);
}

}  // namespace profgpu
