#include "analyse/memory_holders.h"

#include <algorithm>
#include <map>
#include <unordered_map>

#include "analyse/memory.h"

namespace profgpu {
namespace {

constexpr size_t kPoints = 2000;
constexpr size_t kMostHolders = 100;
constexpr size_t kDeepestStack = 64;   // innermost frames say most

std::vector<MemoryEvent> events_of(const Trace& trace, int32_t device) {
  std::vector<MemoryEvent> events;
  for (const MemoryEvent& m : trace.memory)
    if (m.device == device && (m.device_type == 1 || m.device_type == 6)) events.push_back(m);
  return events;
}

void add_point(const MemoryEvent& m, int64_t shift_ns, bool reserved, PageMemory& memory) {
  memory.time_ns.push_back(std::max<int64_t>(m.time_ns + shift_ns, 0));
  memory.allocated.push_back(m.total_allocated);
  if (reserved) memory.reserved.push_back(std::max<int64_t>(m.total_reserved, 0));
}

// Of each stretch of events the first, the lowest and the highest, in order of time.
void add_course(const std::vector<MemoryEvent>& events, int64_t shift_ns, PageMemory& memory) {
  std::vector<const MemoryEvent*> known;
  bool reserved = false;
  for (const MemoryEvent& m : events)
    if (m.total_allocated >= 0) known.push_back(&m), reserved |= m.total_reserved >= 0;
  const auto lower = [](const MemoryEvent* a, const MemoryEvent* b) { return a->total_allocated < b->total_allocated; };
  const size_t stretch = std::max<size_t>((3 * known.size() + kPoints - 1) / kPoints, 1);
  for (size_t i = 0; i < known.size(); i += stretch) {
    const auto begin = known.begin() + static_cast<ptrdiff_t>(i);
    const auto end = known.begin() + static_cast<ptrdiff_t>(std::min(i + stretch, known.size()));
    std::vector<const MemoryEvent*> shown = {*begin, *std::min_element(begin, end, lower), *std::max_element(begin, end, lower)};
    std::sort(shown.begin(), shown.end());   // pointers into one vector, which is in order of time
    shown.erase(std::unique(shown.begin(), shown.end()), shown.end());
    for (const MemoryEvent* m : shown) add_point(*m, shift_ns, reserved, memory);
  }
}

// The innermost range of a thread that encloses a time. Invalid: none does.
HostId range_at(const Trace& trace, ThreadId thread, int64_t time_ns) {
  if (!thread.valid()) return {};
  const HostTable& host = trace.host;
  const Thread& t = trace.threads[thread.value];
  const auto begin = host.start_ns.begin() + t.begin.value, end = host.start_ns.begin() + t.end.value;
  const auto after = std::upper_bound(begin, end, time_ns);
  if (after == begin) return {};
  HostId at(static_cast<size_t>(after - host.start_ns.begin()) - 1);
  while (at.valid() && host.end_ns(at) < time_ns) at = host.parent[at.value];
  return at;
}

HostId innermost_op(const HostTable& host, HostId at) {
  while (at.valid() && host.kind[at.value] != HostKind::kOp && host.kind[at.value] != HostKind::kAnnotation)
    at = host.parent[at.value];
  return at;
}

std::string stack_of(const Trace& trace, HostId at) {
  std::vector<std::string_view> frames;
  for (; at.valid() && frames.size() < kDeepestStack; at = trace.host.parent[at.value])
    if (trace.host.kind[at.value] != HostKind::kRuntime && trace.host.kind[at.value] != HostKind::kDriver)
      frames.push_back(trace.name(at));
  std::string out;
  for (auto frame = frames.rbegin(); frame != frames.rend(); ++frame) {
    if (!out.empty()) out += '\n';
    out += *frame;
  }
  return out;
}

struct Block {
  int64_t bytes = 0;
  HostId where;
};

// Blocks that were allocated within the trace and are there after the first `count` events.
std::unordered_map<uint64_t, Block> blocks_after(const Trace& trace, const std::vector<MemoryEvent>& events, size_t count) {
  std::unordered_map<uint64_t, size_t> live;   // address to the event that allocated it
  for (size_t i = 0; i < count; ++i) {
    if (events[i].bytes > 0) live[events[i].address] = i;
    else live.erase(events[i].address);
  }
  std::unordered_map<uint64_t, Block> blocks;
  for (const auto& [address, i] : live)
    blocks[address] = {events[i].bytes, range_at(trace, events[i].thread, events[i].time_ns)};
  return blocks;
}

std::vector<PageHolder> holders(const Trace& trace, const std::unordered_map<uint64_t, Block>& blocks, int64_t allocated) {
  std::map<std::pair<std::string_view, std::string>, PageHolder> by_place;
  int64_t known = 0;
  for (const auto& [address, block] : blocks) {
    const HostId op = innermost_op(trace.host, block.where);
    const std::string_view name = op.valid() ? trace.name(op) : std::string_view();
    PageHolder& h = by_place[{name, stack_of(trace, block.where)}];
    h.bytes += block.bytes;
    ++h.blocks;
    known += block.bytes;
  }
  std::vector<PageHolder> all;
  for (auto& [place, holder] : by_place) {
    holder.op = place.first.empty() ? "(outside of any op)" : std::string(place.first);
    holder.stack = place.second;
    all.push_back(std::move(holder));
  }
  std::stable_sort(all.begin(), all.end(), [](const PageHolder& a, const PageHolder& b) { return a.bytes > b.bytes; });
  if (all.size() > kMostHolders) {
    PageHolder rest{"(other places)", "", 0, 0};
    for (size_t i = kMostHolders; i < all.size(); ++i) rest.bytes += all[i].bytes, rest.blocks += all[i].blocks;
    all.resize(kMostHolders);
    all.push_back(std::move(rest));
  }
  if (allocated > known) {
    PageHolder before{"(before the trace)", "", allocated - known, 0};
    all.insert(std::find_if(all.begin(), all.end(), [&](const PageHolder& h) { return h.bytes < before.bytes; }), before);
  }
  return all;
}

}  // namespace

std::optional<PageMemory> memory_over_time(const Facts& facts, int64_t shift_ns) {
  const Trace& trace = facts.trace();
  const Memory& summary = facts.get<Memory>();
  if (!summary.peak_allocated_bytes) return std::nullopt;
  const std::vector<MemoryEvent> events = events_of(trace, summary.device);
  PageMemory memory;
  memory.device = summary.device;
  add_course(events, shift_ns, memory);
  const auto peak = std::max_element(events.begin(), events.end(), [](const MemoryEvent& a, const MemoryEvent& b) {
    return a.total_allocated < b.total_allocated;
  });
  memory.peak_ns = std::max<int64_t>(peak->time_ns + shift_ns, 0);
  const auto blocks = blocks_after(trace, events, static_cast<size_t>(peak - events.begin()) + 1);
  memory.held = holders(trace, blocks, peak->total_allocated);
  return memory;
}

}  // namespace profgpu
