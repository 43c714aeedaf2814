// profgpu attach PID: look at, start and stop the recording of a process that runs; or have PyTorch trace itself.
#include <fmt/format.h>

#include "analyse/report/quantity.h"
#include "base/decimal.h"
#include "cli/attach_torch.h"
#include "cli/command.h"
#include "cli/device_options.h"
#include "cli/flag_values.h"
#include "cli/output.h"
#include "cli/words.h"
#include "view/json_text.h"
#include "watch/live/recording_control.h"

namespace profgpu {
namespace {

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
  JsonText json;
  json.record(Record()
                  .add("schema", "profgpu.attach.v1")
                  .add("pid", pid)
                  .add("state", state_name(s.state))
                  .add("reason", s.reason.empty() ? Value() : Value(s.reason))
                  .add("folder", folder)
                  .add("rows", static_cast<int64_t>(s.rows))
                  .add("bytes", static_cast<int64_t>(s.bytes))
                  .add("dropped", static_cast<int64_t>(s.dropped))
                  .add("steps", static_cast<int64_t>(s.steps))
                  .add("started_unix_ns", s.started_unix_ns)
                  .add("flushed_ago_ns", s.flushed_ago_ns < 0 ? Value() : Value(s.flushed_ago_ns))
                  .add("next", List{"profgpu analyze " + shell_line({folder})}),
              Layout::kLines);
  return json.take() + "\n";
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
  const auto written = write_stdout(json ? status_json(pid, status, folder) : status_text(pid, status, folder));
  return written ? Outcome{} : Outcome::failed(written.error());
}

Result<TorchAttachOptions> torch_options(const Arguments& arguments, int64_t pid) {
  TorchAttachOptions o;
  o.request.pid = pid;
  o.json = arguments.has("--json");
  o.folder = arguments.value("--output");
  o.request.details = arguments.values("--with");
  if (arguments.has("--steps") && arguments.has("--duration"))
    return Error{"--steps and --duration cannot go together", "one of them says when the trace ends"};
  if (arguments.has("--output") && o.folder.empty()) return Error{"--output takes a folder, not an empty word"};
  int64_t duration = kDefaultDuration_ms * 1'000'000;
  for (const Status& read : {read_whole(arguments, "--steps", 1, kMaxSteps, o.request.steps),
                             read_time(arguments, "--duration", {.least = 1}, duration),
                             read_time(arguments, "--timeout", {.least = 1}, o.timeout_ns)})
    if (!read) return read.error();
  o.request.duration_ms = std::max<int64_t>(duration / 1'000'000, 1);
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
  int64_t timeout = kTimeout_ns;
  if (Status read = read_time(arguments, "--timeout", {.least = 1}, timeout); !read)
    return Outcome::usage(read.error());
  return control(*pid, order, arguments.has("--json"), timeout);
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
