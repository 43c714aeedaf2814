// What is done again and again by bench/switches.py, with context switches recorded and not:
//
//   switches pipe N one|two      N round trips of a byte between two processes, on one processor or one each
//   switches threads N           N threads that are begun and end, one after the other
//   switches processors K WORDS  the same with as many events as K more processors would bring
//
// Prints {"ns": of one}.
#include <fcntl.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

#include "devices/switch_event.h"

namespace {

using Clock = std::chrono::steady_clock;

void stay_on(int processor) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(processor, &set);
  ::sched_setaffinity(0, sizeof set, &set);
}

int say(Clock::time_point begin, long n) {
  const std::chrono::duration<double, std::nano> passed = Clock::now() - begin;
  std::printf("{\"ns\": %.1f}\n", passed.count() / static_cast<double>(n));
  return 0;
}

// Reads a byte and writes one, as often.
bool pass_on(int from, int to, long n) {
  char byte = 0;
  for (long i = 0; i < n; ++i)
    if (::read(from, &byte, 1) != 1 || ::write(to, &byte, 1) != 1) return false;
  return true;
}

int pipes(long n, bool apart) {
  int there[2], back[2];
  if (::pipe(there) != 0 || ::pipe(back) != 0) return 1;
  stay_on(0);
  const pid_t other = ::fork();
  if (other == 0) {
    if (apart) stay_on(1);
    ::_exit(pass_on(there[0], back[1], n) ? 0 : 1);
  }
  const auto begin = Clock::now();
  if (::write(there[1], "x", 1) != 1 || !pass_on(back[0], there[1], n - 1)) return 1;
  ::waitpid(other, nullptr, 0);
  return say(begin, n);
}

int threads(long n) {
  stay_on(0);
  const auto begin = Clock::now();
  for (long i = 0; i < n; ++i) std::thread([] {}).join();
  return say(begin, n);
}

// Events of another processor than the one that is worked on are only walked past.
int more_processors(long k, char** words) {
  for (long i = 0; i < k; ++i)
    if (::fcntl(profgpu::open_switch_event(1, 1 << 20), F_SETFD, 0) != 0) return std::perror("perf_event_open"), 1;
  ::execv("/proc/self/exe", words);
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 2 ? argv[1] : "";
  const long n = argc > 2 ? std::atol(argv[2]) : 0;
  if (what == "pipe" && argc == 4 && n > 1) return pipes(n, argv[3] == std::string("two"));
  if (what == "threads" && n > 0) return threads(n);
  if (what == "processors" && argc > 4) return more_processors(n, argv + 2);
  return std::fprintf(stderr, "usage: see the source\n"), 2;
}
