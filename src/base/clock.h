// Clocks, in nanoseconds.
#pragma once

#include <cstdint>
#include <ctime>
#include <optional>
#include <string>
#include <string_view>

namespace profgpu {

inline int64_t clock_ns(clockid_t clock) {
  timespec t{};
  clock_gettime(clock, &t);
  return int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
}
/// Never goes back; its zero means nothing.
inline int64_t monotonic_ns() { return clock_ns(CLOCK_MONOTONIC); }
inline int64_t unix_ns() { return clock_ns(CLOCK_REALTIME); }
inline int64_t thread_cpu_ns() { return clock_ns(CLOCK_THREAD_CPUTIME_ID); }

// TickTimer: wakes one thread on an absolute schedule, without the lock that a condition variable comes with.

class TickTimer {
 public:
  TickTimer();
  ~TickTimer();
  TickTimer(const TickTimer&) = delete;
  TickTimer& operator=(const TickTimer&) = delete;

  /// A tick at `first_ns` (CLOCK_MONOTONIC) and each interval from there on. By any thread; who waits, waits for these.
  void start(int64_t first_ns, int64_t interval_ns);
  /// wait() returns, now or when it is next called.
  void wake() { start(1, 0); }
  /// Until the next tick; at once where one has passed since the last wait. May return early: look at the clock.
  void wait();

 private:
  int fd_;   // -1: the process has too many files open
};

// Unix times as text.

enum class TimestampStyle {
  kUnixNs,     ///< "1767225600123456789"
  kEpoch,      ///< "1767225600.123456", seconds
  kIso,        ///< "2026-01-01T00:00:00.123Z"
  kNvidiaSmi,  ///< "2026/01/01 00:00:00.123", local time
};
std::string timestamp_text(int64_t unix_ns, TimestampStyle style);

enum class TimeZone { kLocal, kUtc };
/// As strftime(3) writes it; at most 63 bytes.
std::string formatted_time(int64_t unix_ns, const char* format, TimeZone zone = TimeZone::kLocal);
/// "12:34:56", local.
inline std::string clock_time(int64_t unix_ns) { return formatted_time(unix_ns, "%H:%M:%S"); }

/// Reads any of these styles: ISO 8601 also with an offset, or without one as local time; bare numbers are seconds,
/// milliseconds, microseconds or nanoseconds, whichever gives a year from 1973 to 2262.
class TimestampReader {
 public:
  /// Unix time; nullopt for what is no time, or one before 1970.
  std::optional<int64_t> read(std::string_view text);

 private:
  std::optional<int64_t> date_and_time(std::string_view text);

  std::string minute_;        // mktime is slow: the minute that was asked last
  bool minute_has_zone_ = false;
  int64_t minute_s_ = 0;
};

}  // namespace profgpu
