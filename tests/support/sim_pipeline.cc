// A step of pipeline parallelism: stages hand activations and gradients on, one forward, one backward. Messages of the
// two directions have a stream each, so that no stage has to group its sends with its receives.
#include <algorithm>
#include <array>
#include <map>

#include "tests/support/sim_training.h"

namespace profgpu::sim {
namespace {

constexpr int64_t kMessageBytes = 16 << 20;
constexpr int64_t kMessageLatencyNs = 9'000;
constexpr uint64_t kMessagePlace = 2 << 20;   // of the noise

enum class Act : uint8_t { receive_forward, forward, send_forward, receive_backward, backward, send_backward };
struct Action {
  Act act;
  int micro;
};

std::vector<Action> schedule(int stage, int stages, int micro_batches) {
  std::vector<Action> all;
  const auto forward = [&](int micro) {
    if (stage > 0) all.push_back({Act::receive_forward, micro});
    all.push_back({Act::forward, micro});
    if (stage + 1 < stages) all.push_back({Act::send_forward, micro});
  };
  const auto backward = [&](int micro) {
    if (stage + 1 < stages) all.push_back({Act::receive_backward, micro});
    all.push_back({Act::backward, micro});
    if (stage > 0) all.push_back({Act::send_backward, micro});
  };
  const int ahead = std::min(stages - 1 - stage, micro_batches);
  for (int micro = 0; micro < ahead; ++micro) forward(micro);
  for (int micro = ahead; micro < micro_batches; ++micro) {
    forward(micro);
    backward(micro - ahead);
  }
  for (int micro = micro_batches - ahead; micro < micro_batches; ++micro) backward(micro);
  return all;
}

Collective message(bool sends, int self, int peer) {
  const std::string from = std::to_string(self), to = std::to_string(peer);
  Collective c{sends ? "send" : "recv",
               sends ? "c10d::send" : "c10d::recv_",
               sends ? "nccl:send " + from + "->" + to : "nccl:recv " + from + "<-" + to,
               kMessageBytes / 2,
               kMessageBytes / 2,
               kModel};
  (sends ? c.destination : c.source) = peer;
  return c;
}

}  // namespace

/// One rank's way through the step.
struct Training::Stage {
  Process* process;
  int stage;
  std::vector<Action> actions;
  size_t next = 0;
  std::vector<uint32_t> first_sequence;   // by micro-batch
  std::array<Process::Arrival, 2> sent;   // by direction, where `waiting`
  std::array<bool, 2> waiting{};          // for the receiver
  std::array<size_t, 2> end_place{};      // of what was sent, in ends_
};

void Training::run_stage(Stage& s, int micro, bool backward) {
  Process& p = *s.process;
  const int stages = layout_.size(kModel);
  const int first = options_.layers * s.stage / stages, last = options_.layers * (s.stage + 1) / stages;
  const bool has_head = s.stage + 1 == stages;
  auto& sequence = s.first_sequence[static_cast<size_t>(micro)];
  if (backward) {
    first_sequence_ = sequence;
    begin_backward(p, has_head);
    for (int layer = last - 1; layer >= first; --layer) backward_layer(p, layer);
    if (s.stage == 0) backward_embedding(p);
    end_backward(p, false);
  } else {
    begin_forward(p, micro);
    sequence = first_sequence_;
    if (s.stage == 0) embed(p);
    for (int layer = first; layer < last; ++layer) forward_layer(p, layer);
    end_forward(p, has_head);
  }
}

/// False: the peer has to come first. A stage may be one message ahead of its receiver.
bool Training::run_message(Stage& s, std::map<int, Stage*>& by_rank, bool sends, bool backward) {
  Process& p = *s.process;
  const StreamSlot stream = backward ? kSideStream : kCommStream;
  const int peer = s.stage + (sends == backward ? -1 : 1);
  const auto rank = static_cast<size_t>(p.rank());
  const Collective what = message(sends, s.stage, peer);
  if (known_ != nullptr) {
    p.complete(p.arrive(Role::send_recv, what, stream), (*known_)[rank][next_end_[rank]++]);
  } else if (sends) {
    if (s.waiting[backward]) return false;
    s.waiting[backward] = true;
    s.sent[backward] = p.arrive(Role::send_recv, what, stream);
    s.end_place[backward] = ends_[rank].size();
    ends_[rank].push_back(0);
    return true;
  } else {
    Stage& sender = *by_rank.at(layout_.group(p.rank(), kModel).ranks[static_cast<size_t>(peer)]);
    if (!sender.waiting[backward]) return false;
    const Process::Arrival here = p.arrive(Role::send_recv, what, stream), there = sender.sent[backward];
    Noise noise;
    noise.reseed(options_.seed, kMessagePlace + rank, step_, s.next);
    const bool slow = is_slow(p.rank()) || is_slow(sender.process->rank());
    const int64_t transfer =
        kMessageLatencyNs + kMessageBytes / facts(options_.gpu).bus_gbps * 1000 / plan_.bus_permille;
    const int64_t end = std::max(here.start_ns, there.start_ns) +
                        noise.around(slow ? transfer * plan_.link_permille / 1000 : transfer, 15);
    ends_[rank].push_back(end);
    p.complete(here, end);
    const auto from = static_cast<size_t>(sender.process->rank());
    ends_[from][sender.end_place[backward]] = end;
    sender.process->complete(there, end);
    sender.waiting[backward] = false;
  }
  if (!sends) p.wait_event(kComputeStream, stream);
  return true;
}

bool Training::run_action(Stage& s, std::map<int, Stage*>& by_rank) {
  const Action action = s.actions[s.next];
  const bool backward = action.act >= Act::receive_backward;
  if (action.act == Act::forward || action.act == Act::backward) return run_stage(s, action.micro, backward), true;
  return run_message(s, by_rank, action.act == Act::send_forward || action.act == Act::send_backward, backward);
}

void Training::pipeline() {
  std::vector<Stage> stages;
  std::map<int, Stage*> by_rank;
  for (Process& p : ranks_) {
    const int stage = layout_.place_in_group(p.rank(), kModel);
    stages.push_back({&p, stage, schedule(stage, layout_.size(kModel), options_.micro_batches), 0,
                      std::vector<uint32_t>(static_cast<size_t>(options_.micro_batches)), {}, {}, {}});
  }
  for (Stage& s : stages) by_rank[s.process->rank()] = &s;
  for (bool any = true; any;) {
    any = false;
    for (Stage& s : stages)
      while (s.next < s.actions.size() && run_action(s, by_rank)) ++s.next, any = true;
  }
  if (layout_.size(kData) < 2) return;
  for (int layer = 0; layer < options_.layers / layout_.size(kModel); ++layer) reduce_bucket(kLayerParameters);
  for (Process& p : ranks_) p.wait_event(kComputeStream, kCommStream);
}

}  // namespace profgpu::sim
