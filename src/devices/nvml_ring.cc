#include "devices/nvml_ring.h"

#include <algorithm>

#include "base/steady_unix.h"

namespace profgpu::nvml {
namespace {

// Drivers say how much room they want; more than this would be a mistake.
constexpr uint32_t kMaxSamples = 1 << 16;
// Times further from ours than this are of another clock, and the buffer is of no use.
constexpr int64_t kPlausibleAge_ns = 3600LL * 1'000'000'000;
// No driver's period is longer; a longer distance is a silence.
constexpr int64_t kLongestPeriodNs = 1'000'000'000;
// How often a driver is asked that has not shown its period: none is finer.
constexpr int64_t kFinestPeriodNs = 20'000'000;

double number_of(const Value& value, uint32_t type) {
  switch (type) {
    case kDouble: return value.d;
    case kUint: return value.u32;
    case kSlonglong: return static_cast<double>(value.i64);
    default: return static_cast<double>(value.u64);
  }
}

}  // namespace

bool Ring::due(int64_t unix_ns) const {
  const int64_t period_ns = period_ns_ ? period_ns_ : kFinestPeriodNs;
  const int64_t since_ns = unix_ns - asked_ns_, entry_ns = unix_ns - static_cast<int64_t>(last_us_) * 1000;
  return since_ns < 0 || since_ns >= period_ns || (entry_ns >= period_ns && !silent(unix_ns));
}

Return Ring::fill(uint32_t& count, uint32_t& value_type) {
  const auto ask = calls_.library.api.samples;
  for (int attempt = 0; attempt < 3; ++attempt) {
    if (buffer_.empty()) {
      count = 0;
      const Return code = calls_.call(ask, type_, uint64_t{0}, &value_type, &count, static_cast<RingSample*>(nullptr));
      if (code != kSuccess) return code;
      depth_ = count;
      // The driver may hold a few more by the time it is asked for them.
      buffer_.resize(std::clamp<uint32_t>(count + 16, 128, kMaxSamples));
    }
    count = static_cast<uint32_t>(buffer_.size());
    // The driver's times are the system's clock's, before it was set and after.
    const int64_t seen_us = last_us_ == 0 ? 0 : static_cast<int64_t>(last_us_) + set_by_us_;
    const Return code = calls_.call(ask, type_, static_cast<uint64_t>(std::max<int64_t>(seen_us, 0)), &value_type,
                                    &count, buffer_.data());
    if (code != kInsufficientSize) return code;
    buffer_.clear();
  }
  return kInsufficientSize;
}

Return Ring::drain(Reading& reading) {
  if (!usable_) return kNotSupported;
  asked_ns_ = reading.time_ns;
  uint32_t count = 0, value_type = kUint;
  set_by_us_ = clock_set_by_ns() / 1000;
  const Return code = fill(count, value_type);
  if (is_final(code) || code == kInsufficientSize) usable_ = false;
  if (code != kSuccess) return code == kInsufficientSize ? kNotSupported : code;
  return add_new(std::min<uint32_t>(count, static_cast<uint32_t>(buffer_.size())), value_type, reading);
}

// Times as readings have them. What was taken before the clock was set back would be of the future. Returns how many
// entries stay.
uint32_t Ring::use_own_times(uint32_t count, int64_t now_ns) {
  if (set_by_us_ == 0) return count;
  for (uint32_t i = 0; i < count; ++i) buffer_[i].time_us -= static_cast<uint64_t>(set_by_us_);
  const auto last = buffer_.begin() + count;
  const auto latest_us = static_cast<uint64_t>(now_ns + kLongestPeriodNs) / 1000;
  const auto end = std::remove_if(buffer_.begin(), last, [&](const RingSample& s) { return s.time_us > latest_us; });
  return static_cast<uint32_t>(end - buffer_.begin());
}

Return Ring::add_new(uint32_t count, uint32_t value_type, Reading& reading) {
  count = use_own_times(count, reading.time_ns);
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
  learn_period(count);
  const bool first = last_us_ == 0;
  last_us_ = newest.time_us;
  calls_.note(metric_, kSuccess);
  if (first && (told_ns_ == 0 || newest_ns <= told_ns_)) {
    if (reading.time_ns - newest_ns > period_ns_ + period_ns_ / 2) return kNotFound;
    const bool told = std::any_of(reading.samples.begin(), reading.samples.end(),
                                  [&](const Sample& s) { return s.metric == metric_; });
    since_ns_ = std::max(newest_ns, reading.time_ns);
    if (!told) reading.add(metric_, number_of(newest.value, value_type) * scale_, since_ns_);
    told_ns_ = since_ns_ + 1;
    entry_ = true;
    return kSuccess;
  }
  for (uint32_t i = 0; i < count; ++i) {
    const auto ended_ns = static_cast<int64_t>(buffer_[i].time_us) * 1000;
    if (ended_ns <= told_ns_) continue;
    const int64_t begun_ns = std::max(ended_ns - period_ns_, told_ns_);
    add_silence(begun_ns, reading);
    reading.add(metric_, number_of(buffer_[i].value, value_type) * scale_, std::max(begun_ns, told_ns_), true);
    told_ns_ = since_ns_ = ended_ns;
    entry_ = true;
  }
  return kSuccess;
}

// The lower quartile of the last distances: no single late entry and no rest makes it longer.
void Ring::learn_period(uint32_t count) {
  for (uint32_t i = 0; i < count; ++i) {
    const uint64_t before_us = i > 0 ? buffer_[i - 1].time_us : last_us_;
    const auto distance_ns = static_cast<int64_t>(buffer_[i].time_us - before_us) * 1000;
    if (distance_ns > 0 && distance_ns <= kLongestPeriodNs)
      distances_[distance_count_++ % distances_.size()] = distance_ns;
  }
  if (distance_count_ == 0) return;
  auto sorted = distances_;
  const auto known = static_cast<ptrdiff_t>(std::min(distance_count_, sorted.size()));
  std::nth_element(sorted.begin(), sorted.begin() + known / 4, sorted.begin() + known);
  period_ns_ = sorted[static_cast<size_t>(known / 4)];
}

// What held between the last that is known and the next. Of a time longer than the buffer nothing can be said.
void Ring::add_silence(int64_t until_ns, Reading& reading) {
  const int64_t period_ns = period_ns_ ? period_ns_ : kLongestPeriodNs;
  if (metric_ == Metric::kPower || since_ns_ == 0 || until_ns - since_ns_ <= period_ns / 2) return;
  if (reading.time_ns - since_ns_ > depth_ * std::max(period_ns_, kFinestPeriodNs)) return;
  told_ns_ = std::max(told_ns_, since_ns_);
  reading.add(metric_, entry_ ? 0 : plain_, told_ns_++);
}

void Ring::add_plain(double value, Reading& reading) {
  int64_t begun_ns = told_ns_ ? reading.time_ns - period_ns_ : reading.time_ns;
  if (entry_ && value == 0) begun_ns = told_ns_;   // it rests since the last entry
  if (entry_) add_silence(begun_ns, reading);
  told_ns_ = std::max(told_ns_, begun_ns);
  reading.add(metric_, value, told_ns_++);
  since_ns_ = std::max(reading.time_ns, told_ns_);
  plain_ = value;
  entry_ = false;
}

}  // namespace profgpu::nvml
