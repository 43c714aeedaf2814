// What-if: how long the measured steps would have taken without a cause, by replaying the trace's own dependencies
// with that cause taken out.
//
// The model: one host timeline, on which launches and waits happen in their recorded order with the recorded time
// between them; an activity starts when it has been launched, the activity before it on its stream has ended, and any
// other it had to wait for has ended, each with the delay that was recorded; a wait of the host ends when the activity
// it waited for has. With nothing taken out the replay is the recording.
#pragma once

#include <memory>

#include "analyse/facts.h"
#include "analyse/idle.h"
#include "trace/intervals.h"

namespace profgpu {

/// What is taken out of the trace.
struct Removal {
  Intervals host_time;             ///< host time that is not spent; sorted, disjoint
  bool launch_latency = false;     ///< an activity that was launched in time starts as soon as its stream is free
  bool dependency_waits = false;   ///< an activity never waits for another stream
  bool synchronization = false;    ///< the host never waits for the device
  std::vector<bool> activity;      ///< by ActivityId: takes no time; empty: all take theirs
};

class Replay {
 public:
  /// Wall time that the measured steps would not have taken, at least 0 and at most all of it. Nanoseconds.
  [[nodiscard]] int64_t saved_by(const Removal& removal) const;
  /// Saving if all idle time of one cause were gone; never more than that cause's idle time within the measured steps
  /// on the busiest device, so that savings of different causes never count a nanosecond twice.
  [[nodiscard]] int64_t saved_by_cause(IdleCause cause) const;
  /// Saving if communication took no time; at most the exposed communication within the measured steps on the busiest
  /// device.
  [[nodiscard]] int64_t saved_by_communication() const;

  static Replay compute(const Facts& facts);

 private:
  struct Model;
  const Facts* facts_ = nullptr;
  std::shared_ptr<const Model> model_;
};

}  // namespace profgpu
