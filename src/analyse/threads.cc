#include "analyse/threads.h"

#include <algorithm>
#include <map>

#include "analyse/analysis.h"

namespace profgpu {
namespace {

// Counters go back where the kernel gave a dead thread's number to a new one; what follows counts from there.
int64_t passed(uint64_t before, uint64_t after) {
  return after > before ? static_cast<int64_t>(std::min<uint64_t>(after - before, INT64_MAX)) : 0;
}

ThreadTime time_of(const ThreadSample* first, const ThreadSample* end) {
  ThreadTime t;
  t.thread = first->thread;
  t.samples = end - first;
  t.observed_ns = (end - 1)->time_ns - first->time_ns;
  std::map<int32_t, int64_t> calls;
  for (const ThreadSample* s = first; s != end; ++s) {
    if (s != first) {
      t.user_ns = std::min<int64_t>(t.user_ns + passed((s - 1)->user_ns, s->user_ns), t.observed_ns);
      t.system_ns =
          std::min<int64_t>(t.system_ns + passed((s - 1)->system_ns, s->system_ns), t.observed_ns - t.user_ns);
      t.waited_ns = std::min<int64_t>(t.waited_ns + passed((s - 1)->waited_ns, s->waited_ns), t.observed_ns);
    }
    if (s->state == 'R') continue;
    ++t.blocked_samples;
    ++calls[s->system_call];
  }
  for (const auto& [number, samples] : calls) t.calls.push_back({number, samples});
  std::stable_sort(t.calls.begin(), t.calls.end(), [](const auto& a, const auto& b) { return a.samples > b.samples; });
  return t;
}

double percent(int64_t part, int64_t whole) {
  return whole > 0 ? 100.0 * static_cast<double>(part) / static_cast<double>(whole) : 0;
}

Value show(const Facts& facts) {
  const Trace& trace = facts.trace();
  Table t;
  t.columns = {"process", "thread",  "name",      "samples",     "observed_ns",
               "cpu_ns",  "cpu_pct", "waited_ns", "blocked_pct", "blocked_in"};
  for (const ThreadTime& time : facts.get<ThreadTimes>().threads) {
    const Thread& thread = trace.threads[time.thread.value];
    Table calls;
    calls.columns = {"call", "samples_pct"};
    for (const ThreadTime::Call& c : time.calls)
      calls.rows.push_back({system_call_name(c.number), percent(c.samples, time.samples)});
    t.rows.push_back({thread.process, thread.id, thread.name.empty() ? Value() : Value(thread.name), time.samples,
                      time.observed_ns, time.user_ns + time.system_ns, time.cpu_pct(), time.waited_ns,
                      time.blocked_pct(), calls});
  }
  return t;
}

}  // namespace

double ThreadTime::cpu_pct() const { return percent(user_ns + system_ns, observed_ns); }
double ThreadTime::blocked_pct() const { return percent(blocked_samples, samples); }

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

ThreadTimes ThreadTimes::compute(const Facts& facts) {
  const std::vector<ThreadSample>& samples = facts.trace().thread_samples;
  ThreadTimes all;
  for (size_t i = 0; i < samples.size();) {
    size_t j = i;
    while (j < samples.size() && samples[j].thread == samples[i].thread) ++j;
    all.threads.push_back(time_of(samples.data() + i, samples.data() + j));
    i = j;
  }
  std::stable_sort(all.threads.begin(), all.threads.end(), [](const ThreadTime& a, const ThreadTime& b) {
    return a.user_ns + a.system_ns > b.user_ns + b.system_ns;
  });
  return all;
}

extern const Analysis kThreadsSection;
const Analysis kThreadsSection = {"threads", "Threads",
                                  "processor time of each thread, and the system calls it waits in", show};

}  // namespace profgpu
