#include "devices/nvml_ring.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace profgpu::nvml {
namespace {

// Drivers say how much room they want; more than this would be a mistake.
constexpr uint32_t kMaxSamples = 1 << 16;
// Times further from ours than this are of another clock, and the buffer is of no use.
constexpr int64_t kPlausibleAge_ns = 3600LL * 1'000'000'000;
// Older ones say nothing about the present when we begin.
constexpr int64_t kFreshNs = 2'000'000'000;
// Buffers that have had no entry for so long belong to a device at rest.
constexpr int64_t kQuietNs = 1'000'000'000;

double number_of(const Value& value, uint32_t type) {
  switch (type) {
    case kDouble: return value.d;
    case kUint: return value.u32;
    case kSlonglong: return static_cast<double>(value.i64);
    default: return static_cast<double>(value.u64);
  }
}

}  // namespace

bool Ring::quiet_since(int64_t unix_ns) const {
  return unix_ns - static_cast<int64_t>(last_us_) * 1000 > std::max(kQuietNs, 3 * period_ns_);
}

int64_t Ring::next_ns(int64_t unix_ns) const {
  const int64_t last_ns = static_cast<int64_t>(last_us_) * 1000;
  return last_ns ? std::max(last_ns + 1, unix_ns - period_ns_) : unix_ns;
}

Return Ring::fill(uint32_t& count, uint32_t& value_type) {
  const auto ask = calls_.library.api.samples;
  for (int attempt = 0; attempt < 3; ++attempt) {
    if (buffer_.empty()) {
      count = 0;
      const Return code = calls_.call(ask, type_, uint64_t{0}, &value_type, &count, static_cast<RingSample*>(nullptr));
      if (code != kSuccess) return code;
      // The driver may hold a few more by the time it is asked for them.
      buffer_.resize(std::clamp<uint32_t>(count + 16, 128, kMaxSamples));
    }
    count = static_cast<uint32_t>(buffer_.size());
    const Return code = calls_.call(ask, type_, last_us_, &value_type, &count, buffer_.data());
    if (code != kInsufficientSize) return code;
    buffer_.clear();
  }
  return kInsufficientSize;
}

Return Ring::drain(Reading& reading) {
  if (!usable_) return kNotSupported;
  uint32_t count = 0, value_type = kUint;
  const Return code = fill(count, value_type);
  if (is_final(code) || code == kInsufficientSize) usable_ = false;
  if (code != kSuccess) return code == kInsufficientSize ? kNotSupported : code;
  return add_new(std::min<uint32_t>(count, static_cast<uint32_t>(buffer_.size())), value_type, reading);
}

Return Ring::add_new(uint32_t count, uint32_t value_type, Reading& reading) {
  const auto last = buffer_.begin() + count;
  // In order of time on all drivers seen, but nothing says so.
  std::sort(buffer_.begin(), last, [](const RingSample& a, const RingSample& b) { return a.time_us < b.time_us; });
  if (count == 0 || buffer_[count - 1].time_us <= last_us_) return kNotFound;
  const RingSample newest = buffer_[count - 1];
  const auto newest_ns = static_cast<int64_t>(std::min<uint64_t>(newest.time_us, INT64_MAX / 1000) * 1000);
  if (std::llabs(newest_ns - reading.time_ns) > kPlausibleAge_ns) {
    usable_ = false;
    return kNotSupported;
  }
  if (count > 1) period_ns_ = static_cast<int64_t>(newest.time_us - buffer_[count - 2].time_us) * 1000;
  const bool first = last_us_ == 0;
  const uint64_t seen_us = std::max(std::exchange(last_us_, newest.time_us), begun_us_);
  calls_.note(metric_, kSuccess);
  if (first && (begun_us_ == 0 || newest.time_us <= begun_us_)) {
    if (reading.time_ns - newest_ns > kFreshNs) return kNotFound;
    const bool told = std::any_of(reading.samples.begin(), reading.samples.end(),
                                  [&](const Sample& s) { return s.metric == metric_; });
    if (told) return kSuccess;
    reading.add(metric_, number_of(newest.value, value_type) * scale_, std::max(newest_ns, reading.time_ns));
    return kSuccess;
  }
  uint64_t before_us = seen_us;
  for (uint32_t i = 0; i < count; ++i) {
    if (buffer_[i].time_us <= before_us) continue;
    before_us = buffer_[i].time_us;
    reading.add(metric_, number_of(buffer_[i].value, value_type) * scale_, static_cast<int64_t>(before_us) * 1000);
  }
  return kSuccess;
}

}  // namespace profgpu::nvml
