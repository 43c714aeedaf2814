// profgpu attach PID: show, start and stop the recording of a running process; or get a trace or a snapshot of memory
// from PyTorch.
#include <fmt/format.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "analyse/report/quantity.h"
#include "app/words.h"
#include "base/clock.h"
#include "base/decimal.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/output.h"
#include "devices/system_files.h"
#include "view/json_text.h"
#include "view/wording.h"
#include "watch/live/kineto_daemon.h"
#include "watch/live/recording_control.h"

namespace profgpu {
namespace {

namespace fs = std::filesystem;

/// `profgpu attach PID torch`: a trace by PyTorch's own profiler.
struct TorchAttachOptions {
  TorchTraceRequest request;  ///< trace_path is not yet known
  std::string folder;         ///< empty: that of the recording, or where PyTorch writes traces
  int64_t timeout_ns = 0;     ///< 0: as long as it should take
  bool json = false;
};

// Programs poll every five seconds, more rarely while they are busy.
constexpr int64_t kPolls_ns = 30 * kSecond_ns;
// To get ready, and to write the file of a long trace.
constexpr int64_t kGetsReady_ns = 15 * kSecond_ns, kWrites_ns = 60 * kSecond_ns;
constexpr int64_t kSteps_ns = 300 * kSecond_ns;

void nap_ms(long ms) {
  const timespec time{0, ms * 1'000'000};
  ::nanosleep(&time, nullptr);
}

// A folder of the program's user below its /tmp: PyTorch writes on-demand traces nowhere else.
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
    if (!::mkdtemp(outer.data())) return Error{inner + ": cannot be created: " + std::strerror(errno)};
  }
  struct stat owner {};
  if (::stat(fmt::format("/proc/{}", pid).c_str(), &owner) == 0 && owner.st_uid != ::geteuid() &&
      ::chown(outer.c_str(), owner.st_uid, owner.st_gid) != 0)
    return Error{outer + ": cannot be given to the program's user: " + std::strerror(errno)};
  inner.replace(inner.size() - 6, 6, outer, outer.size() - 6, 6);
  // If both see the same folder, the plain name is the one to show.
  std::error_code error;
  if (fs::equivalent(inner, outer, error)) outer = inner;
  return TraceFolder{inner, outer};
}

// PyTorch renames a file when it is complete; earlier versions write it in place.
bool is_complete(const std::string& path) {
  std::error_code error;
  const auto size = fs::file_size(path, error);
  if (error || size < 2) return false;
  nap_ms(200);
  if (fs::file_size(path, error) != size || error) return false;
  constexpr uintmax_t kEndBytes = 16;
  std::string end(std::min(size, kEndBytes), ' ');
  std::ifstream file(path, std::ios::binary);
  return file.seekg(static_cast<std::streamoff>(size - end.size())) &&
         file.read(end.data(), static_cast<std::streamsize>(end.size())) && without_blanks(end).ends_with("}");
}

// Programs in a container report the pids that they have there.
bool none_left(const std::vector<int64_t>& pids, int64_t pid) {
  const std::string inner = path_through(pid, "/proc");
  return std::none_of(pids.begin(), pids.end(), [&](int64_t p) { return check_process(p) || check_process(p, inner); });
}

// `daemon`: null where another program delivers.
std::vector<std::string> wait_for_traces(const std::string& folder, const std::vector<int64_t>& pids, int64_t pid,
                                         KinetoDaemon* daemon, int64_t timeout_ns) {
  std::vector<std::string> found;
  constexpr long kLook_ms = 100;
  for (const int64_t until_ns = monotonic_ns() + timeout_ns; found.size() < pids.size() && monotonic_ns() < until_ns;) {
    if (daemon) daemon->answer(kLook_ms * 1'000'000);
    else nap_ms(kLook_ms);
    for (const std::string& name : folder_names(folder)) {
      const std::string path = folder + "/" + name;
      const bool known = std::find(found.begin(), found.end(), path) != found.end();
      if (name.ends_with(".json") && !known && is_complete(path)) found.push_back(path);
    }
    if (none_left(pids, pid)) break;
  }
  return found;
}

// Where the program is recorded too, so that analyze joins both; empty: it is not recorded.
std::string recording_folder(int64_t pid) {
  const std::string inner = variable_of(pid, "PROFGPU_RECORD"), outer = path_through(pid, inner);
  std::error_code error;
  if (inner.empty() || !fs::is_directory(outer, error)) return "";
  return fs::equivalent(inner, outer, error) ? inner : outer;
}

// To a free name, trace_4711-2.json after trace_4711.json: a program may be traced again, and other nodes may write
// into the folder. Returns the path.
Result<std::string> moved(const std::string& file, const std::string& folder) {
  const std::string name = file.substr(file.rfind('/') + 1), stem = name.substr(0, name.rfind('.'));
  std::error_code error, ignored;
  for (int i = 1;; ++i) {
    const std::string number = i == 1 ? "" : "-" + std::to_string(i);
    std::string to = folder + "/" + stem + number + name.substr(stem.size());
    fs::create_hard_link(file, to, error);
    if (error && error != std::errc::file_exists) fs::copy_file(file, to, error);   // on another file system
    if (error == std::errc::file_exists) continue;
    if (!error) fs::remove(file, ignored);
    else fs::remove(to, ignored);
    if (error) return Error{to + ": cannot be written: " + error.message(), "the trace is " + file};
    return to;
  }
}

Status move_into(const std::string& folder, std::vector<std::string>& files) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) return Error{folder + ": cannot be created: " + error.message(), "choose another folder with -o"};
  const fs::path from = fs::path(files.front()).parent_path();
  for (std::string& file : files) {
    auto now = moved(file, folder);
    if (!now) return now.error();
    file = *std::move(now);
  }
  fs::remove(from, error);
  return ok();
}

// A program of `profgpu run` polls only with --torch-on-demand.
Status check_on_demand(const TorchAttachOptions& options) {
  const int64_t pid = options.request.pid;
  if (options.timeout_ns > 0 || variable_of(pid, "PROFGPU_RUN").empty() ||
      !variable_of(pid, "KINETO_USE_DAEMON").empty())
    return ok();
  return Error{fmt::format("process {} was started without --torch-on-demand: its PyTorch accepts no requests", pid),
               "profgpu run --trace --torch-on-demand -- COMMAND; or --timeout 30 if the program enables it itself"};
}

Error no_poll(int64_t pid, int64_t waited_ns) {
  if (!check_process(pid)) return {fmt::format("process {} ended before it accepted the request", pid)};
  return {
      fmt::format("process {} did not accept the request within {} s", pid, waited_ns / kSecond_ns),
      variable_of(pid, "KINETO_USE_DAEMON").empty()
          ? "start it with on-demand tracing: profgpu run --torch-on-demand -- COMMAND"
          : "PyTorch polls for requests every five seconds once it is imported, on the same machine and in the same "
            "network namespace"};
}

// The processes that accepted the request.
Result<std::vector<int64_t>> deliver(const TorchAttachOptions& options, const TorchTraceRequest& request,
                                     KinetoDaemon* daemon) {
  if (!daemon) {
    auto accepted = deliver_through_dynolog(request);
    if (accepted && accepted->empty())
      return Error{"the dynolog daemon knows no such program", "start PyTorch with KINETO_USE_DAEMON=1"};
    return accepted;
  }
  const int64_t waits_ns = options.timeout_ns > 0 ? options.timeout_ns : kPolls_ns;
  std::vector<int64_t> accepted;
  int64_t left_ns = waits_ns;
  for (const int64_t until_ns = monotonic_ns() + waits_ns;
       accepted.empty() && left_ns > 0 && check_process(request.pid); left_ns = until_ns - monotonic_ns())
    accepted = daemon->deliver(request, std::min(left_ns, kSecond_ns));
  if (accepted.empty()) return no_poll(request.pid, waits_ns);
  return accepted;
}

// `recording`: the folder of the program's recording; empty: none.
Outcome show(const TorchAttachOptions& options, const std::vector<std::string>& files, size_t expected,
             const std::string& recording) {
  const std::string folder = files.front().substr(0, files.front().rfind('/'));
  const std::string next =
      "profgpu analyze " + shell_line({files.size() == 1 && folder != recording ? files.front() : folder});
  if (options.json)
    return write_stdout(json_document(Record()
                                          .add("schema", "profgpu.attach.v1")
                                          .add("pid", options.request.pid)
                                          .add("traces", value_of(files))
                                          .add("missing", expected - files.size())
                                          .add("next", List{next})));
  std::string text;
  for (const std::string& f : files) text += printable(f) + "\n";
  if (expected > files.size()) text += fmt::format("{} more did not arrive in time\n", expected - files.size());
  return write_text(text + "Next: " + printable(next) + "\n");
}

Error no_trace(const TorchAttachOptions& options, const std::string& folder, int64_t waited_ns) {
  return {fmt::format("no trace arrived within {} s", waited_ns / kSecond_ns),
          options.request.steps > 0 ? "PyTorch counts only steps of its optimizers: use --duration for other programs"
                                    : "it would appear in " + folder};
}

Outcome attach_torch(const TorchAttachOptions& options) {
  TorchTraceRequest request = options.request;
  for (const auto& status : {check_process(request.pid), check_on_demand(options)})
    if (!status) return status;
  auto listening = KinetoDaemon::listen();
  if (!listening) return listening.error();
  KinetoDaemon* const daemon = *listening ? &**listening : nullptr;   // null: another program has its socket
  const auto folder = make_folder(request.pid);
  if (!folder) return folder.error();
  request.trace_path = folder->inner + "/trace.json";
  const std::string recording = recording_folder(request.pid);   // while it is there
  request.job = whole_number(variable_of(request.pid, "SLURM_JOB_ID")).value_or(0);
  std::error_code error;
  const auto pids = deliver(options, request, daemon);
  if (!pids) {
    fs::remove(folder->outer, error);
    return pids.error();
  }
  if (!options.json)
    print_message(fmt::format("profgpu: attach: {} accepted the request; waiting for the trace",
                              plural(static_cast<int64_t>(pids->size()), "program", "programs")));
  const int64_t takes_ns = request.steps > 0 ? kSteps_ns : request.duration_ms * 1'000'000 + kWrites_ns;
  const int64_t waits_ns = options.timeout_ns > 0 ? options.timeout_ns : kGetsReady_ns + takes_ns;
  auto files = wait_for_traces(folder->outer, *pids, request.pid, daemon, waits_ns);
  if (files.empty() && none_left(*pids, request.pid)) {
    fs::remove_all(folder->outer, error);
    return Error{pids->size() == 1 ? "the program ended before its trace was written"
                                   : "the programs ended before a trace was written"};
  }
  if (files.empty()) return no_trace(options, folder->outer, waits_ns);
  if (const std::string& to = options.folder.empty() ? recording : options.folder; !to.empty())
    if (Status status = move_into(to, files); !status) return status;
  return show(options, files, pids->size(), recording);
}

constexpr int64_t kTimeout_ns = 5 * kSecond_ns, kMemoryTimeout_ns = 120 * kSecond_ns, kMillisecond_ns = 1'000'000;
constexpr int64_t kMaxSteps = 1'000'000;

// By wire::RecorderState.
constexpr std::string_view kStates[] = {"starting", "waiting", "recording", "paused", "no device", "failed", "ended"};

std::string_view state_name(wire::RecorderState state) {
  const auto i = static_cast<size_t>(state);
  return i < std::size(kStates) ? kStates[i] : "unknown";
}

std::string status_text(int64_t pid, const RecorderStatus& s, const std::string& folder) {
  std::string text = fmt::format("Process {}: {}", pid, state_name(s.state));
  if (!s.reason.empty()) text += ": " + printable(s.reason);
  text += fmt::format("\n  {} rows, {}, {} steps, {} missing", format_count(static_cast<int64_t>(s.rows)),
                      format_bytes(static_cast<double>(s.bytes)), format_count(static_cast<int64_t>(s.steps)),
                      s.dropped == 0 ? "none" : format_count(static_cast<int64_t>(s.dropped)));
  if (s.flushed_ago_ns >= 0)
    text += fmt::format("; written {} ago", format_duration(static_cast<double>(s.flushed_ago_ns), 2));
  return text + "\nNext: profgpu analyze " + printable(shell_line({folder})) + "\n";
}

std::string status_json(int64_t pid, const RecorderStatus& s, const std::string& folder) {
  return json_document(Record()
                           .add("schema", "profgpu.attach.v1")
                           .add("pid", pid)
                           .add("state", state_name(s.state))
                           .add("reason", unless_empty(s.reason))
                           .add("folder", folder)
                           .add("rows", static_cast<int64_t>(s.rows))
                           .add("bytes", static_cast<int64_t>(s.bytes))
                           .add("dropped", static_cast<int64_t>(s.dropped))
                           .add("steps", static_cast<int64_t>(s.steps))
                           .add("started_unix_ns", s.started_unix_ns)
                           .add("flushed_ago_ns", only_if(s.flushed_ago_ns >= 0, s.flushed_ago_ns))
                           .add("next", List{"profgpu analyze " + shell_line({folder})}));
}

Outcome take_memory(RecordingControl& recording, int64_t pid, bool json, int64_t timeout_ns) {
  const auto path = recording.take_memory(timeout_ns);
  if (!path) return path.error();
  const std::string next = "profgpu analyze " + shell_line({*path});
  if (json)
    return write_stdout(json_document(Record()
                                          .add("schema", "profgpu.attach.v1")
                                          .add("pid", pid)
                                          .add("folder", recording.folder())
                                          .add("snapshot", *path)
                                          .add("next", List{next})));
  return write_stdout(printable(*path) + "\nNext: " + printable(next) + "\n");
}

Outcome control(int64_t pid, const std::string& action, bool json, int64_t timeout_ns) {
  auto recording = RecordingControl::open(pid);
  if (!recording) return recording.error();
  if (action == "memory") return take_memory(**recording, pid, json, timeout_ns);
  if (action != "status") {
    const auto order = action == "start" ? wire::ControlOrder::kStart : wire::ControlOrder::kStop;
    if (auto done = (*recording)->order(order, timeout_ns); !done) return done;
  }
  const RecorderStatus status = (*recording)->status();
  const std::string& folder = (*recording)->folder();
  return json ? write_stdout(status_json(pid, status, folder)) : write_text(status_text(pid, status, folder));
}

FlagGroup torch_flags() {
  return {"With torch",
          {{"--duration TIME", "length of the trace (default 1s)"},
           {"--steps N", "trace N optimizer steps"},
           {"--with WHAT...", "also record", {"shapes", "stacks", "memory", "modules", "flops"}},
           {"-o, --output FOLDER",
            "move the trace there (default: into the recording's folder, if any; else it stays in /tmp)"}}};
}

Result<TorchAttachOptions> torch_options(const Arguments& arguments, int64_t pid) {
  TorchAttachOptions o;
  o.request.pid = pid;
  o.json = arguments.has("--json");
  o.folder = arguments.value("--output");
  o.request.details = arguments.values("--with");
  if (arguments.has("--steps") && arguments.has("--duration"))
    return Error{"--steps and --duration cannot be combined", "each determines when the trace ends"};
  if (arguments.has("--output") && o.folder.empty()) return Error{"--output needs the name of a folder"};
  int64_t traced_ns = kSecond_ns;
  OptionReader read(arguments);
  read.whole("--steps", 1, kMaxSteps, o.request.steps).time("--duration", kMillisecond_ns, INT64_MAX, traced_ns);
  read.time("--timeout", kMillisecond_ns, INT64_MAX, o.timeout_ns);
  if (!read.status()) return read.status().error();
  o.request.duration_ms = traced_ns / kMillisecond_ns;
  return o;
}

std::vector<std::string> actions() { return {"start", "stop", "status", "memory", "torch"}; }

Outcome attach(const Arguments& arguments) {
  const std::vector<std::string>& words = arguments.positional;
  if (words.size() > 2) return Outcome::usage({"unexpected argument " + words[2], "profgpu attach PID ACTION"});
  const auto pid = all_digits(words[0]) ? whole_number(words[0]) : std::nullopt;
  if (!pid || *pid < 1 || *pid > INT32_MAX)
    return Outcome::usage(
        {"\"" + words[0] + "\" is not a process ID", "profgpu attach PID start|stop|status|memory|torch"});
  const std::string action = words.size() > 1 ? words[1] : "status";
  if (action == "torch") {
    const auto options = torch_options(arguments, *pid);
    return options ? attach_torch(*options) : Outcome::usage(options.error());
  }
  const std::vector<std::string> known = actions();
  if (std::ranges::find(known, action) == known.end())
    return Outcome::usage({"there is no action \"" + action + "\"", "choose one of: " + joined(known)});
  for (const Flag& flag : torch_flags().flags)
    if (arguments.has(flag.name))
      return Outcome::usage(
          {fmt::format("{} needs the action torch", flag.name), fmt::format("profgpu attach {} torch", *pid)});
  int64_t timeout_ns = action == "memory" ? kMemoryTimeout_ns : kTimeout_ns;
  OptionReader read(arguments);
  read.time("--timeout", kMillisecond_ns, INT64_MAX, timeout_ns);
  if (!read.status()) return Outcome::usage(read.status().error());
  return control(*pid, action, arguments.has("--json"), timeout_ns);
}

}  // namespace

extern const Command kAttach{
    .name = "attach",
    .summary = "start and stop the recording of a running process",
    .positional = "PID [ACTION]",
    .positional_help =
        "a process that `profgpu run --trace` started, and start, stop or status (default); or memory: a snapshot of "
        "PyTorch's CUDA memory; or torch: a trace from PyTorch's own profiler",
    .groups = {{"Options",
                {{"--json", "print the result as JSON"},
                 {"--timeout TIME",
                  "wait this long for an answer (default 5s; memory: 2m; torch: as long as the trace takes)"}}},
               torch_flags()},
    .examples = {{"profgpu attach 4711 start && sleep 10 && profgpu attach 4711 stop", "record ten seconds"},
                 {"profgpu attach 4711", "state, rows, steps, what is missing"},
                 {"profgpu run --trace --capture-range attach -- python train.py &",
                  "start a program whose GPU activity is not recorded yet"},
                 {"profgpu attach 4711 memory", "who holds the GPU's memory now, of a run with --memory"},
                 {"profgpu attach 4711 torch --steps 5", "five steps by torch.profiler, beside the recording"}},
    .notes =
        "start and stop turn the recording of GPU activity on and off; ranges, steps and collectives are always "
        "recorded.\n\n"
        "The action memory works for PyTorch programs started with `profgpu run --trace --memory` that have used CUDA. "
        "The snapshot appears in the recording's folder.\n\n"
        "The action torch works for PyTorch programs started with `profgpu run --torch-on-demand`, or with "
        "KINETO_USE_DAEMON=1 in their environment. PID may also be their launcher (torchrun): then all of them start "
        "at the same moment. `profgpu analyze` of the recording's folder uses the trace for the time that it covers "
        "and the recording before and after. If a dynolog daemon is running, profgpu sends the request through it.\n\n"
        "Exit status: 0 done, 1 not done (standard error has the reason), 2 usage.",
    .second_candidates = actions,
    .run = attach,
};

}  // namespace profgpu
