#include "trace/trace_builder.h"

#ifdef __GLIBC__
#include <malloc.h>
#endif

#include <algorithm>
#include <map>
#include <numeric>
#include <span>

#include "base/secrets.h"
#include "base/tasks.h"
#include "base/text.h"
#include "trace/radix_sort.h"

namespace profgpu {
namespace {

/// The shards' rows as one sequence, in the order of the input's pieces, with ids of the trace's own tables.
struct Rows {
  explicit Rows(std::deque<Shard>& all) : shards(all) {
    for (const Shard& shard : all) host_of.push_back(&shard.host), activity_of.push_back(&shard.activity);
  }

  std::deque<Shard>& shards;
  std::vector<const Blocks<HostRow>*> host_of;           // of each shard
  std::vector<const Blocks<ActivityRow>*> activity_of;
  std::vector<std::vector<StringId>> strings;
  std::vector<std::vector<uint32_t>> threads;
  std::vector<std::vector<uint16_t>> queues;
  std::vector<uint32_t> op_args_base, activity_args_base, collectives_base;

  // A row's place: shard in the top byte, row in the shard below.
  static constexpr uint32_t kRowBits = 28;
  static uint32_t place(size_t shard, size_t row) { return static_cast<uint32_t>(shard << kRowBits | row); }
  static size_t shard_of(uint32_t place) { return place >> kRowBits; }
  static size_t row_of(uint32_t place) { return place & ((1u << kRowBits) - 1); }
  [[nodiscard]] const HostRow& host(uint32_t p) const { return (*host_of[shard_of(p)])[row_of(p)]; }
  [[nodiscard]] const ActivityRow& activity(uint32_t p) const { return (*activity_of[shard_of(p)])[row_of(p)]; }
};

/// Places of a table's rows by group, in the order of the input; sort_group() puts those of one group in order.
struct Grouped {
  std::vector<uint32_t> places;
  std::vector<uint32_t> bounds;   ///< where each group's begin, and one more for the end
};

// `group` takes a shard and a row of it. Pieces are taken in the order of the input, so that most rows are sorted.
template <class Row, class Group>
Grouped grouped_rows(const Rows& rows, const std::vector<const Blocks<Row>*>& tables, size_t Shard::Piece::* begin,
                     size_t groups, Group&& group) {
  struct Part {
    uint32_t order;
    size_t shard, first, end;
  };
  std::vector<Part> parts;
  for (size_t s = 0; s < rows.shards.size(); ++s) {
    const auto& pieces = rows.shards[s].pieces;
    const size_t size = tables[s]->size();
    if (pieces.empty()) parts.push_back({0, s, 0, size});
    for (size_t i = 0; i < pieces.size(); ++i)
      parts.push_back({pieces[i].order, s, pieces[i].*begin, i + 1 < pieces.size() ? pieces[i + 1].*begin : size});
  }
  std::sort(parts.begin(), parts.end(), [](const Part& a, const Part& b) { return a.order < b.order; });
  const auto each = [&](auto&& fn) {
    for (const Part& p : parts) {
      for (size_t r = p.first; r < p.end; ++r) fn(group(p.shard, (*tables[p.shard])[r]), p.shard, r);
    }
  };
  Grouped all;
  std::vector<uint32_t>& bounds = all.bounds;
  bounds.resize(groups + 1);
  each([&](size_t g, size_t, size_t) { ++bounds[g + 1]; });
  std::partial_sum(bounds.begin(), bounds.end(), bounds.begin());
  std::vector<uint32_t> at = bounds;
  all.places.resize(bounds.back());
  each([&](size_t g, size_t s, size_t r) { all.places[at[g]++] = Rows::place(s, r); });
  return all;
}

// By start, then `less`.
template <class Row, class Less>
void sort_group(const std::vector<const Blocks<Row>*>& tables, Grouped& grouped, size_t g, Less&& less) {
  const std::span<uint32_t> places =
      std::span(grouped.places).subspan(grouped.bounds[g], grouped.bounds[g + 1] - grouped.bounds[g]);
  std::vector<SortKey> keys;   // room for a while: a start by its place is a look-up in memory far apart
  keys.reserve(places.size());
  for (const uint32_t p : places)
    keys.push_back({ordered((*tables[Rows::shard_of(p)])[Rows::row_of(p)].start_ns), p});
  radix_sort(keys);
  sort_ties(keys, less);
  std::ranges::transform(keys, places.begin(), &SortKey::row);
}

// Names and arguments as people's programs wrote them: each distinct one is looked at once. Hardly any trace has a
// secret; one that has gets a pool without it.
void mask_secrets(Rows& rows, Trace& trace) {
  const StringPool& all = trace.strings;
  std::vector<size_t> found;
  for (size_t i = 0; i < all.size(); ++i)
    if (may_hold_secret(all[StringId(i)]) && masked_secrets(all[StringId(i)]) != all[StringId(i)]) found.push_back(i);
  if (found.empty()) return;
  StringPool clean;
  std::vector<StringId> ids(all.size());
  auto next = found.begin();
  for (size_t i = 0; i < all.size(); ++i) {
    const bool secret = next != found.end() && *next == i;
    next += secret;
    ids[i] = secret ? clean.intern(masked_secrets(all[StringId(i)])) : clean.intern(all[StringId(i)]);
  }
  for (std::vector<StringId>& map : rows.strings)
    for (StringId& id : map) id = ids[id.value];
  trace.strings = std::move(clean);
}

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
  mask_secrets(rows, trace);
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
      if (auto it = index.find(key); it != index.end()) trace.threads[it->second].name = masked_secrets(name);
  }
  for (Thread& t : trace.threads) t.process = masked_secrets(t.process), t.id = masked_secrets(t.id);
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

void map_collectives(Rows& rows, Trace& trace) {
  for (size_t s = 0; s < rows.shards.size(); ++s) {
    rows.collectives_base.push_back(static_cast<uint32_t>(trace.collectives.size()));
    for (Collective c : rows.shards[s].collectives) {
      for (StringId* id : {&c.name, &c.dtype, &c.group, &c.group_description, &c.ranks})
        *id = mapped(rows.strings[s], *id);
      trace.collectives.push_back(c);
    }
  }
}

// Tables that need no sorting by group: arguments, memory, flows and the small ones. Shards lose the large ones.
std::vector<FlowEnd> map_other_tables(Rows& rows, Trace& trace) {
  std::vector<FlowEnd> flows;
  for (size_t s = 0; s < rows.shards.size(); ++s) {
    Shard& shard = rows.shards[s];
    const auto& strings = rows.strings[s];
    const auto& threads = rows.threads[s];
    trace.op_args.reserve(trace.op_args.size() + shard.op_args.size());
    shard.op_args.drain([&](OpArgs a) {
      a.shapes = mapped(strings, a.shapes);
      a.types = mapped(strings, a.types);
      a.values = mapped(strings, a.values);
      a.strides = mapped(strings, a.strides);
      trace.op_args.push_back(a);
    });
    trace.memory.reserve(trace.memory.size() + shard.memory.size());
    shard.memory.drain([&](MemoryEvent m) {
      if (m.thread.valid()) m.thread = ThreadId(threads[m.thread.value]);
      trace.memory.push_back(m);
    });
    flows.reserve(flows.size() + shard.flows.size());
    shard.flows.drain([&](FlowEnd f) {
      f.thread = threads[f.thread];
      flows.push_back(f);
    });
    trace.activity_args.insert(trace.activity_args.end(), shard.activity_args_rows.begin(),
                               shard.activity_args_rows.end());
    for (SyncRow r : shard.syncs) r.name = mapped(strings, r.name), trace.syncs.push_back(r);
    for (CounterValue c : shard.counters) c.name = mapped(strings, c.name), trace.counters.push_back(c);
    for (ThreadSample t : shard.thread_samples) {
      t.thread = ThreadId(threads[t.thread.value]);
      trace.thread_samples.push_back(t);
    }
    for (ThreadWait w : shard.thread_waits) {
      w.thread = ThreadId(threads[w.thread.value]);
      trace.thread_waits.push_back(w);
    }
    trace.events += shard.events;
  }
  return flows;
}

// Where the host's own ranges are missing.
void take_device_ranges(const std::deque<Shard>& shards, Trace& trace) {
  if (std::ranges::count(trace.host.kind, HostKind::kAnnotation) > 0) return;
  for (const Shard& shard : shards) {
    std::vector<StringId> names;
    for (size_t i = 0; i < shard.device_range_names.size(); ++i)
      names.push_back(trace.strings.intern(masked_secrets(shard.device_range_names[StringId(i)])));
    for (size_t i = 0; i < shard.device_ranges.size(); ++i) {
      DeviceRange row = shard.device_ranges[i];
      row.name = names[row.name.value];
      trace.device_ranges.push_back(row);
    }
  }
  std::ranges::sort(trace.device_ranges, [&](const DeviceRange& a, const DeviceRange& b) {
    if (a.start_ns != b.start_ns) return a.start_ns < b.start_ns;
    if (a.duration_ns != b.duration_ns) return a.duration_ns > b.duration_ns;
    if (a.name != b.name) return trace.strings[a.name] < trace.strings[b.name];
    return std::tie(a.lane, a.id) < std::tie(b.lane, b.id);
  });
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
  radix_sort(trace.memory);
  sort_ties(std::span(trace.memory), OwnKey(), [](const MemoryEvent& a, const MemoryEvent& b) {
    return std::tie(a.device_type, a.device, a.bytes, a.address, a.total_allocated) <
           std::tie(b.device_type, b.device, b.bytes, b.address, b.total_allocated);
  });
  std::sort(trace.counters.begin(), trace.counters.end(), [&](const CounterValue& a, const CounterValue& b) {
    if (a.time_ns != b.time_ns) return a.time_ns < b.time_ns;
    if (a.name != b.name) return trace.strings[a.name] < trace.strings[b.name];
    return a.value < b.value;
  });
}

Grouped host_by_thread(const Rows& rows, Trace& trace) {
  Grouped host = grouped_rows(rows, rows.host_of, &Shard::Piece::host_begin, trace.threads.size(),
                              [&](size_t s, const HostRow& row) { return rows.threads[s][row.thread]; });
  for (size_t t = 0; t < trace.threads.size(); ++t) {
    trace.threads[t].begin = HostId(host.bounds[t]);
    trace.threads[t].end = HostId(host.bounds[t + 1]);
  }
  return host;
}

// Host rows of a thread by start, then longest first; ties by what is usually outside, then name, so that the order of
// the input does not matter.
void sort_thread(const Rows& rows, const Trace& trace, Grouped& host, size_t thread) {
  sort_group(rows.host_of, host, thread, [&](uint32_t a, uint32_t b) {
    const HostRow &x = rows.host(a), &y = rows.host(b);
    if (x.duration_ns != y.duration_ns) return x.duration_ns > y.duration_ns;
    if (x.kind != y.kind) return x.kind < y.kind;
    if (x.link != y.link) return x.link < y.link;
    return trace.strings[rows.strings[Rows::shard_of(a)][x.name.value]] <
           trace.strings[rows.strings[Rows::shard_of(b)][y.name.value]];
  });
}

template <class... Columns>
void reserve(size_t size, Columns&... columns) {
  (columns.reserve(size), ...);
}

// Open ranges that a longer one may overlap and leave open. Those of different clocks overlap by pairs, not by
// hundreds.
constexpr ptrdiff_t kMaxOverlapping = 64;

// The stack of a thread: a range's parent is the one that ends first of those before it that contain all of it.
// Ranges may overlap without one containing the other (two clocks): the stack is kept by end, earliest on top.
void nest(const Thread& thread, HostTable& h) {
  std::vector<HostId> stack;
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

// Threads by how many rows they have, most first, so that none of them is left for the end.
std::vector<size_t> by_rows(const Trace& trace) {
  std::vector<size_t> threads(trace.threads.size());
  std::iota(threads.begin(), threads.end(), size_t{0});
  std::stable_sort(threads.begin(), threads.end(), [&](size_t a, size_t b) {
    const Thread &x = trace.threads[a], &y = trace.threads[b];
    return x.end.value - x.begin.value > y.end.value - y.begin.value;
  });
  return threads;
}

// What belongs to a row, of pairs that ascend by row; null if nothing does.
template <class T>
const T* found(const std::vector<std::pair<size_t, T>>& of_rows, size_t row) {
  const auto it = std::lower_bound(of_rows.begin(), of_rows.end(), row,
                                   [](const auto& pair, size_t wanted) { return pair.first < wanted; });
  return it != of_rows.end() && it->first == row ? &it->second : nullptr;
}

// Host rows of which a shard's side tables say more.
void join_side_tables(const Rows& rows, const std::vector<uint32_t>& order, const std::vector<uint32_t>& more,
                      Trace& trace) {
  for (const uint32_t i : more) {
    const size_t s = Rows::shard_of(order[i]), row = Rows::row_of(order[i]);
    if (const uint32_t* call = found(rows.shards[s].host_collectives, row))
      trace.collectives[rows.collectives_base[s] + *call].host = HostId(i);
    if (const StringId* text = found(rows.shards[s].host_arguments, row))
      trace.range_arguments.push_back({HostId(i), mapped(rows.strings[s], *text)});
  }
}

void build_host(const Rows& rows, const std::vector<uint32_t>& order, Trace& trace, int threads) {
  for (Shard& shard : rows.shards) {
    for (const auto& [row, call] : shard.host_collectives) shard.host[row].more = true;
    for (const auto& [row, text] : shard.host_arguments) shard.host[row].more = true;
  }
  HostTable& h = trace.host;
  const auto times = [&] {
    reserve(order.size(), h.start_ns, h.duration_ns);
    for (const uint32_t p : order) {
      const HostRow& row = rows.host(p);
      h.start_ns.push_back(row.start_ns);
      h.duration_ns.push_back(row.duration_ns);
    }
  };
  std::vector<uint32_t> more;
  const auto others = [&] {
    reserve(order.size(), h.name, h.thread, h.kind, h.link, h.args);
    for (const uint32_t p : order) {
      const size_t s = Rows::shard_of(p);
      const HostRow& row = rows.host(p);
      if (row.more) more.push_back(static_cast<uint32_t>(h.name.size()));
      h.name.push_back(rows.strings[s][row.name.value]);
      h.thread.push_back(ThreadId(rows.threads[s][row.thread]));
      h.kind.push_back(row.kind);
      h.link.push_back(row.link);
      h.args.push_back(row.args == UINT32_MAX ? OpArgsId() : OpArgsId(rows.op_args_base[s] + row.args));
    }
  };
  side_by_side(threads, times, others);
  join_side_tables(rows, order, more, trace);
}

void build_activity(const Rows& rows, Trace& trace) {
  for (const Queue& queue : trace.queues)   // these are in order
    if (trace.device_rows.empty() || trace.device_rows.back().device != queue.device)
      trace.device_rows.push_back({queue.device});
  std::vector<uint32_t> device_of_queue(trace.queues.size());
  for (size_t q = 1; q < trace.queues.size(); ++q)
    device_of_queue[q] = device_of_queue[q - 1] + (trace.queues[q].device != trace.queues[q - 1].device);
  const auto device_of = [&](size_t s, const ActivityRow& row) { return device_of_queue[rows.queues[s][row.queue]]; };
  const auto queue_of = [&](uint32_t p) { return rows.queues[Rows::shard_of(p)][rows.activity(p).queue]; };
  const auto name_of = [&](uint32_t p) { return rows.strings[Rows::shard_of(p)][rows.activity(p).name.value]; };
  const auto less = [&](uint32_t a, uint32_t b) {
    const ActivityRow &x = rows.activity(a), &y = rows.activity(b);
    if (x.duration_ns != y.duration_ns) return x.duration_ns < y.duration_ns;
    if (queue_of(a) != queue_of(b)) return queue_of(a) < queue_of(b);
    if (x.correlation != y.correlation) return x.correlation < y.correlation;
    return trace.strings[name_of(a)] < trace.strings[name_of(b)];
  };
  Grouped by_device =
      grouped_rows(rows, rows.activity_of, &Shard::Piece::activity_begin, trace.device_rows.size(), device_of);
  for (size_t d = 0; d < trace.device_rows.size(); ++d) {
    sort_group(rows.activity_of, by_device, d, less);
    trace.device_rows[d].begin = ActivityId(by_device.bounds[d]);
    trace.device_rows[d].end = ActivityId(by_device.bounds[d + 1]);
  }
  const std::vector<uint32_t>& order = by_device.places;
  std::erase_if(trace.device_rows, [](const Trace::DeviceRows& d) { return d.begin == d.end; });
  ActivityTable& a = trace.activity;
  reserve(order.size(), a.start_ns, a.duration_ns, a.name, a.queue, a.kind, a.correlation, a.args);
  for (const uint32_t p : order) {
    const size_t s = Rows::shard_of(p);
    const ActivityRow& row = rows.activity(p);
    if (row.collective != UINT32_MAX)
      trace.collectives[rows.collectives_base[s] + row.collective].activity = ActivityId(a.start_ns.size());
    a.start_ns.push_back(row.start_ns);
    a.duration_ns.push_back(row.duration_ns);
    a.name.push_back(rows.strings[s][row.name.value]);
    a.queue.push_back(rows.queues[s][row.queue]);
    a.kind.push_back(row.kind);
    a.correlation.push_back(row.correlation);
    a.args.push_back(row.args == UINT32_MAX ? ActivityArgsId() : ActivityArgsId(rows.activity_args_base[s] + row.args));
  }
}

constexpr size_t kManyRows = 1 << 19;   // a shard's are 32 bytes each

// Freed memory stays resident otherwise, in pieces between what is still there. The next of many small traces takes it
// again.
void give_back_memory(size_t rows) {
#ifdef __GLIBC__
  if (rows >= kManyRows) ::malloc_trim(0);
#endif
}

}  // namespace

// In link.cc: joins launches to activity, forward to backward, and the two sides of a collective.
void link(Trace& trace, std::vector<FlowEnd> flows, int threads);
void take_launch_shapes(Trace& trace, std::vector<LaunchShape> shapes);

IssueCounts TraceBuilder::issue_counts() const {
  IssueCounts all;
  for (const Shard& shard : shards_)
    for (const auto& [kind, count] : shard.issues) all[kind] += count;
  return all;
}

int64_t TraceBuilder::unknown_ns() const {
  int64_t all = 0;
  for (const Shard& shard : shards_) all = shard.unknown_ns > INT64_MAX - all ? INT64_MAX : all + shard.unknown_ns;
  return all;
}

std::vector<std::pair<std::string, int64_t>> TraceBuilder::unknown_kinds() const {
  std::map<std::string, int64_t> all;
  for (const Shard& shard : shards_)
    for (const auto& [kind, count] : shard.unknown_kinds) all[kind] += count;
  std::vector<std::pair<std::string, int64_t>> most(all.begin(), all.end());
  std::ranges::stable_sort(most, std::greater(), &std::pair<std::string, int64_t>::second);
  return most;
}

Trace TraceBuilder::finish(int threads) {
  Rows rows(shards_);
  uint32_t op_args = 0, activity_args = 0;
  for (const Shard& shard : shards_) {
    rows.op_args_base.push_back(op_args);
    rows.activity_args_base.push_back(activity_args);
    op_args += static_cast<uint32_t>(shard.op_args.size());
    activity_args += static_cast<uint32_t>(shard.activity_args_rows.size());
  }
  map_strings(rows, trace_);
  map_threads(rows, trace_);
  map_queues(rows, trace_);
  map_collectives(rows, trace_);
  std::vector<FlowEnd> flows;
  Grouped host;
  const auto others = [&] {
    flows = map_other_tables(rows, trace_);
    sort_small_tables(trace_);
  };
  side_by_side(threads, [&] { host = host_by_thread(rows, trace_); }, others);
  const std::vector<size_t> all_threads = by_rows(trace_);
  Tasks tasks;
  for (const size_t t : all_threads) tasks.add([&, t] { sort_thread(rows, trace_, host, t); });
  tasks.add([&] {
    build_activity(rows, trace_);
    for (Shard& shard : shards_) shard.activity.clear();
  });
  tasks.run(threads);
  build_host(rows, host.places, trace_, threads);
  std::vector<LaunchShape> shapes;
  for (const Shard& shard : shards_)
    shapes.insert(shapes.end(), shard.launch_shapes.begin(), shard.launch_shapes.end());
  take_device_ranges(shards_, trace_);
  shards_.clear();   // before more columns are filled
  give_back_memory(host.places.size());
  host = {};
  trace_.host.parent.assign(trace_.host.size(), {});
  for (const size_t t : all_threads) tasks.add([&, t] { nest(trace_.threads[t], trace_.host); });
  tasks.run(threads);
  link(trace_, std::move(flows), threads);
  take_launch_shapes(trace_, std::move(shapes));
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
  if (added && next == threads.size()) threads.emplace_back(valid_utf8(process), valid_utf8(id));
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

uint32_t Shard::op_arguments(const OpArgs& args) {
  uint64_t hash = args.flops ^ uint64_t{args.forward_thread} << 40;
  for (const uint32_t v : {args.shapes.value, args.types.value, args.values.value, args.strides.value,
                           static_cast<uint32_t>(args.sequence)})
    hash = (hash ^ v) * 0xD6E8FEB86659FD93, hash ^= hash >> 29;
  uint32_t& latest = latest_op_args_[hash % latest_op_args_.size()];
  if (latest < op_args.size() && op_args[latest] == args) return latest;
  op_args.push_back(args);
  return latest = static_cast<uint32_t>(op_args.size() - 1);
}

void Shard::name_thread(std::string_view process, std::string_view id, std::string_view name) {
  thread_names[{valid_utf8(process), valid_utf8(id)}] = name;
}

void add_memory_totals(Trace& trace) {
  std::map<int32_t, int64_t> allocated;
  for (MemoryEvent& m : trace.memory) {
    if (m.device < 0) continue;
    int64_t& sum = allocated[m.device];
    if (__builtin_add_overflow(sum, m.bytes, &sum)) return;
    sum = std::max<int64_t>(sum, 0);
    m.total_allocated = sum;
  }
}

}  // namespace profgpu
