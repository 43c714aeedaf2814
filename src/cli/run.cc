// profgpu run, profgpu -- COMMAND: what the devices do while a command runs.
#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <thread>

#include "app/words.h"
#include "base/clock.h"
#include "cli/command.h"
#include "cli/device_options.h"
#include "cli/output.h"
#include "cli/run_options.h"
#include "cli/run_recording.h"
#include "cli/run_report.h"
#include "view/json_text.h"
#include "watch/live/run_session.h"

namespace profgpu {
namespace {

// Drivers take seconds to wake many devices. One that hangs must not keep the command from running for long.
constexpr int64_t kLongestOpening_ns = 20'000'000'000, kSilentOpening_ns = 2'000'000'000;

struct Opening {
  Opening() : done(::eventfd(0, EFD_CLOEXEC)) {}
  int done;
  std::optional<Result<OpenDevices>> result;
};

// On a thread of its own, so that neither Ctrl-C nor the command waits for a driver that hangs. The thread stays: a
// backend's child process may be tied to it.
Result<OpenDevices> open_in_time(const DeviceOptions& options, const CommandRunner& runner, bool& stuck) {
  auto opening = std::make_shared<Opening>();
  std::thread([opening, options] {
    opening->result = open_devices(options);
    const uint64_t one = 1;
    if (::write(opening->done, &one, sizeof one) == sizeof one)
      for (;;) ::pause();
  }).detach();
  const int64_t begin = monotonic_ns();
  for (const int64_t patience_ns : {kSilentOpening_ns, kLongestOpening_ns}) {
    if (patience_ns == kLongestOpening_ns)
      print_message(
          "profgpu: run: the driver takes long to answer; the command begins when it has, or in 18 s (faster with "
          "persistence mode: `nvidia-smi -pm 1`)");
    for (int64_t left; (left = begin + patience_ns - monotonic_ns()) > 0;) {
      pollfd waiting{opening->done, POLLIN, 0};
      const timespec most{left / 1'000'000'000, left % 1'000'000'000};
      if (::ppoll(&waiting, 1, &most, &runner.mask_before()) > 0) return std::move(*opening->result);
    }
  }
  stuck = true;
  if (options.strict) return Error{"the driver does not answer", "`profgpu doctor` tells more"};
  OpenDevices none;
  none.notes.push_back("no device is watched: the driver does not answer; `profgpu doctor` tells more");
  return none;
}

Result<std::unique_ptr<SampleOutput>> open_samples(const RunOptions& options, const OpenDevices& open,
                                                   const RunRecording* recording) {
  if (recording && options.samples.empty() && !open.backend) return std::unique_ptr<SampleOutput>();
  if (!recording && !options.folder.empty()) {
    std::error_code error;
    std::filesystem::create_directories(options.folder, error);
    if (error) return Error{options.folder + ": cannot be made: " + error.message(), "choose another folder with -o"};
  }
  const std::string path = !options.samples.empty()  ? options.samples
                           : recording               ? recording->folder().samples
                           : !options.folder.empty() ? options.folder + "/samples.jsonl"
                                                     : "";
  if (path.empty()) return std::unique_ptr<SampleOutput>();
  return SampleOutput::open(path, open.backend ? open.backend->devices() : std::vector<DeviceInfo>{}, recording_host());
}

std::vector<std::string> notes_of(const RunOptions& options, const OpenDevices& open, const RunSession& session,
                                  const SampleOutput* samples, const RunRecording* recording) {
  const bool is_told = recording && recording->has_no_device();
  std::vector<std::string> notes = is_told ? std::vector<std::string>() : open.notes;
  if (!open.backend && open.notes.empty()) notes.push_back("nothing was sampled: --backend " + options.devices.backend);
  if (options.warmup_ns > 0 && open.backend && session.last.wall_ns <= options.warmup_ns)
    notes.push_back(fmt::format("the warm-up of {:g} s is longer than the run: nothing of it counts",
                                static_cast<double>(options.warmup_ns) / 1e9));
  if (session.replay_ended) notes.push_back("the replay ended before the command did");
  if (samples && !samples->problem().empty())
    notes.push_back(samples->problem());
  else if (samples && open.backend)
    notes.push_back("all samples are in " + samples->path());
  return notes;
}

std::string json_line(const Record& document) {
  JsonText json;
  json.record(document, Layout::kInline);
  return json.take() + "\n";
}

void print_summary(const RunReport& report, const RunOptions& options) {
  const std::string text = run_text(report, message_width(), message_colour(options.colour));
  std::fputs(stderr_is_terminal() ? ("\n" + text).c_str() : text.c_str(), stderr);
}

// The first thing that could not be written, if any.
Status write_results(const RunReport& report, const RunOptions& options) {
  if (!options.quiet && !options.json) print_summary(report, options);
  Status folder = ok(), out = ok();
  if (!report.summary_path.empty()) folder = write_file(report.summary_path, json_line(report.document));
  // The command may have left its last line open; the document stands on a line of its own.
  if (options.json) out = write_stdout("\n" + json_line(report.document));
  return folder ? out : folder;
}

Status strict_verdict(const RunOptions& options, const RunSession& session) {
  if (!options.devices.strict) return ok();
  for (const DeviceTrouble& t : session.troubles)
    if (!t.over) return Error{fmt::format("a device failed while the command ran: {}", t.message)};
  return ok();
}

// Makes the folder of a recording and sets what the command's environment gets.
Result<std::unique_ptr<RunRecording>> begin_recording(const RunOptions& options, CommandRunner& runner) {
  if (!options.trace.wanted) {
    if (options.trace.torch_on_demand) {
      RecordingRequest request;
      request.torch_on_demand = true;
      runner.set_environment(recording_environment(request, {}, environ).variables);
    }
    return std::unique_ptr<RunRecording>();
  }
  auto recording = RunRecording::begin(options.trace, options.folder, options.command);
  if (recording) runner.set_environment((*recording)->environment().variables);
  return recording;
}

RunSessionOptions session_options(const RunOptions& options, const OpenDevices& open, SampleOutput* samples) {
  RunSessionOptions out;
  out.command = options.command;
  out.interval_ns = options.devices.interval_ns;
  out.warmup_ns = options.warmup_ns;
  out.repeats = options.repeats;
  out.warmup_runs = options.warmup_runs;
  out.backend = open.backend;
  out.devices = open.devices;
  out.samples = samples;
  out.warn = [](const std::string& text) { print_message("profgpu: run: " + text); };
  return out;
}

Outcome watch_open(const RunOptions& options, const OpenDevices& open, CommandRunner& runner, bool& stuck) {
  auto begun = begin_recording(options, runner);
  if (!begun) return Outcome::failed(begun.error());
  RunRecording* const recording = begun->get();
  auto samples = open_samples(options, open, recording);
  Status ready = samples ? ok() : Status(samples.error());
  if (recording && ready) ready = recording->start(open);
  if (!ready) {
    if (recording) recording->cancel();
    return Outcome::failed(ready.error());
  }
  RunSession session = run_session(runner, session_options(options, open, samples->get()));
  stuck = stuck || session.stuck;
  if (session.not_started) {
    if (recording) recording->cancel();
    return {static_cast<ExitCode>(session.not_started->exit_code), session.not_started->error};
  }
  Status written = recording ? recording->finish(session) : ok();
  const RunReport report =
      run_report(options, open, session, notes_of(options, open, session, samples->get(), recording), recording);
  if (Status results = write_results(report, options); written) written = results;
  if (written) written = strict_verdict(options, session);
  // What went wrong with us never hides how the command ended.
  const int code = session.last.exit_code;
  if (!written) return {code != 0 ? static_cast<ExitCode>(code) : ExitCode::kFailed, written.error()};
  return {static_cast<ExitCode>(code)};
}

Outcome watch(RunOptions options, CommandRunner& runner, bool& stuck) {
  auto open = open_in_time(options.devices, runner, stuck);
  if (!open) return Outcome::failed(open.error());
  auto command = launch_command(options.launch, options.command, open->devices.size());
  if (!command) return Outcome::usage(command.error());
  options.command = std::move(*command);
  if (!options.launch.mode.empty()) print_message("profgpu: run: " + shell_line(options.command));
  return watch_open(options, *open, runner, stuck);
}

Outcome run(const Arguments& arguments) {
  auto options = run_options(arguments);
  if (!options) return Outcome::usage(options.error());
  bool stuck = false;
  Outcome outcome;
  {
    CommandRunner runner(pipe_signal_was_ignored());
    outcome = watch(*options, runner, stuck);
  }
  if (!stuck) return outcome;
  // A driver call has not come back; it may hold locks that an orderly end waits for.
  leave_stuck("run", outcome);
}

}  // namespace

extern const Command kRun;
const Command kRun{
    .name = "run",
    .summary = "run a command and say what the GPUs did meanwhile",
    .positional = "COMMAND...",
    .positional_help =
        "the command and its arguments; the words from here on are its own. `profgpu [OPTION]... -- COMMAND` is short "
        "for "
        "`profgpu run [OPTION]... -- COMMAND`",
    .groups = run_flags(),
    .examples = {{"profgpu -- python train.py", "how busy the GPUs were, what held them back, what it cost"},
                 {"profgpu run --samples run.jsonl -- torchrun --nproc-per-node 8 train.py", "and keep the samples"},
                 {"profgpu run --repeats 5 --warmup-runs 1 -- ./bench", "how much the figures vary from run to run"},
                 {"profgpu run --trace -- python train.py",
                  "record what the GPUs and threads do, for `profgpu analyze`"},
                 {"profgpu run --trace --steps 10:20 --mode multi-gpu train.py", "steps 10 to 19 on all GPUs"},
                 {"profgpu run -o run7 --quiet -- python train.py", "only files, for scripts"}},
    .notes =
        "The summary goes to standard error. Exit status: the command's own, 128 + n if signal n ended it, 127 if "
        "there is "
        "no such command, 126 if it cannot be run; 2 usage, 1 if a device that was asked for or an output file cannot "
        "be "
        "opened (the command is then not run). Signals that are sent to profgpu are passed on. Ctrl-C and Ctrl-Z reach "
        "the command from the terminal; profgpu never ends it, and sums up when it has ended.",
    .runs_command = true,
    .run = run,
};

}  // namespace profgpu
