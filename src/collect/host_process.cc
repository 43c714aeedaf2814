#include "collect/host_process.h"

#include <fmt/format.h>
#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/clock.h"
#include "base/decimal.h"
#include "collect/system_files.h"

namespace profgpu {
namespace {

// The kernel gives the first process namespace this number (PROC_PID_INIT_INO).
constexpr std::string_view kFirstNamespace = "pid:[4026531836]";
constexpr size_t kMostText = 256 << 10;   // of a command line or an environment
constexpr size_t kMostArguments = 4096;
constexpr size_t kMostLooks = 65536;
constexpr int64_t kInnerHolds_ns = 500'000'000, kInnerHoldsMost_ns = 10'000'000'000;
constexpr int64_t kPausePerSearch = 500;   // times what it took

std::string link_target(const std::string& path) {
  std::array<char, 512> buffer{};
  const ssize_t n = ::readlink(path.c_str(), buffer.data(), buffer.size());
  return n > 0 ? std::string(buffer.data(), static_cast<size_t>(n)) : "";
}

std::optional<int64_t> number_at(const std::vector<std::string_view>& fields, size_t i) {
  return i < fields.size() ? whole_number(fields[i]) : std::nullopt;
}

std::vector<std::string> arguments_in(const std::string& folder) {
  const std::string text = file_text(folder + "/cmdline", kMostText).value_or("");
  std::vector<std::string> out;
  for (size_t from = 0; from < text.size() && out.size() < kMostArguments;) {
    const size_t end = std::min(text.find('\0', from), text.size());
    out.push_back(text.substr(from, end - from));
    from = end + 1;
  }
  // Programs that rewrite their title pad it with zeros.
  while (!out.empty() && out.back().empty()) out.pop_back();
  return out;
}

struct Variable {
  std::string_view name;
  std::optional<int64_t> HostProcess::*field;
};
// Best first: what torchrun sets, then Open MPI, MPICH and Intel MPI, MVAPICH, Slurm.
constexpr std::array<Variable, 12> kVariables = {{
    {"RANK", &HostProcess::rank}, {"OMPI_COMM_WORLD_RANK", &HostProcess::rank}, {"PMI_RANK", &HostProcess::rank},
    {"MV2_COMM_WORLD_RANK", &HostProcess::rank}, {"SLURM_PROCID", &HostProcess::rank},
    {"LOCAL_RANK", &HostProcess::local_rank}, {"OMPI_COMM_WORLD_LOCAL_RANK", &HostProcess::local_rank},
    {"MPI_LOCALRANKID", &HostProcess::local_rank}, {"SLURM_LOCALID", &HostProcess::local_rank},
    {"WORLD_SIZE", &HostProcess::world_size}, {"OMPI_COMM_WORLD_SIZE", &HostProcess::world_size},
    {"PMI_SIZE", &HostProcess::world_size},
}};

void read_environment(HostProcess& process, const std::string& folder) {
  const std::string text = file_text(folder + "/environ", kMostText).value_or("");
  if (text.empty()) return;
  const std::vector<std::string_view> entries = pieces_of(text, '\0');
  const auto value_of = [&](std::string_view name) -> std::string_view {
    for (const std::string_view entry : entries)
      if (entry.size() > name.size() && entry.starts_with(name) && entry[name.size()] == '=')
        return entry.substr(name.size() + 1);
    return "";
  };
  for (const Variable& variable : kVariables)
    if (!(process.*variable.field)) process.*variable.field = whole_number(value_of(variable.name));
  if (process.placement.slurm_job.empty()) process.placement.slurm_job = value_of("SLURM_JOB_ID");
  if (process.placement.slurm_step.empty() && !process.placement.slurm_job.empty())
    process.placement.slurm_step = value_of("SLURM_STEP_ID");
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
  for (const std::string_view line : pieces_of(stat, '\n'))
    if (line.starts_with("btime "))
      boot_unix_ns_ = whole_number(without_blanks(line.substr(6))).value_or(0) * 1'000'000'000;
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

// A process of a namespace inside ours: the kernel lists its numbers from the outermost that we may see to its own. All
// processes are looked at for it, which takes milliseconds where many are in namespaces, so one look answers for a while: in a
// container whose driver names processes of the host nothing is ever found.
int64_t HostProcesses::find_by_namespace(int64_t pid) {
  const int64_t now = monotonic_ns();
  if (now >= inner_until_ns_) {
    inner_.clear();
    for (const std::string& name : folder_names(root_)) {
      const auto outer = whole_number(name);
      if (!outer) continue;
      const std::string folder = fmt::format("{}/{}", root_, name);
      // Writing out a status costs the kernel several times as much.
      if (!plain_namespace_.empty() && link_target(folder + "/ns/pid") == plain_namespace_) continue;
      const std::string status = file_text(folder + "/status").value_or("");
      const std::vector<std::string_view> numbers = pieces_of(line_value(status, "NSpid"), '\t');
      for (size_t i = 1; i < numbers.size(); ++i)
        if (const auto inner = whole_number(numbers[i])) {
          const auto [it, first] = inner_.emplace(*inner, *outer);
          if (!first) it->second = 0;  // two namespaces use the number: nobody can tell which is meant
        }
    }
    const int64_t done = monotonic_ns();
    inner_until_ns_ = done + std::clamp(kPausePerSearch * (done - now), kInnerHolds_ns, kInnerHoldsMost_ns);
  }
  const auto it = inner_.find(pid);
  return it == inner_.end() ? 0 : it->second;
}

int64_t HostProcesses::only_holder(std::string_view path) const {
  int64_t found = 0;
  for (const std::string& name : folder_names(root_)) {
    const auto pid = whole_number(name);
    if (!pid || !holds(root_ + "/" + name, path)) continue;
    if (found != 0) return 0;
    found = *pid;
  }
  return found;
}

void HostProcesses::resolve(HostProcess& process, std::string_view holders_of, bool alone) {
  const std::string folder = fmt::format("{}/{}", root_, process.pid);
  const bool exists = file_text(folder + "/stat", 1).has_value();
  if (sees_host_) {
    process.visible_pid = exists ? process.pid : find_by_namespace(process.pid);
    if (process.visible_pid == 0) process.unknown = "has ended, or this user may not see it";
    return;
  }
  // In a container another process may bear the number by chance; only one that has the device open is the one meant.
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
  const size_t open = text.find('('), close = text.rfind(')');
  if (open == text.npos || close == text.npos || close < open) return;
  process.comm = text.substr(open + 1, close - open - 1);
  // From field 3 (state) on: utime is field 14, stime 15, num_threads 20, starttime 22 (proc(5)).
  const std::vector<std::string_view> fields = pieces_of(std::string_view(text).substr(close + 1), ' ');
  const auto user = number_at(fields, 11), system = number_at(fields, 12), start = number_at(fields, 19);
  process.threads = number_at(fields, 17);
  process.parent = number_at(fields, 1).value_or(0);
  if (!user || !system || !start) return;
  const int64_t tick_ns = 1'000'000'000 / std::max<int64_t>(1, ::sysconf(_SC_CLK_TCK));
  if (boot_unix_ns_ != 0) process.start_ns = boot_unix_ns_ + *start * tick_ns;
  const Look now{*start, *user + *system, monotonic_ns()};
  const auto before = looks_.find(process.pid);
  if (before != looks_.end() && before->second.start_ticks == now.start_ticks && now.at_ns > before->second.at_ns)
    process.cpu_pct = 100.0 * static_cast<double>(std::max<int64_t>(0, now.cpu_ticks - before->second.cpu_ticks)) *
                      static_cast<double>(tick_ns) / static_cast<double>(now.at_ns - before->second.at_ns);
  if (looks_.size() >= kMostLooks) looks_.clear();
  looks_[process.pid] = now;
}

void HostProcesses::read_status(HostProcess& process, const std::string& folder) {
  const std::string text = file_text(folder + "/status").value_or("");
  const std::vector<std::string_view> ids = pieces_of(line_value(text, "Uid"), '\t');
  if (const auto uid = number_at(ids, 0)) process.user = user_name(*uid);
  const std::vector<std::string_view> memory = pieces_of(line_value(text, "VmRSS"), ' ');
  if (const auto kib = number_at(memory, 0)) process.memory_bytes = *kib * 1024;
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
  process.arguments = arguments_in(folder);
  process.placement = placement_of(file_text(folder + "/cgroup").value_or(""));
  read_environment(process, folder);
  if (process.comm.empty() && process.user.empty()) {
    process.visible_pid = 0;
    process.unknown = "ended while we looked";
  }
}

std::string HostProcess::command_line() const {
  std::string text;
  for (const std::string& argument : arguments) text += (text.empty() ? "" : " ") + argument;
  return text.empty() ? comm : text;
}

std::string HostProcess::place() const {
  std::string text;
  const auto add = [&](const std::string& part) { text += (text.empty() ? "" : ", ") + part; };
  if (!placement.container.empty()) add(placement.container_runtime + " " + placement.container);
  if (!placement.pod.empty()) add("pod " + placement.pod.substr(0, 8));
  if (!placement.slurm_job.empty())
    add("job " + placement.slurm_job + (placement.slurm_step.empty() ? "" : "." + placement.slurm_step));
  if (rank) add(fmt::format("rank {}{}", *rank, world_size ? fmt::format("/{}", *world_size) : ""));
  return text;
}

std::shared_ptr<const ProcessOrigin> HostProcess::origin() const {
  ProcessOrigin origin{user, placement, rank, world_size};
  return origin == ProcessOrigin() ? nullptr : std::make_shared<const ProcessOrigin>(std::move(origin));
}

HostProcess recorded_process(const ProcessSample& sample) {
  HostProcess process;
  process.pid = sample.pid;
  if (!sample.origin) return process;
  process.user = sample.origin->user;
  process.placement = sample.origin->placement;
  process.rank = sample.origin->rank;
  process.world_size = sample.origin->world_size;
  return process;
}

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

}  // namespace profgpu
