#include "analyse/rank/timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>
#include <unordered_map>

#include "analyse/rank/collectives.h"
#include "analyse/rank/devices.h"
#include "analyse/rank/idle.h"
#include "analyse/rank/memory.h"
#include "analyse/rank/phases.h"
#include "analyse/rank/steps.h"
#include "analyse/rank/threads.h"
#include "analyse/report/quantity.h"
#include "base/text.h"

namespace profgpu {

std::vector<std::string> page_category_names() {
  std::vector<std::string> names;
  for (uint8_t c = 0; c < PageCategory::kMemcpy; ++c)
    names.emplace_back(kernel_category_name(static_cast<KernelCategory>(c)));
  // HostKind's order.
  for (const char* name :
       {"memcpy", "memset", "annotation", "op", "python", "runtime", "driver", "overhead", "library", "system"})
    names.emplace_back(name);
  for (uint8_t p = 0; p < kPhases; ++p) {
    const std::string_view name = phase_name(static_cast<Phase>(p));
    names.emplace_back(name == "other" ? "other_phase" : name);
  }
  for (uint8_t c = 0; c < kIdleCauses; ++c)
    names.push_back("idle:" + std::string(idle_cause_name(static_cast<IdleCause>(c))));
  for (const char* name : {"step", "warmup", "sync", "collective", "wait", "blocked", "own_phase"})
    names.emplace_back(name);
  return names;
}

uint8_t activity_category(const Facts& facts, ActivityId activity) {
  const ActivityTable& all = facts.trace().activity;
  switch (all.kind[activity.value]) {
    case ActivityKind::kKernel:
      return static_cast<uint8_t>(facts.get<Kernels>().category[all.name[activity.value].value]);
    case ActivityKind::kMemcpy: return PageCategory::kMemcpy;
    default: return PageCategory::kMemset;
  }
}

namespace {

constexpr uint32_t kUnknown = UINT32_MAX;

bool has_content(std::string_view text) { return !text.empty() && text != "[]" && text != "\"\""; }

std::string bytes_text(int64_t bytes) {
  const std::string count = format_count(bytes) + " B";
  return bytes < 1024 ? count : format_bytes(static_cast<double>(bytes)) + " (" + count + ")";
}

std::string extent(const int32_t (&x)[3]) {
  return fmt::format("{} × {} × {}", format_count(x[0]), format_count(x[1]), format_count(x[2]));
}

/// Arguments of events, as keys and texts; events with the same arguments share an entry of the page.
class TimelineArgs {
 public:
  TimelineArgs(const Trace& trace, PageData& page)
      : trace_(trace), page_(page), of_activity_(trace.activity_args.size(), kUnknown),
        of_op_(trace.op_args.size(), kUnknown) {
    if (page_.args.empty()) page_.args.emplace_back();
  }

  uint32_t of(ActivityArgsId id) {
    if (!id.valid()) return 0;
    uint32_t& known = of_activity_[id.value];
    if (known != kUnknown) return known;
    const ActivityArgs& a = trace_.activity_args[id.value];
    PageArgs args;
    if (a.grid[0] > 0) args.emplace_back("grid", extent(a.grid));
    if (a.block[0] > 0) args.emplace_back("block", extent(a.block));
    if (a.registers > 0) args.emplace_back("registers a thread", std::to_string(a.registers));
    if (a.shared_bytes > 0) args.emplace_back("shared memory", bytes_text(a.shared_bytes));
    if (a.bytes >= 0) args.emplace_back("size", bytes_text(a.bytes));
    if (a.graph != 0) args.emplace_back("graph", std::to_string(a.graph));
    return known = add(std::move(args));
  }

  uint32_t of(HostId row) {
    const StringId text = trace_.arguments(row);
    return text.valid() ? add({{"arguments", cut(text)}}) : of(trace_.host.args[row.value]);
  }

  uint32_t of(const Collective& call) {
    PageArgs args;
    add_text(args, "type", call.dtype);
    if (call.in_elements >= 0) args.emplace_back("elements in", format_count(call.in_elements));
    if (call.out_elements >= 0) args.emplace_back("elements out", format_count(call.out_elements));
    add_text(args, "process group", call.group_description.valid() ? call.group_description : call.group);
    if (call.group_size > 0) args.emplace_back("group size", std::to_string(call.group_size));
    add_text(args, "ranks", call.ranks);
    return add(std::move(args));
  }

 private:
  static constexpr size_t kMost = 50'000;      // with more sets, arguments would be most of the page
  static constexpr size_t kLongestText = 500;  // bytes

  // Without the autograd sequence number, which no two calls share.
  uint32_t of(OpArgsId id) {
    if (!id.valid()) return 0;
    uint32_t& known = of_op_[id.value];
    if (known != kUnknown) return known;
    const OpArgs& a = trace_.op_args[id.value];
    PageArgs args;
    add_list(args, "shapes", a.shapes);
    add_list(args, "types", a.types);
    if (a.flops > 0) args.emplace_back("floating-point operations", format_count(static_cast<int64_t>(a.flops)));
    return known = add(std::move(args));
  }

  [[nodiscard]] std::string cut(StringId text) const { return shortened(trace_.strings[text], kLongestText); }
  void add_text(PageArgs& args, const char* key, StringId text) const {
    if (has_content(trace_.strings[text])) args.emplace_back(key, cut(text));
  }

  // Some files are laid out for people, with a line for each element.
  void add_list(PageArgs& args, const char* key, StringId text) const {
    const std::string list = list_on_one_line(trace_.strings[text]);
    if (has_content(list)) args.emplace_back(key, shortened(list, kLongestText));
  }

  uint32_t add(PageArgs args) {
    if (args.empty()) return 0;
    std::string key;
    for (const auto& [name, text] : args) key.append(name).append("\0", 1).append(text).append("\0", 1);
    const auto it = known_.find(key);
    if (it != known_.end()) return it->second;
    if (page_.args.size() >= kMost) return 0;
    const auto index = static_cast<uint32_t>(page_.args.size());
    page_.args.push_back(std::move(args));
    known_.emplace(std::move(key), index);
    return index;
  }

  const Trace& trace_;
  PageData& page_;
  std::vector<uint32_t> of_activity_, of_op_;   // entries of the page, or kUnknown
  std::unordered_map<std::string, uint32_t> known_;
};

}  // namespace

std::string thread_title(const Thread& thread) {
  if (thread.name.empty()) return "thread " + thread.id;
  if (thread.name.find(thread.id) != std::string::npos) return thread.name;   // Kineto: "thread 4037 (python)"
  return fmt::format("thread {} ({})", thread.id, thread.name);
}

namespace {

class Timeline {
 public:
  Timeline(const PlacedRank& rank, const TimelinePlan& plan, const DeviceClocks& clocks, PageData& page)
      : rank_(rank), facts_(*rank.facts), trace_(facts_.trace()), plan_(plan), clocks_(clocks), page_(page),
        args_(trace_, page), page_name_(trace_.strings.size(), kUnknown), host_number_(trace_.host.size()) {}

  void add() {
    const size_t first_track = page_.tracks.size();
    add_steps();
    add_phases();
    for (size_t d = 0; d < facts_.get<Devices>().devices.size(); ++d) add_device(d);
    add_threads();
    add_links(first_track);
    add_counters();
  }

 private:
  [[nodiscard]] PageTrack track(std::string group, std::string title, std::string_view kind) const {
    PageTrack t;
    t.rank = rank_.rank;
    t.group = std::move(group);
    t.title = std::move(title);
    t.kind = kind;
    return t;
  }
  [[nodiscard]] TrackWriter::Event event(Interval time, uint8_t category) const {
    return {time.start + rank_.shift_ns, time.end + rank_.shift_ns, category};
  }
  uint32_t name(StringId id) {
    if (!id.valid()) return page_.strings.of({});
    uint32_t& known = page_name_[id.value];
    if (known == kUnknown) known = page_.strings.of(trace_.strings[id]);
    return known;
  }
  /// A track whose events have just a name. `event_of` and `name_of`: of a row.
  template <class Rows, class EventOf, class NameOf>
  void write(PageTrack track, bool nested, const Rows& rows, EventOf event_of, NameOf name_of) {
    TrackWriter writer(page_, plan_.scale, std::move(track), nested);
    for (const auto& row : rows)
      if (writer.add(event_of(row))) writer.track().name.push_back(name_of(row));
    writer.finish();
  }

  void add_steps();
  void add_phases();
  void add_device(size_t index);
  void add_idle(const DeviceIdle& idle, const std::string& group);
  void add_streams(const DeviceTime& device, const std::string& group);
  void add_collectives(const DeviceTime& device, const std::string& group);
  void add_syncs(int32_t device, const std::string& group);
  void add_memory(int32_t device, const std::string& group);
  void add_counter(PageTrack t);
  void add_threads();
  void add_thread(size_t index);
  void add_blocked(size_t index);
  void add_counters();
  void add_links(size_t first_track);

  const PlacedRank& rank_;
  const Facts& facts_;
  const Trace& trace_;
  const TimelinePlan& plan_;
  const DeviceClocks& clocks_;
  PageData& page_;
  TimelineArgs args_;
  std::vector<uint32_t> page_name_;
  std::vector<uint32_t> host_number_;   // 1 + number of a host range's event; 0: not kept
};

void Timeline::add_steps() {
  write(
      track("Steps", "steps", "step"), true, facts_.get<Steps>().steps,
      [&](const Step& s) { return event(s.interval(), s.warmup ? PageCategory::kWarmup : PageCategory::kStep); },
      [&](const Step& s) { return page_.strings.of(s.name); });
}

void Timeline::add_phases() {
  const Phases& phases = facts_.get<Phases>();
  write(
      track("Steps", "phases", "phase"), false, phases.segments,
      [&](const PhaseSegment& s) { return event({s.start_ns, s.end_ns}, PageCategory::of(s.phase)); },
      [&](const PhaseSegment& s) { return page_.strings.of(phase_words(phases.name(s.phase))); });
}

void Timeline::add_device(size_t index) {
  const DeviceTime& device = facts_.get<Devices>().devices[index];
  const std::string group = fmt::format("GPU {}", device.id);
  add_idle(facts_.get<Idle>().devices[index], group);
  add_streams(device, group);
  add_collectives(device, group);
  add_syncs(device.id, group);
  add_memory(device.id, group);
}

void Timeline::add_idle(const DeviceIdle& idle, const std::string& group) {
  write(
      track(group, "idle, by cause", "idle"), false, idle.all(),
      [&](const Gap& g) { return event(g.time(), PageCategory::of(g.cause)); },
      [&](const Gap& g) { return page_.strings.of(words(idle_cause_name(g.cause))); });
}

void Timeline::add_streams(const DeviceTime& device, const std::string& group) {
  const ActivityTable& all = trace_.activity;
  std::map<uint16_t, std::vector<uint32_t>> queues;
  for (uint32_t i = device.begin.value; i < device.end.value; ++i) queues[all.queue[i]].push_back(i);
  const auto course = clocks_.courses.find(device.id);
  for (const auto& [queue, rows] : queues) {
    TrackWriter writer(page_, plan_.scale,
                       track(group, fmt::format("stream {}", trace_.queues[queue].stream), "stream"), true);
    PageTrack& t = writer.track();
    for (const uint32_t i : rows) {
      const bool kernel = all.kind[i] == ActivityKind::kKernel;
      const ActivityId id(size_t{i});
      const TrackWriter::Event e = event(all.interval(id), activity_category(facts_, id));
      if (!writer.add(e)) continue;
      t.name.push_back(name(all.name[i]));
      t.args.push_back(args_.of(all.args[i]));
      t.link.push_back(all.launch[i].valid() ? all.launch[i].value + 1 : 0);   // a row, until add_links()
      if (course == clocks_.courses.end()) continue;
      const bool computes = kernel && facts_.get<Devices>().kind[i] == WorkKind::kCompute;
      const int64_t start = e.start_ns + clocks_.shift_ns, end = e.end_ns + clocks_.shift_ns;
      t.slow.push_back(computes ? course->second.slow_permille(start, end).value_or(0) : uint16_t{0});
    }
    writer.finish();
  }
}

// Every kernel of a communication library, with its call's arguments if they were recorded. Waiting is an event inside
// the call.
void Timeline::add_collectives(const DeviceTime& device, const std::string& group) {
  const ActivityTable& all = trace_.activity;
  const Devices& devices = facts_.get<Devices>();
  const CallTimings& timings = facts_.get<CallTimings>();
  std::unordered_map<uint32_t, const Collective*> described;
  for (const Collective& c : trace_.collectives)
    if (c.activity.valid()) described.emplace(c.activity.value, &c);
  TrackWriter writer(page_, plan_.scale, track(group, "collectives", "collective"), true);
  PageTrack& t = writer.track();
  for (uint32_t i = device.begin.value; i < device.end.value; ++i) {
    if (devices.kind[i] != WorkKind::kCommunication) continue;
    const auto call = described.find(i);
    const ActivityId id(size_t{i});
    const StringId recorded = call == described.end() ? all.name[i] : call->second->name;
    if (writer.add(event(all.interval(id), PageCategory::kCollective))) {
      const std::string term = collective_name(trace_.strings[recorded]);
      t.name.push_back(term.empty() ? name(recorded) : page_.strings.of(term));
      t.args.push_back(call == described.end() ? 0 : args_.of(*call->second));
      t.link.push_back(all.launch[i].valid() ? all.launch[i].value + 1 : 0);
    }
    const CallTiming* timing = timings.find(id);
    if (timing == nullptr || timing->wait_ns <= 0) continue;
    const int64_t wait_ns = std::min(timing->wait_ns, all.duration_ns[i]);
    if (!writer.add(event({all.start_ns[i], all.start_ns[i] + wait_ns}, PageCategory::kWait))) continue;
    t.name.push_back(page_.strings.of("waits for other ranks"));
    t.args.push_back(0);
    t.link.push_back(0);
  }
  writer.finish();
}

void Timeline::add_syncs(int32_t device, const std::string& group) {
  std::vector<SyncRow> rows;
  std::ranges::copy_if(trace_.syncs, std::back_inserter(rows), [&](const SyncRow& s) { return s.device == device; });
  std::ranges::sort(rows, {}, &SyncRow::start_ns);
  write(
      track(group, "synchronization", "sync"), true, rows,
      [&](const SyncRow& s) { return event({s.start_ns, s.start_ns + s.duration_ns}, PageCategory::kSync); },
      [&](const SyncRow& s) { return name(s.name); });
}

// The step's thread first, then those with most ranges.
void Timeline::add_threads() {
  std::vector<size_t> order(trace_.threads.size());
  std::iota(order.begin(), order.end(), 0);
  const uint32_t first = facts_.get<Steps>().thread.value;
  std::ranges::stable_sort(order, std::greater(), [&](size_t t) {
    return std::pair(t == first, trace_.threads[t].end.value - trace_.threads[t].begin.value);
  });
  for (const size_t index : order) {
    add_thread(index);
    add_blocked(index);
  }
}

void Timeline::add_thread(size_t index) {
  const Thread& thread = trace_.threads[index];
  const HostTable& host = trace_.host;
  TrackWriter writer(page_, plan_.scale, track("process " + thread.process, thread_title(thread), "thread"), true);
  PageTrack& t = writer.track();
  auto launching = std::ranges::lower_bound(trace_.launching, thread.begin);
  for (HostId row = thread.begin; row < thread.end; ++row) {
    const uint32_t i = row.value;
    while (launching != trace_.launching.end() && *launching < row) ++launching;
    const bool launches = launching != trace_.launching.end() && *launching == row;
    const bool wanted = launches || host.duration_ns[i] >= plan_.host_least_ns;
    const uint32_t number = writer.number();
    if (!writer.add(event(host.interval(row), PageCategory::of(host.kind[i])), wanted)) continue;
    host_number_[i] = number + 1;
    t.name.push_back(name(host.name[i]));
    t.args.push_back(args_.of(row));
  }
  writer.finish();
}

// A thread's long waits, named by system call.
void Timeline::add_blocked(size_t index) {
  const std::vector<ThreadWait>& all = trace_.thread_waits;
  const auto waits = std::ranges::equal_range(all, ThreadId(index), {}, &ThreadWait::thread);
  if (waits.empty()) return;
  const Thread& thread = trace_.threads[index];
  const std::vector<int32_t>& calls = facts_.get<ThreadTimes>().wait_calls;
  std::string title = "blocked: " + (thread.name.empty() ? thread.id : fmt::format("{} ({})", thread.id, thread.name));
  write(
      track("process " + thread.process, std::move(title), "sync"), false, waits,
      [&](const ThreadWait& w) { return event({w.start_ns, w.start_ns + w.duration_ns}, PageCategory::kBlocked); },
      [&](const ThreadWait& w) {
        const int32_t call = calls[static_cast<size_t>(&w - all.data())];
        return page_.strings.of(call < 0 ? "blocked" : system_call_name(call));
      });
}

// Replaces rows of the host table by the numbers of their events, which are known by now.
void Timeline::add_links(size_t first_track) {
  for (size_t i = first_track; i < page_.tracks.size(); ++i)
    for (uint32_t& link : page_.tracks[i].link)
      if (link != 0) link = host_number_[link - 1];
}

void Timeline::add_counter(PageTrack t) {
  if (t.start_ns.empty()) return;
  if (!page_.tracks.empty()) {
    const PageTrack& last = page_.tracks.back();
    t.first = last.first + static_cast<uint32_t>(last.duration_ns.size());
  }
  page_.tracks.push_back(std::move(t));
}

void Timeline::add_memory(int32_t device, const std::string& group) {
  const Memory& memory = facts_.get<Memory>();
  if (memory.device != device) return;
  PageTrack t = track(group, "allocated memory", "counter");
  t.unit = "B";
  for (const MemoryPoint& p : memory.timeline) {
    if (!p.allocated_bytes) continue;
    t.start_ns.push_back(std::max<int64_t>(p.time_ns + rank_.shift_ns, 0));
    t.value.push_back(*p.allocated_bytes);
  }
  add_counter(std::move(t));
}

void Timeline::add_counters() {
  std::map<std::pair<int32_t, std::string_view>, std::vector<const CounterValue*>> counters;
  for (const CounterValue& c : trace_.counters) counters[{c.device, trace_.strings[c.name]}].push_back(&c);
  for (const auto& [key, values] : counters) {
    PageTrack t =
        track(key.first < 0 ? "Counters" : fmt::format("GPU {}", key.first), std::string(key.second), "counter");
    t.scale = 0.001;
    for (const CounterValue* c : values) {
      const double thousandths = c->value / t.scale;
      if (!(std::abs(thousandths) < 9e15)) continue;   // too large for the page's numbers
      t.start_ns.push_back(std::max<int64_t>(c->time_ns + rank_.shift_ns, 0));
      t.value.push_back(std::llround(thousandths));
    }
    add_counter(std::move(t));
  }
}

}  // namespace

void add_timeline(const PlacedRank& rank, const TimelinePlan& plan, const DeviceClocks& clocks, PageData& page) {
  Timeline(rank, plan, clocks, page).add();
}

}  // namespace profgpu
