#include "watch/live/run_session_processes.h"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <set>

#include "base/decimal.h"
#include "base/text.h"
#include "devices/nvidia_smi_child.h"
#include "devices/system_files.h"

namespace profgpu {
namespace {

constexpr size_t kMaxKnown = 4096;
constexpr int kDeepest = 256;  // parents of a process; more is a /proc that makes no sense

// Our own number in that /proc, which may be an outer namespace's.
int64_t own_pid(const std::string& proc) {
  char target[32];
  const ssize_t n = ::readlink((proc + "/self").c_str(), target, sizeof target);
  const auto pid = n > 0 ? whole_number(std::string_view(target, static_cast<size_t>(n))) : std::nullopt;
  return pid.value_or(::getpid());
}

}  // namespace

std::string_view compute_file(std::string_view vendor) {
  return vendor == "NVIDIA" ? "/dev/nvidia-uvm" : vendor == "AMD" ? "/dev/kfd" : "";
}

std::optional<bool> descends_from(int64_t pid, int64_t ancestor, const std::string& proc) {
  for (int i = 0; i < kDeepest && pid > 1; ++i) {
    const auto text = file_text(fmt::format("{}/{}/stat", proc, pid));
    const auto stat = text ? process_stat(*text) : std::nullopt;
    if (!stat) return i == 0 ? std::nullopt : std::optional(false);
    if (stat->number(4) == ancestor) return true;
    pid = stat->number(4).value_or(0);
  }
  return false;
}

void RunProcesses::see(const Reading& reading) {
  for (const ProcessSample& p : reading.processes) {
    if (known_.contains(p.pid) || known_.size() >= kMaxKnown) continue;
    if (!host_) host_.emplace();
    const std::string& vendor = (*devices_)[reading.device].vendor;
    const HostProcess host = host_->look(p.pid, compute_file(vendor), reading.processes.size() == 1);
    WatchedProcess& process = known_[p.pid];
    process.visible_pid = host.visible_pid;
    process.unknown = host.unknown;
    process.command = host.arguments.empty() ? host.comm : host.command_line();
    const std::string proc = SystemRoots::from_environment().proc;
    if (host.visible_pid > 0) process.of_command = descends_from(host.visible_pid, own_pid(proc), proc);
  }
}

size_t processes_left() {
  siginfo_t info{};
  if (::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0) return 0;  // no child at all
  std::map<int64_t, std::vector<int64_t>> children;
  const int64_t self = ::getpid();
  for (const std::string& name : folder_names("/proc")) {
    const auto pid = whole_number(name);
    const auto text = pid ? file_text("/proc/" + name + "/stat") : std::nullopt;
    const auto stat = text ? process_stat(*text) : std::nullopt;
    if (!stat || stat->state() == 'Z') continue;
    if (!is_smi_child(static_cast<pid_t>(*pid))) children[stat->number(4).value_or(0)].push_back(*pid);
  }
  size_t count = 0;
  std::vector<int64_t> todo = children[self];
  while (!todo.empty()) {
    const int64_t pid = todo.back();
    todo.pop_back();
    ++count;
    const std::vector<int64_t>& below = children[pid];
    todo.insert(todo.end(), below.begin(), below.end());
  }
  return count;
}

}  // namespace profgpu
