#include <algorithm>
#include <map>

#include "trace/trace_builder.h"

namespace profgpu {
namespace {

/// Where the rows of one window stand in the joined trace.
struct Place {
  std::vector<StringId> strings;
  std::vector<uint32_t> threads;          // index in the joined trace
  std::vector<uint16_t> queues;
  std::vector<uint32_t> host_rows, activity_rows;   // new row of each old one
  uint32_t op_args = 0, activity_args = 0;
  int64_t shift_ns = 0;                   // between the windows' base times

  [[nodiscard]] StringId string(StringId id) const { return id.valid() ? strings[id.value] : id; }
  [[nodiscard]] HostId host(HostId id) const { return id.valid() ? HostId(host_rows[id.value]) : id; }
  [[nodiscard]] ActivityId activity(ActivityId id) const { return id.valid() ? ActivityId(activity_rows[id.value]) : id; }
};

void place_threads(const std::vector<Trace>& windows, std::vector<Place>& places, Trace& joined) {
  std::map<std::pair<std::string, std::string>, uint32_t> index;
  for (size_t w = 0; w < windows.size(); ++w) {
    for (const Thread& t : windows[w].threads) {
      const auto [it, added] = index.try_emplace({t.process, t.id}, static_cast<uint32_t>(joined.threads.size()));
      if (added) joined.threads.push_back({t.process, t.id, t.name, {}, {}});
      places[w].threads.push_back(it->second);
    }
    places[w].host_rows.resize(windows[w].host.size());
  }
  uint32_t row = 0;
  for (uint32_t t = 0; t < joined.threads.size(); ++t) {
    joined.threads[t].begin = HostId(row);
    for (size_t w = 0; w < windows.size(); ++w)
      for (size_t i = 0; i < windows[w].threads.size(); ++i)
        if (places[w].threads[i] == t)
          for (uint32_t h = windows[w].threads[i].begin.value; h < windows[w].threads[i].end.value; ++h)
            places[w].host_rows[h] = row++;
    joined.threads[t].end = HostId(row);
  }
}

void place_activity(const std::vector<Trace>& windows, std::vector<Place>& places, Trace& joined) {
  std::vector<int32_t> devices;
  for (size_t w = 0; w < windows.size(); ++w) {
    joined.queues.insert(joined.queues.end(), windows[w].queues.begin(), windows[w].queues.end());
    for (const Trace::DeviceRows& rows : windows[w].device_rows) devices.push_back(rows.device);
    places[w].activity_rows.resize(windows[w].activity.size());
  }
  std::sort(joined.queues.begin(), joined.queues.end());
  joined.queues.erase(std::unique(joined.queues.begin(), joined.queues.end()), joined.queues.end());
  for (size_t w = 0; w < windows.size(); ++w)
    for (const Queue& q : windows[w].queues)
      places[w].queues.push_back(static_cast<uint16_t>(
          std::lower_bound(joined.queues.begin(), joined.queues.end(), q) - joined.queues.begin()));
  std::sort(devices.begin(), devices.end());
  devices.erase(std::unique(devices.begin(), devices.end()), devices.end());
  uint32_t row = 0;
  for (const int32_t device : devices) {
    Trace::DeviceRows& range = joined.device_rows.emplace_back();
    range.device = device;
    range.begin = ActivityId(row);
    for (size_t w = 0; w < windows.size(); ++w)
      for (const Trace::DeviceRows& rows : windows[w].device_rows)
        if (rows.device == device)
          for (uint32_t a = rows.begin.value; a < rows.end.value; ++a) places[w].activity_rows[a] = row++;
    range.end = ActivityId(row);
  }
}

template <class T, class Map>
void move_column(std::vector<T>& to, const std::vector<T>& from, const std::vector<uint32_t>& rows, Map&& map) {
  for (size_t i = 0; i < from.size(); ++i) to[rows[i]] = map(from[i]);
}

void move_host(const Trace& w, const Place& place, HostTable& h) {
  const auto same = [](auto v) { return v; };
  const auto& rows = place.host_rows;
  move_column(h.start_ns, w.host.start_ns, rows, [&](int64_t t) { return t + place.shift_ns; });
  move_column(h.duration_ns, w.host.duration_ns, rows, same);
  move_column(h.name, w.host.name, rows, [&](StringId id) { return place.string(id); });
  move_column(h.thread, w.host.thread, rows, [&](ThreadId t) { return ThreadId(place.threads[t.value]); });
  move_column(h.kind, w.host.kind, rows, same);
  move_column(h.parent, w.host.parent, rows, [&](HostId p) { return place.host(p); });
  move_column(h.link, w.host.link, rows, same);
  move_column(h.args, w.host.args, rows,
              [&](OpArgsId a) { return a.valid() ? OpArgsId(a.value + place.op_args) : a; });
}

void move_activity(const Trace& w, const Place& place, ActivityTable& a) {
  const auto same = [](auto v) { return v; };
  const auto& rows = place.activity_rows;
  move_column(a.start_ns, w.activity.start_ns, rows, [&](int64_t t) { return t + place.shift_ns; });
  move_column(a.duration_ns, w.activity.duration_ns, rows, same);
  move_column(a.name, w.activity.name, rows, [&](StringId id) { return place.string(id); });
  move_column(a.queue, w.activity.queue, rows, [&](uint16_t q) { return place.queues[q]; });
  move_column(a.kind, w.activity.kind, rows, same);
  move_column(a.launch, w.activity.launch, rows, [&](HostId h) { return place.host(h); });
  move_column(a.args, w.activity.args, rows,
              [&](ActivityArgsId id) { return id.valid() ? ActivityArgsId(id.value + place.activity_args) : id; });
  move_column(a.correlation, w.activity.correlation, rows, same);
}

void move_small_tables(const Trace& w, const Place& place, Trace& joined) {
  for (OpArgs a : w.op_args) {
    a.shapes = place.string(a.shapes);
    a.types = place.string(a.types);
    joined.op_args.push_back(a);
  }
  joined.activity_args.insert(joined.activity_args.end(), w.activity_args.begin(), w.activity_args.end());
  for (SyncRow s : w.syncs) {
    s.name = place.string(s.name);
    s.start_ns += place.shift_ns;
    joined.syncs.push_back(s);
  }
  for (Collective c : w.collectives) {
    for (StringId* id : {&c.name, &c.dtype, &c.group, &c.group_description, &c.ranks}) *id = place.string(*id);
    c.host = place.host(c.host);
    c.activity = place.activity(c.activity);
    joined.collectives.push_back(c);
  }
  for (const RangeArguments& a : w.range_arguments)
    joined.range_arguments.push_back({place.host(a.host), place.string(a.text)});
  for (MemoryEvent m : w.memory) {
    m.time_ns += place.shift_ns;
    if (m.thread.valid()) m.thread = ThreadId(place.threads[m.thread.value]);
    joined.memory.push_back(m);
  }
  for (CounterValue c : w.counters) {
    c.name = place.string(c.name);
    c.time_ns += place.shift_ns;
    joined.counters.push_back(c);
  }
  for (ThreadSample t : w.thread_samples) {
    t.time_ns += place.shift_ns;
    t.thread = ThreadId(place.threads[t.thread.value]);
    joined.thread_samples.push_back(t);
  }
  for (ThreadWait t : w.thread_waits) {
    t.start_ns += place.shift_ns;
    t.thread = ThreadId(place.threads[t.thread.value]);
    joined.thread_waits.push_back(t);
  }
  for (const BackwardLink& b : w.backward_links)
    joined.backward_links.push_back({place.host(b.forward), place.host(b.backward)});
  for (const Interval& i : w.windows) joined.windows.push_back({i.start + place.shift_ns, i.end + place.shift_ns});
  joined.events += w.events;
  joined.issues.insert(joined.issues.end(), w.issues.begin(), w.issues.end());
}

// Calls in ascending order again, each with its activities.
void rebuild_launches(Trace& joined) {
  std::vector<std::pair<HostId, ActivityId>> pairs;
  for (uint32_t i = 0; i < joined.activity.size(); ++i)
    if (joined.activity.launch[i].valid()) pairs.emplace_back(joined.activity.launch[i], ActivityId(i));
  std::sort(pairs.begin(), pairs.end(), [&](const auto& x, const auto& y) {
    if (x.first != y.first) return x.first < y.first;
    const int64_t a = joined.activity.start_ns[x.second.value], b = joined.activity.start_ns[y.second.value];
    return a != b ? a < b : x.second < y.second;
  });
  for (const auto& [call, activity] : pairs) {
    if (joined.launching.empty() || joined.launching.back() != call) {
      joined.launching.push_back(call);
      joined.launched_first.push_back(static_cast<uint32_t>(joined.launched.size()));
    }
    joined.launched.push_back(activity);
  }
  joined.launched_first.push_back(static_cast<uint32_t>(joined.launched.size()));
}

}  // namespace

Trace joined_windows(std::vector<Trace> windows) {
  if (windows.size() == 1) return std::move(windows.front());
  Trace joined;
  const Trace& first = windows.front();
  joined.devices = first.devices;
  joined.distributed = first.distributed;
  joined.host_name = first.host_name;
  joined.clock = first.clock;
  joined.metadata = first.metadata;
  joined.base_time_ns = first.base_time_ns;
  joined.recorded = first.recorded;
  std::vector<Place> places(windows.size());
  size_t hosts = 0, activities = 0;
  for (size_t w = 0; w < windows.size(); ++w) {
    places[w].strings = joined.strings.absorb(windows[w].strings);
    places[w].shift_ns = windows[w].base_time_ns - first.base_time_ns;
    hosts += windows[w].host.size();
    activities += windows[w].activity.size();
  }
  place_threads(windows, places, joined);
  place_activity(windows, places, joined);
  HostTable& h = joined.host;
  h.start_ns.resize(hosts), h.duration_ns.resize(hosts), h.name.resize(hosts), h.thread.resize(hosts);
  h.kind.resize(hosts), h.parent.resize(hosts), h.link.resize(hosts), h.args.resize(hosts);
  ActivityTable& a = joined.activity;
  a.start_ns.resize(activities), a.duration_ns.resize(activities), a.name.resize(activities);
  a.queue.resize(activities), a.kind.resize(activities), a.launch.resize(activities), a.args.resize(activities);
  a.correlation.resize(activities);
  for (size_t w = 0; w < windows.size(); ++w) {
    places[w].op_args = static_cast<uint32_t>(joined.op_args.size());
    places[w].activity_args = static_cast<uint32_t>(joined.activity_args.size());
    move_host(windows[w], places[w], h);
    move_activity(windows[w], places[w], a);
    move_small_tables(windows[w], places[w], joined);
    windows[w] = Trace();
  }
  rebuild_launches(joined);
  std::stable_sort(joined.thread_samples.begin(), joined.thread_samples.end(),
                   [](const ThreadSample& x, const ThreadSample& y) { return x.thread < y.thread; });
  std::stable_sort(joined.thread_waits.begin(), joined.thread_waits.end(),
                   [](const ThreadWait& x, const ThreadWait& y) { return x.thread < y.thread; });
  std::sort(joined.range_arguments.begin(), joined.range_arguments.end(),
            [](const RangeArguments& x, const RangeArguments& y) { return x.host < y.host; });
  return joined;
}

}  // namespace profgpu
