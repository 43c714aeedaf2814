// The driver's own sample buffers: what it measured since it was last asked, each with its time.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "devices/nvml_library.h"
#include "trace/sample.h"

namespace profgpu::nvml {

/// One buffer of one device. A slow poll misses nothing (up to the buffer's depth), a fast one invents nothing. An
/// entry is of the time since the one before, and its sample is stamped with the begin of that. Where the buffer of a
/// utilization is silent the device rests, unless a plain reading says otherwise: its driver makes no entries then.
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
  void begin(int64_t unix_ns) {
    if (told_ns_ == 0) told_ns_ = since_ns_ = unix_ns;
  }
  /// Something new may be there: the driver's own period has passed since the last entry, or since the last question.
  [[nodiscard]] bool due(int64_t unix_ns) const;
  /// The next entry should be there and is not: another source should be asked.
  [[nodiscard]] bool silent(int64_t unix_ns) const { return unix_ns - told_ns_ >= period_ns_ + period_ns_ / 8; }
  /// Adds what that other source says.
  void add_plain(double value, Reading& reading);
  [[nodiscard]] bool usable() const { return usable_; }

 private:
  Return fill(uint32_t& count, uint32_t& value_type);
  uint32_t use_own_times(uint32_t count, int64_t now_ns);
  Return add_new(uint32_t count, uint32_t value_type, Reading& reading);
  void learn_period(uint32_t count);
  void add_silence(int64_t until_ns, Reading& reading);

  DeviceCalls& calls_;
  SamplingType type_;
  Metric metric_;
  double scale_;
  bool usable_ = true;
  uint32_t depth_ = 0;            ///< entries that the driver keeps
  uint64_t last_us_ = 0;          ///< of the newest entry seen
  int64_t set_by_us_ = 0;         ///< clock_set_by_ns() when the driver was last asked
  int64_t asked_ns_ = 0;
  int64_t told_ns_ = 0;           ///< samples are in order: the next is not before this
  int64_t since_ns_ = 0;          ///< until when what was told last is known to have held
  bool entry_ = false;            ///< that was an entry
  double plain_ = 0;              ///< else what the other source said
  int64_t period_ns_ = 0;         ///< between entries; 0: not known
  std::array<int64_t, 16> distances_{};  ///< of the last entries
  size_t distance_count_ = 0;
  std::vector<RingSample> buffer_;
};

}  // namespace profgpu::nvml
