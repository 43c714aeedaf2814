#include "base/clock.h"

#include <fmt/format.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <ctime>

#include "base/decimal.h"
#include "base/text.h"

namespace profgpu {

namespace {

constexpr timespec kWithoutTimer{0, 1'000'000};

timespec spec(int64_t ns) { return {ns / 1'000'000'000, ns % 1'000'000'000}; }

}  // namespace

TickTimer::TickTimer() : fd_(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC)) {}
TickTimer::~TickTimer() {
  if (fd_ >= 0) ::close(fd_);
}

void TickTimer::start(int64_t first_ns, int64_t interval_ns) {
  const itimerspec schedule{spec(interval_ns), spec(first_ns)};
  if (fd_ >= 0) ::timerfd_settime(fd_, TFD_TIMER_ABSTIME, &schedule, nullptr);
}

void TickTimer::wait() {
  uint64_t ticks = 0;
  if (fd_ < 0 || ::read(fd_, &ticks, sizeof ticks) < 0) ::nanosleep(&kWithoutTimer, nullptr);
}

namespace {

constexpr int64_t kSecond_ns = 1'000'000'000;
constexpr int64_t kLatestStamp_ns = 9'200'000'000'000'000'000;

// The number that stands at text[at], of `digits` digits; -1 for anything else.
int number_at(std::string_view text, size_t at, size_t digits) {
  if (text.size() < at + digits) return -1;
  int n = 0;
  for (size_t i = at; i < at + digits; ++i) {
    if (!is_digit(text[i])) return -1;
    n = n * 10 + (text[i] - '0');
  }
  return n;
}

// "Z", "+01:00", "-0130" to seconds east of Greenwich.
std::optional<int> zone_offset_s(std::string_view zone) {
  if (zone == "Z" || zone == "z") return 0;
  if (zone.size() != 5 && zone.size() != 6) return std::nullopt;
  const int hours = number_at(zone, 1, 2), minutes = number_at(zone, zone.size() - 2, 2);
  if ((zone[0] != '+' && zone[0] != '-') || (zone.size() == 6 && zone[3] != ':') || hours < 0 || hours > 14 ||
      minutes < 0)
    return std::nullopt;
  return (zone[0] == '-' ? -60 : 60) * (hours * 60 + minutes);
}

std::optional<int64_t> bare_number(std::string_view text) {
  const auto whole = scaled_decimal(text.substr(0, text.find_first_of(".eE")), 0);
  if (!whole || *whole < 0) return std::nullopt;
  const int scale = *whole < 100'000'000'000           ? 9
                    : *whole < 100'000'000'000'000     ? 6
                    : *whole < 100'000'000'000'000'000 ? 3
                                                       : 0;
  return scaled_decimal(text, scale);
}

}  // namespace

std::string formatted_time(int64_t unix_ns, const char* format, TimeZone zone) {
  const std::time_t seconds = unix_ns / kSecond_ns;
  std::tm t{};
  zone == TimeZone::kUtc ? ::gmtime_r(&seconds, &t) : ::localtime_r(&seconds, &t);
  std::array<char, 64> text{};
  return {text.data(), std::strftime(text.data(), text.size(), format, &t)};
}

std::string timestamp_text(int64_t unix_ns, TimestampStyle style) {
  const int64_t ns = unix_ns % kSecond_ns;
  switch (style) {
    case TimestampStyle::kUnixNs: break;
    case TimestampStyle::kEpoch: return fmt::format("{}.{:06}", unix_ns / kSecond_ns, ns / 1000);
    case TimestampStyle::kIso:
      return fmt::format("{}.{:03}Z", formatted_time(unix_ns, "%Y-%m-%dT%H:%M:%S", TimeZone::kUtc), ns / 1'000'000);
    case TimestampStyle::kNvidiaSmi:
      return fmt::format("{}.{:03}", formatted_time(unix_ns, "%Y/%m/%d %H:%M:%S"), ns / 1'000'000);
  }
  return std::to_string(unix_ns);
}

// YYYY/MM/DD HH:MM:SS and YYYY-MM-DDTHH:MM:SS, then a fraction and a zone that may both be left out.
std::optional<int64_t> TimestampReader::date_and_time(std::string_view text) {
  constexpr size_t kMinutes = 16, kSeconds = 19;
  const int second = number_at(text, 17, 2);
  if (second < 0 || second > 60 || text[16] != ':') return std::nullopt;
  std::string_view zone = text.substr(kSeconds);
  int64_t ns = 0;
  if (zone.starts_with('.') || zone.starts_with(',')) {
    const size_t end = std::min(zone.find_first_not_of("0123456789", 1), zone.size());
    const auto fraction = scaled_decimal("0." + std::string(zone.substr(1, end - 1)), 9);
    if (!fraction) return std::nullopt;
    ns = *fraction;
    zone.remove_prefix(end);
  }
  const auto offset_s = zone_offset_s(zone);
  if (!offset_s && !zone.empty()) return std::nullopt;
  const std::string_view minute = text.substr(0, kMinutes);
  if (minute != minute_ || offset_s.has_value() != minute_has_zone_) {
    std::tm t{};
    t.tm_year = number_at(text, 0, 4) - 1900, t.tm_mon = number_at(text, 5, 2) - 1, t.tm_mday = number_at(text, 8, 2);
    t.tm_hour = number_at(text, 11, 2), t.tm_min = number_at(text, 14, 2), t.tm_isdst = -1;
    const bool shape = text[4] == text[7] && (text[4] == '/' || text[4] == '-') &&
                       (text[10] == ' ' || text[10] == 'T') && text[13] == ':';
    if (!shape || t.tm_year < 70 || t.tm_mon < 0 || t.tm_mon > 11 || t.tm_mday < 1 || t.tm_mday > 31 || t.tm_hour < 0 ||
        t.tm_hour > 23 || t.tm_min < 0 || t.tm_min > 59)
      return std::nullopt;
    minute_s_ = offset_s ? ::timegm(&t) : ::mktime(&t);
    minute_ = minute;
    minute_has_zone_ = offset_s.has_value();
  }
  const int64_t s = minute_s_ + second - offset_s.value_or(0);
  if (s < 0 || s > kLatestStamp_ns / kSecond_ns) return std::nullopt;
  return s * kSecond_ns + ns;
}

std::optional<int64_t> TimestampReader::read(std::string_view text) {
  auto time = text.size() >= 19 && (text[4] == '/' || text[4] == '-') ? date_and_time(text) : bare_number(text);
  if (!time || *time < 0 || *time > kLatestStamp_ns) return std::nullopt;
  return time;
}

}  // namespace profgpu
