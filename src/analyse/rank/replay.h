// What-if: how long the measured steps would have taken without a cause, by replaying the trace's own dependencies
// with that cause taken out.
//
// The model: one host timeline, on which launches and waits happen in their recorded order with the recorded time
// between them; an activity starts when it has been launched, the activity before it on its stream has ended, and any
// other it had to wait for has ended, each with the delay that was recorded; a wait of the host ends when the activity
// it waited for has. With nothing taken out the replay is the recording.
#pragma once

#include <memory>

#include "analyse/rank/facts.h"
#include "analyse/rank/idle.h"
#include "trace/intervals.h"

namespace profgpu {

/// What is taken out of the trace.
struct Removal {
  Intervals host_time;             ///< host time that is not spent; sorted, disjoint
  bool launch_latency = false;     ///< an activity that was launched in time starts as soon as its stream is free
  bool dependency_waits = false;   ///< an activity never waits for another stream
  bool synchronization = false;    ///< the host never waits for the device
  std::vector<bool> activity;      ///< by ActivityId: takes no time; empty: all take theirs
  std::vector<bool> in_time;       ///< by ActivityId: was launched before its stream was free; empty: as recorded
};

class Replay {
 public:
  /// Wall time that the measured steps would not have taken, at least 0 and at most all of it. Nanoseconds. Where the
  /// device works on after the steps' end, since the host ran ahead of it, steps in their long run take as long as the
  /// device does: then it is the share of that time which is saved, of the steps' wall time.
  [[nodiscard]] int64_t saved_by(const Removal& removal) const;
  /// Saving if all idle time of one cause on a device (by its place in Devices) were gone; never more than that, so
  /// that savings of different causes never count a nanosecond twice. Idle is its whole window, see DeviceIdle.
  [[nodiscard]] int64_t saved_by_cause(IdleCause cause, size_t device) const;
  /// Saving if communication took no time; at most the exposed communication of the device.
  [[nodiscard]] int64_t saved_by_communication(size_t device) const;

  static Replay compute(const Facts& facts);

 private:
  struct Model;
  [[nodiscard]] int64_t of_runs(const Intervals& time) const;
  const Facts* facts_ = nullptr;
  std::shared_ptr<const Model> model_;
};

}  // namespace profgpu
