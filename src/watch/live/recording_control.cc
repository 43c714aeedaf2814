#include "watch/live/recording_control.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/clock.h"
#include "base/decimal.h"
#include "base/descriptor.h"
#include "devices/system_files.h"
#include "watch/live/recording_folder.h"
#include "watch/live/thread_watch.h"

namespace profgpu {
namespace {

constexpr size_t kMaxMaps = 64 << 20, kMaxEnvironment = 4 << 20;
constexpr size_t kMaxListed = 16;
constexpr std::string_view kFolder = "/.control/", kEnding = ".control", kDeleted = " (deleted)";

template <class T>
T word(const T& w) {
  return __atomic_load_n(&w, __ATOMIC_ACQUIRE);
}

struct MappedPage {
  std::string path;        // as the process sees it; empty: none
  bool is_deleted = false;
  int64_t owner = 0;       // pid, by the file's name
};

// The control page that the process has mapped, preferably its own: a forked child also has its parent's.
MappedPage mapped_page(int64_t pid, int64_t inner_pid, const std::string& proc) {
  const std::string maps = file_text(fmt::format("{}/{}/maps", proc, pid), kMaxMaps).value_or("");
  MappedPage best;
  for (const std::string_view line : pieces_of(maps, '\n')) {
    const size_t slash = line.find('/');
    if (slash == line.npos || line.find(kFolder) == line.npos) continue;
    MappedPage page;
    page.path = line.substr(slash);
    page.is_deleted = page.path.ends_with(kDeleted);
    if (page.is_deleted) page.path.resize(page.path.size() - kDeleted.size());
    if (!page.path.ends_with(kEnding)) continue;
    const std::string_view name = base_name(page.path);
    page.owner = whole_number(name.substr(0, name.size() - kEnding.size())).value_or(0);
    if (best.path.empty() || page.owner == inner_pid) best = page;
  }
  return best;
}

// Its pid in its own namespace: the last one of "NSpid:  4711  12".
int64_t inner_pid(int64_t pid, const std::string& proc) {
  const std::string status = file_text(fmt::format("{}/{}/status", proc, pid)).value_or("");
  const std::string_view numbers = without_blanks(line_value(status, "NSpid"));
  const auto n = whole_number(numbers.substr(numbers.find_last_of(" \t") + 1));
  return n.value_or(pid);
}

bool is_recorded(int64_t pid, const std::string& proc) {
  const int64_t inner = inner_pid(pid, proc);
  return inner > 0 && mapped_page(pid, inner, proc).owner == inner;
}

std::vector<int64_t> processes_below(int64_t pid, const std::string& proc) {
  ThreadWatch watch(pid, proc);
  watch.discover();
  std::vector<int64_t> out;
  for (const WatchedThread& t : watch.threads())
    if (t.pid == t.tid) out.push_back(t.pid);
  return out;
}

Error not_recorded(int64_t pid, const MappedPage& page, const std::string& proc) {
  if (page.owner > 0)
    return {fmt::format("process {} is a child of the recorded process {} and not recorded itself", pid, page.owner),
            fmt::format("profgpu attach {}", page.owner)};
  if (auto below = recorded_below(pid, proc); !below.empty()) {
    const bool more = below.size() > kMaxListed;
    below.resize(std::min(below.size(), kMaxListed));
    return {fmt::format("process {} is not recorded, but processes that it started are", pid),
            fmt::format("recorded: {}{}", fmt::join(below, ", "), more ? " ..." : "")};
  }
  if (!variable_of(pid, "PROFGPU_RECORD", proc).empty())
    return {fmt::format("process {} is set up for recording, but has not used CUDA, NVTX, NCCL or PyTorch yet", pid),
            "try again later"};
  return {fmt::format("process {} is not recorded", pid), "start it with profgpu run --trace -- COMMAND"};
}

Result<wire::ControlPage*> map_page(int64_t pid, const std::string& path, const std::string& proc) {
  int problem = ENOENT;
  Descriptor file;
  for (const std::string& candidate : {path_through(pid, path, proc), path}) {
    file = Descriptor(::open(candidate.c_str(), O_RDWR | O_CLOEXEC));
    if (file) break;
    if (errno != ENOENT) problem = errno;
  }
  if (!file) return Error{fmt::format("{}: {}", path, std::strerror(problem))};
  struct stat s {};
  void* mapped = MAP_FAILED;
  if (::fstat(file.get(), &s) == 0 && s.st_size >= static_cast<off_t>(sizeof(wire::ControlPage)))
    mapped = ::mmap(nullptr, sizeof(wire::ControlPage), PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (mapped == MAP_FAILED) return Error{path + ": no control page"};
  auto* const page = static_cast<wire::ControlPage*>(mapped);
  if (word(page->magic) == wire::kControlMagic && word(page->version) == wire::kControlVersion) return page;
  ::munmap(mapped, sizeof(wire::ControlPage));
  return Error{path + ": not a control page of this version", "use the profgpu that started the recording"};
}

// '?' where it cannot be read.
char process_state(int64_t pid, const std::string& proc) {
  const std::string text = file_text(fmt::format("{}/{}/stat", proc, pid)).value_or("");
  const auto stat = process_stat(text);
  return stat ? stat->state() : '?';
}

}  // namespace

std::string path_through(int64_t pid, const std::string& path, const std::string& proc) {
  return fmt::format("{}/{}/root{}", proc, pid, path);
}

std::string variable_of(int64_t pid, const std::string& name, const std::string& proc) {
  const std::string text = file_text(fmt::format("{}/{}/environ", proc, pid), kMaxEnvironment).value_or("");
  return std::string(variable_in(pieces_of(text, '\0'), name));
}

Status check_process(int64_t pid, const std::string& proc) {
  const std::string folder = fmt::format("{}/{}", proc, pid);
  struct stat s {};
  if (::stat(folder.c_str(), &s) != 0)
    return Error{fmt::format("there is no process {}", pid), "`pgrep -af python` shows those that run"};
  const char state = process_state(pid, proc);
  if (state == 'Z' || state == 'X') return Error{fmt::format("process {} has ended", pid)};
  if (file_text(folder + "/maps", 1) && file_text(folder + "/environ", 1)) return ok();
  if (s.st_uid != ::geteuid())
    return Error{fmt::format("process {} belongs to another user (uid {})", pid, s.st_uid),
                 "run profgpu as that user, or as root"};
  return Error{fmt::format("process {} cannot be inspected", pid), "run profgpu as root, or in its container"};
}

std::vector<int64_t> recorded_below(int64_t pid, const std::string& proc) {
  std::vector<int64_t> out = processes_below(pid, proc);
  std::erase_if(out, [&](int64_t p) { return !is_recorded(p, proc); });
  return out;
}

bool is_launcher(int64_t pid, const std::string& proc) {
  const auto has = [&](int64_t p, const char* name) { return !variable_of(p, name, proc).empty(); };
  if (is_recorded(pid, proc) || has(pid, "LOCAL_RANK")) return false;
  const bool has_rank = has(pid, "RANK");   // a scheduler may set it for torchrun too
  const std::vector<int64_t> below = processes_below(pid, proc);
  return std::any_of(below.begin(), below.end(), [&](int64_t p) {
    return has(p, "LOCAL_RANK") || (!has_rank && (has(p, "RANK") || is_recorded(p, proc)));
  });
}

Result<std::unique_ptr<RecordingControl>> RecordingControl::open(int64_t pid, const std::string& proc) {
  if (auto status = check_process(pid, proc); !status) return status.error();
  const int64_t inner = inner_pid(pid, proc);
  const MappedPage found = mapped_page(pid, inner, proc);
  if (found.owner != inner) return not_recorded(pid, found, proc);
  if (found.is_deleted)
    return Error{fmt::format("the folder of the recording of process {} was removed: {}", pid, found.path)};
  auto page = map_page(pid, found.path, proc);
  if (!page) return page.error();
  const std::string folder = found.path.substr(0, found.path.rfind(kFolder));
  return std::unique_ptr<RecordingControl>(new RecordingControl(pid, proc, folder, *page));
}

RecordingControl::~RecordingControl() { ::munmap(page_, sizeof(wire::ControlPage)); }

std::string RecordingControl::recording_path() const {
  const std::string ending = fmt::format("-{}.pgt", inner_pid(pid_, proc_));
  for (const std::string& folder : {path_through(pid_, folder_, proc_), folder_})
    for (const std::string& name : folder_names(folder))
      if (name.ends_with(ending)) return folder + "/" + name;
  return "";
}

RecorderStatus RecordingControl::status() const {
  RecorderStatus out;
  out.state = static_cast<wire::RecorderState>(word(page_->state));
  out.rows = word(page_->rows_written);
  out.bytes = word(page_->bytes_written);
  out.dropped = word(page_->rows_dropped);
  out.steps = word(page_->steps);
  out.started_unix_ns = word(page_->started_unix_ns);
  const int64_t flushed = word(page_->flushed_host_ns);
  if (flushed > 0) out.flushed_ago_ns = std::max<int64_t>(monotonic_ns() - flushed, 0);
  out.reason.assign(page_->reason, ::strnlen(page_->reason, sizeof page_->reason));
  return out;
}

Status RecordingControl::order(wire::ControlOrder order, int64_t timeout_ns) {
  uint64_t before = word(page_->request), request = 0;
  do {
    request = ((before >> 8) + 1) << 8 | static_cast<uint64_t>(order);
  } while (!__atomic_compare_exchange_n(&page_->request, &before, request, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE));
  const timespec pause{0, 5'000'000};
  int64_t answered_ns = 0;
  for (const int64_t until = monotonic_ns() + timeout_ns; monotonic_ns() < until; ::nanosleep(&pause, nullptr)) {
    if (answered_ns == 0 && word(page_->answered) >> 8 >= request >> 8) answered_ns = monotonic_ns();
    // The state on the page is as old as the last flush.
    if (answered_ns != 0 && word(page_->flushed_host_ns) >= answered_ns) return ok();
    const auto state = static_cast<wire::RecorderState>(word(page_->state));
    if (state == wire::RecorderState::kFailed || state == wire::RecorderState::kEnded)
      return Error{fmt::format("the recording of process {} has {}", pid_,
                               state == wire::RecorderState::kEnded ? "ended" : "failed")};
    if (auto alive = check_process(pid_, proc_); !alive) return alive;
  }
  if (answered_ns != 0) return ok();
  const char state = process_state(pid_, proc_);
  const bool stopped = state == 'T' || state == 't';
  return Error{fmt::format("process {} did not answer within {} s{}", pid_, timeout_ns / 1'000'000'000,
                           stopped ? ": it is stopped" : ""),
               stopped ? "it will do so once it continues" : "--timeout waits longer"};
}

Result<std::string> RecordingControl::take_memory(int64_t timeout_ns) {
  if (word(page_->takes_memory) == 0)
    return Error{fmt::format("process {} does not record memory, or has not used CUDA through PyTorch yet", pid_),
                 "start it with profgpu run --trace --memory -- COMMAND"};
  const uint64_t before = word(page_->memory_answered);
  const int64_t until = monotonic_ns() + timeout_ns;
  if (Status ordered = order(wire::ControlOrder::kMemory, timeout_ns); !ordered) return ordered.error();
  const timespec pause{0, 5'000'000};
  for (; word(page_->memory_answered) == before; ::nanosleep(&pause, nullptr)) {
    if (auto alive = check_process(pid_, proc_); !alive) return alive.error();
    if (monotonic_ns() >= until)
      return Error{fmt::format("process {} wrote no snapshot within {} s", pid_, timeout_ns / 1'000'000'000),
                   "--timeout waits longer; the snapshot appears in " + folder_};
  }
  const std::string text(page_->memory, ::strnlen(page_->memory, sizeof page_->memory));
  if (text.starts_with("!")) return Error{fmt::format("process {}: {}", pid_, text.substr(1))};
  return text;
}

}  // namespace profgpu
