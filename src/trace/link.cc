// Links within a trace, made once when it is built.
#include <algorithm>
#include <array>
#include <map>

#include "trace/radix_sort.h"
#include "trace/trace_builder.h"

namespace profgpu {
namespace {

/// Correlation id to launching call. Ids are dense in practice, so a plain array; else a sorted list.
class CallIndex {
 public:
  explicit CallIndex(const Trace& trace) {
    const HostTable& h = trace.host;
    uint32_t high = 0;
    for (uint32_t i = 0; i < h.size(); ++i) {
      if (!h.is_call(HostId(i)) || h.link[i] == 0 || h.is_inner_call(HostId(i))) continue;
      calls_.push_back({h.link[i], i});
      low_ = std::min(low_, h.link[i]);
      high = std::max(high, h.link[i]);
    }
    if (calls_.empty()) return;
    const uint64_t range = uint64_t{high} - low_ + 1;
    if (range > calls_.size() * 16 + 65536) {
      radix_sort(calls_);
      sort_ties(calls_, [&](uint32_t a, uint32_t b) { return earlier(h, a, b); });
      return;
    }
    direct_.assign(range, HostId::kNone);
    for (const SortKey& c : calls_) {
      uint32_t& slot = direct_[c.key - low_];
      duplicates_ += slot != HostId::kNone;
      if (slot == HostId::kNone || earlier(h, c.row, slot)) slot = c.row;
    }
    calls_ = {};
  }

  [[nodiscard]] HostId find(uint32_t correlation) const {
    if (correlation == 0) return {};
    if (!direct_.empty()) {
      const uint32_t i = correlation - low_;
      return correlation >= low_ && i < direct_.size() && direct_[i] != HostId::kNone ? HostId(direct_[i]) : HostId();
    }
    const auto it = std::lower_bound(calls_.begin(), calls_.end(), correlation,
                                     [](const SortKey& k, uint32_t c) { return k.key < c; });
    return it != calls_.end() && it->key == correlation ? HostId(it->row) : HostId();
  }
  [[nodiscard]] int64_t duplicates() const { return duplicates_; }

 private:
  static bool earlier(const HostTable& h, uint32_t a, uint32_t b) {
    return h.start_ns[a] != h.start_ns[b] ? h.start_ns[a] < h.start_ns[b] : a < b;
  }
  std::vector<SortKey> calls_;
  std::vector<uint32_t> direct_;
  uint32_t low_ = UINT32_MAX;
  int64_t duplicates_ = 0;
};

void link_launches(Trace& trace) {
  const CallIndex index(trace);
  ActivityTable& a = trace.activity;
  a.launch.reserve(a.size());
  for (const uint32_t correlation : a.correlation) a.launch.push_back(index.find(correlation));
  index_launches(trace);
  if (index.duplicates() > 0)
    trace.issues.push_back({TraceIssueKind::kDuplicateCorrelation, index.duplicates(),
                            "launching calls share a correlation id; the earliest of each was taken"});
}

}  // namespace

void index_launches(Trace& trace) {
  const ActivityTable& a = trace.activity;
  std::vector<SortKey> pairs;
  for (uint32_t i = 0; i < a.size(); ++i)
    if (a.launch[i].valid()) pairs.push_back({a.launch[i].value, i});
  radix_sort(pairs);
  sort_ties(pairs, [&](uint32_t x, uint32_t y) {
    return a.start_ns[x] != a.start_ns[y] ? a.start_ns[x] < a.start_ns[y] : x < y;
  });
  for (const SortKey& p : pairs) {
    if (trace.launching.empty() || trace.launching.back().value != p.key) {
      trace.launching.emplace_back(p.key);
      trace.launched_first.push_back(static_cast<uint32_t>(trace.launched.size()));
    }
    trace.launched.emplace_back(p.row);
  }
  trace.launched_first.push_back(static_cast<uint32_t>(trace.launched.size()));
}

namespace {

/// Finds ops by time. Successive times are near each other, so that the search begins where the last one ended and
/// takes steps of twice the length each.
class OpFinder {
 public:
  explicit OpFinder(const Trace& trace) : trace_(trace), h_(trace.host), last_(trace.threads.size()) {
    for (size_t t = 0; t < last_.size(); ++t) last_[t] = trace.threads[t].begin.value;
  }
  /// The innermost op of the thread that is open at `time`.
  HostId operator()(uint32_t thread, int64_t time) {
    const size_t first = trace_.threads[thread].begin.value, after = first_after(thread, time);
    if (after == first) return {};
    HostId at(after - 1);
    while (at.valid() && (h_.end_ns(at) < time || h_.kind[at.value] != HostKind::kOp)) at = h_.parent[at.value];
    return at;
  }

 private:
  // The first row of the thread that starts after `time`.
  size_t first_after(uint32_t thread, int64_t time) {
    const size_t first = trace_.threads[thread].begin.value, end = trace_.threads[thread].end.value;
    size_t low = last_[thread], high = low, step = 16;   // rows before `low` start by then, those from `high` on later
    for (; low > first && h_.start_ns[low - 1] > time; step *= 2) high = low, low -= std::min(step, low - first);
    if (high == low)
      for (; high < end && h_.start_ns[high] <= time; step *= 2) low = high, high += std::min(step, end - high);
    const auto starts = h_.start_ns.begin();
    const auto found =
        std::upper_bound(starts + static_cast<ptrdiff_t>(low), starts + static_cast<ptrdiff_t>(high), time);
    return last_[thread] = static_cast<size_t>(found - starts);
  }

  const Trace& trace_;
  const HostTable& h_;
  std::vector<size_t> last_;   // by thread
};

void link_backward(Trace& trace, std::vector<FlowEnd> flows) {
  radix_sort(flows);
  sort_ties(std::span(flows), OwnKey(), [](const FlowEnd& a, const FlowEnd& b) {
    return std::tie(b.is_start, a.time_ns, a.thread) < std::tie(a.is_start, b.time_ns, b.thread);
  });
  OpFinder forward_at(trace), backward_at(trace);
  for (size_t i = 0; i < flows.size();) {
    size_t j = i;
    while (j < flows.size() && flows[j].id == flows[i].id) ++j;
    const HostId forward = flows[i].is_start ? forward_at(flows[i].thread, flows[i].time_ns) : HostId();
    for (size_t k = i + 1; forward.valid() && k < j; ++k) {
      if (flows[k].is_start) continue;
      const HostId backward = backward_at(flows[k].thread, flows[k].time_ns);
      if (backward.valid()) trace.backward_links.push_back({forward, backward});
    }
    i = j;
  }
}

// Without flow events: a backward op carries the number of the forward op that made it, and that op's thread.
void link_backward_by_sequence(Trace& trace) {
  const HostTable& h = trace.host;
  std::unordered_map<int64_t, HostId> forward;
  for (uint32_t i = 0; i < h.size(); ++i) {
    if (!h.args[i].valid()) continue;
    const OpArgs& args = trace.op_args[h.args[i].value];
    if (args.sequence >= 0 && args.forward_thread == 0) forward[args.sequence] = HostId(i);
  }
  for (uint32_t i = 0; i < h.size(); ++i) {
    if (!h.args[i].valid()) continue;
    const OpArgs& args = trace.op_args[h.args[i].value];
    if (args.forward_thread == 0) continue;
    if (auto it = forward.find(args.sequence); it != forward.end() && h.start_ns[it->second.value] <= h.start_ns[i])
      trace.backward_links.push_back({it->second, HostId(i)});
  }
}

// A collective may be described twice, by the op on the host and by its kernel: one row stays. A kernel without
// arguments of its own gets those of the op that launched it.
void join_collectives(Trace& trace) {
  if (trace.collectives.empty()) return;
  std::unordered_map<uint32_t, size_t> by_host, by_activity;
  for (size_t i = 0; i < trace.collectives.size(); ++i) {
    const Collective& c = trace.collectives[i];
    if (c.host.valid()) by_host.emplace(c.host.value, i);
    if (c.activity.valid()) by_activity.emplace(c.activity.value, i);
  }
  std::vector<bool> replaced(trace.collectives.size(), false);
  const ActivityTable& a = trace.activity;
  for (uint32_t i = 0; i < a.size() && !by_host.empty(); ++i) {
    if (a.kind[i] != ActivityKind::kKernel) continue;
    HostId at = a.launch[i];
    while (at.valid() && !by_host.contains(at.value)) at = trace.host.parent[at.value];
    if (!at.valid()) continue;
    const size_t described = by_host[at.value];
    replaced[described] = true;
    if (auto it = by_activity.find(i); it != by_activity.end()) {
      Collective& c = trace.collectives[it->second];
      c.host = at;
      if (c.sequence < 0) c.sequence = trace.collectives[described].sequence;
      if (!c.ranks.valid()) c.ranks = trace.collectives[described].ranks;
    } else {
      Collective c = trace.collectives[described];
      c.activity = ActivityId(i);
      trace.collectives.push_back(c);
      replaced.push_back(false);
    }
  }
  std::vector<Collective> kept;
  for (size_t i = 0; i < trace.collectives.size(); ++i)
    if (!replaced[i]) kept.push_back(trace.collectives[i]);
  const auto time = [&](const Collective& c) {
    return c.activity.valid() ? a.start_ns[c.activity.value]
                              : c.host.valid() ? trace.host.start_ns[c.host.value] : INT64_MAX;
  };
  std::sort(kept.begin(), kept.end(), [&](const Collective& x, const Collective& y) {
    return std::make_tuple(time(x), x.activity, x.host) < std::make_tuple(time(y), y.activity, y.host);
  });
  trace.collectives = std::move(kept);
}

void find_window(Trace& trace) {
  Interval window{INT64_MAX, INT64_MIN};
  for (const Thread& thread : trace.threads) {
    if (thread.is_sampled_stack()) continue;   // it tells of what others did, for as long as it was asked to
    for (uint32_t i = thread.begin.value; i < thread.end.value; ++i) {
      // A whole program is recorded with its start, long before it turns to a device.
      const HostKind kind = trace.host.kind[i];
      if (kind == HostKind::kSystem || (kind == HostKind::kOverhead && trace.recorder == Recorder::kNsight)) continue;
      window.start = std::min(window.start, trace.host.start_ns[i]);
      window.end = std::max(window.end, trace.host.start_ns[i] + trace.host.duration_ns[i]);
    }
  }
  for (size_t i = 0; i < trace.activity.size(); ++i) {
    window.start = std::min(window.start, trace.activity.start_ns[i]);
    window.end = std::max(window.end, trace.activity.start_ns[i] + trace.activity.duration_ns[i]);
  }
  if (window.start <= window.end) trace.windows.push_back(window);
}

}  // namespace

void link(Trace& trace, std::vector<FlowEnd> flows, int threads) {
  const auto backward = [&] {
    if (flows.empty()) {
      link_backward_by_sequence(trace);
    } else {
      link_backward(trace, std::move(flows));
    }
    find_window(trace);
  };
  side_by_side(threads, [&] { link_launches(trace); }, backward);
  join_collectives(trace);
}

// Many kernels have the same arguments and shape: rows of activity_args are few.
void take_launch_shapes(Trace& trace, std::vector<LaunchShape> shapes) {
  radix_sort(shapes);
  using Sides = std::array<int32_t, 6>;
  std::map<std::pair<uint32_t, Sides>, ActivityArgsId> known;
  ActivityTable& a = trace.activity;
  for (uint32_t i = 0; i < a.size() && !shapes.empty(); ++i) {
    const auto shape = std::ranges::lower_bound(shapes, a.correlation[i], {}, &LaunchShape::correlation);
    if (a.kind[i] != ActivityKind::kKernel || shape == shapes.end() || shape->correlation != a.correlation[i]) continue;
    const ActivityArgsId own = a.args[i];
    const auto& [correlation, grid, block] = *shape;
    const Sides sides = {grid[0], grid[1], grid[2], block[0], block[1], block[2]};
    const auto [at, added] = known.try_emplace({own.value, sides}, ActivityArgsId(trace.activity_args.size()));
    a.args[i] = at->second;
    if (!added) continue;
    ActivityArgs args = own.valid() ? trace.activity_args[own.value] : ActivityArgs{};
    std::ranges::copy(grid, args.grid), std::ranges::copy(block, args.block);
    trace.activity_args.push_back(args);
  }
}

}  // namespace profgpu
