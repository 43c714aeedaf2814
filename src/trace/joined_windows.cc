#include <algorithm>
#include <map>

#include "trace/intervals.h"
#include "trace/memory_snapshot.h"
#include "trace/trace_builder.h"

namespace profgpu {
namespace {

constexpr uint32_t kLeftOut = UINT32_MAX;

/// The position of a window's rows in the joined trace. Called with an id or queue of the window, it gives the joined
/// trace's; other values stay as they are.
struct Place {
  std::vector<StringId> strings;
  std::vector<uint32_t> threads;
  std::vector<uint16_t> queues;
  std::vector<uint32_t> host_rows, activity_rows;   // new row of each old one, or kLeftOut
  uint32_t op_args = 0, activity_args = 0;          // number of rows before
  int64_t shift_ns = 0;                   // between the windows' base times
  Intervals given;                        // of a recording, on its own clock: covered by other windows instead

  StringId operator()(StringId id) const { return id.valid() ? strings[id.value] : id; }
  HostId operator()(HostId id) const { return id.valid() ? HostId(host_rows[id.value]) : id; }
  ActivityId operator()(ActivityId id) const { return id.valid() ? ActivityId(activity_rows[id.value]) : id; }
  ThreadId operator()(ThreadId id) const { return id.valid() ? ThreadId(threads[id.value]) : id; }
  OpArgsId operator()(OpArgsId id) const { return id.valid() ? OpArgsId(id.value + op_args) : id; }
  ActivityArgsId operator()(ActivityArgsId id) const {
    return id.valid() ? ActivityArgsId(id.value + activity_args) : id;
  }
  uint16_t operator()(uint16_t queue) const { return queues[queue]; }
  template <class T>
  T operator()(T value) const {
    return value;
  }
  /// When a range that begins at `start` must end.
  [[nodiscard]] int64_t limit(int64_t start) const {
    const size_t next = first_ending_after(given, start);
    return next == given.size() ? INT64_MAX : given[next].start;
  }
};

/// Rows of a window that begin within a time, on the window's own clock.
struct Piece {
  size_t window = 0;
  Interval within{INT64_MIN, INT64_MAX};

  /// Those of rows begin..end, which are in order of time.
  [[nodiscard]] std::pair<uint32_t, uint32_t> rows(const std::vector<int64_t>& starts, uint32_t begin,
                                                   uint32_t end) const {
    const auto from = std::lower_bound(starts.begin() + begin, starts.begin() + end, within.start);
    const auto to = std::lower_bound(from, starts.begin() + end, within.end);
    return {from - starts.begin(), to - starts.begin()};
  }
};

// A recording is complete except at the times of other windows, which take precedence.
void give_way(const std::vector<Trace>& windows, std::vector<Place>& places) {
  Intervals others;   // on the joined trace's clock
  for (size_t w = 0; w < windows.size(); ++w)
    for (const Interval& i : windows[w].windows)
      if (!windows[w].recorded)   // one without length too
        others.push_back({i.start + places[w].shift_ns, std::max(i.end, i.start + 1) + places[w].shift_ns});
  others = merged(std::move(others));
  for (size_t w = 0; w < windows.size(); ++w)
    for (const Interval& i : others)
      if (windows[w].recorded) places[w].given.push_back({i.start - places[w].shift_ns, i.end - places[w].shift_ns});
}

// In order of time.
std::vector<Piece> pieces_of(const std::vector<Trace>& windows, const std::vector<Place>& places) {
  std::vector<std::pair<int64_t, Piece>> from;   // on the joined trace's clock
  for (size_t w = 0; w < windows.size(); ++w) {
    const bool whole = windows[w].recorded || windows[w].windows.empty();
    from.emplace_back(whole ? INT64_MIN : windows[w].windows.front().start + places[w].shift_ns, Piece{w});
    for (const Interval& given : places[w].given) {
      from.back().second.within.end = given.start;
      from.emplace_back(given.end + places[w].shift_ns, Piece{w, {given.end, INT64_MAX}});
    }
  }
  std::stable_sort(from.begin(), from.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<Piece> pieces;
  for (const auto& [time, piece] : from) pieces.push_back(piece);
  return pieces;
}

// The rest of a range is a shorter range; the rest of a step would be a wrong measurement.
bool is_cut_step(const Trace& w, const Place& place, uint32_t row) {
  const Interval step = w.host.interval(HostId(row));
  return place.limit(step.start) < step.end && w.name(HostId(row)).starts_with("ProfilerStep#");
}

void place_threads(const std::vector<Trace>& windows, const std::vector<Piece>& pieces, std::vector<Place>& places,
                   Trace& joined) {
  std::map<std::pair<std::string, std::string>, uint32_t> index;
  std::vector<std::vector<std::pair<size_t, size_t>>> same;   // by thread of the joined trace: window, its thread
  for (size_t w = 0; w < windows.size(); ++w) {
    for (size_t i = 0; i < windows[w].threads.size(); ++i) {
      const Thread& t = windows[w].threads[i];
      const auto [it, added] = index.try_emplace({t.process, t.id}, static_cast<uint32_t>(joined.threads.size()));
      if (added) joined.threads.push_back({t.process, t.id, t.name, {}, {}}), same.emplace_back();
      if (joined.threads[it->second].name.empty()) joined.threads[it->second].name = t.name;
      places[w].threads.push_back(it->second);
      same[it->second].emplace_back(w, i);
    }
    places[w].host_rows.assign(windows[w].host.size(), kLeftOut);
  }
  uint32_t row = 0;
  for (uint32_t t = 0; t < joined.threads.size(); ++t) {
    joined.threads[t].begin = HostId(row);
    for (const Piece& piece : pieces)
      for (const auto& [w, i] : same[t]) {
        if (w != piece.window) continue;
        const Thread& thread = windows[w].threads[i];
        const auto [begin, end] = piece.rows(windows[w].host.start_ns, thread.begin.value, thread.end.value);
        for (uint32_t h = begin; h < end; ++h)
          if (!is_cut_step(windows[w], places[w], h)) places[w].host_rows[h] = row++;
      }
    joined.threads[t].end = HostId(row);
  }
  HostTable& h = joined.host;
  h.start_ns.resize(row), h.duration_ns.resize(row), h.name.resize(row), h.thread.resize(row);
  h.kind.resize(row), h.parent.resize(row), h.link.resize(row), h.args.resize(row);
}

void place_activity(const std::vector<Trace>& windows, const std::vector<Piece>& pieces, std::vector<Place>& places,
                    Trace& joined) {
  std::vector<int32_t> devices;
  for (size_t w = 0; w < windows.size(); ++w) {
    joined.queues.insert(joined.queues.end(), windows[w].queues.begin(), windows[w].queues.end());
    for (const Trace::DeviceRows& rows : windows[w].device_rows) devices.push_back(rows.device);
    places[w].activity_rows.assign(windows[w].activity.size(), kLeftOut);
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
    for (const Piece& piece : pieces)
      for (const Trace::DeviceRows& rows : windows[piece.window].device_rows) {
        if (rows.device != device) continue;
        const auto [begin, end] = piece.rows(windows[piece.window].activity.start_ns, rows.begin.value, rows.end.value);
        for (uint32_t a = begin; a < end; ++a) places[piece.window].activity_rows[a] = row++;
      }
    range.end = ActivityId(row);
  }
  ActivityTable& a = joined.activity;
  a.start_ns.resize(row), a.duration_ns.resize(row), a.name.resize(row), a.queue.resize(row), a.kind.resize(row);
  a.launch.resize(row), a.args.resize(row), a.correlation.resize(row);
}

template <class T>
void move_column(std::vector<T>& to, const std::vector<T>& from, const std::vector<uint32_t>& rows,
                 const Place& place) {
  for (size_t i = 0; i < from.size(); ++i)
    if (rows[i] != kLeftOut) to[rows[i]] = place(from[i]);
}

// The innermost range around `row` that is kept and reaches as far.
HostId parent_of(const Trace& w, const Place& place, uint32_t row) {
  const int64_t start = w.host.start_ns[row];
  HostId at = w.host.parent[row];
  while (at.valid() && (!place(at).valid() || place.limit(w.host.start_ns[at.value]) <= start))
    at = w.host.parent[at.value];
  return place(at);
}

void move_host(const Trace& w, const Place& place, HostTable& h) {
  const auto& rows = place.host_rows;
  for (uint32_t i = 0; i < rows.size(); ++i) {
    if (rows[i] == kLeftOut) continue;
    const int64_t start = w.host.start_ns[i];
    h.start_ns[rows[i]] = start + place.shift_ns;
    h.duration_ns[rows[i]] = std::min(w.host.end_ns(HostId(i)), place.limit(start)) - start;
    h.parent[rows[i]] = parent_of(w, place, i);
  }
  move_column(h.name, w.host.name, rows, place);
  move_column(h.thread, w.host.thread, rows, place);
  move_column(h.kind, w.host.kind, rows, place);
  move_column(h.link, w.host.link, rows, place);
  move_column(h.args, w.host.args, rows, place);
}

void move_activity(const Trace& w, const Place& place, ActivityTable& a) {
  const auto& rows = place.activity_rows;
  for (uint32_t i = 0; i < rows.size(); ++i)
    if (rows[i] != kLeftOut) a.start_ns[rows[i]] = w.activity.start_ns[i] + place.shift_ns;
  move_column(a.duration_ns, w.activity.duration_ns, rows, place);
  move_column(a.name, w.activity.name, rows, place);
  move_column(a.queue, w.activity.queue, rows, place);
  move_column(a.kind, w.activity.kind, rows, place);
  move_column(a.launch, w.activity.launch, rows, place);
  move_column(a.args, w.activity.args, rows, place);
  move_column(a.correlation, w.activity.correlation, rows, place);
}

// Appends rows with their ids and times moved.
template <class Row, class... Ids>
void move_rows(const std::vector<Row>& from, std::vector<Row>& to, const Place& place, int64_t Row::*time, Ids... ids) {
  for (Row row : from) {
    row.*time += place.shift_ns;
    ((row.*ids = place(row.*ids)), ...);
    to.push_back(std::move(row));
  }
}

void move_small_tables(const Trace& w, const Place& place, Trace& joined) {
  for (OpArgs a : w.op_args) {
    a.shapes = place(a.shapes);
    a.types = place(a.types);
    a.values = place(a.values);
    a.strides = place(a.strides);
    joined.op_args.push_back(a);
  }
  joined.activity_args.insert(joined.activity_args.end(), w.activity_args.begin(), w.activity_args.end());
  for (SyncRow s : w.syncs) {
    if (contains(place.given, s.start_ns)) continue;
    s.name = place(s.name);
    s.start_ns += place.shift_ns;
    joined.syncs.push_back(s);
  }
  for (DeviceRange r : w.device_ranges) {
    if (contains(place.given, r.start_ns)) continue;
    r.name = place(r.name);
    r.start_ns += place.shift_ns;
    joined.device_ranges.push_back(r);
  }
  for (Collective c : w.collectives) {
    const bool was_there = c.host.valid() || c.activity.valid();
    c.host = place(c.host);
    c.activity = place(c.activity);
    if (was_there && !c.host.valid() && !c.activity.valid()) continue;
    for (StringId* id : {&c.name, &c.dtype, &c.group, &c.group_description, &c.ranks}) *id = place(*id);
    joined.collectives.push_back(c);
  }
  for (const RangeArguments& a : w.range_arguments)
    if (place(a.host).valid()) joined.range_arguments.push_back({place(a.host), place(a.text)});
  move_rows(w.memory, joined.memory, place, &MemoryEvent::time_ns, &MemoryEvent::thread);
  move_rows(w.counters, joined.counters, place, &CounterValue::time_ns, &CounterValue::name);
  move_rows(w.thread_samples, joined.thread_samples, place, &ThreadSample::time_ns, &ThreadSample::thread);
  move_rows(w.thread_waits, joined.thread_waits, place, &ThreadWait::start_ns, &ThreadWait::thread);
  for (const BackwardLink& b : w.backward_links)
    joined.backward_links.push_back({place(b.forward), place(b.backward)});
  for (const CapturedCall& c : w.captured_calls)
    if (place(c.activity).valid() && place(c.call).valid())
      joined.captured_calls.push_back({place(c.activity), place(c.call)});
  for (const Interval& i : place.given.empty() ? w.windows : subtract(w.windows, place.given))
    joined.windows.push_back({i.start + place.shift_ns, i.end + place.shift_ns});
  for (LogStep s : w.log_steps) {
    s.start_ns += place.shift_ns;
    joined.log_steps.push_back(std::move(s));
  }
  if (!joined.log) joined.log = w.log;
  if (!joined.kernel_profile) joined.kernel_profile = w.kernel_profile;
  joined.cut_off |= w.cut_off;
  joined.hardware_counters |= w.hardware_counters;
  joined.unread_pct = std::max(joined.unread_pct, w.unread_pct);
  joined.events += w.events;
  joined.issues.insert(joined.issues.end(), w.issues.begin(), w.issues.end());
}

// The facts of the whole trace: from a recording where there is one, and what it lacks from the others.
void describe(const std::vector<Trace>& windows, Trace& joined) {
  const auto recording = std::find_if(windows.begin(), windows.end(), [](const Trace& w) { return w.recorded; });
  const Trace& first = recording != windows.end() ? *recording : windows.front();
  joined.host_name = first.host_name;
  joined.clock = first.clock;
  joined.metadata = first.metadata;
  joined.base_time_ns = first.base_time_ns;
  joined.recorded = first.recorded;
  joined.recorder = first.recorder;
  joined.distributed = first.distributed;
  joined.devices = first.devices;
  for (const Trace& w : windows) {
    if (!joined.distributed.world_size) joined.distributed.world_size = w.distributed.world_size;
    if (joined.distributed.backend.empty()) joined.distributed.backend = w.distributed.backend;
    for (const DeviceProperties& d : w.devices)
      if (std::none_of(joined.devices.begin(), joined.devices.end(),
                       [&](const auto& known) { return known.id == d.id; }))
        joined.devices.push_back(d);
  }
}

// Restores the order of rows that come from several windows.
void sort_joined_tables(Trace& joined) {
  const auto by_thread = [](const auto& x, const auto& y) { return x.thread < y.thread; };
  std::stable_sort(joined.thread_samples.begin(), joined.thread_samples.end(), by_thread);
  std::stable_sort(joined.thread_waits.begin(), joined.thread_waits.end(), by_thread);
  std::sort(joined.range_arguments.begin(), joined.range_arguments.end(),
            [](const RangeArguments& x, const RangeArguments& y) { return x.host < y.host; });
  std::sort(joined.captured_calls.begin(), joined.captured_calls.end(),
            [](const CapturedCall& x, const CapturedCall& y) { return x.activity < y.activity; });
  const auto time = [&](const Collective& c) {
    return c.activity.valid() ? joined.activity.start_ns[c.activity.value]
           : c.host.valid()   ? joined.host.start_ns[c.host.value]
                              : INT64_MAX;
  };
  std::stable_sort(joined.collectives.begin(), joined.collectives.end(),
                   [&](const Collective& x, const Collective& y) { return time(x) < time(y); });
  std::stable_sort(joined.syncs.begin(), joined.syncs.end(),
                   [](const SyncRow& x, const SyncRow& y) { return x.start_ns < y.start_ns; });
  std::ranges::stable_sort(joined.device_ranges, {}, &DeviceRange::start_ns);
  std::sort(joined.windows.begin(), joined.windows.end());
}

using Snapshots = std::vector<std::shared_ptr<const MemorySnapshot>>;

// Snapshots of memory are windows of nothing: they go out, but for one where there is nothing else.
Snapshots taken_snapshots(std::vector<Trace>& windows) {
  Snapshots all;
  for (Trace& w : windows) all.insert(all.end(), w.snapshots.begin(), w.snapshots.end());
  std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a->last_us < b->last_us; });
  const auto first =
      std::stable_partition(windows.begin(), windows.end(), [](const Trace& w) { return !w.only_snapshots(); });
  Interval time{INT64_MAX, INT64_MIN};
  int64_t events = 0;
  for (auto w = first; w != windows.end(); ++w) {
    time = {std::min(time.start, w->windows.front().start), std::max(time.end, w->windows.front().end)};
    events += w->events;
  }
  if (first != windows.begin()) {
    windows.erase(first, windows.end());
  } else {
    windows.erase(windows.begin() + 1, windows.end());
    windows.front().windows = {time};
    windows.front().events = events;
  }
  return all;
}

Trace joined_traces(std::vector<Trace> windows) {
  if (windows.size() == 1) return std::move(windows.front());
  Trace joined;
  describe(windows, joined);
  std::vector<Place> places(windows.size());
  for (size_t w = 0; w < windows.size(); ++w) {
    places[w].strings = joined.strings.absorb(windows[w].strings);
    places[w].shift_ns = windows[w].base_time_ns - joined.base_time_ns;
  }
  give_way(windows, places);
  const std::vector<Piece> pieces = pieces_of(windows, places);
  place_threads(windows, pieces, places, joined);
  place_activity(windows, pieces, places, joined);
  // PyTorch's allocator takes from CUDA's: their totals are not of one kind.
  const bool of_allocator = std::any_of(windows.begin(), windows.end(),
                                        [](const Trace& w) { return !w.recorded && !w.memory.empty(); });
  for (size_t w = 0; w < windows.size(); ++w) {
    places[w].op_args = static_cast<uint32_t>(joined.op_args.size());
    places[w].activity_args = static_cast<uint32_t>(joined.activity_args.size());
    if (of_allocator && windows[w].recorded) windows[w].memory.clear();
    move_host(windows[w], places[w], joined.host);
    move_activity(windows[w], places[w], joined.activity);
    move_small_tables(windows[w], places[w], joined);
    windows[w] = Trace();
  }
  index_launches(joined);
  sort_joined_tables(joined);
  return joined;
}

}  // namespace

Trace joined_windows(std::vector<Trace> windows) {
  if (windows.size() == 1) return std::move(windows.front());
  Snapshots snapshots = taken_snapshots(windows);
  Trace joined = joined_traces(std::move(windows));
  joined.snapshots = std::move(snapshots);
  return joined;
}

}  // namespace profgpu
