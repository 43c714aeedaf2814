// profgpu stat: every GPU on one line, now or again and again.
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <thread>

#include "base/decimal.h"
#include "cli/command.h"
#include "cli/device_opening.h"
#include "cli/output.h"
#include "cli/stat_json.h"
#include "cli/stat_text.h"
#include "cli/terminal.h"

namespace profgpu {
namespace {

constexpr int64_t kShortestWatch_ns = 50'000'000, kLongestWatch_ns = 86'400'000'000'000;

struct StatOptions {
  std::string format = "text";
  std::optional<std::chrono::nanoseconds> watch;
  StatStyle style;
  Colour colour = Colour::kAuto;
  int width = 0;   // 0: the terminal's
};

StatStyle style_of(const Arguments& arguments) {
  StatStyle style;
  const bool all = arguments.has("--all");
  const bool chosen = arguments.has("--cmd") || arguments.has("--user") || arguments.has("--pid");
  if (chosen && !all) {
    style.command = arguments.has("--cmd");
    style.user = arguments.has("--user");
    style.pid = arguments.has("--pid");
  }
  style.header = !arguments.has("--no-header");
  style.processes = !arguments.has("--no-processes");
  style.fan = all || arguments.has("--fan");
  style.codec = all || arguments.has("--codec");
  style.table = style.processes && (all || arguments.has("--full"));
  return style;
}

Result<StatOptions> stat_options(const Arguments& arguments) {
  StatOptions options;
  options.format = arguments.has("--json") ? "json" : arguments.value("--format", "text");
  if (arguments.has("--json") && arguments.value("--format", "json") != "json")
    return Error{"--json and --format " + arguments.value("--format") + " exclude each other"};
  options.style = style_of(arguments);
  const std::string colour = arguments.value("--color", "auto");
  options.colour = colour == "always" ? Colour::kAlways : colour == "never" ? Colour::kNever : Colour::kAuto;
  if (arguments.has("--width")) {
    const auto width = whole_number(arguments.value("--width"));
    if (!width || *width < 0 || *width > 10000)
      return Error{"--width takes a whole number, not \"" + arguments.value("--width") + "\""};
    options.width = static_cast<int>(*width);
  }
  if (arguments.has("--watch")) {
    const auto interval = duration_ns(arguments.value("--watch"));
    if (!interval || *interval < kShortestWatch_ns || *interval > kLongestWatch_ns)
      return Error{"--watch takes a time from 50ms to 24h, not \"" + arguments.value("--watch") + "\"",
                   "`profgpu log` records faster than that"};
    options.watch = std::chrono::nanoseconds(*interval);
  }
  return options;
}

std::string text_of(const StatView& view, const StatOptions& options) {
  if (options.format == "json") return stat_json(view);
  if (options.format == "gpustat-json") return gpustat_json(view);
  const int width = options.width > 0 ? options.width : output_width();
  Lines lines = stat_lines(view, options.style, width);
  if (options.style.header && !options.watch)
    append(lines, {Line(),
                   Line("Next: profgpu stat --full   ·   profgpu stat --watch 1   ·   profgpu doctor", Style::kFaint)});
  return rendered(lines, width, output_colour(options.colour));
}

// What was on the screen stays until it is written over: no flicker.
std::string over_the_old(const std::string& text) {
  std::string out = "\x1b[H";
  for (const char c : text) out += c == '\n' ? "\x1b[K\n" : std::string(1, c);
  return out + "\x1b[J";
}

// A reader that leaves (`| head`) is no error of ours, but nobody watches any more.
bool reader_left() {
  pollfd output{STDOUT_FILENO, POLLOUT, 0};
  return ::poll(&output, 1, 0) == 1 && (output.revents & (POLLERR | POLLNVAL)) != 0;
}

// Ctrl-C is how a watch ends, so it is no failure.
void end_well(int) { ::_exit(0); }

Outcome watch(StatSource& source, const StatOptions& options) {
  struct sigaction before{}, action{};
  action.sa_handler = end_well;
  ::sigaction(SIGINT, nullptr, &before);
  if (before.sa_handler != SIG_IGN) ::sigaction(SIGINT, &action, nullptr);
  const bool screen = stdout_is_terminal() && options.format == "text";
  if (screen)
    if (auto written = write_stdout("\x1b[2J"); !written) return Outcome::failed(written.error());
  for (auto next = std::chrono::steady_clock::now();;) {
    const StatView view = source.take(options.style.table || options.format != "text");
    const std::string text = text_of(view, options);
    const bool apart = !screen && options.format == "text";
    auto written = write_stdout(screen ? over_the_old(text) : apart ? text + "\n" : text);
    if (!written) return Outcome::failed(written.error());
    if (view.backend->ended() || reader_left()) return {};
    // Late views are left out, not made up for.
    const auto now = std::chrono::steady_clock::now();
    while (next <= now) next += *options.watch;
    std::this_thread::sleep_until(next);
  }
}

Outcome stat(const Arguments& arguments) {
  auto options = stat_options(arguments);
  if (!options) return Outcome::usage(options.error());
  auto devices = device_options(arguments, 1'000'000'000);
  if (!devices) return Outcome::usage(devices.error());
  if (devices->device.empty()) devices->device = {"all"};
  bool stuck = false;
  auto open = open_in_time(*devices, stuck);
  if (stuck) leave_stuck("stat", Outcome::failed(open.error()));
  if (!open) return Outcome::failed(open.error());
  if (!open->backend || open->devices.empty()) return Outcome::failed(no_device(*open));
  StatSource source(*open, {.processes = options->style.processes, .rates = options->format == "json"});
  Outcome outcome;
  if (options->watch) {
    outcome = watch(source, *options);
  } else {
    auto written = write_stdout(text_of(source.take(options->style.table || options->format != "text"), *options));
    if (!written) outcome = Outcome::failed(written.error());
  }
  if (!source.any_stuck()) return outcome;
  leave_stuck("stat", outcome);
}

}  // namespace

extern const Command kStat;
const Command kStat{
    .name = "stat",
    .summary = "every GPU on one line: load, power, memory, processes",
    .positional = "",
    .groups =
        {shown_device_flags(),
         {"What to show",
          {{.name = "--json", .help = "every metric, as JSON, same as --format json"},
           {.name = "--format",
            .value = "NAME",
            .help = "how to write it (default text)",
            .choices = {"text", "json", "gpustat-json"}},
           {.name = "--watch", .short_name = "-i", .value = "TIME", .help = "again and again, until Ctrl-C"},
           {.name = "--full",
            .short_name = "-f",
            .help = "a table of processes: user, processor, memory, container or job, command"},
           {.name = "--no-processes", .help = "devices only"},
           {.name = "--no-header", .help = "without host, time and driver"}}},
         {"What each line has (as gpustat's)",
          {{.name = "--cmd", .short_name = "-c", .help = "of processes the command (default: user, command and pid)"},
           {.name = "--user", .short_name = "-u", .help = "of processes the user"},
           {.name = "--pid", .short_name = "-p", .help = "of processes the pid"},
           {.name = "--fan", .short_name = "-F", .help = "fan speed, even where no device has a fan"},
           {.name = "--codec", .short_name = "-e", .help = "video encoder and decoder"},
           {.name = "--power", .short_name = "-P", .help = "power and its limit (always shown)"},
           {.name = "--all", .short_name = "-a", .help = "all of these"}}},
         {"Screen",
          {{.name = "--width", .value = "COLUMNS", .help = "wrap at this width (default: the terminal's)"},
           {.name = "--color",
            .value = "WHEN",
            .help = "colours (default auto)",
            .choices = {"auto", "always", "never"}}}}},
    .examples = {{"profgpu stat", "all GPUs, once"},
                 {"profgpu stat --watch 1", "like `watch nvidia-smi`, without starting it each time"},
                 {"profgpu stat --full", "whose processes they are, and where they run"},
                 {"profgpu stat --json | jq '.devices[] | select(.utilization_pct < 5) | .index'", "GPUs that idle"}},
    .notes =
        "A device that is lost or hangs has one line that says so; the others are shown all the same. All devices "
        "are shown, whatever CUDA_VISIBLE_DEVICES says; --device chooses. The JSON document is profgpu.stat.v1: for "
        "each device every metric by name, null where it is absent, and absent[] with the reasons. Exit status: 0 "
        "shown, 1 no device can be read, 2 usage.",
    .run = stat,
};

}  // namespace profgpu
