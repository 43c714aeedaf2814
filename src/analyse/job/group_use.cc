#include "analyse/job/group_use.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string>
#include <tuple>

#include "base/saturated.h"
#include "base/text.h"

namespace profgpu {
namespace {

using GroupKey = std::tuple<std::string, std::string, std::string, int64_t, int64_t>;

// Bare kernels have no group: those of one stream count as one.
GroupKey group_key(const CollectiveKind& kind, const CollectiveCall& call) {
  if (!kind.described) return {"", "", "", 0, call.elements};
  return {kind.group, kind.description, kind.members, kind.group_size, 0};
}

class Grouping {
 public:
  void add(const RankDigest& rank) {
    std::vector<uint32_t> group_of = groups_of(rank);
    std::set<uint32_t> counted;
    for (size_t i = 0; i < group_of.size(); ++i) {
      const CollectiveCall& call = rank.calls.calls[i];
      GroupUse& group = out.groups[group_of[i]];
      out.trains |= call.phase == Phase::kBackward || call.phase == Phase::kOptimizer;
      out.phased |= call.phase == Phase::kForward || call.phase == Phase::kBackward;
      const bool of_library = call.host.valid() && rank.calls.kinds[call.kind].described;   // gloo's are not
      out.of_host = of_library && (out.of_host || is_first_);
      is_first_ = false;
      if (!call.measured) continue;
      group.counts.at(op_of(rank, i), step_part(rank, i)).add(call);
      if (!counted.insert(group_of[i]).second) continue;
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
  bool is_first_ = true;   // no call was seen
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

  // A communicator has its own stream: a bare kernel on a stream with a single recorded group belongs to that group.
  std::vector<uint32_t> groups_of(const RankDigest& rank) {
    std::map<std::pair<uint32_t, int64_t>, uint32_t> known;   // of this rank, to compare fewer strings
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

using std::string_view;
using Op = CollectiveOp;
using Count = CallCount;

/// Purpose of a group according to its description.
enum class Purpose : uint8_t { kNone, kData, kShard, kReplicate, kTensor, kPipeline, kExpert, kContext };

// Words of a description: "mesh_dp_shard", "TENSOR_MODEL_PARALLEL_GROUP", "tp:0". The first one in the table decides:
// Megatron's "EXPERT_DATA_PARALLEL_GROUP" and "DATA_PARALLEL_GROUP_WITH_CP" reduce gradients.
Purpose purpose_of(string_view description) {
  constexpr std::pair<string_view, Purpose> kWords[] = {
      {"replicate", Purpose::kReplicate}, {"fsdp", Purpose::kShard},     {"shard", Purpose::kShard},
      {"dp", Purpose::kData},             {"ddp", Purpose::kData},       {"data", Purpose::kData},
      {"ep", Purpose::kExpert},           {"expert", Purpose::kExpert},  {"moe", Purpose::kExpert},
      {"cp", Purpose::kContext},          {"context", Purpose::kContext}, {"ring", Purpose::kContext},
      {"ulysses", Purpose::kContext},     {"sp", Purpose::kContext},     {"pp", Purpose::kPipeline},
      {"pipe", Purpose::kPipeline},       {"pipeline", Purpose::kPipeline}, {"tp", Purpose::kTensor},
      {"tensor", Purpose::kTensor}};
  std::vector<std::string> words(1);
  for (const char c : description) {
    if (is_letter(c)) words.back().push_back(lower(c));
    else if (!words.back().empty()) words.emplace_back();
  }
  for (const auto& [word, purpose] : kWords)
    if (std::ranges::count(words, word) > 0) return purpose;
  return Purpose::kNone;
}

/// Whether messages carry more than control data.
bool weighty(const Count& c) { return c.calls > 0 && (c.largest < 0 || c.largest > kSmallBytes); }

/// Whether `a` is at least a `part`-th of `b`: by bytes where they are known, else by calls.
bool at_least(const Count& a, int64_t part, const Count& b) {
  if (a.calls == 0) return false;
  return a.sized && b.sized ? a.bytes >= b.bytes / part : a.calls >= b.calls / part;
}

class Claims {
 public:
  Claims(const GroupUse& group, const GroupUses& all, bool ring)
      : group_(group), all_(all), ring_(ring), purpose_(purpose_of(group.description)) {}

  std::vector<GroupClaim> claims() {
    if (!all_.of_host) recognize();
    // Other operations belong to the group's purpose, if that is a single one.
    std::vector<Op> rest;
    for (int op = 0; op < kCollectiveOps; ++op)
      if (!taken_[static_cast<size_t>(op)] && of(static_cast<Op>(op)).calls > 0) rest.push_back(static_cast<Op>(op));
    if (!rest.empty() && out_.size() == 1) out_.front().ops.insert(out_.front().ops.end(), rest.begin(), rest.end());
    else if (!rest.empty()) out_.push_back({ParallelKind::kUnknown, std::move(rest), false});
    return std::move(out_);
  }

 private:
  void recognize() {
    pairs();
    exchanges();
    shards();
    reductions();
    nameless();
  }
  [[nodiscard]] Count of(Op op) const { return group_.counts.of(op); }
  [[nodiscard]] Count of(Op op, StepPart part) const { return group_.counts.of(op, part); }
  [[nodiscard]] bool a_step(const Count& c, int64_t calls) const {
    return c.calls > 0 && c.calls >= calls * std::max<int64_t>(group_.steps, 1);
  }
  void claim(ParallelKind kind, std::vector<Op> ops, bool named) {
    std::erase_if(ops, [&](Op op) { return of(op).calls == 0 || taken_[static_cast<size_t>(op)]; });
    for (const Op op : ops) taken_[static_cast<size_t>(op)] = true;
    if (!ops.empty()) out_.push_back({kind, std::move(ops), named});
  }

  void pairs() {
    const Count sends = of(Op::kSend), receives = of(Op::kRecv), both = of(Op::kSendRecv);
    if (sends.calls + receives.calls + both.calls == 0) return;
    const std::vector<Op> ops = {Op::kSend, Op::kRecv, Op::kSendRecv};
    if (purpose_ == Purpose::kContext || purpose_ == Purpose::kPipeline)
      return claim(purpose_ == Purpose::kContext ? ParallelKind::kContext : ParallelKind::kPipeline, ops, true);
    if (ring_) return claim(ParallelKind::kContext, ops, false);
    if (sends.calls + receives.calls > 0) claim(ParallelKind::kPipeline, ops, false);
  }

  void exchanges() {
    const std::vector<Op> ops = {Op::kAllToAll};
    if (!weighty(of(Op::kAllToAll))) return;
    if (group_.deep_ep || purpose_ == Purpose::kExpert) return claim(ParallelKind::kExpert, ops, true);
    if (purpose_ == Purpose::kContext) return claim(ParallelKind::kContext, ops, true);
    if (all_.libraries.torchrec) return claim(ParallelKind::kEmbedding, ops, true);
    const Count there = of(Op::kAllToAll, StepPart::kForward), back = of(Op::kAllToAll, StepPart::kBackward);
    // Tokens go to experts and back in every expert layer; embeddings one way in forward, the other way in backward.
    if (a_step(there, 2) && (a_step(back, 2) || !all_.trains)) claim(ParallelKind::kExpert, ops, false);
    else if (there.calls > 0 && back.calls > 0) claim(ParallelKind::kEmbedding, ops, false);
  }

  void shards() {
    const Count gathers = of(Op::kAllGather), scatters = of(Op::kReduceScatter);
    if (!weighty(gathers)) return;
    if (!weighty(scatters)) return gathers_alone(gathers);
    const Count reduces = of(Op::kAllReduce);
    // Beside a data-parallel job's gradients, losses over all ranks' features gather and scatter a little.
    if (reduces.sized && scatters.sized && reduces.bytes > 4 * scatters.bytes) return;
    std::vector<Op> ops = {Op::kAllGather, Op::kReduceScatter};
    if (!at_least(reduces, 2, scatters)) ops.push_back(Op::kAllReduce);   // norms of gradients; what is not sharded
    const bool scatters_forward = at_least(of(Op::kReduceScatter, StepPart::kForward), 10, scatters);
    const bool gathers_forward = at_least(of(Op::kAllGather, StepPart::kForward), 10, gathers);
    if (scatters_forward && gathers_forward) return claim(ParallelKind::kTensor, ops, purpose_ == Purpose::kTensor);
    if (scatters_forward) {
      if (all_.libraries.torchrec) claim(ParallelKind::kEmbedding, {Op::kAllGather, Op::kReduceScatter}, true);
      return;
    }
    if (!all_.phased && purpose_ == Purpose::kTensor) return claim(ParallelKind::kTensor, ops, true);
    if (!all_.phased && purpose_ != Purpose::kShard) return;
    sharded_parameters(ops, gathers, gathers_forward);
  }

  void sharded_parameters(const std::vector<Op>& ops, const Count& gathers, bool gathers_forward) {
    const JobLibraries& names = all_.libraries;
    const bool fsdp = (names.fsdp || purpose_ == Purpose::kShard) && !names.deepspeed;
    const bool gathers_backward = at_least(of(Op::kAllGather, StepPart::kBackward), 10, gathers);
    if (fsdp) return claim(ParallelKind::kFsdp, ops, true);
    if (names.megatron) return claim(ParallelKind::kZero1, ops, true);   // its distributed optimizer
    if (gathers_backward)
      return claim(names.deepspeed ? ParallelKind::kZero3 : ParallelKind::kFsdpOrZero3, ops, names.deepspeed);
    if (gathers_forward) return claim(ParallelKind::kFsdpOrZero2, ops, false);
    claim(ParallelKind::kZero1Or2, ops, names.deepspeed);
  }

  // ZeRO with gradients all-reduced, or each reduced to its owner.
  void gathers_alone(const Count& gathers) {
    const Count late = of(Op::kAllGather, StepPart::kOther);
    if (!all_.phased || !at_least(late, 2, gathers)) return;
    if (weighty(of(Op::kReduce)) && at_least(gathers, 4, of(Op::kReduce)))
      claim(ParallelKind::kZero1Or2, {Op::kReduce, Op::kAllGather}, all_.libraries.deepspeed);
    else if (reduces_gradients() && at_least(gathers, 4, of(Op::kAllReduce)))
      claim(ParallelKind::kZero1, {Op::kAllReduce, Op::kAllGather}, false);
  }

  [[nodiscard]] bool reduces_gradients() const {
    return weighty(of(Op::kAllReduce)) && !reduces_activations() && all_.trains;
  }
  [[nodiscard]] bool reduces_activations() const {
    const Count forward = of(Op::kAllReduce, StepPart::kForward);
    return weighty(forward) && a_step(forward, 2) && at_least(forward, 10, of(Op::kAllReduce));
  }

  void reductions() {
    if (taken_[static_cast<size_t>(Op::kAllReduce)] || !weighty(of(Op::kAllReduce))) return;
    const bool of_tensors = purpose_ == Purpose::kTensor;
    const bool of_data = purpose_ == Purpose::kData || purpose_ == Purpose::kReplicate || purpose_ == Purpose::kShard;
    if (reduces_activations() || (of_tensors && !all_.phased))
      return claim(ParallelKind::kTensor, {Op::kAllReduce, Op::kAllGather, Op::kReduceScatter, Op::kBroadcast},
                   of_tensors);
    if (of_tensors) return;   // gradients of replicated parameters
    if (!all_.phased && !of_data) return;
    if (all_.phased && !all_.trains) return;
    // ZeroRedundancyOptimizer broadcasts each part of the parameters from its owner.
    const Count sent = of(Op::kBroadcast, StepPart::kOther);
    if (all_.phased && weighty(sent) && at_least(sent, 4, of(Op::kAllReduce)))
      return claim(ParallelKind::kZero1, {Op::kAllReduce, Op::kBroadcast}, false);
    claim(ParallelKind::kDdp, {Op::kAllReduce, Op::kBroadcast}, all_.libraries.ddp || of_data);
  }

  // Kernels with unspecific names, in a program whose library is known.
  void nameless() {
    const Count calls = of(Op::kUnknown);
    const JobLibraries& names = all_.libraries;
    if (!out_.empty() || calls.calls == 0 || all_.groups.size() > 1 || !all_.phased || !all_.trains) return;
    if (names.deepspeed || names.megatron || names.torchrec || names.ddp == names.fsdp) return;
    const bool forward = at_least(of(Op::kUnknown, StepPart::kForward), 10, calls);
    const bool backward = at_least(of(Op::kUnknown, StepPart::kBackward), 3, calls);
    if (names.ddp && backward && !forward) claim(ParallelKind::kDdp, {Op::kUnknown}, true);
    if (names.fsdp && backward && forward) claim(ParallelKind::kFsdp, {Op::kUnknown}, true);
  }

  const GroupUse& group_;
  const GroupUses& all_;
  const bool ring_;
  const Purpose purpose_;
  std::array<bool, kCollectiveOps> taken_{};
  std::vector<GroupClaim> out_;
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
  else add_saturated(bytes, call.message_bytes);
}

void CallCount::add(const CallCount& other) {
  calls += other.calls;
  add_saturated(bytes, other.bytes);
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

std::vector<GroupClaim> claims_of(const GroupUse& group, const GroupUses& all, bool ring) {
  return Claims(group, all, ring).claims();
}

}  // namespace profgpu
