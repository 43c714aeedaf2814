#include "analyse/memory/page_history.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <unordered_map>

#include "analyse/memory/lifetimes.h"
#include "analyse/memory/memory_categories.h"
#include "analyse/report/text.h"

namespace profgpu {
namespace {

constexpr int kMaxName = 300;   // characters of a frame's name: C++ templates have thousands

/// Grows the tree of all stacks that are asked for.
class StackTree {
 public:
  StackTree(const MemorySnapshot& snapshot, PageStrings& strings)
      : snapshot_(snapshot), strings_(strings), node_of_(snapshot.stacks.stacks()),
        frame_of_(snapshot.stacks.frames(), MemoryStacks::kNone) {}

  /// 1 + the node of the stack's innermost frame; 0: no stack.
  uint32_t node(uint32_t stack) {
    if (stack == MemoryStacks::kNone) return 0;
    uint32_t& known = node_of_[stack];
    if (known != 0) return known;
    const auto [begin, end] = snapshot_.stacks.frames_of(stack);
    uint32_t at = 0;
    for (const uint32_t* frame = end; frame != begin;) at = child(at, *--frame);
    return known = at;
  }
  PageStacks take() { return std::move(tree_); }

 private:
  uint32_t child(uint32_t parent, uint32_t frame) {
    const auto [it, added] = children_.try_emplace(uint64_t{parent} << 32 | frame, 0);
    if (!added) return it->second;
    tree_.parent.push_back(parent);
    tree_.frame.push_back(frame_row(frame));
    return it->second = static_cast<uint32_t>(tree_.parent.size());
  }
  uint32_t frame_row(uint32_t frame) {
    uint32_t& row = frame_of_[frame];
    if (row != MemoryStacks::kNone) return row;
    const MemoryFrame& f = snapshot_.stacks.frame(frame);
    row = static_cast<uint32_t>(tree_.name.size());
    tree_.name.push_back(strings_.of(truncated(snapshot_.strings[f.name], kMaxName)));
    tree_.file.push_back(strings_.of(truncated(snapshot_.strings[f.file], kMaxName)));
    tree_.line.push_back(std::max(f.line, int32_t{0}));
    return row;
  }

  const MemorySnapshot& snapshot_;
  PageStrings& strings_;
  PageStacks tree_;
  std::vector<uint32_t> node_of_, frame_of_;   // of each stack, 0: not yet; of each frame
  std::unordered_map<uint64_t, uint32_t> children_;
};

/// A hold with its address, by rows of the snapshot's events.
struct Hold {
  uint32_t made = Allocation::kOutside, freed = Allocation::kOutside;
  int64_t bytes = 0;
  uint64_t address = 0;
  int64_t stream = 0;
};

/// Rows of the events that a page keeps.
struct Window {
  uint32_t first = 0, end = 0;

  [[nodiscard]] bool holds(const Hold& h) const {
    return (h.made == Allocation::kOutside || h.made < end) && (h.freed == Allocation::kOutside || h.freed >= first);
  }
  void add(const Hold& h, PageHolds& to) const {
    const bool before = h.made == Allocation::kOutside || h.made < first;
    const int64_t made = before ? 0 : int64_t{h.made} - first + 1;
    const bool stays = h.freed == Allocation::kOutside || h.freed >= end;
    to.made.push_back(made);
    to.events.push_back(stays ? 0 : int64_t{h.freed} - first + 1 - made);
    to.bytes.push_back(h.bytes);
  }
};

Window window_of(const MemoryHistory& history, uint32_t most) {
  const uint32_t count = history.end - history.first;
  if (count <= most) return {history.first, history.end};
  const uint32_t peak = history.peak_row.value_or(history.first) - history.first;
  const uint32_t begin = std::min(peak > most / 2 ? peak - most / 2 : 0, count - most);
  return {history.first + begin, history.first + begin + most};
}

/// What was reserved when, from the snapshot's segments back to the first event. Memory that is mapped and released in
/// parts is one hold for each part that lives as long.
class SegmentLives {
 public:
  SegmentLives(const MemorySnapshot& snapshot, const MemoryHistory& history) : events_(snapshot.events) {
    for (const MemorySegment& s : snapshot.segments)
      if (s.device == history.device) add(s.address, s.total, Allocation::kOutside, s.stream);
    for (uint32_t row = history.end; row-- > history.first;) {
      const AllocationAction action = events_.action(row);
      if (action == AllocationAction::kSegmentFree || action == AllocationAction::kSegmentUnmap)
        add(events_.address(row), events_.bytes(row), row, events_.kind_of(row).stream);
      else if (action == AllocationAction::kSegmentAlloc || action == AllocationAction::kSegmentMap)
        make(events_.address(row), events_.bytes(row), row);
    }
    for (const auto& [address, range] : ranges_) emit(address, range.end, range, Allocation::kOutside);
    std::ranges::sort(done_, [](const Hold& a, const Hold& b) {
      return std::tie(a.address, a.made) < std::tie(b.address, b.made);
    });
  }
  [[nodiscard]] const std::vector<Hold>& all() const { return done_; }

 private:
  struct Range {
    uint64_t end = 0;
    uint32_t freed = 0;
    int64_t stream = 0;
  };
  void add(uint64_t address, int64_t bytes, uint32_t freed, int64_t stream) {
    if (bytes <= 0 || address + static_cast<uint64_t>(bytes) < address) return;
    // What a later event says of the same place wins: a file may contradict itself.
    const uint64_t end = address + static_cast<uint64_t>(bytes);
    const auto next = ranges_.lower_bound(address);
    const bool taken = (next != ranges_.end() && next->first < end) ||
                       (next != ranges_.begin() && std::prev(next)->second.end > address);
    if (!taken) ranges_[address] = {end, freed, stream};
  }
  // The parts of live ranges within [address, address + bytes) begin here.
  void make(uint64_t address, int64_t bytes, uint32_t row) {
    if (bytes <= 0 || address + static_cast<uint64_t>(bytes) < address) return;
    const uint64_t end = address + static_cast<uint64_t>(bytes);
    auto it = ranges_.upper_bound(address);
    if (it != ranges_.begin() && std::prev(it)->second.end > address) --it;
    while (it != ranges_.end() && it->first < end) {
      const uint64_t begin = it->first;
      const Range range = it->second;
      it = ranges_.erase(it);
      if (begin < address) ranges_[begin] = {address, range.freed, range.stream};
      emit(std::max(begin, address), std::min(range.end, end), range, row);
      if (range.end > end) it = std::next(ranges_.emplace(end, range).first);
    }
  }
  void emit(uint64_t begin, uint64_t end, const Range& range, uint32_t made) {
    done_.push_back({made, range.freed, static_cast<int64_t>(end - begin), begin, range.stream});
  }

  const AllocationEvents& events_;
  std::map<uint64_t, Range> ranges_;
  std::vector<Hold> done_;
};

/// One device's history.
class HistoryWriter {
 public:
  HistoryWriter(const MemorySnapshot& snapshot, const MemoryHistory& history, Window window)
      : snapshot_(snapshot), history_(history), window_(window) {}

  PageHistory write(const std::vector<CategoryOf>& categories, StackTree& stacks) {
    out_.device = history_.device;
    out_.all_events = history_.end - history_.first;
    out_.first = window_.first - history_.first;
    add_events();
    add_allocations(categories, stacks);
    add_segments();
    place_addresses();
    return std::move(out_);
  }

 private:
  void add_events() {
    int64_t last = AllocationEvent::kNoTime, start = 0;
    for (uint32_t row = window_.first; row < window_.end; ++row) {
      out_.action.push_back(static_cast<uint8_t>(snapshot_.events.action(row)));
      const int64_t time = snapshot_.events.time_us(row);
      if (last == AllocationEvent::kNoTime && time != AllocationEvent::kNoTime) out_.start_us = start = last = time;
      // Threads write events side by side: a time may be a little before that of the event before.
      last = std::max(last, time);
      out_.time_us.push_back(out_.start_us ? last - start : 0);
    }
    if (!out_.start_us) out_.time_us.clear();
  }

  void add_allocations(const std::vector<CategoryOf>& categories, StackTree& stacks) {
    size_t next_initial = 0;
    for (const bool before : {true, false})   // what was made before the window is first
      for (size_t i = 0; i < history_.allocations.size(); ++i) {
        const Allocation& a = history_.allocations[i];
        if (before != (a.made == Allocation::kOutside || a.made < window_.first)) continue;
        const Hold hold{a.made, a.freed, a.bytes, address_of(a, next_initial), 0};
        if (!window_.holds(hold)) continue;
        window_.add(hold, out_.allocations);
        allocated_at_.push_back(hold.address);
        out_.stack.push_back(stacks.node(a.stack));
        out_.kind.push_back(static_cast<uint8_t>(3 * static_cast<int>(categories[i].category) +
                                                 static_cast<int>(categories[i].certainty)));
      }
  }
  uint64_t address_of(const Allocation& a, size_t& next_initial) const {
    if (a.made != Allocation::kOutside) return snapshot_.events.address(a.made);
    if (a.freed != Allocation::kOutside) return snapshot_.events.address(a.freed);
    return next_initial < history_.initial_addresses.size() ? history_.initial_addresses[next_initial++] : 0;
  }

  void add_segments() {
    if (!history_.initial_reserved_bytes) return;   // a file that ends early lacks when some were taken
    std::map<int64_t, uint32_t> streams;
    const SegmentLives lives(snapshot_, history_);
    for (const Hold& s : lives.all()) {
      if (!window_.holds(s)) continue;
      window_.add(s, out_.segments);
      reserved_at_.push_back(s.address);
      const auto [it, added] = streams.try_emplace(s.stream, static_cast<uint32_t>(out_.streams.size()));
      if (added) out_.streams.push_back(std::to_string(s.stream));
      out_.stream.push_back(it->second);
    }
  }

  void place_addresses() {
    // Half of the address space is more than any device has, and what a difference can hold.
    constexpr uint64_t kMost = INT64_MAX;
    std::vector<uint64_t> all(allocated_at_);
    all.insert(all.end(), reserved_at_.begin(), reserved_at_.end());
    std::ranges::sort(all);
    all.erase(std::unique(all.begin(), all.end()), all.end());
    for (const uint64_t address : all) out_.addresses.push_back(static_cast<int64_t>(std::min(address, kMost)));
    const auto place = [&](const std::vector<uint64_t>& of, std::vector<uint32_t>& to) {
      for (const uint64_t address : of)
        to.push_back(static_cast<uint32_t>(std::ranges::lower_bound(all, address) - all.begin()));
    };
    place(allocated_at_, out_.allocations.address);
    place(reserved_at_, out_.segments.address);
  }

  const MemorySnapshot& snapshot_;
  const MemoryHistory& history_;
  Window window_;
  PageHistory out_;
  std::vector<uint64_t> allocated_at_, reserved_at_;
};

}  // namespace

std::optional<PageSnapshot> page_snapshot(const MemorySnapshot& snapshot, PageStrings& strings, uint32_t most_events) {
  const std::vector<MemoryHistory> histories = memory_histories(snapshot);
  if (histories.empty()) return std::nullopt;
  PageSnapshot page;
  const StackBook book(snapshot);
  StackTree stacks(snapshot, strings);
  const auto most = std::max<uint32_t>(most_events / static_cast<uint32_t>(histories.size()), 1);
  for (const MemoryHistory& history : histories) {
    const MemoryPhases phases(snapshot, history, book);
    const std::vector<CategoryOf> categories = memory_categories(snapshot, history, book, phases);
    page.histories.push_back(
        HistoryWriter(snapshot, history, window_of(history, most)).write(categories, stacks));
  }
  page.stacks = stacks.take();
  return page;
}

}  // namespace profgpu
