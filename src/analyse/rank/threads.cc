#include "analyse/rank/threads.h"

#include <algorithm>
#include <functional>
#include <map>
#include <span>

#include "base/saturated.h"

namespace profgpu {
namespace {

// A counter goes back when the kernel reuses a dead thread's number: it counts anew from there.
int64_t passed(uint64_t before, uint64_t after) {
  return after > before ? static_cast<int64_t>(std::min<uint64_t>(after - before, INT64_MAX)) : 0;
}
// Of counters that may be unknown (-1): a thread without a record has not been off a CPU yet.
int64_t passed(int64_t before, int64_t after) {
  return passed(static_cast<uint64_t>(std::max<int64_t>(before, 0)),
                static_cast<uint64_t>(std::max<int64_t>(after, 0)));
}

using Samples = std::span<const ThreadSample>;
using ThreadWaits = std::span<const ThreadWait>;

// After it unblocks, a thread waits for a CPU: that time does not belong to the call that blocked it.
int64_t blocked_by_switches(const Samples& samples, int64_t waited_ns) {
  int64_t blocked = 0, preempted = 0;
  for (size_t i = 1; i < samples.size(); ++i) {
    blocked = saturated_add(blocked, passed(samples[i - 1].blocked_ns, samples[i].blocked_ns));
    preempted = saturated_add(preempted, passed(samples[i - 1].preempted_ns, samples[i].preempted_ns));
  }
  return blocked - std::max<int64_t>(waited_ns - preempted, 0);
}

void add_times(const Samples& samples, ThreadTime& t) {
  t.observed_ns = samples.back().time_ns - samples.front().time_ns;
  const auto add = [](int64_t& sum, int64_t more, int64_t most) { sum = std::min(saturated_add(sum, more), most); };
  for (size_t i = 1; i < samples.size(); ++i) {
    const ThreadSample &before = samples[i - 1], &s = samples[i];
    add(t.user_ns, passed(before.user_ns, s.user_ns), t.observed_ns - t.system_ns);
    add(t.system_ns, passed(before.system_ns, s.system_ns), t.observed_ns - t.user_ns);
    add(t.waited_ns, passed(before.waited_ns, s.waited_ns), t.observed_ns);
  }
  const int64_t off_ns = t.observed_ns - t.user_ns - t.system_ns;
  t.from_switches = samples.back().blocked_ns >= 0;
  t.blocked_ns = t.from_switches ? std::clamp<int64_t>(blocked_by_switches(samples, t.waited_ns), 0, off_ns)
                                 : std::max<int64_t>(off_ns - t.waited_ns, 0);
  if (t.from_switches)
    t.waits = std::max<int64_t>(samples.back().waits - std::max<int64_t>(samples.front().waits, 0), 0);
}

// A wait is in one system call: that of the first sample within it.
int32_t call_of(const Samples& samples, const ThreadWait& wait) {
  const auto first = std::ranges::lower_bound(samples, wait.start_ns, {}, &ThreadSample::time_ns);
  return first != samples.end() && first->time_ns < wait.start_ns + wait.duration_ns ? first->system_call : -1;
}

ThreadTime time_of(const Samples& samples, const ThreadWaits& waits, std::vector<int32_t>& wait_calls) {
  ThreadTime t;
  t.thread = samples.front().thread;
  t.samples = static_cast<int64_t>(samples.size());
  add_times(samples, t);
  std::map<int32_t, ThreadTime::Call> calls;
  for (const ThreadSample& s : samples)
    if (s.state != 'R') ++calls[s.system_call].samples;
  for (const ThreadWait& w : waits) {
    wait_calls.push_back(call_of(samples, w));
    ThreadTime::Call& call = calls[wait_calls.back()];
    ++call.long_waits;
    call.long_waits_ns = saturated_add(call.long_waits_ns, w.duration_ns);
    t.longest_wait_ns = std::max(t.longest_wait_ns, w.duration_ns);
  }
  for (auto& [number, call] : calls) {
    call.number = number;
    call.samples_pct = percent_of(call.samples, t.samples);
    t.calls.push_back(call);
  }
  std::ranges::stable_sort(t.calls, std::greater(), &ThreadTime::Call::samples);
  return t;
}

}  // namespace

std::string system_call_name(int32_t number) {
  static const std::map<int32_t, const char*> kNames = {
      {0, "read"},           {1, "write"},          {7, "poll"},        {9, "mmap"},         {10, "mprotect"},
      {11, "munmap"},        {16, "ioctl"},         {17, "pread64"},    {18, "pwrite64"},    {19, "readv"},
      {20, "writev"},        {23, "select"},        {24, "sched_yield"}, {26, "msync"},      {28, "madvise"},
      {34, "pause"},         {35, "nanosleep"},     {40, "sendfile"},   {42, "connect"},     {43, "accept"},
      {44, "sendto"},        {45, "recvfrom"},      {46, "sendmsg"},    {47, "recvmsg"},     {61, "wait4"},
      {74, "fsync"},         {75, "fdatasync"},     {77, "ftruncate"},
      {128, "rt_sigtimedwait"}, {130, "rt_sigsuspend"},
      {202, "futex"},        {219, "restart_syscall"}, {230, "clock_nanosleep"}, {232, "epoll_wait"}, {247, "waitid"},
      {257, "openat"},       {262, "newfstatat"},   {270, "pselect6"},  {271, "ppoll"},      {281, "epoll_pwait"},
      {288, "accept4"},      {295, "preadv"},       {426, "io_uring_enter"}, {441, "epoll_pwait2"},
      {449, "futex_waitv"}};
  if (number < 0) return "unknown";
  const auto it = kNames.find(number);
  return it != kNames.end() ? it->second : "system call " + std::to_string(number);
}

std::vector<ThreadTime> ThreadTime::rows(const Facts& facts) { return facts.get<ThreadTimes>().threads; }

ThreadTimes ThreadTimes::compute(const Facts& facts) {
  const std::vector<ThreadSample>& samples = facts.trace().thread_samples;
  const std::vector<ThreadWait>& waits = facts.trace().thread_waits;
  ThreadTimes all;
  const auto end_of = [](const auto& rows, size_t i, ThreadId thread) {
    while (i < rows.size() && rows[i].thread == thread) ++i;
    return i;
  };
  for (size_t i = 0, w = 0; i < samples.size();) {
    const ThreadId thread = samples[i].thread;
    // A file may have waits of threads without samples.
    for (; w < waits.size() && waits[w].thread < thread; ++w) all.wait_calls.push_back(-1);
    const size_t j = end_of(samples, i, thread), v = end_of(waits, w, thread);
    ThreadTime& time =
        all.threads.emplace_back(time_of({samples.data() + i, j - i}, {waits.data() + w, v - w}, all.wait_calls));
    const Thread& of = facts.trace().threads[thread.value];
    time.process = of.process, time.id = of.id, time.name = of.name;
    i = j, w = v;
  }
  all.wait_calls.resize(waits.size(), -1);
  std::ranges::stable_sort(all.threads, std::greater(), [](const ThreadTime& t) { return t.user_ns + t.system_ns; });
  return all;
}

}  // namespace profgpu
