#include "diagnose/blocked_thread.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "analyse/threads.h"
#include "trace/intervals.h"

namespace profgpu {
namespace {

constexpr int64_t kFewestSamples = 10;
constexpr double kWorthSayingPct = 30, kMostPct = 50;

/// What a thread does in a system call that blocks it.
struct Meaning {
  std::string_view does, fix;
  std::vector<std::string_view> calls;
};
const std::vector<Meaning>& meanings() {
  static const std::vector<Meaning> all = {
      {"it sleeps", "wait for what the program waits for, not for a time",
       {"nanosleep", "clock_nanosleep"}},
      {"it reads", "read ahead in other threads or processes: the one that launches should wait for no file",
       {"read", "pread64", "readv", "preadv", "io_uring_enter", "openat", "newfstatat"}},
      {"it writes", "write in another thread: the one that launches should wait for no file",
       {"write", "pwrite64", "writev", "fsync", "fdatasync", "msync", "ftruncate", "sendfile"}},
      {"it waits for another thread", "`--section threads` shows what the others do meanwhile", {"futex", "futex_waitv"}},
      {"it waits for the network or another process",
       "fetch ahead in other threads: the one that launches should wait for nobody outside",
       {"poll", "ppoll", "select", "pselect6", "epoll_wait", "epoll_pwait", "epoll_pwait2", "recvfrom", "recvmsg", "sendto",
        "sendmsg", "connect", "accept", "accept4"}},
      {"it waits for a process that it started", "let that process run beside the loop", {"wait4", "waitid"}}};
  return all;
}

/// Of the samples of launching threads within gaps.
struct Blocked {
  int64_t samples = 0, blocked = 0;
  std::map<int32_t, int64_t> calls;   // by system call
};

// From the gap's start to when the launch that ends it begins, by thread.
std::map<ThreadId, Intervals> until_launches(const Measured& m, IdleCause cause) {
  std::map<ThreadId, Intervals> waits;
  for (const Gap& gap : m.idle().gaps) {
    if (gap.cause != cause || !gap.launch.valid() || !m.in_measured_step(gap.end_ns - 1)) continue;
    const int64_t launch = m.trace().host.start_ns[gap.launch.value];
    waits[m.trace().host.thread[gap.launch.value]].push_back({gap.start_ns, std::min(launch, gap.end_ns)});
  }
  for (auto& [thread, intervals] : waits) intervals = merged(std::move(intervals));
  return waits;
}

Blocked blocked_in_gaps(const Measured& m, IdleCause cause) {
  const std::map<ThreadId, Intervals> waits = until_launches(m, cause);
  Blocked sum;
  for (const ThreadSample& s : m.trace().thread_samples) {
    const auto of_thread = waits.find(s.thread);
    if (of_thread == waits.end() || !contains(of_thread->second, s.time_ns)) continue;
    ++sum.samples;
    if (s.state == 'R') continue;
    ++sum.blocked;
    ++sum.calls[s.system_call];
  }
  return sum;
}

}  // namespace

std::optional<BlockedThread> blocked_thread(const Measured& measured, IdleCause cause) {
  const Blocked sum = blocked_in_gaps(measured, cause);
  if (sum.samples < kFewestSamples) return std::nullopt;
  const double pct = 100.0 * static_cast<double>(sum.blocked) / static_cast<double>(sum.samples);
  if (pct < kWorthSayingPct) return std::nullopt;
  BlockedThread out;
  out.said = fmt::format("meanwhile the thread that launches is blocked {:.0f} % of the time", pct);
  const auto most = std::max_element(sum.calls.begin(), sum.calls.end(),
                                     [](const auto& a, const auto& b) { return a.second < b.second; });
  if (most->first < 0) return out;
  const std::string call = system_call_name(most->first);
  out.said += (most->second == sum.blocked ? ", in " : ", mostly in ") + call;
  for (const Meaning& known : meanings()) {
    if (std::find(known.calls.begin(), known.calls.end(), call) == known.calls.end()) continue;
    out.said += fmt::format(": {}", known.does);
    if (pct >= kMostPct) out.fix = known.fix;
  }
  return out;
}

void add_blocked_thread(Finding& finding, const Measured& measured, IdleCause cause) {
  std::optional<BlockedThread> blocked = blocked_thread(measured, cause);
  if (!blocked) return;
  finding.evidence.insert(finding.evidence.begin(), std::move(blocked->said));
  if (!blocked->fix.empty()) finding.fix.insert(finding.fix.begin(), std::move(blocked->fix));
}

}  // namespace profgpu
