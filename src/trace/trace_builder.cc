#include "trace/trace_builder.h"

#include <algorithm>
#include <charconv>
#include <numeric>

#include "base/text.h"
#include "trace/radix_sort.h"

namespace profgpu {
namespace {

/// The shards' rows as one sequence, in the order of the input's pieces, with ids of the trace's own tables.
struct Rows {
  std::deque<Shard>& shards;
  std::vector<std::vector<StringId>> strings;
  std::vector<std::vector<uint32_t>> threads;
  std::vector<std::vector<uint16_t>> queues;
  std::vector<uint32_t> op_args_base, activity_args_base, collectives_base;

  // A row's place: shard in the top byte, row in the shard below.
  static constexpr uint32_t kRowBits = 28;
  static uint32_t place(size_t shard, size_t row) { return static_cast<uint32_t>(shard << kRowBits | row); }
  static size_t shard_of(uint32_t place) { return place >> kRowBits; }
  static size_t row_of(uint32_t place) { return place & ((1u << kRowBits) - 1); }
  [[nodiscard]] const HostRow& host(uint32_t p) const { return shards[shard_of(p)].host[row_of(p)]; }
  [[nodiscard]] const ActivityRow& activity(uint32_t p) const { return shards[shard_of(p)].activity[row_of(p)]; }

  // Calls fn(shard, first row, end row) for each piece of the input in order.
  template <class Begin, class Fn>
  void each_piece(Begin begin, const std::vector<size_t>& sizes, Fn&& fn) const {
    struct Part {
      uint32_t order;
      size_t shard, first, end;
    };
    std::vector<Part> parts;
    for (size_t s = 0; s < shards.size(); ++s) {
      const auto& pieces = shards[s].pieces;
      if (pieces.empty()) parts.push_back({0, s, 0, sizes[s]});
      for (size_t i = 0; i < pieces.size(); ++i)
        parts.push_back(
            {pieces[i].order, s, pieces[i].*begin, i + 1 < pieces.size() ? pieces[i + 1].*begin : sizes[s]});
    }
    std::sort(parts.begin(), parts.end(), [](const Part& a, const Part& b) { return a.order < b.order; });
    for (const Part& p : parts) fn(p.shard, p.first, p.end);
  }
};

void map_strings(Rows& rows, Trace& trace) {
  for (Shard& shard : rows.shards) {
    if (&shard == &rows.shards.front()) {
      trace.strings = std::move(shard.strings);
      std::vector<StringId> same(trace.strings.size());
      for (size_t i = 0; i < same.size(); ++i) same[i] = StringId(i);
      rows.strings.push_back(std::move(same));
    } else {
      rows.strings.push_back(trace.strings.absorb(shard.strings));
      shard.strings = StringPool();
    }
  }
}

void map_threads(Rows& rows, Trace& trace) {
  std::vector<std::pair<std::string, std::string>> all;
  for (const Shard& shard : rows.shards) all.insert(all.end(), shard.threads.begin(), shard.threads.end());
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) {
    return a.first != b.first ? natural_less(a.first, b.first) : natural_less(a.second, b.second);
  });
  all.erase(std::unique(all.begin(), all.end()), all.end());
  std::map<std::pair<std::string, std::string>, uint32_t> index;
  for (const auto& key : all) {
    index.emplace(key, static_cast<uint32_t>(trace.threads.size()));
    trace.threads.push_back({key.first, key.second, "", {}, {}});
  }
  for (const Shard& shard : rows.shards) {
    std::vector<uint32_t>& map = rows.threads.emplace_back();
    for (const auto& key : shard.threads) map.push_back(index.at(key));
    for (const auto& [key, name] : shard.thread_names)
      if (auto it = index.find(key); it != index.end()) trace.threads[it->second].name = name;
  }
}

void map_queues(Rows& rows, Trace& trace) {
  for (const Shard& shard : rows.shards)
    trace.queues.insert(trace.queues.end(), shard.queues.begin(), shard.queues.end());
  std::sort(trace.queues.begin(), trace.queues.end());
  trace.queues.erase(std::unique(trace.queues.begin(), trace.queues.end()), trace.queues.end());
  for (const Shard& shard : rows.shards) {
    std::vector<uint16_t>& map = rows.queues.emplace_back();
    for (const Queue& q : shard.queues)
      map.push_back(static_cast<uint16_t>(std::lower_bound(trace.queues.begin(), trace.queues.end(), q) -
                                          trace.queues.begin()));
  }
}

StringId mapped(const std::vector<StringId>& map, StringId id) { return id.valid() ? map[id.value] : id; }

void map_small_tables(Rows& rows, Trace& trace) {
  for (size_t s = 0; s < rows.shards.size(); ++s) {
    Shard& shard = rows.shards[s];
    const auto& strings = rows.strings[s];
    rows.op_args_base.push_back(static_cast<uint32_t>(trace.op_args.size()));
    rows.activity_args_base.push_back(static_cast<uint32_t>(trace.activity_args.size()));
    rows.collectives_base.push_back(static_cast<uint32_t>(trace.collectives.size()));
    trace.op_args.reserve(trace.op_args.size() + shard.op_args.size());
    for (size_t i = 0; i < shard.op_args.size(); ++i) {
      OpArgs a = shard.op_args[i];
      a.shapes = mapped(strings, a.shapes);
      a.types = mapped(strings, a.types);
      trace.op_args.push_back(a);
    }
    shard.op_args.clear();
    trace.activity_args.insert(trace.activity_args.end(), shard.activity_args_rows.begin(),
                               shard.activity_args_rows.end());
    for (Collective c : shard.collectives) {
      for (StringId* id : {&c.name, &c.dtype, &c.group, &c.group_description, &c.ranks}) *id = mapped(strings, *id);
      trace.collectives.push_back(c);
    }
    for (SyncRow r : shard.syncs) r.name = mapped(strings, r.name), trace.syncs.push_back(r);
    for (CounterValue c : shard.counters) c.name = mapped(strings, c.name), trace.counters.push_back(c);
    trace.memory.reserve(trace.memory.size() + shard.memory.size());
    for (size_t i = 0; i < shard.memory.size(); ++i) {
      MemoryEvent m = shard.memory[i];
      if (m.thread.valid()) m.thread = ThreadId(rows.threads[s][m.thread.value]);
      trace.memory.push_back(m);
    }
    shard.memory.clear();
    for (ThreadSample t : shard.thread_samples) {
      t.thread = ThreadId(rows.threads[s][t.thread.value]);
      trace.thread_samples.push_back(t);
    }
    for (ThreadWait w : shard.thread_waits) {
      w.thread = ThreadId(rows.threads[s][w.thread.value]);
      trace.thread_waits.push_back(w);
    }
    trace.events += shard.events;
  }
}

void sort_small_tables(Trace& trace) {
  std::sort(trace.thread_samples.begin(), trace.thread_samples.end(), [](const ThreadSample& a, const ThreadSample& b) {
    return std::tie(a.thread, a.time_ns, a.user_ns, a.system_ns) <
           std::tie(b.thread, b.time_ns, b.user_ns, b.system_ns);
  });
  std::sort(trace.thread_waits.begin(), trace.thread_waits.end(), [](const ThreadWait& a, const ThreadWait& b) {
    return std::tie(a.thread, a.start_ns, a.duration_ns) < std::tie(b.thread, b.start_ns, b.duration_ns);
  });
  std::sort(trace.syncs.begin(), trace.syncs.end(), [](const SyncRow& a, const SyncRow& b) {
    return std::tie(a.start_ns, a.duration_ns, a.correlation) < std::tie(b.start_ns, b.duration_ns, b.correlation);
  });
  std::sort(trace.memory.begin(), trace.memory.end(), [](const MemoryEvent& a, const MemoryEvent& b) {
    return std::tie(a.time_ns, a.device_type, a.device, a.bytes, a.address, a.total_allocated) <
           std::tie(b.time_ns, b.device_type, b.device, b.bytes, b.address, b.total_allocated);
  });
  std::sort(trace.counters.begin(), trace.counters.end(), [&](const CounterValue& a, const CounterValue& b) {
    if (a.time_ns != b.time_ns) return a.time_ns < b.time_ns;
    if (a.name != b.name) return trace.strings[a.name] < trace.strings[b.name];
    return a.value < b.value;
  });
}

// Places of the host rows by thread, in the order of the input within each.
std::vector<uint32_t> by_thread(const Rows& rows, Trace& trace) {
  std::vector<uint32_t> at(trace.threads.size() + 1);
  std::vector<size_t> sizes;
  for (size_t s = 0; s < rows.shards.size(); ++s) {
    sizes.push_back(rows.shards[s].host.size());
    for (size_t r = 0; r < sizes.back(); ++r) ++at[rows.threads[s][rows.shards[s].host[r].thread] + 1];
  }
  for (size_t t = 0; t < trace.threads.size(); ++t) {
    at[t + 1] += at[t];
    trace.threads[t].begin = HostId(at[t]);
    trace.threads[t].end = HostId(at[t + 1]);
  }
  std::vector<uint32_t> order(at.back());
  rows.each_piece(&Shard::Piece::host_begin, sizes, [&](size_t s, size_t first, size_t end) {
    for (size_t r = first; r < end; ++r)
      order[at[rows.threads[s][rows.shards[s].host[r].thread]]++] = Rows::place(s, r);
  });
  return order;
}

// Host rows by thread, then start, then longest first; ties by what is usually outside, then name, so that the order of
// the input does not matter.
std::vector<uint32_t> sorted_host(const Rows& rows, Trace& trace) {
  std::vector<uint32_t> order = by_thread(rows, trace);
  std::vector<SortKey> keys;
  for (const Thread& thread : trace.threads) {
    keys.clear();
    keys.reserve(thread.end.value - thread.begin.value);
    for (uint32_t i = thread.begin.value; i < thread.end.value; ++i)
      keys.push_back({ordered(rows.host(order[i]).start_ns), order[i]});
    radix_sort(keys);
    sort_ties(keys, [&](uint32_t a, uint32_t b) {
      const HostRow &x = rows.host(a), &y = rows.host(b);
      if (x.duration_ns != y.duration_ns) return x.duration_ns > y.duration_ns;
      if (x.kind != y.kind) return x.kind < y.kind;
      if (x.link != y.link) return x.link < y.link;
      return trace.strings[rows.strings[Rows::shard_of(a)][x.name.value]] <
             trace.strings[rows.strings[Rows::shard_of(b)][y.name.value]];
    });
    for (size_t i = 0; i < keys.size(); ++i) order[thread.begin.value + i] = keys[i].row;
  }
  return order;
}

template <class T, class Get>
void fill(std::vector<T>& column, const std::vector<uint32_t>& order, Get&& get) {
  column.reserve(order.size());
  for (const uint32_t p : order) column.push_back(get(p));
}

// Open ranges that a longer one may overlap and leave open. Those of different clocks overlap by pairs, not by
// hundreds.
constexpr ptrdiff_t kMaxOverlapping = 64;

// The stack of each thread: a range's parent is the one that ends first of those before it that contain all of it.
// Ranges may overlap without one containing the other (two clocks): the stack is kept by end, earliest on top.
void nest(Trace& trace) {
  HostTable& h = trace.host;
  h.parent.assign(h.size(), {});
  std::vector<HostId> stack;
  for (const Thread& thread : trace.threads) {
    stack.clear();
    for (uint32_t i = thread.begin.value; i < thread.end.value; ++i) {
      const int64_t end = h.start_ns[i] + h.duration_ns[i];
      while (!stack.empty() && h.end_ns(stack.back()) <= h.start_ns[i]) stack.pop_back();
      auto at = stack.end();
      while (at != stack.begin() && h.end_ns(at[-1]) < end) --at;
      if (at != stack.begin()) h.parent[i] = at[-1];
      if (stack.end() - at > kMaxOverlapping) at = stack.erase(at, stack.end());
      stack.insert(at, HostId(i));
    }
  }
}

// What belongs to a row, of pairs that ascend by row; null if nothing does.
template <class T>
const T* found(const std::vector<std::pair<size_t, T>>& of_rows, size_t row) {
  const auto it = std::lower_bound(of_rows.begin(), of_rows.end(), row,
                                   [](const auto& pair, size_t wanted) { return pair.first < wanted; });
  return it != of_rows.end() && it->first == row ? &it->second : nullptr;
}

void build_host(const Rows& rows, Trace& trace, int threads) {
  const std::vector<uint32_t> order = sorted_host(rows, trace);
  HostTable& h = trace.host;
  const auto times = [&] {
    fill(h.start_ns, order, [&](uint32_t p) { return rows.host(p).start_ns; });
    fill(h.duration_ns, order, [&](uint32_t p) { return rows.host(p).duration_ns; });
    nest(trace);
  };
  const auto others = [&] {
    fill(h.name, order, [&](uint32_t p) { return rows.strings[Rows::shard_of(p)][rows.host(p).name.value]; });
    fill(h.thread, order, [&](uint32_t p) { return ThreadId(rows.threads[Rows::shard_of(p)][rows.host(p).thread]); });
    fill(h.kind, order, [&](uint32_t p) { return rows.host(p).kind; });
    fill(h.link, order, [&](uint32_t p) { return rows.host(p).link; });
    fill(h.args, order, [&](uint32_t p) {
      const uint32_t args = rows.host(p).args;
      return args == UINT32_MAX ? OpArgsId() : OpArgsId(rows.op_args_base[Rows::shard_of(p)] + args);
    });
  };
  side_by_side(threads, times, others);
  for (size_t i = 0; i < order.size(); ++i) {
    const size_t s = Rows::shard_of(order[i]), row = Rows::row_of(order[i]);
    if (const uint32_t* call = found(rows.shards[s].host_collectives, row))
      trace.collectives[rows.collectives_base[s] + *call].host = HostId(i);
    if (const StringId* text = found(rows.shards[s].host_arguments, row))
      trace.range_arguments.push_back({HostId(i), mapped(rows.strings[s], *text)});
  }
}

void build_activity(const Rows& rows, Trace& trace) {
  std::map<int32_t, std::vector<SortKey>> by_device;
  std::vector<size_t> sizes;
  for (const Shard& shard : rows.shards) sizes.push_back(shard.activity.size());
  rows.each_piece(&Shard::Piece::activity_begin, sizes, [&](size_t s, size_t first, size_t end) {
    for (size_t r = first; r < end; ++r) {
      const ActivityRow& row = rows.shards[s].activity[r];
      by_device[rows.shards[s].queues[row.queue].device].push_back({ordered(row.start_ns), Rows::place(s, r)});
    }
  });
  const auto queue_of = [&](uint32_t p) { return rows.queues[Rows::shard_of(p)][rows.activity(p).queue]; };
  const auto name_of = [&](uint32_t p) { return rows.strings[Rows::shard_of(p)][rows.activity(p).name.value]; };
  std::vector<uint32_t> order;
  for (auto& [device, keys] : by_device) {
    radix_sort(keys);
    sort_ties(keys, [&](uint32_t a, uint32_t b) {
      const ActivityRow &x = rows.activity(a), &y = rows.activity(b);
      if (x.duration_ns != y.duration_ns) return x.duration_ns < y.duration_ns;
      if (queue_of(a) != queue_of(b)) return queue_of(a) < queue_of(b);
      if (x.correlation != y.correlation) return x.correlation < y.correlation;
      return trace.strings[name_of(a)] < trace.strings[name_of(b)];
    });
    Trace::DeviceRows& range = trace.device_rows.emplace_back();
    range.device = device;
    range.begin = ActivityId(order.size());
    for (const SortKey& k : keys) order.push_back(k.row);
    range.end = ActivityId(order.size());
  }
  ActivityTable& a = trace.activity;
  fill(a.start_ns, order, [&](uint32_t p) { return rows.activity(p).start_ns; });
  fill(a.duration_ns, order, [&](uint32_t p) { return rows.activity(p).duration_ns; });
  fill(a.name, order, name_of);
  fill(a.queue, order, queue_of);
  fill(a.kind, order, [&](uint32_t p) { return rows.activity(p).kind; });
  fill(a.correlation, order, [&](uint32_t p) { return rows.activity(p).correlation; });
  fill(a.args, order, [&](uint32_t p) {
    const uint32_t args = rows.activity(p).args;
    return args == UINT32_MAX ? ActivityArgsId() : ActivityArgsId(rows.activity_args_base[Rows::shard_of(p)] + args);
  });
  for (size_t i = 0; i < order.size(); ++i) {
    const uint32_t c = rows.activity(order[i]).collective;
    if (c != UINT32_MAX)
      trace.collectives[rows.collectives_base[Rows::shard_of(order[i])] + c].activity = ActivityId(i);
  }
}

}  // namespace

// In link.cc: joins launches to activity, forward to backward, and the two sides of a collective.
void link(Trace& trace, std::vector<FlowEnd> flows, int threads);

std::map<TraceIssueKind, int64_t> TraceBuilder::issue_counts() const {
  std::map<TraceIssueKind, int64_t> all;
  for (const Shard& shard : shards_)
    for (const auto& [kind, count] : shard.issues) all[kind] += count;
  return all;
}

Trace TraceBuilder::finish(int threads) {
  Rows rows{shards_, {}, {}, {}, {}, {}, {}};
  map_strings(rows, trace_);
  map_threads(rows, trace_);
  map_queues(rows, trace_);
  map_small_tables(rows, trace_);
  std::vector<FlowEnd> flows;
  for (size_t s = 0; s < shards_.size(); ++s) {
    for (size_t i = 0; i < shards_[s].flows.size(); ++i) {
      FlowEnd flow = shards_[s].flows[i];
      flow.thread = rows.threads[s][flow.thread];
      flows.push_back(flow);
    }
    shards_[s].flows.clear();
  }
  const auto activity = [&] {
    build_activity(rows, trace_);
    for (Shard& shard : shards_) shard.activity.clear();
    sort_small_tables(trace_);
  };
  side_by_side(threads, [&] { build_host(rows, trace_, threads); }, activity);
  shards_.clear();
  link(trace_, std::move(flows), threads);
  return std::move(trace_);
}

uint32_t Shard::thread(std::string_view process, std::string_view id) {
  // Rows of a thread come in runs.
  if (last_thread_ != UINT32_MAX && process == last_process_ && id == last_id_) return last_thread_;
  last_process_ = process;
  last_id_ = id;
  thread_key_.assign(process).append(1, '\0').append(id);
  // A trace with more threads than this is damaged; the rest share the last one.
  const size_t next = std::min<size_t>(threads.size(), UINT16_MAX);
  auto [it, added] = thread_of_.try_emplace(thread_key_, static_cast<uint32_t>(next));
  if (added && next == threads.size()) threads.emplace_back(process, id);
  return last_thread_ = it->second;
}

uint16_t Shard::queue(const Queue& queue) {
  for (size_t i = queues.size(); i-- > 0;)
    if (queues[i] == queue) return static_cast<uint16_t>(i);
  // A trace with more streams than this is damaged; the rest share the last one.
  if (queues.size() == 4096) return 4095;
  queues.push_back(queue);
  return static_cast<uint16_t>(queues.size() - 1);
}

uint32_t Shard::activity_args(const ActivityArgs& args) {
  uint64_t hash = static_cast<uint64_t>(args.bytes) * 0x9E3779B97F4A7C15;
  for (const int32_t v : {args.grid[0], args.grid[1], args.grid[2], args.block[0], args.block[1], args.registers,
                          args.shared_bytes, static_cast<int32_t>(args.graph), static_cast<int32_t>(args.graph_node)})
    hash = (hash ^ static_cast<uint32_t>(v)) * 0xD6E8FEB86659FD93, hash ^= hash >> 29;
  auto [it, last] = args_of_.equal_range(hash);
  for (; it != last; ++it)
    if (activity_args_rows[it->second] == args) return it->second;
  activity_args_rows.push_back(args);
  const auto row = static_cast<uint32_t>(activity_args_rows.size() - 1);
  args_of_.emplace(hash, row);
  return row;
}

void Shard::name_thread(std::string_view process, std::string_view id, std::string_view name) {
  thread_names[{std::string(process), std::string(id)}] = name;
}

}  // namespace profgpu
