// profgpu top: devices and their processes on one screen, from second to second.
#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <mutex>
#include <thread>

#include "base/clock.h"
#include "cli/command.h"
#include "cli/device_options.h"
#include "cli/log_columns.h"
#include "cli/log_file.h"
#include "cli/output.h"
#include "cli/terminal.h"
#include "devices/host_process.h"
#include "devices/system_files.h"
#include "watch/live/local_source.h"
#include "watch/live/recording_folder.h"
#include "watch/live/remote_source.h"
#include "watch/top/session.h"

namespace profgpu {
namespace {

constexpr int64_t kProcesses_ns = 1'000'000'000;     // asking for them costs more than all the rest
constexpr size_t kMaxRemote = 256;                  // a thread each
constexpr int64_t kOnce_ns = 200'000'000, kOnceDeadline_ns = 2'500'000'000;

struct TopCommand {
  DeviceOptions devices;
  bool once = false;
  std::string record;
  std::vector<HttpUrl> remote;   // exporters of other machines; empty: this one's devices
  SessionOptions session;
  Colour colour = Colour::kAuto;
};

struct OrderName {
  std::string_view name;
  ProcessColumn column;
};
constexpr OrderName kOrders[] = {
    {"gpu-memory", ProcessColumn::kMemory}, {"sm", ProcessColumn::kSm},     {"cpu", ProcessColumn::kCpu},
    {"memory", ProcessColumn::kHostMemory}, {"time", ProcessColumn::kTime}, {"pid", ProcessColumn::kPid},
    {"user", ProcessColumn::kUser},         {"gpu", ProcessColumn::kDevice}, {"command", ProcessColumn::kCommand},
};

Status read_remote(const Arguments& arguments, TopCommand& command) {
  for (const std::string& list : arguments.values("--remote"))
    for (const std::string_view host : pieces_of(list, ',')) {
      auto address = remote_address(host);
      if (!address) return address.error().within("--remote");
      command.remote.push_back(*std::move(address));
    }
  if (command.remote.size() > kMaxRemote)
    return Error{fmt::format("--remote: {} hosts are more than {}", command.remote.size(), kMaxRemote)};
  for (const std::string_view flag : {"--device", "--backend", "--record"})
    if (!command.remote.empty() && arguments.has(flag))
      return Error{fmt::format("{} is for the devices of this machine", flag), "leave out one of it and --remote"};
  return ok();
}

Result<TopCommand> top_command(const Arguments& arguments) {
  TopCommand command;
  auto devices = device_options(arguments, 1'000'000'000);
  if (!devices) return devices.error();
  command.devices = *std::move(devices);
  if (command.devices.device.empty()) command.devices.device = {"all"};
  command.colour = asked_colour(arguments);
  command.record = arguments.value("--record");
  command.once = arguments.has("--once");
  if (command.once && !command.record.empty())
    return Error{"--record is for more than --once", "`profgpu log` records without a screen"};
  if (Status s = read_remote(arguments, command); !s) return s.error();
  ProcessOrder& order = command.session.order;
  const std::string sort = arguments.value("--sort", "gpu-memory");
  for (const OrderName& o : kOrders)
    if (o.name == sort)
      order.column = o.column,
      order.descending = o.column < ProcessColumn::kPlace && o.column >= ProcessColumn::kMemory;
  order.filter = arguments.value("--filter");
  order.tree = arguments.has("--tree");
  command.session.screen = {output_colour(command.colour), !arguments.has("--no-mouse")};
  return command;
}

/// What is on the screen, as a log that `--backend replay:FILE` takes.
class Recording {
 public:
  Recording(LogFile file, const std::vector<DeviceInfo>& devices)
      : file_(std::move(file)), rows_({LogFormat::kJson, {}, false, LogUnits::kHeader, {}, host_name(), {}}, devices) {}

  void add(const Reading& reading) {
    const std::lock_guard lock(mutex_);
    if (!status_) return;
    status_ = file_.write(rows_.row(reading));
    count_ += status_ ? 1 : 0;
  }
  [[nodiscard]] Status status() const {
    const std::lock_guard lock(mutex_);
    return status_;
  }
  [[nodiscard]] int64_t rows() const {
    const std::lock_guard lock(mutex_);
    return count_;
  }

 private:
  mutable std::mutex mutex_;
  LogFile file_;
  LogRows rows_;
  Status status_ = ok();
  int64_t count_ = 0;
};

// One frame as text, when each device has said what it can, or has been given time enough.
Outcome show_once(const TopCommand& command, LiveSource& source) {
  source.start([] {});
  const int64_t until = monotonic_ns() + kOnceDeadline_ns;
  while (!source.complete() && monotonic_ns() < until) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  TopModel model(command.devices.interval_ns, command.session.order);
  LiveView view = source.view();
  Error nothing{"no host has said anything of a GPU", "`curl HOST:9400/metrics` shows what there is"};
  for (const LiveHost& host : view.hosts) nothing.message += fmt::format("; {}: {}", host.name, host.trouble);
  const bool empty = view.devices.empty();
  model.take(std::move(view));
  const int width = output_width();
  auto written = write_stdout(frame_text(top_frame(model, width, 0), width, output_colour(command.colour)));
  Outcome outcome = written ? Outcome{} : Outcome::failed(written.error());
  if (empty) outcome = Outcome::failed(nothing);
  if (source.stop()) leave_stuck("top", outcome);
  return outcome;
}

Outcome watch(const TopCommand& command, LiveSource& source, const Recording* recording) {
  SessionOptions session = command.session;
  if (recording)
    session.notice = [&] {
      const Status status = recording->status();
      return status ? "" : "nothing is recorded any more: " + status.error().message;
    };
  const auto end = run_session(source, session);
  if (!end) {
    if (source.stop()) leave_stuck("top", Outcome::failed(end.error()));
    return Outcome::failed(end.error());
  }
  Outcome outcome;
  if (end->signal != 0 && end->signal != SIGINT) outcome.code = static_cast<ExitCode>(128 + end->signal);
  if (recording && !recording->status()) outcome = Outcome::failed(recording->status().error());
  else if (recording)
    print_message(fmt::format("{} rows were written to {}\nNext: profgpu top --backend replay:{}", recording->rows(),
                              command.record, command.record));
  if (end->silent || source.stop()) leave_stuck("top", outcome);
  return outcome;
}

bool terminal_can_draw() {
  const char* term = std::getenv("TERM");
  return stdout_is_terminal() && ::isatty(STDIN_FILENO) == 1 && term && *term && std::string_view(term) != "dumb";
}

Outcome show(const TopCommand& command, LiveSource& source, const Recording* recording) {
  if (!command.once && terminal_can_draw()) return watch(command, source, recording);
  if (!command.once && stdout_is_terminal())
    print_message("profgpu: top: this terminal cannot be drawn on: one look, as with --once");
  return show_once(command, source);
}

Outcome top(const Arguments& arguments) {
  auto command = top_command(arguments);
  if (!command) return Outcome::usage(command.error());
  if (!command->remote.empty()) {
    RemoteSource source({command->remote, command->devices.interval_ns, own_program()});
    return show(*command, source, nullptr);
  }
  auto open = open_shown("top", command->devices);
  if (!open) return Outcome::failed(open.error());
  const bool once = command->once || !terminal_can_draw();
  if (once && !command->record.empty())
    return Outcome::failed({"--record needs a screen to show what it records",
                            "`profgpu log -o " + command->record + "` records without one"});
  LocalSourceOptions options{
      open->devices, once ? kOnce_ns : command->devices.interval_ns, once ? kOnce_ns : kProcesses_ns, {}};
  std::shared_ptr<Recording> recording;
  if (!command->record.empty()) {
    auto file = LogFile::open({.path = command->record, .header = ""});
    if (!file) return Outcome::failed(file.error());
    recording = std::make_shared<Recording>(*std::move(file), open->backend->devices());
    options.recorder = [recording](const Reading& reading) { recording->add(reading); };
  }
  LocalSource source(open->backend, std::move(options));
  return show(*command, source, recording.get());
}

}  // namespace

extern const Command kTop;
const Command kTop{
    .name = "top",
    .summary = "GPUs and their processes on one screen, and what holds them back",
    .positional = "",
    .groups = {shown_device_flags(true),
               {"Other machines",
                {{.name = "--remote",
                  .value = "HOST[:PORT]",
                  .help = "what `profgpu exporter` or dcgm-exporter says there, at :9400/metrics or at a whole "
                          "address; several with commas "
                          "or again",
                  .repeatable = true}}},
               {"Processes",
                {{.name = "--sort",
                  .value = "COLUMN",
                  .help = "what they are ordered by (default gpu-memory)",
                  .choices = {"gpu-memory", "sm", "cpu", "memory", "time", "pid", "user", "gpu", "command"}},
                 {.name = "--filter",
                  .value = "TEXT",
                  .help = "only those with this in command, user, pid, container or job"},
                 {.name = "--tree", .help = "below the programs that started them"}}},
               {"Screen",
                {{.name = "--once", .help = "one look, as text (always where there is no terminal to draw on)"},
                 {.name = "--record",
                  .value = "FILE",
                  .help = "also append what is shown to this file, for --backend replay:FILE",
                  .takes_path = true},
                 {.name = "--no-mouse", .help = "leave the mouse to the terminal, for selecting text"},
                 colour_flag()}}},
    .examples = {{"profgpu top", "all GPUs, once a second; h shows the keys, q leaves"},
                 {"profgpu top -i 0.1 --device 0", "one GPU, ten times a second"},
                 {"profgpu top --filter alice --sort sm", "one user's processes, the busiest first"},
                 {"profgpu top --remote node1,node2", "GPUs of other machines, as their exporters say"},
                 {"profgpu top --record night.jsonl", "and watch it again: profgpu top --backend replay:night.jsonl"}},
    .notes =
        "Between devices and processes stands what should be said of them, worst first, with what to do: clocks held "
        "back by "
        "power or heat, a slow link, memory nearly full, idle while a process holds memory, memory errors, Xid. "
        "Sampling is "
        "done in the background: a device that is lost or hangs has a line that says so, and keys answer all the same. "
        "Signals "
        "and nice values are sent after a question, and only to the process that was meant. NO_COLOR and locales "
        "without UTF-8 "
        "are respected. Exit status: 0 after q or Ctrl-C, 1 no device can be read, 2 usage, 128 + n ended by another "
        "signal.",
    .run = top,
};

}  // namespace profgpu
