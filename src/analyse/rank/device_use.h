// What people read about a device: how busy it is and why it idles, over the time that averages are over.
#pragma once

#include <vector>

#include "analyse/rank/facts.h"
#include "analyse/rank/idle.h"
#include "analyse/report/document.h"
#include "base/statistics.h"

namespace profgpu {

struct IdleShare {
  IdleCause cause = IdleCause::kUnknown;
  int64_t total_ns = 0;
  double window_pct = 0;

  void fields(auto&& v) const {
    v("cause", idle_cause_name(cause)), v("total_ns", total_ns), v("window_pct", window_pct);
  }
};

/// Of a device's window, or only of the measured steps, see AveragedTime.
struct DeviceUse {
  int32_t device = 0;
  bool of_steps = false;   ///< warm-up and long pauses between steps are left out
  int64_t window_ns = 0, busy_ns = 0, compute_ns = 0, communication_ns = 0, memory_ns = 0;
  int64_t exposed_communication_ns = 0, exposed_memory_ns = 0;
  std::vector<IdleShare> idle;   ///< longest first; adds up to window less busy
  int32_t host_index = -1;       ///< as the machine numbers it, where that is known and another number

  [[nodiscard]] double busy_pct() const { return percent_of(busy_ns, window_ns); }
  /// Percent of the window.
  [[nodiscard]] double idle_pct(IdleCause cause) const;
  void fields(auto&& v) const {
    v("device", device), v("of_steps", of_steps), v("window_ns", window_ns), v("busy_ns", busy_ns);
    v("busy_pct", only_if(window_ns > 0, busy_pct())), v("compute_ns", compute_ns);
    v("communication_ns", communication_ns), v("memory_ns", memory_ns);
    v("exposed_communication_ns", exposed_communication_ns), v("exposed_memory_ns", exposed_memory_ns);
    v("idle", idle);
  }
  /// By device id.
  static std::vector<DeviceUse> rows(const Facts& facts);
};

}  // namespace profgpu
