// What-if: the duration of the measured steps without a cause, from a replay of the trace's dependencies without it.
//
// The model: one host timeline, with launches and waits in recorded order and the recorded time between them. An
// activity starts when it has been launched, its predecessor on its stream has ended, and any other activity it waits
// for has ended, each plus the recorded delay. A wait of the host ends with the activity it waits for. Without a
// removal the replay equals the recording.
#pragma once

#include <algorithm>
#include <memory>

#include "analyse/rank/facts.h"
#include "analyse/rank/idle.h"
#include "trace/intervals.h"

namespace profgpu {

/// What a replay leaves out.
struct Removal {
  Intervals host_time;             ///< host time that is not spent; sorted, disjoint
  bool launch_latency = false;     ///< an activity that is launched in time starts as soon as its stream is free
  bool dependency_waits = false;   ///< activities never wait for other streams
  bool synchronization = false;    ///< the host never waits for the device
  std::vector<bool> activity;      ///< by ActivityId: takes no time, or only the part that is left; empty: none
  double left = 0;                 ///< of the duration of these
  std::vector<bool> in_time;       ///< by ActivityId: is launched before its stream is free; empty: as recorded
};

/// Wall time of the measured steps that a change saves. If the trace has no waits of the host for the device, it may
/// wait or work where the trace shows nothing of it: the most is saved if it waits, the least if it works.
struct Saving {
  int64_t least_ns = 0, most_ns = 0;
  [[nodiscard]] Saving up_to(int64_t ns) const { return {std::min(least_ns, ns), std::min(most_ns, ns)}; }
};

class Replay {
 public:
  /// Wall time of the measured steps that the removal saves, from 0 to all of it; nothing of the time between steps
  /// that is no step's (see Step::elapsed). If the device still works after the steps' end, because the host ran
  /// ahead, steps take as long as the device in the long run: the saved share of that time then applies to the steps'
  /// wall time.
  [[nodiscard]] Saving saved_by(const Removal& removal) const;
  /// Saving without the idle time of one cause on a device (index in Devices). At most that idle time within the
  /// measured steps, so that savings of different causes never count the same nanosecond.
  [[nodiscard]] Saving saved_by_cause(IdleCause cause, size_t device) const;
  /// Saving if communication took no time; at most the device's exposed communication.
  [[nodiscard]] Saving saved_by_communication(size_t device) const;

  static Replay compute(const Facts& facts);

 private:
  struct Model;
  /// With `unseen_waits`, the host waits for the device wherever it may.
  [[nodiscard]] int64_t played(const Removal& removal, bool unseen_waits) const;
  [[nodiscard]] int64_t of_runs(const Intervals& time) const;
  const Facts* facts_ = nullptr;
  std::shared_ptr<const Model> model_;
};

}  // namespace profgpu
