// PageData: what an HTML report has beyond the Report: tracks of events, call trees, memory over time, samples.
//
// Everything is columns, so that writing it out needs no second description; web/README.md explains them. Times are
// nanoseconds since PageData::origin_ns, names indices into PageData::strings.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace profgpu {

/// Distinct texts by number.
class PageStrings {
 public:
  uint32_t of(std::string_view text) {
    const auto [it, added] = index_.try_emplace(std::string(text), static_cast<uint32_t>(texts_.size()));
    if (added) texts_.push_back(&it->first);
    return it->second;
  }
  [[nodiscard]] size_t size() const { return texts_.size(); }
  [[nodiscard]] const std::string& operator[](size_t i) const { return *texts_[i]; }

 private:
  std::unordered_map<std::string, uint32_t> index_;   // its keys stay where they are
  std::vector<const std::string*> texts_;
};

/// A track zoomed out: the category with most of each bin's time.
struct PageDensity {
  int64_t bin_ns = 1;
  std::vector<uint8_t> category;   ///< index in PageData::categories; 0: nothing runs
  std::vector<uint8_t> busy;       ///< share of the bin that any event covers, of 255; above 0 if one does
};

struct PageTrack {
  int rank = 0;
  std::string group, title;
  std::string_view kind;           ///< "step", "phase", "idle", "stream", "collective", "thread", "sync", "counter"
  uint32_t first = 0;              ///< number of its first event, counted through all tracks
  std::vector<int64_t> start_ns;   ///< ascending
  std::vector<int64_t> duration_ns;
  std::vector<uint32_t> name;
  std::vector<uint8_t> category;
  std::vector<uint16_t> depth;     ///< 0: outermost; empty: all 0. Events of one depth do not overlap
  std::vector<uint32_t> args;      ///< index in PageData::args; empty: all 0
  std::vector<uint32_t> link;      ///< 1 + number of the event that launched it, 0: none; empty: all 0
  std::vector<uint16_t> slow;      ///< permille of its duration that reduced clocks explain at most; empty: unknown
  PageDensity density;
  std::string_view unit;           ///< of a counter, which has start_ns and value only
  double scale = 1;                ///< value times this is in the unit
  std::vector<int64_t> value;
};

using PageArgs = std::vector<std::pair<std::string, std::string>>;

/// Calls of one thread; those of one name below one parent are one node. Parents come before their children.
struct PageFlame {
  std::string title;
  std::vector<uint32_t> parent;    ///< 1 + index, 0: root
  std::vector<uint32_t> name;
  std::vector<uint8_t> category;
  std::vector<int64_t> total_ns, self_ns;
  std::vector<int64_t> device_ns;  ///< sum of durations of the work that it and all below it launched
  std::vector<int64_t> calls;
};

/// Durations of one kernel, in bins of equal ratio.
struct PageHistogram {
  int32_t device = 0;
  std::string name;
  int64_t from_ns = 0, to_ns = 0;
  std::vector<int64_t> counts;
};

/// Blocks held at the peak, by the place that allocated them.
struct PageHolder {
  std::string op, stack;           ///< outermost first, a line per frame; empty: unknown
  int64_t bytes = 0, blocks = 0;
};

struct PageMemory {
  int32_t device = 0;
  std::vector<int64_t> time_ns, allocated, reserved;   ///< reserved: empty where not recorded
  int64_t peak_ns = 0;
  std::vector<PageHolder> held;    ///< most bytes first
};

struct PageGap {
  int32_t device = 0;
  int64_t start_ns = 0, duration_ns = 0;
  std::string_view cause;
  std::string after, before, host; ///< the activities around it, and what the host did; empty: unknown
};

/// Stacks of a memory snapshot as one tree of calls, outermost first. Parents come before their children.
struct PageStacks {
  std::vector<uint32_t> parent;    ///< 1 + index, 0: root
  std::vector<uint32_t> frame;     ///< of the three below
  std::vector<uint32_t> name, file;
  std::vector<int64_t> line;
};

/// What is held over a stretch of a device's events: allocations by when they were made, or segments by address.
struct PageHolds {
  std::vector<int64_t> made;       ///< 1 + place of the event that made it; 0: before the first one
  std::vector<int64_t> events;     ///< from `made` to the event that ended it; 0: held after the last one
  std::vector<int64_t> bytes;
  std::vector<uint32_t> address;   ///< index in PageHistory::addresses
};

/// A device's part of a memory snapshot. Events are numbered within the device; those of the page are `first` and on.
struct PageHistory {
  int32_t device = 0;              ///< -1: pinned memory of the host
  int64_t all_events = 0, first = 0;
  std::optional<int64_t> start_us; ///< Unix time of the first event with a time
  std::vector<int64_t> time_us;    ///< since then, by event; empty: no times
  std::vector<uint8_t> action;     ///< AllocationAction, by event
  std::vector<int64_t> addresses;  ///< ascending, each once
  PageHolds allocations;           ///< bytes as requested
  std::vector<uint32_t> stack;     ///< of an allocation: 1 + node of PageStacks, 0: none
  std::vector<uint8_t> kind;       ///< of an allocation: 3 × MemoryCategory + Certainty
  PageHolds segments;
  std::vector<uint32_t> stream;    ///< of a segment: index in `streams`
  std::vector<std::string> streams;
};

struct PageSnapshot {
  PageStacks stacks;
  std::vector<PageHistory> histories;
};

/// Use of the device's peak rate by one step.
struct PageUtilization {
  int64_t step = 0;                ///< its place in the report's `steps`
  double mfu_pct = 0, hfu_pct = 0;
};

struct PageRank {
  int rank = 0;
  std::optional<int64_t> shift_ns; ///< from the rank's own clock to the page's; none: it has no events there
  std::vector<PageFlame> flame;
  std::vector<PageHistogram> kernels;
  std::optional<PageMemory> memory;
  std::vector<PageGap> gaps;       ///< longest first
  std::vector<PageUtilization> utilization;   ///< in order; empty: not known
  std::optional<PageSnapshot> snapshot;
};

/// Samples of one metric of one device.
struct PageSeries {
  std::string device;              ///< as nvidia-smi numbers it
  std::optional<int> rank;         ///< that runs on it
  std::string_view metric;
  std::string title;
  std::string_view unit;
  double scale = 1;
  std::vector<int64_t> time_ns, value;
};

/// A bit of the series of metric clock_event_reasons, and what reduces the clocks when it is set.
struct PageReason {
  uint32_t bit = 0;
  std::string_view words;
};

struct PageData {
  int64_t origin_ns = 0;                     ///< on the first rank's clock
  std::optional<int64_t> unix_origin_ns;
  int64_t span_ns = 0;                       ///< end of the last event
  std::vector<std::pair<int64_t, int64_t>> kept;   ///< windows with all their events
  int64_t events = 0, events_kept = 0;
  int64_t host_least_ns = 0;                 ///< shorter host ranges within kept were left out
  PageStrings strings;
  std::vector<std::string> categories;
  std::vector<PageArgs> args;                ///< args[0] is empty
  std::vector<PageTrack> tracks;
  std::vector<PageRank> ranks;               ///< in the order of Report::ranks
  std::vector<int> without_events;           ///< ranks for which the page has nothing beyond the report
  std::vector<PageSeries> samples;
  std::vector<PageReason> reasons;
};

}  // namespace profgpu
