// The driver's own sample buffers: what it measured since it was last asked, each with its time.
#pragma once

#include <cstdint>
#include <vector>

#include "devices/nvml_library.h"
#include "trace/sample.h"

namespace profgpu::nvml {

/// One buffer of one device. A slow poll misses nothing (up to the buffer's depth), a fast one invents nothing.
class Ring {
 public:
  /// `scale`: the driver's number times this is ours.
  Ring(DeviceCalls& calls, SamplingType type, Metric metric, double scale)
      : calls_(calls), type_(type), metric_(metric), scale_(scale) {}

  /// Adds what is new; of the first time, when the buffer is full of the past, what came since begin(), else the newest
  /// alone, as of now.
  /// kNotFound: there is nothing new.
  Return drain(Reading& reading);
  /// The past ends here.
  void begin(int64_t unix_ns) { begun_us_ = static_cast<uint64_t>(unix_ns / 1000); }
  /// It has told nothing for so long that another source should be asked.
  [[nodiscard]] bool quiet_since(int64_t unix_ns) const;
  /// When a value asked elsewhere may be said to hold: behind all that this buffer may still tell.
  [[nodiscard]] int64_t next_ns(int64_t unix_ns) const;
  [[nodiscard]] bool usable() const { return usable_; }

 private:
  Return fill(uint32_t& count, uint32_t& value_type);
  Return add_new(uint32_t count, uint32_t value_type, Reading& reading);

  DeviceCalls& calls_;
  SamplingType type_;
  Metric metric_;
  double scale_;
  bool usable_ = true;
  uint64_t last_us_ = 0;          ///< of the newest sample seen
  uint64_t begun_us_ = 0;         ///< 0: has not begun
  int64_t period_ns_ = 0;         ///< between the last two
  std::vector<RingSample> buffer_;
};

}  // namespace profgpu::nvml
