#include "analyse/rank/timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
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
  for (const char* name : {"memcpy", "memset", "annotation", "op", "python", "runtime", "driver", "overhead"})
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

namespace {

constexpr uint32_t kUnknown = UINT32_MAX;
constexpr size_t kLongestText = 500;   // bytes

std::string shortened(std::string_view text) {
  if (text.size() <= kLongestText) return std::string(text);
  return std::string(text.substr(0, kLongestText)) + "…";
}

bool says_something(std::string_view text) { return !text.empty() && text != "[]" && text != "\"\""; }

std::string bytes_text(int64_t bytes) {
  const std::string count = format_count(bytes) + " B";
  return bytes < 1024 ? count : format_bytes(static_cast<double>(bytes)) + " (" + count + ")";
}

std::string extent(const int32_t (&x)[3]) {
  return fmt::format("{} × {} × {}", format_count(x[0]), format_count(x[1]), format_count(x[2]));
}

}  // namespace

TimelineArgs::TimelineArgs(const Trace& trace, PageData& page)
    : trace_(trace), page_(page), of_activity_(trace.activity_args.size(), kUnknown),
      of_op_(trace.op_args.size(), kUnknown) {
  if (page_.args.empty()) page_.args.emplace_back();
}

uint32_t TimelineArgs::add(PageArgs args) {
  if (args.empty()) return 0;
  std::string key;
  for (const auto& [name, text] : args) key.append(name).append("\0", 1).append(text).append("\0", 1);
  const auto it = known_.find(key);
  if (it != known_.end()) return it->second;
  if (page_.args.size() >= kMost) return 0;
  const auto place = static_cast<uint32_t>(page_.args.size());
  page_.args.push_back(std::move(args));
  known_.emplace(std::move(key), place);
  return place;
}

uint32_t TimelineArgs::of(ActivityArgsId id) {
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

// The autograd sequence number is left out: with it no two calls would agree.
uint32_t TimelineArgs::of(OpArgsId id) {
  if (!id.valid()) return 0;
  uint32_t& known = of_op_[id.value];
  if (known != kUnknown) return known;
  const OpArgs& a = trace_.op_args[id.value];
  PageArgs args;
  if (const auto text = trace_.strings[a.shapes]; says_something(text)) args.emplace_back("shapes", shortened(text));
  if (const auto text = trace_.strings[a.types]; says_something(text)) args.emplace_back("types", shortened(text));
  if (a.flops > 0) args.emplace_back("floating-point operations", format_count(static_cast<int64_t>(a.flops)));
  return known = add(std::move(args));
}

uint32_t TimelineArgs::of(HostId row) {
  const StringId said = trace_.arguments(row);
  if (!said.valid()) return of(trace_.host.args[row.value]);
  return add({{"arguments", shortened(trace_.strings[said])}});
}

uint32_t TimelineArgs::of(const Collective& call) {
  PageArgs args;
  const auto text = [&](const char* key, StringId id) {
    if (says_something(trace_.strings[id])) args.emplace_back(key, shortened(trace_.strings[id]));
  };
  text("type", call.dtype);
  if (call.in_elements >= 0) args.emplace_back("elements in", format_count(call.in_elements));
  if (call.out_elements >= 0) args.emplace_back("elements out", format_count(call.out_elements));
  text("process group", call.group_description.valid() ? call.group_description : call.group);
  if (call.group_size > 0) args.emplace_back("group size", std::to_string(call.group_size));
  text("ranks", call.ranks);
  return add(std::move(args));
}

namespace {

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

  void add();

 private:
  static constexpr uint32_t kUnknown = UINT32_MAX;

  [[nodiscard]] PageTrack track(std::string group, std::string title, std::string_view kind) const {
    PageTrack t;
    t.rank = rank_.rank;
    t.group = std::move(group);
    t.title = std::move(title);
    t.kind = kind;
    return t;
  }
  [[nodiscard]] TrackWriter::Event event(int64_t start_ns, int64_t end_ns, uint8_t category) const {
    return {start_ns + rank_.shift_ns, end_ns + rank_.shift_ns, category};
  }
  uint32_t name(StringId id) {
    if (!id.valid()) return page_.strings.of({});
    uint32_t& known = page_name_[id.value];
    if (known == kUnknown) known = page_.strings.of(trace_.strings[id]);
    return known;
  }

  void add_steps();
  void add_phases();
  void add_device(size_t place);
  void add_idle(const DeviceIdle& idle, const std::string& group);
  void add_streams(const DeviceTime& device, const std::string& group);
  void add_collectives(const DeviceTime& device, const std::string& group);
  void add_syncs(int32_t device, const std::string& group);
  void add_memory(int32_t device, const std::string& group);
  void add_counter(PageTrack t);
  void add_threads();
  void add_thread(size_t place);
  void add_blocked(size_t place);
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

void Timeline::add() {
  const size_t first_track = page_.tracks.size();
  add_steps();
  add_phases();
  for (size_t d = 0; d < facts_.get<Devices>().devices.size(); ++d) add_device(d);
  add_threads();
  add_links(first_track);
  add_counters();
}

void Timeline::add_steps() {
  const Steps& steps = facts_.get<Steps>();
  TrackWriter writer(page_, plan_.scale, track("Steps", "steps", "step"), true);
  for (const Step& s : steps.steps) {
    const uint8_t category = s.warmup ? PageCategory::kWarmup : PageCategory::kStep;
    if (writer.add(event(s.start_ns, s.interval().end, category)))
      writer.track().name.push_back(page_.strings.of(s.name));
  }
  writer.finish();
}

void Timeline::add_phases() {
  TrackWriter writer(page_, plan_.scale, track("Steps", "phases", "phase"));
  for (const PhaseSegment& s : facts_.get<Phases>().segments)
    if (writer.add(event(s.start_ns, s.end_ns, PageCategory::of(s.phase))))
      writer.track().name.push_back(page_.strings.of(phase_words(facts_.get<Phases>().name(s.phase))));
  writer.finish();
}

void Timeline::add_device(size_t place) {
  const DeviceTime& device = facts_.get<Devices>().devices[place];
  const std::string group = fmt::format("GPU {}", device.id);
  add_idle(facts_.get<Idle>().devices[place], group);
  add_streams(device, group);
  add_collectives(device, group);
  add_syncs(device.id, group);
  add_memory(device.id, group);
}

void Timeline::add_idle(const DeviceIdle& idle, const std::string& group) {
  TrackWriter writer(page_, plan_.scale, track(group, "idle, by cause", "idle"));
  for (const Gap& g : idle.gaps)
    if (writer.add(event(g.start_ns, g.end_ns, PageCategory::of(g.cause))))
      writer.track().name.push_back(page_.strings.of(words(idle_cause_name(g.cause))));
  writer.finish();
}

void Timeline::add_streams(const DeviceTime& device, const std::string& group) {
  const ActivityTable& all = trace_.activity;
  const Kernels& kernels = facts_.get<Kernels>();
  std::map<uint16_t, std::vector<uint32_t>> queues;
  for (uint32_t i = device.begin.value; i < device.end.value; ++i) queues[all.queue[i]].push_back(i);
  const auto course = clocks_.courses.find(device.id);
  for (const auto& [queue, rows] : queues) {
    TrackWriter writer(page_, plan_.scale,
                       track(group, fmt::format("stream {}", trace_.queues[queue].stream), "stream"), true);
    PageTrack& t = writer.track();
    for (const uint32_t i : rows) {
      const bool kernel = all.kind[i] == ActivityKind::kKernel;
      const uint8_t category = kernel ? static_cast<uint8_t>(kernels.category[all.name[i].value])
                               : all.kind[i] == ActivityKind::kMemcpy ? uint8_t{PageCategory::kMemcpy}
                                                                      : uint8_t{PageCategory::kMemset};
      const TrackWriter::Event e = event(all.start_ns[i], all.end_ns(ActivityId(size_t{i})), category);
      if (!writer.add(e)) continue;
      t.name.push_back(name(all.name[i]));
      t.args.push_back(args_.of(all.args[i]));
      t.link.push_back(all.launch[i].valid() ? all.launch[i].value + 1 : 0);   // the row for now: see add_links()
      if (course == clocks_.courses.end()) continue;
      const bool computes = kernel && facts_.get<Devices>().kind[i] == WorkKind::kCompute;
      t.slow.push_back(
          computes
              ? course->second.slow_permille(e.start_ns + clocks_.shift_ns, e.end_ns + clocks_.shift_ns).value_or(0)
              : uint16_t{0});
    }
    writer.finish();
  }
}

// Every kernel of a communication library, with what its call's arguments tell where they were recorded. The waiting
// part of a call lies inside of it.
void Timeline::add_collectives(const DeviceTime& device, const std::string& group) {
  const ActivityTable& all = trace_.activity;
  const Devices& devices = facts_.get<Devices>();
  std::unordered_map<uint32_t, const Collective*> described;
  for (const Collective& c : trace_.collectives)
    if (c.activity.valid()) described.emplace(c.activity.value, &c);
  const std::vector<MetCall>& met = facts_.get<MetCalls>().calls;
  TrackWriter writer(page_, plan_.scale, track(group, "collectives", "collective"), true);
  PageTrack& t = writer.track();
  for (uint32_t i = device.begin.value; i < device.end.value; ++i) {
    if (devices.kind[i] != WorkKind::kCommunication) continue;
    const auto call = described.find(i);
    const ActivityId id(size_t{i});
    const StringId recorded = call == described.end() ? all.name[i] : call->second->name;
    if (writer.add(event(all.start_ns[i], all.end_ns(id), PageCategory::kCollective))) {
      const std::string term = collective_name(trace_.strings[recorded]);
      t.name.push_back(term.empty() ? name(recorded) : page_.strings.of(term));
      t.args.push_back(call == described.end() ? 0 : args_.of(*call->second));
      t.link.push_back(all.launch[i].valid() ? all.launch[i].value + 1 : 0);
    }
    const auto known =
        std::lower_bound(met.begin(), met.end(), id, [](const MetCall& m, ActivityId a) { return m.activity < a; });
    if (known == met.end() || known->activity != id || known->wait_ns <= 0) continue;
    const int64_t wait_ns = std::min(known->wait_ns, all.duration_ns[i]);
    if (writer.add(event(all.start_ns[i], all.start_ns[i] + wait_ns, PageCategory::kWait))) {
      t.name.push_back(page_.strings.of("waits for other ranks"));
      t.args.push_back(0);
      t.link.push_back(0);
    }
  }
  writer.finish();
}

void Timeline::add_syncs(int32_t device, const std::string& group) {
  std::vector<const SyncRow*> rows;
  for (const SyncRow& s : trace_.syncs)
    if (s.device == device) rows.push_back(&s);
  std::sort(rows.begin(), rows.end(), [](const SyncRow* a, const SyncRow* b) { return a->start_ns < b->start_ns; });
  TrackWriter writer(page_, plan_.scale, track(group, "synchronisation", "sync"), true);
  for (const SyncRow* s : rows)
    if (writer.add(event(s->start_ns, s->start_ns + s->duration_ns, PageCategory::kSync)))
      writer.track().name.push_back(name(s->name));
  writer.finish();
}

// The step's thread first, then those with most ranges.
void Timeline::add_threads() {
  std::vector<size_t> order(trace_.threads.size());
  std::iota(order.begin(), order.end(), 0);
  const uint32_t first = facts_.get<Steps>().thread.value;
  const auto ranges = [&](size_t t) { return trace_.threads[t].end.value - trace_.threads[t].begin.value; };
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    if ((a == first) != (b == first)) return a == first;
    return ranges(a) > ranges(b);
  });
  for (const size_t place : order) {
    add_thread(place);
    add_blocked(place);
  }
}

void Timeline::add_thread(size_t place) {
  const Thread& thread = trace_.threads[place];
  const HostTable& host = trace_.host;
  TrackWriter writer(page_, plan_.scale, track("process " + thread.process, thread_title(thread), "thread"), true);
  PageTrack& t = writer.track();
  auto launching = std::lower_bound(trace_.launching.begin(), trace_.launching.end(), thread.begin);
  for (uint32_t i = thread.begin.value; i < thread.end.value; ++i) {
    while (launching != trace_.launching.end() && launching->value < i) ++launching;
    const bool launches = launching != trace_.launching.end() && launching->value == i;
    const bool wanted = launches || host.duration_ns[i] >= plan_.host_least_ns;
    const uint32_t number = writer.number();
    if (!writer.add(event(host.start_ns[i], host.end_ns(HostId(size_t{i})), PageCategory::of(host.kind[i])), wanted))
      continue;
    host_number_[i] = number + 1;
    t.name.push_back(name(host.name[i]));
    t.args.push_back(args_.of(HostId(i)));
  }
  writer.finish();
}

// The long waits of a thread, by the system call.
void Timeline::add_blocked(size_t place) {
  const std::vector<ThreadWait>& waits = trace_.thread_waits;
  const ThreadId id(place);
  auto wait = std::ranges::lower_bound(waits, id, {}, &ThreadWait::thread);
  if (wait == waits.end() || wait->thread != id) return;
  const Thread& thread = trace_.threads[place];
  const std::vector<int32_t>& calls = facts_.get<ThreadTimes>().wait_calls;
  std::string title = "blocked: " + (thread.name.empty() ? thread.id : fmt::format("{} ({})", thread.id, thread.name));
  TrackWriter writer(page_, plan_.scale, track("process " + thread.process, std::move(title), "sync"));
  for (; wait != waits.end() && wait->thread == id; ++wait) {
    if (!writer.add(event(wait->start_ns, wait->start_ns + wait->duration_ns, PageCategory::kBlocked))) continue;
    const int32_t call = calls[static_cast<size_t>(wait - waits.begin())];
    writer.track().name.push_back(page_.strings.of(call < 0 ? "blocked" : system_call_name(call)));
  }
  writer.finish();
}

// Rows of the host table become numbers of their events, now that threads are numbered.
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
      if (!(std::abs(thousandths) < 9e15)) continue;   // beyond what a page's numbers hold
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
