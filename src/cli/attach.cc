// profgpu attach PID: look at, start and stop the recording of a process that runs; or have PyTorch trace itself.
#include <fmt/format.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "analyse/report/quantity.h"
#include "app/words.h"
#include "base/clock.h"
#include "base/decimal.h"
#include "cli/command.h"
#include "cli/device_options.h"
#include "cli/output.h"
#include "devices/system_files.h"
#include "view/json_text.h"
#include "watch/live/kineto_daemon.h"
#include "watch/live/recording_control.h"

namespace profgpu {
namespace {

namespace fs = std::filesystem;

/// `profgpu attach PID torch`: a trace by PyTorch's own profiler.
struct TorchAttachOptions {
  TorchTraceRequest request;  ///< trace_path is not yet known
  std::string folder;         ///< empty: that of the recording, or where PyTorch writes them
  int64_t timeout_ns = 0;     ///< 0: as long as it should take
  bool json = false;
};

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
  if (options.json)
    return Outcome::of(write_stdout(json_document(Record()
                                                      .add("schema", "profgpu.attach.v1")
                                                      .add("pid", options.request.pid)
                                                      .add("traces", value_of(files))
                                                      .add("missing", expected - files.size())
                                                      .add("next", List{next}))));
  std::string text;
  for (const std::string& f : files) text += printable(f) + "\n";
  if (expected > files.size())
    text += fmt::format("{} more did not come in time\n", expected - files.size());
  return Outcome::of(write_stdout(text + "Next: " + printable(next) + "\n"));
}

Outcome attach_torch(const TorchAttachOptions& options) {
  TorchTraceRequest request = options.request;
  if (auto status = check_process(request.pid); !status) return Outcome::failed(status.error());
  if (auto status = check_on_demand(options); !status) return Outcome::failed(status.error());
  auto listening = KinetoDaemon::listen();
  if (!listening) return Outcome::failed(listening.error());
  KinetoDaemon* const daemon = *listening ? &**listening : nullptr;   // null: another program has its socket
  auto folder = make_folder(request.pid);
  if (!folder) return Outcome::failed(folder.error());
  request.trace_path = folder->inner + "/trace.json";
  const std::string recording = recording_folder(request.pid);   // while it is there
  request.job = whole_number(variable_of(request.pid, "SLURM_JOB_ID")).value_or(0);
  std::error_code error;
  auto told = deliver(options, request, daemon);
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
  auto files = wait_for_traces(folder->outer, *told, request.pid, daemon, waits_ns);
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

constexpr int64_t kTimeout_ns = 5'000'000'000;
constexpr int64_t kDefaultDuration_ms = 1'000, kMaxSteps = 1'000'000;

std::string_view state_name(wire::RecorderState state) {
  switch (state) {
    case wire::RecorderState::kStarting: return "starting";
    case wire::RecorderState::kWaiting: return "waiting";
    case wire::RecorderState::kRecording: return "recording";
    case wire::RecorderState::kPaused: return "paused";
    case wire::RecorderState::kNoDevice: return "no device";
    case wire::RecorderState::kFailed: return "failed";
    case wire::RecorderState::kEnded: return "ended";
  }
  return "unknown";
}

std::string status_text(int64_t pid, const RecorderStatus& s, const std::string& folder) {
  std::string text = fmt::format("Process {}: {}", pid, state_name(s.state));
  if (!s.reason.empty()) text += ": " + printable(s.reason);
  text += fmt::format("\n  {} rows, {}, {} steps", format_count(static_cast<int64_t>(s.rows)),
                      format_bytes(static_cast<double>(s.bytes)), format_count(static_cast<int64_t>(s.steps)));
  text +=
      s.dropped == 0 ? ", none missing" : fmt::format(", {} missing", format_count(static_cast<int64_t>(s.dropped)));
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

Outcome control(int64_t pid, const std::string& order, bool json, int64_t timeout_ns) {
  auto recording = RecordingControl::open(pid);
  if (!recording) return Outcome::failed(recording.error());
  if (order != "status")
    if (auto done =
            (*recording)->order(order == "start" ? wire::ControlOrder::kStart : wire::ControlOrder::kStop, timeout_ns);
        !done)
      return Outcome::failed(done.error());
  const RecorderStatus status = (*recording)->status();
  const std::string& folder = (*recording)->folder();
  return Outcome::of(write_stdout(json ? status_json(pid, status, folder) : status_text(pid, status, folder)));
}

const Takes kTime{"a time", 1, INT64_MAX, "seconds, or 500ms, 2m"};

Result<TorchAttachOptions> torch_options(const Arguments& arguments, int64_t pid) {
  TorchAttachOptions o;
  o.request.pid = pid;
  o.json = arguments.has("--json");
  o.folder = arguments.value("--output");
  o.request.details = arguments.values("--with");
  if (arguments.has("--steps") && arguments.has("--duration"))
    return Error{"--steps and --duration cannot go together", "one of them says when the trace ends"};
  if (arguments.has("--output") && o.folder.empty()) return Error{"--output takes a folder, not an empty word"};
  int64_t traced_ns = kDefaultDuration_ms * 1'000'000;
  for (const Status& read :
       {read_option(arguments, "--steps", whole_number, {"a whole number from 1", 1, kMaxSteps}, o.request.steps),
        read_option(arguments, "--duration", duration_ns, kTime, traced_ns),
        read_option(arguments, "--timeout", duration_ns, kTime, o.timeout_ns)})
    if (!read) return read.error();
  o.request.duration_ms = std::max<int64_t>(traced_ns / 1'000'000, 1);
  return o;
}

Outcome attach(const Arguments& arguments) {
  const std::vector<std::string>& words = arguments.positional;
  if (words.size() > 2) return Outcome::usage({"unexpected argument " + words[2], "one process and one order"});
  const auto pid = whole_number(words[0]);
  if (!pid || *pid < 1 || *pid > INT32_MAX || words[0].find_first_not_of("0123456789") != std::string::npos)
    return Outcome::usage({"\"" + words[0] + "\" is no process number", "profgpu attach PID start|stop|status|torch"});
  const std::string order = words.size() > 1 ? words[1] : "status";
  if (order == "torch") {
    const auto options = torch_options(arguments, *pid);
    return options ? attach_torch(*options) : Outcome::usage(options.error());
  }
  if (order != "start" && order != "stop" && order != "status")
    return Outcome::usage({"\"" + order + "\" is no order", "one of: start, stop, status, torch"});
  for (const std::string_view flag : {"--steps", "--duration", "--with", "--output"})
    if (arguments.has(flag))
      return Outcome::usage(
          {fmt::format("{} is for the order torch", flag), fmt::format("profgpu attach {} torch", *pid)});
  int64_t timeout_ns = kTimeout_ns;
  if (Status read = read_option(arguments, "--timeout", duration_ns, kTime, timeout_ns); !read)
    return Outcome::usage(read.error());
  return control(*pid, order, arguments.has("--json"), timeout_ns);
}

}  // namespace

extern const Command kAttach;
const Command kAttach{
    .name = "attach",
    .summary = "start and stop the recording of a running process",
    .positional = "PID [ORDER]",
    .positional_help =
        "a process that `profgpu run --trace` has started, and start, stop or status (default); or torch: have PyTorch "
        "write a trace of its own",
    .groups = {{"Options",
                {{.name = "--json", .help = "what became of it, as JSON"},
                 {.name = "--timeout",
                  .value = "TIME",
                  .help = "wait so long for an answer (default 5s; torch: as long as the trace takes)"}}},
               {"With torch",
                {{.name = "--duration", .value = "TIME", .help = "length of the trace (default 1s)"},
                 {.name = "--steps", .value = "N", .help = "trace N optimizer steps"},
                 {.name = "--with",
                  .value = "WHAT",
                  .help = "also record this; may be given again",
                  .choices = {"shapes", "stacks", "memory", "modules", "flops"},
                  .repeatable = true},
                 {.name = "--output",
                  .short_name = "-o",
                  .value = "FOLDER",
                  .help = "move the trace there (default: into the recording's folder, if there is one; else it stays "
                          "below /tmp)",
                  .takes_path = true}}}},
    .examples = {{"profgpu attach 4711 start && sleep 10 && profgpu attach 4711 stop", "ten seconds of it"},
                 {"profgpu attach 4711", "state, rows, steps, what is missing"},
                 {"profgpu run --trace --capture-range attach -- python train.py &",
                  "how it is started: recorded, but not yet its device"},
                 {"profgpu attach 4711 torch --steps 5",
                  "five steps as torch.profiler sees them, beside the recording"}},
    .notes =
        "start and stop turn the recording of the device on and off; ranges, steps and collectives are recorded all "
        "the "
        "time. The order torch works for PyTorch programs that `profgpu run --torch-on-demand` has started, or that "
        "have "
        "KINETO_USE_DAEMON=1 in their environment; PID may be what started several of them (torchrun): all begin at "
        "the "
        "same moment. `profgpu analyze` of the recording's folder takes the trace in its time and the recording before "
        "and "
        "after. A dynolog daemon that runs is asked to pass the order on. Exit status: 0 done, 1 not (standard error "
        "says "
        "why), 2 usage.",
    .run = attach,
};

}  // namespace profgpu
