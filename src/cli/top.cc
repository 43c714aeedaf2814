// profgpu top: devices and their processes on one screen, updated every second.
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <mutex>
#include <thread>

#include "base/clock.h"
#include "base/dyn_lib.h"
#include "cli/device_options.h"
#include "cli/log_columns.h"
#include "cli/log_file.h"
#include "cli/output.h"
#include "cli/terminal.h"
#include "devices/host_process.h"
#include "watch/live/local_source.h"
#include "watch/live/remote_source.h"
#include "watch/top/session.h"

namespace profgpu {
namespace {

constexpr int64_t kProcesses_ns = 1'000'000'000;     // reading them costs more than all the rest
constexpr size_t kMaxRemote = 256;                  // a thread each
constexpr int64_t kOnce_ns = 200'000'000, kOnceDeadline_ns = 2'500'000'000;

struct TopCommand {
  DeviceOptions devices;
  bool once = false;
  std::string record;
  std::vector<HttpUrl> remote;   // exporters of other machines; empty: the devices of this machine
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
    return Error{fmt::format("--remote: {} hosts exceed the limit of {}", command.remote.size(), kMaxRemote)};
  for (const std::string_view flag : {"--device", "--backend", "--record"})
    if (!command.remote.empty() && arguments.has(flag))
      return Error{fmt::format("{} and --remote cannot be combined", flag), "--remote shows other machines only"};
  return ok();
}

Result<TopCommand> top_command(const Arguments& arguments) {
  TopCommand command;
  auto devices = device_options(arguments, "all");
  if (!devices) return devices.error();
  command.devices = *std::move(devices);
  command.colour = colour_option(arguments);
  command.record = arguments.value("--record");
  command.once = arguments.has("--once");
  if (command.once && !command.record.empty())
    return Error{"--record and --once cannot be combined", "record without a screen: profgpu log"};
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

/// The readings on the screen as a log for `--backend replay:FILE`.
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

// One frame as text, once every device has answered or had enough time.
Outcome show_once(const TopCommand& command, LiveSource& source) {
  source.start([] {});
  const int64_t until = monotonic_ns() + kOnceDeadline_ns;
  while (!source.complete() && monotonic_ns() < until) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  TopModel model(command.devices.interval_ns, command.session.order);
  LiveView view = source.view();
  Error nothing{"no host reported a GPU", "`curl HOST:9400/metrics` shows what it reports"};
  for (const LiveHost& host : view.hosts) nothing.message += fmt::format("; {}: {}", host.name, host.trouble);
  const bool empty = view.devices.empty();
  model.take(std::move(view));
  const int width = output_width();
  Outcome outcome = write_text(frame_text(top_frame(model, width, 0), width, output_colour(command.colour)));
  if (empty) outcome = nothing;
  if (source.stop()) leave_stuck("top", outcome);
  return outcome;
}

Outcome watch(const TopCommand& command, LiveSource& source, const Recording* recording) {
  SessionOptions session = command.session;
  if (recording)
    session.notice = [&] {
      const Status status = recording->status();
      return status ? "" : "recording stopped: " + status.error().message;
    };
  const auto end = run_session(source, session);
  Outcome outcome = end ? Outcome() : end.error();
  if (end && end->signal != 0 && end->signal != SIGINT) outcome.code = static_cast<ExitCode>(128 + end->signal);
  if (end && recording) {
    if (const Status status = recording->status(); !status) outcome = status;
    else
      print_message(fmt::format("{} rows were written to {}\nNext: profgpu top --backend replay:{}", recording->rows(),
                                command.record, command.record));
  }
  if ((end && end->silent) || source.stop()) leave_stuck("top", outcome);
  return outcome;
}

bool terminal_can_draw() {
  const char* term = std::getenv("TERM");
  return stdout_is_terminal() && ::isatty(STDIN_FILENO) == 1 && term && *term && std::string_view(term) != "dumb";
}

Outcome show(const TopCommand& command, LiveSource& source, const Recording* recording) {
  if (!command.once && terminal_can_draw()) return watch(command, source, recording);
  if (!command.once && stdout_is_terminal())
    print_message("profgpu: top: cannot draw on this terminal; showing one frame, as with --once");
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
  if (!open) return open.error();
  const bool once = command->once || !terminal_can_draw();
  if (once && !command->record.empty())
    return Error{"--record needs a screen", "record without one: profgpu log -o " + command->record};
  LocalSourceOptions options{
      open->devices, once ? kOnce_ns : command->devices.interval_ns, once ? kOnce_ns : kProcesses_ns, {}};
  std::shared_ptr<Recording> recording;
  if (!command->record.empty()) {
    auto file = LogFile::open({.path = command->record, .header = ""});
    if (!file) return file.error();
    recording = std::make_shared<Recording>(*std::move(file), open->backend->devices());
    options.recorder = [recording](const Reading& reading) { recording->add(reading); };
  }
  LocalSource source(open->backend, std::move(options));
  return show(*command, source, recording.get());
}

}  // namespace

extern const Command kTop{
    .name = "top",
    .summary = "GPUs and their processes on one screen, and what holds them back",
    .groups = {device_flags(kAllDevices, {kIntervalFlag}),
               {"Other machines",
                {{"--remote HOST[:PORT]...",
                  "GPUs of other machines that run `profgpu exporter` or dcgm-exporter: hosts separated by commas (port "
                  "9400), or whole addresses"}}},
               {"Processes",
                {{"--sort COLUMN",
                  "sort by this column (default gpu-memory)",
                  {"gpu-memory", "sm", "cpu", "memory", "time", "pid", "user", "gpu", "command"}},
                 {"--filter TEXT", "only processes with this in command, user, pid, container or job"},
                 {"--tree", "below the programs that started them"}}},
               {"Screen",
                {{"--once", "one frame, as text (always if there is no terminal to draw on)"},
                 {"--record FILE", "also append what is shown to this file, for --backend replay:FILE"},
                 {"--no-mouse", "leave the mouse to the terminal, for selecting text"},
                 kColourFlag}}},
    .examples = {{"profgpu top", "all GPUs, once a second; h shows the keys, q quits"},
                 {"profgpu top -i 0.1 --device 0", "one GPU, ten times a second"},
                 {"profgpu top --filter alice --sort sm", "one user's processes, the busiest first"},
                 {"profgpu top --remote node1,node2", "GPUs of other machines, through their exporters"},
                 {"profgpu top --record night.jsonl", "watch it again: profgpu top --backend replay:night.jsonl"}},
    .notes =
        "Warnings stand between GPUs and processes, worst first, each with what to do: clocks limited by power or heat, a "
        "slow link, memory nearly full, an idle GPU whose memory is held, memory errors, Xid. Sampling runs in the "
        "background: a GPU that is lost or hangs gets a line with the reason, and keys keep working. Signals and nice "
        "values are sent only after a question, and only to the process that was selected. NO_COLOR and locales without "
        "UTF-8 are respected.\n\n"
        "Exit status: 0 after q or Ctrl-C, 1 no GPU can be read, 2 usage, 128 + n ended by another signal.",
    .run = top,
};

}  // namespace profgpu
