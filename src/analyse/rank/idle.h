// Every gap in a device's activity, with exactly one cause.
#pragma once

#include <algorithm>
#include <array>

#include "analyse/rank/facts.h"
#include "analyse/report/document.h"
#include "trace/intervals.h"
#include "trace/trace.h"

namespace profgpu {

/// Where host threads wait for a device.
struct Waits {
  /// Calls that wait for a device (stream, device and event synchronization, blocking copies), by thread, in time
  /// order.
  std::vector<std::vector<HostId>> calls;
  /// Their time, merged, by thread.
  std::vector<Intervals> device_waits;
  static Waits compute(const Facts& facts);
};

enum class IdleCause : uint8_t {
  kUnknown,
  kLaunchLatency,
  kDependency,
  kCheckpoint,
  kDataLoading,
  kMemoryAllocation,
  kSynchronization,
  kHostBound,
  kFirstUse,
  kUntracedWork,
  kNoRequests,
};
constexpr int kIdleCauses = 11;
std::string_view idle_cause_name(IdleCause cause);

struct Gap {
  int64_t start_ns = 0;
  int64_t end_ns = 0;
  IdleCause cause = IdleCause::kUnknown;
  ActivityId before;   ///< the activity that ended last before the gap; invalid before the first
  ActivityId after;    ///< the activity that ends the gap; invalid after the last
  HostId launch;       ///< the call that launched `after`; may be invalid
  HostId host;         ///< the innermost range that covers most of the wait on the launching thread; may be invalid
  [[nodiscard]] int64_t length() const { return end_ns - start_ns; }
  [[nodiscard]] Interval time() const { return {start_ns, end_ns}; }
};
inline auto longest_first(const Gap& gap) { return std::pair(-gap.length(), gap.start_ns); }
/// The longest gaps that `fits` accepts, at most `most`, longest first.
template <class Fits>
std::vector<const Gap*> longest_gaps(const std::vector<Gap>& gaps, size_t most, Fits fits) {
  std::vector<const Gap*> all;
  for (const Gap& gap : gaps)
    if (fits(gap)) all.push_back(&gap);
  const auto end = all.begin() + static_cast<ptrdiff_t>(std::min(all.size(), most));
  std::ranges::partial_sort(all, end, {}, [](const Gap* gap) { return longest_first(*gap); });
  all.erase(end, all.end());
  return all;
}

/// Launches of kernels that the recording lacks: the device ran them unseen.
struct LostLaunches {
  std::vector<int64_t> start_ns;   ///< ascending
  /// Whether so many belong in the gap that the device worked in it: launched in it, or queued between the launches of
  /// the activities around it.
  [[nodiscard]] bool explain(const Trace& trace, const Gap& gap) const;
  /// Percent of the launches of kernels.
  [[nodiscard]] double pct(const Trace& trace) const;
  /// So many that how busy the device was is not known. Not where graphs are captured: nothing runs then.
  [[nodiscard]] bool are_most(const Facts& facts) const;
  static LostLaunches compute(const Facts& facts);
};

/// Waits for data that no range of the program or its framework marks.
struct InputWaits {
  std::vector<Intervals> reads;   ///< by thread: long calls of the C library that read
  Intervals infeed;               ///< a device's own waits for the host's data, as XLA records them
  [[nodiscard]] Intervals all_reads() const;
  static InputWaits compute(const Facts& facts);
};

/// Reported shares are of a device's window: per contiguous recording, from the first step's start or the first
/// activity, whichever is earlier, to the last step's end or the last activity, whichever is later.
struct DeviceIdle {
  int32_t device = 0;
  std::vector<Gap> gaps;                             ///< between activities, in time order
  std::vector<Gap> edges;                            ///< before each window's first activity, and after its last
  Intervals window;
  std::array<int64_t, kIdleCauses> total_ns{};       ///< of gaps
  std::array<int64_t, kIdleCauses> count{};
  std::array<int64_t, kIdleCauses> edge_ns{};        ///< of edges
  std::array<int64_t, kIdleCauses> measured_ns{};    ///< of both, the part within measured steps

  /// Calls use(gap) for gaps and edges, in time order.
  template <class Use>
  void each(Use&& use) const {
    auto edge = edges.begin();
    for (const Gap& gap : gaps) {
      for (; edge != edges.end() && edge->start_ns < gap.start_ns; ++edge) use(*edge);
      use(gap);
    }
    for (; edge != edges.end(); ++edge) use(*edge);
  }
  /// Gaps and edges of one cause, merged.
  [[nodiscard]] Intervals time_of(IdleCause cause) const;
  /// A copy of all of them.
  [[nodiscard]] std::vector<Gap> all() const;
};

/// A gap with the names of what surrounds it.
struct NamedGap {
  int64_t start_ns = 0, duration_ns = 0;
  std::optional<std::string> after, before;   ///< the activity that ended last before it, and the one that ends it
  std::optional<std::string> host;     ///< the range that the host was in
  /// The function of the program that took most of it: "normalize (image_transforms.py:390)"; none without stacks.
  std::optional<std::string> place;

  void fields(auto&& v) const {
    v("start_ns", start_ns), v("duration_ns", duration_ns), v("after", after), v("before", before), v("host", host);
    v("place", place);
  }
};

struct IdleRow {
  int32_t device = 0;
  IdleCause cause = IdleCause::kUnknown;
  int64_t total_ns = 0;
  double span_pct = 0;                 ///< of the device's span
  int64_t count = 0;
  int64_t edge_ns = 0;                 ///< before the first activity and after the last
  double window_pct = 0;               ///< both, of the device's window
  std::vector<NamedGap> longest;       ///< a few of the gaps, longest first
  std::vector<NamedGap> edges;         ///< likewise, before the first activity and after the last

  void fields(auto&& v) const {
    v("device", device), v("cause", idle_cause_name(cause)), v("total_ns", total_ns), v("span_pct", span_pct);
    v("count", count), v("edge_ns", edge_ns), v("window_pct", window_pct), v("longest", longest);
    v("edges", edges);
  }
  /// By device, then total including edges, longest first.
  static std::vector<IdleRow> rows(const Facts& facts);
};

struct Idle {
  std::vector<DeviceIdle> devices;   ///< in the order of Devices::devices
  static Idle compute(const Facts& facts);
};

}  // namespace profgpu
