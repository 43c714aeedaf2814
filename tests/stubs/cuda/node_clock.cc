// Preloaded, it sets the clock of the day of a process ahead by NODE_CLOCK_AHEAD_NS, and has the kernel say that it is
// within NODE_CLOCK_ERROR_US, or where that is 0 that it is not synchronised. Clocks that waits are measured by stay as
// they are.
#include <dlfcn.h>
#include <sys/time.h>
#include <sys/timex.h>

#include <cstdlib>
#include <ctime>

#define SIM_EXPORT extern "C" __attribute__((visibility("default")))

namespace {

constexpr long kSecond_ns = 1'000'000'000;

using ClockGettime = int (*)(clockid_t, timespec*);

int shifted(clockid_t clock, timespec* t) {
  static const auto real = reinterpret_cast<ClockGettime>(dlsym(RTLD_NEXT, "clock_gettime"));
  static const char* const text = getenv("NODE_CLOCK_AHEAD_NS");
  static const long long ahead_ns = text != nullptr ? atoll(text) : 0;
  const int result = real(clock, t);
  if (result != 0 || (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE)) return result;
  const long long ns = t->tv_nsec + ahead_ns % kSecond_ns + kSecond_ns;   // never below 0
  t->tv_sec += static_cast<time_t>(ahead_ns / kSecond_ns + ns / kSecond_ns - 1);
  t->tv_nsec = static_cast<long>(ns % kSecond_ns);
  return 0;
}

}  // namespace

SIM_EXPORT int clock_gettime(clockid_t clock, timespec* t) noexcept { return shifted(clock, t); }

SIM_EXPORT int adjtimex(timex* t) noexcept {
  static const auto real = reinterpret_cast<int (*)(timex*)>(dlsym(RTLD_NEXT, "adjtimex"));
  static const char* const text = getenv("NODE_CLOCK_ERROR_US");
  if (text == nullptr) return real(t);
  constexpr long kNever_us = 16'000'000;   // what the kernel's maxerror stops at
  *t = {};
  t->maxerror = atol(text) > 0 ? atol(text) : kNever_us;
  t->esterror = t->maxerror / 2;
  t->status = atol(text) > 0 ? STA_PLL : STA_PLL | STA_UNSYNC;
  return atol(text) > 0 ? TIME_OK : TIME_ERROR;
}

SIM_EXPORT int gettimeofday(timeval* t, void*) noexcept {
  timespec now;
  const int result = shifted(CLOCK_REALTIME, &now);
  t->tv_sec = now.tv_sec, t->tv_usec = now.tv_nsec / 1000;
  return result;
}

SIM_EXPORT time_t time(time_t* t) noexcept {
  timespec now;
  shifted(CLOCK_REALTIME, &now);
  if (t != nullptr) *t = now.tv_sec;
  return now.tv_sec;
}
