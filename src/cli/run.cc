// profgpu run, profgpu -- COMMAND: what the devices do while a command runs.
#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <thread>

#include "app/words.h"
#include "base/clock.h"
#include "base/secrets.h"
#include "cli/command.h"
#include "cli/device_options.h"
#include "cli/output.h"
#include "cli/run_options.h"
#include "cli/run_recording.h"
#include "cli/run_report.h"
#include "watch/live/run_session.h"

namespace profgpu {
namespace {

// Drivers take seconds to wake many devices. One that hangs must not keep the command from running for long.
constexpr int64_t kMaxOpening_ns = 20'000'000'000, kSilentOpening_ns = 2'000'000'000;

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
  for (const int64_t patience_ns : {kSilentOpening_ns, kMaxOpening_ns}) {
    if (patience_ns == kMaxOpening_ns)
      print_message(
          "profgpu: run: waiting for the driver; the command starts when it answers, in 18 s at the latest (persistence "
          "mode makes this faster: `nvidia-smi -pm 1`)");
    for (int64_t left; (left = begin + patience_ns - monotonic_ns()) > 0;) {
      pollfd waiting{opening->done, POLLIN, 0};
      const timespec time{left / 1'000'000'000, left % 1'000'000'000};
      if (::ppoll(&waiting, 1, &time, &runner.mask_before()) > 0) return std::move(*opening->result);
    }
  }
  stuck = true;
  if (options.strict) return Error{"the driver does not answer", "run `profgpu doctor` for details"};
  OpenDevices none;
  none.notes.push_back("no GPU is watched: the driver does not answer; run `profgpu doctor` for details");
  return none;
}

// Null: samples go nowhere.
Result<std::unique_ptr<SampleOutput>> open_samples(const RunOptions& options, const OpenDevices& open,
                                                   const RunRecording* recording) {
  std::string path = options.samples;
  if (recording) {
    if (path.empty() && open.backend) path = recording->folder().samples;
  } else if (!options.folder.empty()) {
    std::error_code error;
    std::filesystem::create_directories(options.folder, error);
    if (error)
      return Error{options.folder + ": cannot be created: " + error.message(), "choose another folder with -o"};
    if (path.empty()) path = options.folder + "/samples.jsonl";
  }
  if (path.empty()) return std::unique_ptr<SampleOutput>();
  return SampleOutput::open(path, open.backend ? open.backend->devices() : std::vector<DeviceInfo>{}, recording_host());
}

std::vector<std::string> notes_of(const RunOptions& options, const OpenDevices& open, const RunSession& session,
                                  const SampleOutput* samples, const RunRecording* recording) {
  std::vector<std::string> notes;
  if (!recording || !recording->has_no_device()) notes = open.notes;   // else the recording reports it
  if (!open.backend && open.notes.empty()) notes.push_back("nothing was sampled: --backend " + options.devices.backend);
  if (options.warmup_ns > 0 && open.backend && session.last.wall_ns <= options.warmup_ns)
    notes.push_back(fmt::format("nothing was measured: the run was shorter than its warm-up of {:g} s",
                                static_cast<double>(options.warmup_ns) / 1e9));
  if (session.replay_ended) notes.push_back("the replay ended before the command did");
  if (samples && !samples->problem().empty())
    notes.push_back(samples->problem());
  else if (samples && open.backend)
    notes.push_back("all samples are in " + samples->path());
  return notes;
}

// The first thing that could not be written, if any.
Status write_results(const RunReport& report, const RunOptions& options) {
  if (!options.quiet && !options.json) {
    const std::string text = for_locale(run_text(report, message_width(), message_colour(options.colour)));
    std::fputs(stderr_is_terminal() ? ("\n" + text).c_str() : text.c_str(), stderr);
  }
  const std::string json = run_json(report), path = report.summary_path();
  const Status file = path.empty() ? ok() : write_file(path, json);
  // The command may have left its last line open; the document stands on a line of its own.
  const Status out = options.json ? write_stdout("\n" + json) : ok();
  return file ? out : file;
}

Status strict_verdict(const RunOptions& options, const RunSession& session) {
  if (!options.devices.strict) return ok();
  for (const DeviceTrouble& t : session.troubles)
    if (!t.over) return Error{fmt::format("a GPU failed while the command ran: {}", t.message)};
  return ok();
}

// Creates the folder of a recording and sets the command's environment. Null: without --trace.
Result<std::unique_ptr<RunRecording>> begin_recording(const RunOptions& options, CommandRunner& runner) {
  if (!options.trace.wanted) {
    if (options.trace.request.torch_on_demand)
      runner.set_environment(recording_environment(options.trace.request, {}, environ).variables);
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
  if (!begun) return begun.error();
  RunRecording* const recording = begun->get();
  auto samples = open_samples(options, open, recording);
  Status ready = samples ? ok() : Status(samples.error());
  if (recording && ready) ready = recording->start(open);
  if (!ready) {
    if (recording) recording->cancel();
    return ready;
  }
  RunSession session = run_session(runner, session_options(options, open, samples->get()));
  stuck = stuck || session.stuck;
  if (session.not_started) {
    if (recording) recording->cancel();
    return {static_cast<ExitCode>(session.not_started->exit_code), session.not_started->error};
  }
  Status written = recording ? recording->finish(session) : ok();
  const RunReport report =
      run_report(options, open, session, recording, notes_of(options, open, session, samples->get(), recording));
  if (Status results = write_results(report, options); written) written = results;
  if (written) written = strict_verdict(options, session);
  // Our own failure never hides how the command ended.
  Outcome outcome = written;
  if (session.last.exit_code != 0) outcome.code = static_cast<ExitCode>(session.last.exit_code);
  return outcome;
}

Outcome watch(RunOptions options, CommandRunner& runner, bool& stuck) {
  auto open = open_in_time(options.devices, runner, stuck);
  if (!open) return open.error();
  auto command = launch_command(options.launch, options.command, open->devices.size());
  if (!command) return Outcome::usage(command.error());
  const bool as_typed = *command == options.command;
  options.command = std::move(*command);
  if (!options.launch.mode.empty() || (!as_typed && !options.quiet))
    print_message("profgpu: run: " + shell_line(masked_words(options.command)));
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

extern const Command kRun{
    .name = "run",
    .summary = "run a command and report what the GPUs did meanwhile",
    .positional = "COMMAND...",
    .positional_help =
        "the command and its arguments, which are not options of profgpu. Short form: `profgpu [OPTION]... -- COMMAND`",
    .groups = run_flags(),
    .examples = {{"profgpu -- python train.py", "how busy the GPUs were, what held them back, what it cost"},
                 {"profgpu run --samples run.jsonl -- torchrun --nproc-per-node 8 train.py", "also keep the samples"},
                 {"profgpu run --repeats 5 --warmup-runs 1 -- ./bench", "how much the figures vary between runs"},
                 {"profgpu run --trace -- python train.py", "record GPUs and threads, for `profgpu analyze`"},
                 {"profgpu run --trace --steps 10:20 --mode multi-gpu train.py", "record steps 10 to 19 on all GPUs"},
                 {"profgpu run -o run7 --quiet -- python train.py", "write files only, for scripts"}},
    .notes =
        "The summary goes to standard error. Signals sent to profgpu are passed on to the command; Ctrl-C and Ctrl-Z "
        "reach it from the terminal. profgpu never ends the command, and prints the summary when it has ended.\n\n"
        "Exit status: the command's own; 128 + n if signal n ended it; 127 if it was not found; 126 if it cannot be run; "
        "2 usage; 1 if a requested GPU or an output file cannot be opened (the command does not run then).",
    .runs_command = true,
    .run = run,
};

}  // namespace profgpu
