#include "devices/host_process.h"

#include <pwd.h>
#include <unistd.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/clock.h"
#include "base/decimal.h"
#include "base/launcher.h"
#include "base/secrets.h"
#include "base/text.h"
#include "devices/system_files.h"

namespace profgpu {
namespace {

// The kernel gives the first process namespace this number (PROC_PID_INIT_INO).
constexpr std::string_view kFirstNamespace = "pid:[4026531836]";
constexpr size_t kMaxText = 256 << 10;   // of a command line or environment
constexpr size_t kMaxArguments = 4096;
constexpr size_t kMaxLooks = 65536;
constexpr int64_t kMinInnerValid_ns = 500'000'000, kMaxInnerValid_ns = 10'000'000'000;
constexpr int64_t kValidPerSearch = 500;   // times the duration of the search

std::string link_target(const std::string& path) {
  std::array<char, 512> buffer{};
  const ssize_t n = ::readlink(path.c_str(), buffer.data(), buffer.size());
  return n > 0 ? std::string(buffer.data(), static_cast<size_t>(n)) : "";
}

std::vector<std::string> arguments_in(const std::string& folder) {
  const std::string text = file_text(folder + "/cmdline", kMaxText).value_or("");
  std::vector<std::string> out;
  for (size_t from = 0; from < text.size() && out.size() < kMaxArguments;) {
    const size_t end = std::min(text.find('\0', from), text.size());
    out.push_back(text.substr(from, end - from));
    from = end + 1;
  }
  // Programs that rewrite their title pad it with zeros.
  while (!out.empty() && out.back().empty()) out.pop_back();
  return out;
}

void read_environment(HostProcess& process, const std::string& folder) {
  const std::string text = file_text(folder + "/environ", kMaxText).value_or("");
  if (text.empty()) return;
  const std::vector<std::string_view> entries = pieces_of(text, '\0');
  const auto value_of = [&](std::string_view name) -> std::string_view {
    for (const std::string_view entry : entries)
      if (entry.size() > name.size() && entry.starts_with(name) && entry[name.size()] == '=')
        return entry.substr(name.size() + 1);
    return "";
  };
  const auto first_number = [&](LauncherVariables& names) {
    std::optional<int64_t> number;
    for (const char* name : names)
      if (!number) number = whole_number(value_of(name));
    return number;
  };
  process.rank = first_number(kRankVariables);
  process.local_rank = first_number(kLocalRankVariables);
  process.world_size = first_number(kWorldSizeVariables);
  if (process.slurm_job.empty()) process.slurm_job = value_of("SLURM_JOB_ID");
  if (process.slurm_step.empty() && !process.slurm_job.empty()) process.slurm_step = value_of("SLURM_STEP_ID");
}

}  // namespace

std::string HostProcess::command() const {
  if (arguments.empty() || arguments.front().empty()) return comm;
  const std::string& path = arguments.front();
  // A title such as "postgres: writer" or "sshd: a/b" is no path.
  const std::string_view first = std::string_view(path).substr(0, path.find(' '));
  const size_t slash = first.rfind('/');
  return std::string(slash == first.npos || slash + 1 == first.size() ? first : first.substr(slash + 1));
}

HostProcesses::HostProcesses(std::string proc_root)
    : root_(proc_root.empty() ? SystemRoots::from_environment().proc : std::move(proc_root)) {
  const std::string space = link_target(root_ + "/self/ns/pid");
  const std::string status = file_text(root_ + "/self/status").value_or("");
  // A /proc of an outer namespace (/host/proc) lists the numbers in both.
  const bool outer = pieces_of(line_value(status, "NSpid"), '\t').size() > 1;
  sees_host_ = space.empty() || space == kFirstNamespace || outer;
  if (!outer) plain_namespace_ = space;
  const std::string stat = file_text(root_ + "/stat", 4 << 20).value_or("");
  boot_unix_ns_ = whole_number(line_value(stat, "btime", ' ')).value_or(0) * 1'000'000'000;
}

std::string HostProcesses::user_name(int64_t uid) {
  const auto known = users_.find(uid);
  if (known != users_.end()) return known->second;
  std::string name = std::to_string(uid);
  std::array<char, 8192> buffer{};
  passwd entry{}, *found = nullptr;
  if (::getpwuid_r(static_cast<uid_t>(uid), &entry, buffer.data(), buffer.size(), &found) == 0 && found)
    name = found->pw_name;
  return users_[uid] = name;
}

bool HostProcesses::holds(const std::string& folder, std::string_view path) const {
  for (const std::string& fd : folder_names(folder + "/fd"))
    if (link_target(folder + "/fd/" + fd) == path) return true;
  return false;
}

// A process of a namespace inside ours: the kernel lists its pids from the outermost visible namespace to its own. The
// search reads all processes, which takes milliseconds where many are in namespaces, so its result stays valid for a
// while: in a container whose driver names processes of the host, nothing is ever found.
int64_t HostProcesses::find_by_namespace(int64_t pid) {
  const int64_t now = monotonic_ns();
  if (now >= inner_until_ns_) {
    inner_.clear();
    for (const int64_t outer : process_ids(root_)) {
      const std::string folder = fmt::format("{}/{}", root_, outer);
      // The kernel needs several times as long to write out a status.
      if (!plain_namespace_.empty() && link_target(folder + "/ns/pid") == plain_namespace_) continue;
      const std::string status = file_text(folder + "/status").value_or("");
      const std::vector<std::string_view> numbers = pieces_of(line_value(status, "NSpid"), '\t');
      for (size_t i = 1; i < numbers.size(); ++i)
        if (const auto inner = whole_number(numbers[i])) {
          const auto [it, first] = inner_.emplace(*inner, outer);
          if (!first) it->second = 0;
        }
    }
    const int64_t done = monotonic_ns();
    inner_until_ns_ = done + std::clamp(kValidPerSearch * (done - now), kMinInnerValid_ns, kMaxInnerValid_ns);
  }
  const auto it = inner_.find(pid);
  return it == inner_.end() ? 0 : it->second;
}

int64_t HostProcesses::only_holder(std::string_view path) const {
  int64_t found = 0;
  for (const int64_t pid : process_ids(root_)) {
    if (!holds(fmt::format("{}/{}", root_, pid), path)) continue;
    if (found != 0) return 0;
    found = pid;
  }
  return found;
}

void HostProcesses::resolve(HostProcess& process, std::string_view holders_of, bool alone) {
  const std::string folder = fmt::format("{}/{}", root_, process.pid);
  const bool exists = file_text(folder + "/stat", 1).has_value();
  if (sees_host_) {
    process.visible_pid = exists ? process.pid : find_by_namespace(process.pid);
    if (process.visible_pid == 0) process.unknown = "ended, or hidden from this user";
    return;
  }
  // In a container another process may have the same pid by chance; only one with the device open is the right one.
  if (exists && !holders_of.empty() && holds(folder, holders_of)) {
    process.visible_pid = process.pid;
    return;
  }
  process.inferred = true;
  process.visible_pid = find_by_namespace(process.pid);
  if (process.visible_pid == 0 && alone && !holders_of.empty()) process.visible_pid = only_holder(holders_of);
  if (process.visible_pid != 0) return;
  process.inferred = false;
  process.unknown = "pid of the host, not known in this container";
}

void HostProcesses::read_stat(HostProcess& process, const std::string& folder) {
  const std::string text = file_text(folder + "/stat", 4096).value_or("");
  const auto stat = process_stat(text);
  if (!stat) return;
  process.comm = stat->name;
  const auto user = stat->number(14), system = stat->number(15), start = stat->number(22);
  process.threads = stat->number(20);
  process.parent = stat->number(4).value_or(0);
  if (!user || !system || !start) return;
  const int64_t tick_ns = 1'000'000'000 / std::max<int64_t>(1, ::sysconf(_SC_CLK_TCK));
  if (boot_unix_ns_ != 0) process.start_ns = boot_unix_ns_ + *start * tick_ns;
  const Look now{*start, *user + *system, monotonic_ns()};
  const auto before = looks_.find(process.pid);
  if (before != looks_.end() && before->second.start_ticks == now.start_ticks && now.at_ns > before->second.at_ns)
    process.cpu_pct = 100.0 * static_cast<double>(std::max<int64_t>(0, now.cpu_ticks - before->second.cpu_ticks)) *
                      static_cast<double>(tick_ns) / static_cast<double>(now.at_ns - before->second.at_ns);
  if (looks_.size() >= kMaxLooks) looks_.clear();
  looks_[process.pid] = now;
}

void HostProcesses::read_status(HostProcess& process, const std::string& folder) {
  const std::string text = file_text(folder + "/status").value_or("");
  const auto first_number = [&](std::string_view key) {
    const std::string_view value = line_value(text, key);
    return whole_number(value.substr(0, value.find_first_of("\t ")));
  };
  if (const auto uid = first_number("Uid")) process.user = user_name(*uid);
  if (const auto kib = first_number("VmRSS")) process.memory_bytes = *kib * 1024;
}

HostProcess HostProcesses::look(int64_t pid, std::string_view holders_of, bool alone) {
  HostProcess process;
  process.pid = pid;
  if (pid <= 0) {
    process.unknown = "not a process number";
    return process;
  }
  resolve(process, holders_of, alone);
  if (process.visible_pid != 0) read(process);
  return process;
}

HostProcess HostProcesses::look_here(int64_t visible_pid) {
  HostProcess process;
  process.pid = process.visible_pid = visible_pid;
  read(process);
  return process;
}

void HostProcesses::read(HostProcess& process) {
  const std::string folder = fmt::format("{}/{}", root_, process.visible_pid);
  read_stat(process, folder);
  read_status(process, folder);
  process.arguments = masked_words(arguments_in(folder));
  static_cast<Placement&>(process) = placement_of(file_text(folder + "/cgroup").value_or(""));
  read_environment(process, folder);
  if (process.comm.empty() && process.user.empty()) {
    process.visible_pid = 0;
    process.unknown = "ended during the look-up";
  }
}

std::string HostProcess::command_line() const {
  std::string text = joined(arguments, " ");
  return text.empty() ? comm : text;
}

std::string HostProcess::place() const {
  std::string text;
  const auto add = [&](const std::string& part) { append_listed(text, part); };
  if (!container.empty()) add(container_runtime + " " + container);
  if (!pod.empty()) add("pod " + pod.substr(0, 8));
  if (!slurm_job.empty()) add("job " + slurm_job + (slurm_step.empty() ? "" : "." + slurm_step));
  if (rank) add(fmt::format("rank {}{}", *rank, world_size ? fmt::format("/{}", *world_size) : ""));
  return text;
}

std::shared_ptr<const ProcessOrigin> HostProcess::origin() const {
  const ProcessOrigin& mine = *this;
  return mine == ProcessOrigin() ? nullptr : std::make_shared<const ProcessOrigin>(mine);
}

HostProcess recorded_process(const ProcessSample& sample) {
  HostProcess process;
  process.pid = sample.pid;
  if (sample.origin) static_cast<ProcessOrigin&>(process) = *sample.origin;
  return process;
}

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

// The container, pod or Slurm job of a control group, by the names that the runtimes give their groups.

namespace {

constexpr size_t kShortId = 12;  // digits, as `docker ps` shows them

bool is_container_id(std::string_view text) {
  return text.size() == 64 && text.find_first_not_of("0123456789abcdef") == text.npos;
}

bool take_front(std::string_view& text, std::string_view front) {
  if (!text.starts_with(front)) return false;
  text.remove_prefix(front.size());
  return true;
}

// "docker-<id>.scope", "cri-containerd-<id>.scope", "crio-<id>", "libpod-<id>.scope"; with cgroupfs the id alone.
void take_container(std::string_view part, std::string_view parent, Placement& placement) {
  struct Runtime {
    std::string_view prefix, name;
  };
  constexpr std::array<Runtime, 5> kRuntimes = {{{"cri-containerd-", "containerd"}, {"crio-", "cri-o"},
                                                 {"libpod-", "podman"}, {"docker-", "docker"},
                                                 {"nerdctl-", "containerd"}}};
  const size_t colon = part.rfind(':');  // "kubepods-….slice:cri-containerd:<id>"
  std::string_view runtime;
  if (colon != part.npos) {
    if (part.substr(0, colon).ends_with("cri-containerd")) runtime = "containerd";
    part.remove_prefix(colon + 1);
  }
  for (const Runtime& r : kRuntimes)
    if (take_front(part, r.prefix)) {
      runtime = r.name;
      break;
    }
  if (part.ends_with(".scope")) part.remove_suffix(6);
  if (!is_container_id(part)) return;
  if (runtime.empty()) runtime = parent == "docker" ? "docker" : parent.starts_with("libpod") ? "podman" : "container";
  placement.container_runtime = runtime;
  placement.container = part.substr(0, kShortId);
}

// "pod<uid>", "kubepods-burstable-pod<uid with _>.slice".
void take_pod(std::string_view part, Placement& placement) {
  if (part.ends_with(".slice")) part.remove_suffix(6);
  const size_t at = part.starts_with("pod") ? 0 : part.rfind("-pod") == part.npos ? part.npos : part.rfind("-pod") + 1;
  if (at == part.npos) return;
  std::string uid(part.substr(at + 3));
  std::replace(uid.begin(), uid.end(), '_', '-');
  // Static pods have 32 digits, all others a UUID.
  if (uid.size() >= 32 && uid.size() <= 36 && uid.find_first_not_of("0123456789abcdef-") == uid.npos)
    placement.pod = uid;
}

void take_lxc(std::string_view part, std::string_view parent, Placement& placement) {
  if (parent == "lxc" || parent == "lxc.payload" || take_front(part, "lxc.payload.")) {
    placement.container_runtime = "lxc";
    placement.container = part.substr(0, 64);
  }
}

void take_slurm(std::string_view part, std::string_view parent, Placement& placement) {
  if (take_front(part, "job_") && (parent.starts_with("uid_") || parent.starts_with("slurm")))
    placement.slurm_job = part;
  else if (parent.starts_with("job_") && take_front(part, "step_"))
    placement.slurm_step = part;
}

}  // namespace

Placement placement_of(std::string_view cgroup) {
  Placement placement;
  for (const std::string_view line : pieces_of(cgroup, '\n')) {
    // "12:devices:/docker/…", "0::/system.slice/…": the path follows the second colon.
    const size_t first = line.find(':');
    const size_t second = first == line.npos ? line.npos : line.find(':', first + 1);
    if (second == line.npos) continue;
    std::string_view parent;
    for (const std::string_view part : pieces_of(line.substr(second + 1), '/')) {
      take_container(part, parent, placement);
      take_pod(part, placement);
      take_lxc(part, parent, placement);
      take_slurm(part, parent, placement);
      parent = part;
    }
  }
  return placement;
}

}  // namespace profgpu
