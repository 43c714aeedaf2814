#include "watch/live/thread_watch.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <set>

#include "base/clock.h"
#include "base/decimal.h"
#include "devices/system_files.h"

namespace profgpu {
namespace {

uint64_t number(const std::vector<std::string_view>& fields, size_t i) {
  if (i >= fields.size()) return 0;
  const auto n = whole_number(fields[i]);
  return n && *n > 0 ? static_cast<uint64_t>(*n) : 0;
}

uint64_t ticks_ns(uint64_t ticks) {
  static const uint64_t kTick_ns = 1'000'000'000 / static_cast<uint64_t>(std::max(::sysconf(_SC_CLK_TCK), 1L));
  return ticks * kTick_ns;
}

bool is_before(const WatchedThread& a, const WatchedThread& b) {
  return a.pid != b.pid ? a.pid < b.pid : a.tid < b.tid;
}

}  // namespace

void ThreadWatch::add_children(int64_t pid, std::vector<int64_t>& processes) const {
  const std::string tasks = fmt::format("{}/{}/task/", proc_, pid);
  for (const std::string& tid : folder_names(tasks)) {
    const std::string text = file_text(tasks + tid + "/children").value_or("");
    for (const std::string_view word : pieces_of(text, ' ')) {
      const auto child = whole_number(word);
      if (!child) continue;
      // A backend's, not the command's.
      const bool of_backend = pid == ancestor_ && file_line(fmt::format("{}/{}/comm", proc_, *child)) == "nvidia-smi";
      if (!of_backend) processes.push_back(*child);
    }
  }
}

void ThreadWatch::discover() {
  std::vector<int64_t> processes;
  add_children(ancestor_, processes);
  std::set<int64_t> seen;
  std::vector<WatchedThread> found;
  left_out_ = 0;
  for (size_t i = 0; i < processes.size(); ++i) {
    const int64_t pid = processes[i];
    if (!seen.insert(pid).second) continue;
    add_children(pid, processes);
    for (const std::string& name : folder_names(fmt::format("{}/{}/task", proc_, pid))) {
      const auto tid = whole_number(name);
      if (!tid) continue;
      if (found.size() == kMaxThreads) {
        ++left_out_;
        continue;
      }
      WatchedThread thread;
      thread.pid = static_cast<uint32_t>(pid);
      thread.tid = static_cast<uint32_t>(*tid);
      found.push_back(std::move(thread));
    }
  }
  std::sort(found.begin(), found.end(), is_before);
  for (WatchedThread& thread : found) {
    const auto known = std::lower_bound(threads_.begin(), threads_.end(), thread, is_before);
    if (known != threads_.end() && !is_before(thread, *known)) thread = std::move(*known);
  }
  threads_ = std::move(found);
}

bool ThreadWatch::read_one(WatchedThread& thread) {
  const std::string folder = fmt::format("{}/{}/task/{}/", proc_, thread.pid, thread.tid);
  const auto schedule = file_text(folder + "schedstat");
  thread.seen_ns = monotonic_ns();
  if (schedule) {
    const auto fields = pieces_of(without_blanks(*schedule), ' ');
    const uint64_t ran = number(fields, 0), turns = number(fields, 2);
    thread.waited_ns = number(fields, 1);
    thread.name_is_new = false;
    const bool slept = thread.state == 'S' || thread.state == 'D' || thread.state == 'T' || thread.state == 't';
    if (slept && ran == thread.ran_ns && turns == thread.turns) return true;
    thread.ran_ns = ran;
    thread.turns = turns;
  }
  const auto text = file_text(folder + "stat");
  const auto stat = text ? process_stat(*text) : std::nullopt;
  if (!stat || !stat->number(15) || stat->state() == 'Z' || stat->state() == 'X') return false;
  thread.name_is_new = stat->name != thread.name;
  thread.name = stat->name;
  thread.state = stat->state();
  thread.system_ns = ticks_ns(number(stat->fields, 12));
  // schedstat counts nanoseconds, stat ticks of 10 ms. Neither sum may go back.
  const uint64_t ran = thread.ran_ns > thread.system_ns ? thread.ran_ns - thread.system_ns : 0;
  thread.user_ns = schedule ? std::max(thread.user_ns, ran) : ticks_ns(number(stat->fields, 11));
  thread.system_call = -1;
  if (thread.state != 'S' && thread.state != 'D') return true;
  // "202 0x7f..."; "running" or "-1 ..." where it is in none. Readable by the same user only.
  const std::string call = file_line(folder + "syscall");
  const auto n = whole_number(std::string_view(call).substr(0, call.find(' ')));
  if (n && *n >= 0 && *n < INT32_MAX) thread.system_call = static_cast<int32_t>(*n);
  return true;
}

void ThreadWatch::read() {
  std::erase_if(threads_, [&](WatchedThread& thread) { return !read_one(thread); });
}

}  // namespace profgpu
