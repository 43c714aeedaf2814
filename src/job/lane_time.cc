#include "job/lane_time.h"

#include <algorithm>

#include "analyse/phases.h"

namespace profgpu {
namespace {

class Tiler {
 public:
  Tiler(const Facts& facts, const DeviceTime& device, const DeviceIdle& idle)
      : loading_(facts.get<Phases>().data_loading), device_(device), idle_(idle) {}

  void compute(const ComputeRun& run, const Interval& window) {
    add({std::max(run.start_ns, window.start), std::min(run.end_ns, window.end)}, LaneTime::kCompute);
  }

  // A stretch without compute; `launch_ns` is when the compute that ends it was launched.
  void pause(Interval time, int64_t launch_ns) {
    while (gap_ < idle_.gaps.size() && idle_.gaps[gap_].end_ns <= time.start) ++gap_;
    int64_t at = time.start;
    for (size_t g = gap_; g < idle_.gaps.size() && idle_.gaps[g].start_ns < time.end; ++g) {
      const Gap& gap = idle_.gaps[g];
      busy({at, std::min(gap.start_ns, time.end)}, launch_ns);
      at = std::max(at, gap.start_ns);
      add({at, std::min(gap.end_ns, time.end)}, lane_time(gap.cause));
      at = std::max(at, gap.end_ns);
    }
    busy({at, time.end}, launch_ns);
  }

  std::vector<LaneTile> tiles;

 private:
  void add(Interval time, LaneTime kind) {
    if (time.start < time.end) tiles.push_back({time.start, time.end, kind});
  }

  void busy(Interval time, int64_t launch_ns) {
    if (time.start >= time.end) return;
    int64_t at = time.start;
    for (const Interval& copy : clipped(device_.memory, time)) {
      uncaused({at, copy.start}, launch_ns);
      add(copy, LaneTime::kCopy);
      at = copy.end;
    }
    uncaused({at, time.end}, launch_ns);
  }

  void uncaused(Interval time, int64_t launch_ns) {
    if (time.start >= time.end) return;
    const bool late = launch_ns > time.start;
    int64_t at = time.start;
    const auto rest = [&](int64_t end) {
      add({at, end}, lane_time(late ? IdleCause::kHostBound : IdleCause::kDependency));
    };
    if (late) {
      for (const Interval& loading : clipped(loading_, time)) {
        rest(loading.start);
        add(loading, lane_time(IdleCause::kDataLoading));
        at = loading.end;
      }
    }
    rest(time.end);
  }

  const Intervals& loading_;
  const DeviceTime& device_;
  const DeviceIdle& idle_;
  size_t gap_ = 0;
};

}  // namespace

std::string_view lane_time_name(LaneTime kind) {
  switch (kind) {
    case LaneTime::kCompute: return "compute";
    case LaneTime::kCopy: return "copy";
    case LaneTime::kCommunication: return "communication";
    default: return idle_cause_name(static_cast<IdleCause>(static_cast<int>(kind) - static_cast<int>(LaneTime::kIdle)));
  }
}

std::vector<ComputeRun> compute_runs(const Facts& facts, const DeviceTime& device) {
  const Trace& trace = facts.trace();
  const std::vector<WorkKind>& kind = facts.get<Devices>().kind;
  std::vector<ComputeRun> runs;
  runs.reserve(device.compute.size());
  uint32_t row = device.begin.value;
  for (const Interval& time : device.compute) {
    const auto before = [&](uint32_t r) {
      return kind[r] != WorkKind::kCompute || trace.activity.start_ns[r] < time.start;
    };
    while (row < device.end.value && before(row)) ++row;
    ComputeRun run{time.start, time.end, ComputeRun::kNoLaunch};
    if (row < device.end.value && trace.activity.launch[row].valid())
      run.launch_ns = trace.host.start_ns[trace.activity.launch[row].value];
    runs.push_back(run);
  }
  return runs;
}

std::vector<LaneTile> lane_tiles(const Facts& facts, const DeviceTime& device, const std::vector<ComputeRun>& runs) {
  const auto place = static_cast<size_t>(&device - facts.get<Devices>().devices.data());
  Tiler tiler(facts, device, facts.get<Idle>().devices[place]);
  size_t run = 0;
  for (const Interval& window : facts.trace().windows) {
    int64_t at = window.start;
    for (; run < runs.size() && runs[run].start_ns < window.end; ++run) {
      tiler.pause({at, runs[run].start_ns}, runs[run].launch_ns);
      tiler.compute(runs[run], window);
      at = std::max(at, std::min(runs[run].end_ns, window.end));
    }
    tiler.pause({at, window.end}, INT64_MAX);   // nothing more was launched
  }
  return std::move(tiler.tiles);
}

}  // namespace profgpu
