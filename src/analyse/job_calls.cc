#include "analyse/job_calls.h"

#include <algorithm>
#include <map>

#include "analyse/collectives.h"
#include "analyse/devices.h"
#include "analyse/steps.h"

namespace profgpu {
namespace {

bool can_leave_early(const std::string& name) {
  return name == "broadcast" || name == "reduce" || name == "gather" || name == "scatter" || name.empty();
}

/// Which step a host time belongs to; steps are in order of time.
class StepAt {
 public:
  explicit StepAt(const Steps& steps) : steps_(steps.steps), annotated_(steps.annotated) {
    for (const Step* s : steps.measured()) measured_.push_back(s);
  }
  [[nodiscard]] const Step* operator()(int64_t time) const {
    auto it = std::upper_bound(steps_.begin(), steps_.end(), time,
                               [](int64_t t, const Step& s) { return t < s.start_ns; });
    if (it == steps_.begin()) return nullptr;
    --it;
    return time < it->interval().end ? &*it : nullptr;
  }
  [[nodiscard]] bool is_measured(const Step* step) const {
    return step != nullptr && std::binary_search(measured_.begin(), measured_.end(), step);
  }
  /// Numbers only mean the same on all ranks if they come from ranges of the program.
  [[nodiscard]] int64_t number(const Step* step) const { return annotated_ && step != nullptr ? step->index : -1; }

 private:
  const std::vector<Step>& steps_;
  std::vector<const Step*> measured_;   // in order of address, as measured() goes through the steps in order
  bool annotated_;
};

/// Calls of one rank after another; kinds are shared by all ranks.
class Collector {
 public:
  explicit Collector(MatchedCalls& out) : out_(out) {}

  void add_rank(uint32_t place, const Facts& facts) {
    const Trace& trace = facts.trace();
    const Devices& devices = facts.get<Devices>();
    const StepAt step_at(facts.get<Steps>());
    kind_of_.clear();
    numbers_.clear();
    std::vector<bool> described(trace.activity.size());
    for (const Collective& c : trace.collectives) {
      if (!c.activity.valid() || devices.kind[c.activity.value] != WorkKind::kCommunication) continue;
      described[c.activity.value] = true;
      add(place, trace, step_at, kind({c.group, c.ranks, c.name}, trace, true), c.activity, &c);
    }
    // Kernels without arguments: the place among those of one name and stream is all there is. A communicator has a
    // stream of its own; its number may differ from rank to rank, its place among the streams that communicate less so.
    std::map<uint16_t, int64_t> place_of_queue;
    for (uint32_t i = 0; i < trace.activity.size(); ++i)
      if (!described[i] && devices.kind[i] == WorkKind::kCommunication) place_of_queue[trace.activity.queue[i]] = 0;
    std::vector<uint16_t> queues;
    for (const auto& [queue, unused] : place_of_queue) queues.push_back(queue);
    std::sort(queues.begin(), queues.end(), [&](uint16_t a, uint16_t b) { return trace.queues[a] < trace.queues[b]; });
    for (size_t q = 0; q < queues.size(); ++q) place_of_queue[queues[q]] = static_cast<int64_t>(q);
    for (uint32_t i = 0; i < trace.activity.size(); ++i)
      if (!described[i] && devices.kind[i] == WorkKind::kCommunication)
        add(place, trace, step_at, kind({StringId(), StringId(), trace.activity.name[i]}, trace, false), ActivityId(i),
            nullptr, -1 - place_of_queue[trace.activity.queue[i]]);
  }

 private:
  static constexpr uint32_t kPair = UINT32_MAX;
  using Strings = std::tuple<StringId, StringId, StringId>;

  uint32_t kind(const Strings& key, const Trace& trace, bool recorded) {
    const auto [it, fresh] = kind_of_.try_emplace({key, recorded}, kPair);
    if (!fresh) return it->second;
    const auto& [group, members, name] = key;
    const std::string term = collective_name(trace.strings[name]);
    // A kernel named SendRecv may be an all-to-all: only recorded names tell pairs for certain.
    if (recorded && (term == "send" || term == "recv" || term == "send_recv")) return kPair;
    CallKind k{std::string(trace.strings[group]), std::string(trace.strings[members]),
               recorded && !term.empty() ? term : std::string(trace.strings[name]), !can_leave_early(term)};
    const auto known = std::find(out_.kinds.begin(), out_.kinds.end(), k);
    it->second = static_cast<uint32_t>(known - out_.kinds.begin());
    if (known == out_.kinds.end()) out_.kinds.push_back(std::move(k));
    return it->second;
  }

  void add(uint32_t place, const Trace& trace, const StepAt& step_at, uint32_t what, ActivityId id,
           const Collective* arguments, int64_t elements = -1) {
    if (what == kPair) return;
    const Interval time = trace.activity.interval(id);
    const HostId launch = trace.activity.launch[id.value];
    // The launch is at the same place of every rank's program; the kernel may start a step later on a slow one.
    const Step* step = step_at(launch.valid() ? trace.host.start_ns[launch.value] : time.start);
    RankCall c;
    c.what = what;
    c.rank = place;
    c.activity = id;
    c.start_ns = time.start + trace.base_time_ns;
    c.end_ns = time.end + trace.base_time_ns;
    c.measured = step_at.is_measured(step);
    c.arguments = arguments;
    c.elements = arguments != nullptr ? std::max(arguments->in_elements, arguments->out_elements) : elements;
    c.number = arguments != nullptr ? arguments->sequence : -1;
    if (c.number < 0) {
      c.step = step_at.number(step);
      c.number = numbers_[{what, c.elements, c.step}]++;
    }
    out_.calls.push_back(c);
  }

  MatchedCalls& out_;
  std::map<std::pair<Strings, bool>, uint32_t> kind_of_;                    // of one rank
  std::map<std::tuple<uint32_t, int64_t, int64_t>, int64_t> numbers_;   // of one rank
};

}  // namespace

MatchedCalls matched_calls(const std::vector<RankFacts>& ranks) {
  MatchedCalls all;
  Collector collector(all);
  for (uint32_t r = 0; r < ranks.size(); ++r) collector.add_rank(r, *ranks[r].facts);
  std::sort(all.calls.begin(), all.calls.end(), [](const RankCall& a, const RankCall& b) {
    return a.identity() != b.identity() ? a.identity() < b.identity()
                                        : std::tie(a.rank, a.activity) < std::tie(b.rank, b.activity);
  });
  // One call of each rank; coalesced calls share a number, and the first of them stands for all.
  std::vector<RankCall> kept;
  for (size_t i = 0; i < all.calls.size();) {
    const size_t begin = kept.size();
    size_t j = i;
    for (; j < all.calls.size() && all.calls[j].identity() == all.calls[i].identity(); ++j)
      if (kept.size() == begin || kept.back().rank != all.calls[j].rank) kept.push_back(all.calls[j]);
    if (kept.size() - begin < 2) kept.resize(begin);
    else all.first.push_back(static_cast<uint32_t>(begin));
    i = j;
  }
  if (!all.first.empty()) all.first.push_back(static_cast<uint32_t>(kept.size()));
  all.calls = std::move(kept);
  return all;
}

}  // namespace profgpu
