#include "cli/attach_torch.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "base/clock.h"
#include "base/decimal.h"
#include "cli/output.h"
#include "cli/words.h"
#include "devices/system_files.h"
#include "view/json_text.h"
#include "watch/live/recording_control.h"

namespace profgpu {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kSecond_ns = 1'000'000'000;
// Programs ask every five seconds, more rarely while they are busy.
constexpr int64_t kAsks_ns = 30 * kSecond_ns;
// To get ready, and to write the file of a long trace.
constexpr int64_t kGetsReady_ns = 15 * kSecond_ns, kWrites_ns = 60 * kSecond_ns;
constexpr int64_t kSteps_ns = 300 * kSecond_ns;

// A folder of the program's user below its /tmp: PyTorch writes traces on demand nowhere else.
struct TraceFolder {
  std::string inner;  // as the program sees it
  std::string outer;  // as we do
};

Result<TraceFolder> make_folder(int64_t pid) {
  std::string inner = variable_of(pid, "KINETO_ONDEMAND_TRACE_DIR");
  if (inner.empty()) inner = "/tmp";
  inner += "/profgpu-torch-XXXXXX";
  std::string outer = path_through(pid, inner);
  if (!::mkdtemp(outer.data())) {
    outer = inner;
    if (!::mkdtemp(outer.data())) return Error{inner + ": cannot be made: " + std::strerror(errno)};
  }
  struct stat owner {};
  if (::stat(fmt::format("/proc/{}", pid).c_str(), &owner) == 0 && owner.st_uid != ::geteuid() &&
      ::chown(outer.c_str(), owner.st_uid, owner.st_gid) != 0)
    return Error{outer + ": cannot be given to the program's user: " + std::strerror(errno)};
  inner.replace(inner.size() - 6, 6, outer, outer.size() - 6, 6);
  // Where both see the same folder, the plain name is the one to show.
  std::error_code error;
  if (fs::equivalent(inner, outer, error)) outer = inner;
  return TraceFolder{inner, outer};
}

// PyTorch renames a file when it is whole; earlier versions write it in place.
bool is_whole(const std::string& path) {
  std::error_code error;
  const auto size = fs::file_size(path, error);
  if (error || size < 2) return false;
  const timespec moment{0, 200'000'000};
  ::nanosleep(&moment, nullptr);
  if (fs::file_size(path, error) != size || error) return false;
  FILE* file = std::fopen(path.c_str(), "rb");
  char last[16] = {};
  const size_t n = file && std::fseek(file, -static_cast<long>(std::min<uintmax_t>(size, sizeof last)), SEEK_END) == 0
                       ? std::fread(last, 1, sizeof last, file)
                       : 0;
  if (file) std::fclose(file);
  const std::string_view end = without_blanks(std::string_view(last, n));
  return end.ends_with("}");
}

// Programs in a container say their numbers there.
bool none_left(const std::vector<int64_t>& told, int64_t pid) {
  const std::string inner = path_through(pid, "/proc");
  return std::none_of(told.begin(), told.end(), [&](int64_t p) { return check_process(p) || check_process(p, inner); });
}

// `daemon`: null where another program delivers.
std::vector<std::string> wait_for_traces(const std::string& folder, const std::vector<int64_t>& pids, int64_t pid,
                                         KinetoDaemon* daemon, int64_t timeout_ns) {
  std::vector<std::string> found;
  const timespec moment{0, 100'000'000};
  for (const int64_t until_ns = monotonic_ns() + timeout_ns; found.size() < pids.size() && monotonic_ns() < until_ns;) {
    if (daemon)
      daemon->answer(moment.tv_nsec);
    else
      ::nanosleep(&moment, nullptr);
    for (const std::string& name : folder_names(folder)) {
      const std::string path = folder + "/" + name;
      if (!name.ends_with(".json") || std::find(found.begin(), found.end(), path) != found.end()) continue;
      if (is_whole(path)) found.push_back(path);
    }
    if (none_left(pids, pid)) break;
  }
  return found;
}

// Where the program is recorded too: analyze joins what lies there. Empty: it is not.
std::string recording_folder(int64_t pid) {
  const std::string inner = variable_of(pid, "PROFGPU_RECORD"), outer = path_through(pid, inner);
  std::error_code error;
  if (inner.empty() || !fs::is_directory(outer, error)) return "";
  return fs::equivalent(inner, outer, error) ? inner : outer;
}

// To a name that is free, trace_4711-2.json after trace_4711.json: a program may be asked again, and other nodes may
// write into the folder. Returns the path.
Result<std::string> moved(const std::string& file, const std::string& folder) {
  const std::string name = file.substr(file.rfind('/') + 1), stem = name.substr(0, name.rfind('.'));
  std::error_code error, ignored;
  for (int i = 1;; ++i) {
    const std::string number = i == 1 ? "" : "-" + std::to_string(i);
    std::string to = folder + "/" + stem + number + name.substr(stem.size());
    fs::create_hard_link(file, to, error);
    if (error && error != std::errc::file_exists) fs::copy_file(file, to, error);   // on another file system
    if (error == std::errc::file_exists) continue;
    if (error) {
      fs::remove(to, ignored);
      return Error{to + ": cannot be written: " + error.message(), "the trace is " + file};
    }
    fs::remove(file, ignored);
    return to;
  }
}

Result<std::vector<std::string>> moved(const std::vector<std::string>& files, const std::string& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) return Error{folder + ": cannot be made: " + error.message(), "choose another folder with -o"};
  std::vector<std::string> out;
  for (const std::string& file : files) {
    auto now = moved(file, folder);
    if (!now) return now.error();
    out.push_back(*std::move(now));
  }
  fs::remove(fs::path(files.front()).parent_path(), error);
  return out;
}

// `profgpu run` puts it into the environment, and this one came from `profgpu run` without it.
Status check_on_demand(const TorchAttachOptions& options) {
  const int64_t pid = options.request.pid;
  if (options.timeout_ns > 0 || variable_of(pid, "PROFGPU_RUN").empty() ||
      !variable_of(pid, "KINETO_USE_DAEMON").empty())
    return ok();
  return Error{
      fmt::format("process {} was started without --torch-on-demand: its PyTorch does not ask for orders", pid),
      "profgpu run --trace --torch-on-demand -- COMMAND; --timeout 30 waits for one that was made to ask by itself"};
}

Error nobody_asked(int64_t pid, int64_t waited_ns) {
  if (!check_process(pid)) return {fmt::format("process {} ended before it asked for orders", pid)};
  Error error{fmt::format("process {} did not ask for orders within {} s", pid, waited_ns / kSecond_ns), ""};
  if (variable_of(pid, "KINETO_USE_DAEMON").empty())
    error.hint = "PyTorch asks only where it was started with it: profgpu run --torch-on-demand -- COMMAND";
  else
    error.hint =
        "PyTorch asks from its import on, every five seconds, on the same machine and in the same network namespace";
  return error;
}

Result<std::vector<int64_t>> deliver(const TorchAttachOptions& options, const TorchTraceRequest& request,
                                     KinetoDaemon* daemon) {
  if (!daemon) return deliver_through_dynolog(request);
  const int64_t waits_ns = options.timeout_ns > 0 ? options.timeout_ns : kAsks_ns;
  std::vector<int64_t> told;
  int64_t left_ns = waits_ns;
  for (const int64_t until_ns = monotonic_ns() + waits_ns; told.empty() && left_ns > 0 && check_process(request.pid);
       left_ns = until_ns - monotonic_ns())
    told = daemon->deliver(request, std::min(left_ns, kSecond_ns));
  if (told.empty()) return nobody_asked(request.pid, waits_ns);
  return told;
}

// `recording`: the folder of the program's recording, if there is one.
Outcome show(const TorchAttachOptions& options, const std::vector<std::string>& files, size_t expected,
             const std::string& recording) {
  const std::string folder = files.front().substr(0, files.front().rfind('/'));
  const std::string next =
      "profgpu analyze " + shell_line({files.size() == 1 && folder != recording ? files.front() : folder});
  if (options.json) {
    List list;
    for (const std::string& f : files) list.emplace_back(f);
    JsonText json;
    json.record(Record()
                    .add("schema", "profgpu.attach.v1")
                    .add("pid", options.request.pid)
                    .add("traces", std::move(list))
                    .add("missing", expected - files.size())
                    .add("next", List{next}),
                Layout::kLines);
    if (auto status = write_stdout(json.take() + "\n"); !status) return Outcome::failed(status.error());
    return {};
  }
  std::string text;
  for (const std::string& f : files) text += printable(f) + "\n";
  if (expected > files.size())
    text += fmt::format("{} more did not come in time\n", expected - files.size());
  if (auto status = write_stdout(text + "Next: " + printable(next) + "\n"); !status)
    return Outcome::failed(status.error());
  return {};
}

}  // namespace

Outcome attach_torch(const TorchAttachOptions& options) {
  TorchTraceRequest request = options.request;
  if (auto status = check_process(request.pid); !status) return Outcome::failed(status.error());
  if (auto status = check_on_demand(options); !status) return Outcome::failed(status.error());
  const auto daemon = KinetoDaemon::listen();
  if (!daemon) return Outcome::failed(daemon.error());
  auto folder = make_folder(request.pid);
  if (!folder) return Outcome::failed(folder.error());
  request.trace_path = folder->inner + "/trace.json";
  const std::string recording = recording_folder(request.pid);   // while it is there
  request.job = whole_number(variable_of(request.pid, "SLURM_JOB_ID")).value_or(0);
  std::error_code error;
  auto told = deliver(options, request, daemon->get());
  if (!told || told->empty()) {
    fs::remove(folder->outer, error);
    return Outcome::failed(told ? Error{"the dynolog daemon knows no such program",
                                        "PyTorch must have been started with KINETO_USE_DAEMON=1"}
                                : told.error());
  }
  if (!options.json)
    print_message(fmt::format("profgpu: attach: {} {} told; waiting for the trace", told->size(),
                              told->size() == 1 ? "program was" : "programs were"));
  const int64_t takes_ns = request.steps > 0 ? kSteps_ns : request.duration_ms * 1'000'000 + kWrites_ns;
  const int64_t waits_ns = options.timeout_ns > 0 ? options.timeout_ns : kGetsReady_ns + takes_ns;
  auto files = wait_for_traces(folder->outer, *told, request.pid, daemon->get(), waits_ns);
  if (files.empty() && none_left(*told, request.pid)) {
    fs::remove_all(folder->outer, error);
    return Outcome::failed(
        {told->size() == 1 ? "the program ended before its trace came" : "the programs ended before a trace came"});
  }
  if (files.empty())
    return Outcome::failed({fmt::format("no trace came within {} s", waits_ns / kSecond_ns),
                            request.steps > 0
                                ? "PyTorch counts steps of its optimizers only: --duration takes any program"
                                : "it would come into " + folder->outer});
  if (const std::string& to = options.folder.empty() ? recording : options.folder; !to.empty()) {
    auto now = moved(files, to);
    if (!now) return Outcome::failed(now.error());
    files = std::move(*now);
  }
  return show(options, files, told->size(), recording);
}

}  // namespace profgpu
