// host: memory bandwidth by node, and what slows a launching thread: timers, wake-ups, starting programs.
#include <fmt/format.h>
#include <sched.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <latch>
#include <memory>
#include <thread>

#include "base/clock.h"
#include "base/statistics.h"
#include "measure/benchmark.h"
#include "measure/memory_nodes.h"

namespace profgpu {
namespace {

constexpr int64_t kCopiedBytes = int64_t{512} << 20;   // by all threads of a node: over its caches
constexpr int64_t kMaxThreads = 64;
constexpr int64_t kSleep_ns = 100'000;
constexpr int kSteps = 1000;
constexpr size_t kLeastWakeUps = 100;              // of which one is 1 %

void stay_on(int cpu) {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(cpu, &one);
  (void)::sched_setaffinity(0, sizeof one, &one);
}

// Buffers of one thread, which touches them first, so that they lie on its node.
struct Share {
  explicit Share(int64_t size) : bytes(static_cast<size_t>(size)) {}
  void touch() {
    from = std::make_unique_for_overwrite<char[]>(bytes), to = std::make_unique_for_overwrite<char[]>(bytes);
    std::memset(from.get(), 1, bytes), std::memset(to.get(), 1, bytes);
  }
  void copy() const { std::memcpy(to.get(), from.get(), bytes); }

  size_t bytes;
  std::unique_ptr<char[]> from, to;
};

// `calls` copies on all of `cpus` at once: from when all are ready until the last is done.
Result<double> copy_on(const std::vector<int>& cpus, std::vector<Share>& shares, int64_t calls) {
  std::latch ready(static_cast<std::ptrdiff_t>(cpus.size()) + 1);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < cpus.size(); ++i)
    threads.emplace_back([&, i] {
      stay_on(cpus[i]);
      if (!shares[i].from) shares[i].touch();
      ready.arrive_and_wait();
      for (int64_t c = 0; c < calls; ++c) shares[i].copy();
    });
  ready.arrive_and_wait();
  const int64_t begin_ns = monotonic_ns();
  for (std::thread& t : threads) t.join();
  return static_cast<double>(monotonic_ns() - begin_ns);
}

void memory_of_node(Bench& bench, std::optional<int64_t> node, std::vector<int> cpus, std::string_view which) {
  if (cpus.empty()) return;
  const auto most = std::min(kCopiedBytes, bench.result().machine.memory_bytes / 16);
  const auto threads = std::min<int64_t>(static_cast<int64_t>(cpus.size()), kMaxThreads);
  cpus.resize(static_cast<size_t>(threads));
  const int64_t bytes = most / 2 / threads;
  std::vector<Share> shares;
  for (int64_t i = 0; i < threads; ++i) shares.emplace_back(bytes);
  Figure f = bench.figure(fmt::format("memory_copy_{}", which),
                          which == "one" ? "memory copy, one core" : "memory copy, all cores", nullptr, "GB/s");
  f.node = node;
  bench.measure(f, 2.0 * static_cast<double>(bytes * threads),
                [&](int64_t calls) { return copy_on(cpus, shares, calls); });
}

void memory(Bench& bench) {
  const std::vector<MemoryNode> nodes = memory_nodes();
  for (const MemoryNode& node : nodes) {
    memory_of_node(bench, node.number, {node.cpus.front()}, "one");
    memory_of_node(bench, node.number, node.cpus, "all");
  }
  if (!nodes.empty()) return;
  const std::vector<int> cpus = usable_cpus(fmt::format("0-{}", CPU_SETSIZE - 1));
  if (!cpus.empty()) memory_of_node(bench, std::nullopt, {cpus.front()}, "one");
  memory_of_node(bench, std::nullopt, cpus, "all");
}

// Host time of `part`, many times.
template <class Part>
TimedRun on_clock(Part part) {
  return [part](int64_t calls) mutable -> Result<double> {
    const int64_t begin_ns = monotonic_ns();
    if (const Status done = times(calls, part); !done) return done.error();
    return static_cast<double>(monotonic_ns() - begin_ns);
  };
}

Status start_program() {
  char program[] = "/bin/true";
  char* const arguments[] = {program, nullptr};
  pid_t child = 0;
  if (const int error = ::posix_spawn(&child, program, nullptr, nullptr, arguments, environ); error != 0)
    return Error{fmt::format("{}: {}", program, std::strerror(error))};
  int state = 0;
  while (::waitpid(child, &state, 0) < 0 && errno == EINTR) {}
  return ok();
}

// Each step needs the one before: what counts is how fast one core does one thing after another, as a thread that
// launches kernels does.
void core_speed(Bench& bench) {
  bench.measure(bench.figure("core_chain", fmt::format("one core, {} steps that need each other", kSteps)), 0,
                on_clock([state = uint64_t{1}]() mutable {
                  for (int i = 0; i < kSteps; ++i) {
                    state = state * 6364136223846793005U + 1442695040888963407U;
                    state ^= state >> 33;
                  }
                  return state != 0 ? ok() : Status(Error{"the chain ended"});
                }));
}

// What a launching thread meets now and then, the median of short runs does not show.
void wake_ups(Bench& bench) {
  std::vector<double> late;
  const auto usual = bench.measure(
      bench.figure("wake_up", "wake up late from a sleep of 100 µs"), 0, [&](int64_t calls) -> Result<double> {
        double sum_ns = 0;
        for (int64_t i = 0; i < calls; ++i) {
          const int64_t begin_ns = monotonic_ns();
          const timespec sleep{0, kSleep_ns};
          ::clock_nanosleep(CLOCK_MONOTONIC, 0, &sleep, nullptr);
          late.push_back(static_cast<double>(monotonic_ns() - begin_ns - kSleep_ns));
          sum_ns += late.back();
        }
        return std::max(sum_ns, 1.0);
      });
  if (!usual || late.size() < kLeastWakeUps) return;
  std::ranges::sort(late);
  const auto add = [&](const char* name, std::string label, double ns) {
    Figure f = bench.figure(name, std::move(label));
    f.value = f.best = std::max(ns, 1.0), f.runs = 1;
    bench.add(std::move(f));
  };
  add("wake_up_p99", fmt::format("of {} wake-ups, 1 % are later than", late.size()), percentile_of_sorted(late, 99));
  add("wake_up_latest", fmt::format("of {} wake-ups, the latest", late.size()), late.back());
}

void run_host(Bench& bench) {
  memory(bench);
  core_speed(bench);
  bench.measure(bench.figure("clock_read", "read the clock"), 0, on_clock([] {
    return monotonic_ns() >= 0 ? ok() : Status(Error{"the clock went back"});
  }));
  wake_ups(bench);
  bench.measure(bench.figure("start_program", "start a program and wait for its end"), 0, on_clock(start_program));
}

}  // namespace

extern const Benchmark kHost{
    .name = "host",
    .summary = "memory bandwidth of each node, speed of one core, timers, wake-ups, starting programs",
    .of_devices = false,
    .run = run_host,
};

}  // namespace profgpu
