// GPM: the activity counters of Hopper and newer, also of MIG instances, without root.
#pragma once

#include "collect/nvml_calls.h"
#include "trace/sample.h"

namespace profgpu::nvml {

class Gpm {
 public:
  explicit Gpm(DeviceCalls& calls) : calls_(calls) {}
  ~Gpm();
  Gpm(const Gpm&) = delete;
  Gpm& operator=(const Gpm&) = delete;

  /// Takes the counters and adds what they say about the time since the last take, stamped with its begin.
  Return read(int64_t now_ns, Reading& reading);

 private:
  Return start();
  Return take(GpmSample sample);
  Return add_metrics(GpmSample now, Reading& reading);

  DeviceCalls& calls_;
  bool started_ = false;
  GpmSample before_ = nullptr, after_ = nullptr;
  int64_t taken_ns_ = 0;       ///< monotonic; 0: nothing yet
  int64_t taken_unix_ns_ = 0;
};

}  // namespace profgpu::nvml
