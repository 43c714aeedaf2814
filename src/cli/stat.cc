// profgpu stat: every GPU on one line, once or repeatedly.
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <thread>
#include <utility>

#include "analyse/report/quantity.h"
#include "analyse/report/text.h"
#include "base/clock.h"
#include "base/text.h"
#include "cli/output.h"
#include "cli/stat_view.h"
#include "cli/terminal.h"
#include "trace/health.h"
#include "view/layout.h"

namespace profgpu {
namespace {

constexpr int kMinName = 14;        // cells of a device's name that are never cut
constexpr int kMinProcesses = 30;   // cells that processes need after a device, else they go below

std::string whole(const std::optional<double>& x, std::string_view unit, int width) {
  const std::string number = x ? fmt::format("{:.0f}", std::round(*x)) : std::string(kUnknownText);
  return padded_left(number, width) + std::string(unit);
}

Cell temperature_cell(const StatDevice& d) {
  const auto celsius = d.value(Metric::kTemperature);
  const double limit = d.value(Metric::kTemperatureSlowdown).value_or(90);
  return {whole(celsius, "°C", 3), heat(ratio(celsius, limit), 0.88, 0.97)};
}

Cell utilization_cell(const StatDevice& d, Metric metric) {
  const auto pct = d.value(metric);
  return {whole(pct, " %", 3), !pct || *pct < kIdlePct.reported ? Style::kFaint
                               : *pct >= 50                 ? Style::kGood
                                                            : Style::kPlain};
}

Cell power_cell(const StatDevice& d) {
  const auto watts = d.value(Metric::kPower), limit = d.value(Metric::kPowerLimit);
  const std::string of = limit ? " / " + whole(limit, " W", 3) : " W";
  return {whole(watts ? watts : d.value(Metric::kPowerInstant), of, 3), heat(ratio(watts, limit), 0.9, 0.98)};
}

std::string gibibytes(const std::optional<double>& bytes) {
  return bytes ? fmt::format("{:.1f}", *bytes / (1 << 30)) : std::string(kUnknownText);
}

Cell memory_cell(const StatDevice& d) {
  const auto used = d.value(Metric::kMemoryUsed), total = d.value(Metric::kMemoryTotal);
  return {padded_left(gibibytes(used), 5) + " / " + padded_left(gibibytes(total), 5) + " GiB",
          heat(ratio(used, total), 0.9, 0.97)};
}

std::string name_of(const StatDevice& d) {
  return d.info->mig_profile.empty() ? d.info->name : "  MIG " + d.info->mig_profile;
}

bool any_has(const StatView& view, Metric metric) {
  return std::any_of(view.devices.begin(), view.devices.end(), [&](const StatDevice& d) { return d.value(metric); });
}

// After a device's name, one cell a column.
std::vector<Cell> cells_of(const StatDevice& d, const StatView& view, const StatStyle& style) {
  std::vector<Cell> cells = {temperature_cell(d)};
  if (style.fan || any_has(view, Metric::kFanSpeed)) cells.push_back({whole(d.value(Metric::kFanSpeed), " % fan", 3)});
  cells.push_back(utilization_cell(d, Metric::kUtilization));
  if (style.codec) {
    cells.push_back(utilization_cell(d, Metric::kEncoderUtilization));
    cells.back().text = "enc " + cells.back().text;
    cells.push_back(utilization_cell(d, Metric::kDecoderUtilization));
    cells.back().text = "dec " + cells.back().text;
  }
  if (style.power) cells.push_back(power_cell(d));
  cells.push_back(memory_cell(d));
  return cells;
}

std::string program_of(const StatProcess& p) {
  const std::string known = p.host.command();
  if (!known.empty()) return known;
  const std::string path = p.sample.name.substr(0, p.sample.name.find(' '));  // some tools name the whole command line
  return std::string(base_name(path));
}

std::string memory_of(const StatProcess& p) {
  return p.sample.memory_bytes ? format_bytes(static_cast<double>(*p.sample.memory_bytes)) : std::string(kUnknownText);
}

// "alice:python/4711(61 GiB)", or the parts that the style selects.
std::string process_text(const StatProcess& p, const StatStyle& style) {
  std::string text = style.user ? p.host.user : "";
  const std::string program = style.command ? program_of(p) : "";
  if (!program.empty()) text += (text.empty() ? "" : ":") + program;
  if (style.pid || text.empty()) text += (text.empty() ? "" : "/") + std::to_string(p.sample.pid);
  return sanitised(text) + "(" + memory_of(p) + ")";
}

Line trouble_line(const StatDevice& d, int64_t now_ns) {
  Line line;
  line.add(d.look.message, Style::kStrongBad);
  if (d.look.since_ns > 0 && now_ns - d.look.since_ns >= 1'000'000'000)
    line.add(fmt::format(", since {} ({})", clock_time(d.look.since_ns),
                         format_duration(static_cast<double>(now_ns - d.look.since_ns), 2)), Style::kBad);
  return line;
}

Line head_of(const StatDevice& d, int label, int name) {
  Line line;
  line.add("[" + padded_left(d.info->label(), label) + "] ", Style::kNote);
  return line.add(padded_right(truncated(sanitised(name_of(d)), name), name), Style::kStrong);
}

void add_processes(Lines& lines, Line line, const StatDevice& d, const StatStyle& style, int width) {
  if (!style.processes || d.processes.empty()) return lines.push_back(std::move(line));
  std::string text;
  for (const StatProcess& p : d.processes) text += (text.empty() ? "" : "  ") + process_text(p, style);
  const int room = width - line.width() - 3;
  if (width > 0 && room < kMinProcesses && room < display_width(text)) {
    lines.push_back(std::move(line));
    return append(lines, wrapped_after(Line().skip(6), text, width));
  }
  line.add(" | ", Style::kFaint);
  append(lines, wrapped_after(std::move(line), text, width));
}

// Why processes are not known, each reason once.
void add_notes(Lines& lines, const StatView& view) {
  std::vector<std::pair<std::string, std::string>> notes;
  for (const StatDevice& d : view.devices)
    for (const StatProcess& p : d.processes) {
      const std::string why = p.host.inferred ? "inferred: the only program here that has a GPU open" : p.host.unknown;
      if (why.empty()) continue;
      auto it = std::find_if(notes.begin(), notes.end(), [&](const auto& n) { return n.first == why; });
      if (it == notes.end()) it = notes.insert(notes.end(), {why, ""});
      it->second += (it->second.empty() ? "" : ", ") + std::to_string(p.sample.pid);
    }
  for (const auto& [why, pids] : notes)
    lines.push_back(Line("? ", Style::kWarn).add(fmt::format("{}: {}", pids, why), Style::kFaint));
}

std::string command_line(const StatProcess& p) {
  const std::string known = p.host.command_line();
  return known.empty() ? p.sample.name : known;
}

Lines process_table(const StatView& view, int width) {
  Grid grid({{"GPU"}, {"pid", true}, {"GPU memory", true}, {"SM", true}, {"CPU", true}, {"memory", true},
             {"threads", true}, {"running for", true}, {"user"}, {"where"}, {"command"}});
  for (const StatDevice& d : view.devices)
    for (const StatProcess& p : d.processes) {
      const auto pct = [](const std::optional<double>& x) {
        return x ? fmt::format("{:.0f} %", *x) : std::string(kUnknownText);
      };
      const auto& h = p.host;
      const auto age = h.start_ns ? std::optional(static_cast<double>(view.time_ns - *h.start_ns)) : std::nullopt;
      grid.add_row({{d.info->label()},
                    {std::to_string(p.sample.pid)},
                    {memory_of(p)},
                    {pct(p.sample.utilization_pct)},
                    {pct(h.cpu_pct)},
                    {h.memory_bytes ? format_bytes(static_cast<double>(*h.memory_bytes)) : std::string(kUnknownText)},
                    {h.threads ? std::to_string(*h.threads) : std::string(kUnknownText)},
                    {age ? format_duration(*age) : std::string(kUnknownText)},
                    {h.user},
                    {h.place()},
                    {command_line(p)}});
    }
  return grid.empty() ? Lines{} : grid.lines(width);
}

}  // namespace

Lines stat_lines(const StatView& view, const StatStyle& style, int width) {
  Lines lines;
  if (style.header) {
    Line head(view.host, Style::kStrong);
    head.add("  " + iso_time(view.time_ns).substr(0, 19).replace(10, 1, " "));
    if (!view.driver.empty()) head.add("  driver " + view.driver, Style::kFaint);
    lines.push_back(std::move(head));
  }
  int label = 1, name = 0, rest = 0;
  std::vector<std::vector<Cell>> rows;
  std::vector<int> widths;
  for (const StatDevice& d : view.devices) {
    label = std::max(label, display_width(d.info->label()));
    name = std::max(name, display_width(sanitised(name_of(d))));
    rows.push_back(cells_of(d, view, style));
    widths.resize(rows.back().size());
    for (size_t c = 0; c < widths.size(); ++c) widths[c] = std::max(widths[c], display_width(rows.back()[c].text));
  }
  for (const int w : widths) rest += 3 + w;
  if (width > 0) name = std::clamp(width - (label + 3) - rest, std::min(name, kMinName), name);
  for (size_t i = 0; i < rows.size(); ++i) {
    const StatDevice& d = view.devices[i];
    Line line = head_of(d, label, name);
    if (d.look.state != DeviceState::kOk) {
      lines.push_back(std::move(line.add(" | ", Style::kFaint).add(trouble_line(d, view.time_ns))));
      continue;
    }
    for (size_t c = 0; c < widths.size(); ++c) {
      const bool fits = width <= 0 || line.width() + 3 + widths[c] <= width;
      if (fits) line.add(" | ", Style::kFaint);
      else lines.push_back(std::exchange(line, Line().skip(label + 3)));   // half a figure is none
      line.add(padded_left(rows[i][c].text, widths[c]), rows[i][c].style);
    }
    add_processes(lines, std::move(line), d, style, width);
  }
  if (style.table) append(lines, {Line()}), append(lines, process_table(view, width));
  if (style.processes) add_notes(lines, view);
  return lines;
}

namespace {

struct StatOptions {
  std::string format = "text";
  std::optional<int64_t> watch_ns, count;   // count: of views
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
  auto format = format_option(arguments, "text");
  if (!format) return format.error();
  options.format = *std::move(format);
  options.style = style_of(arguments);
  options.colour = colour_option(arguments);
  OptionReader read(arguments);
  read.whole("--width", 0, 10'000, options.width);
  read.time("--watch", kSecond_ns / 20, 86'400 * kSecond_ns, options.watch_ns);
  read.whole("--count", 1, INT64_MAX, options.count);
  if (!read.status()) return read.status().error();
  if (options.count && !options.watch_ns) return Error{"--count needs --watch", "profgpu stat --watch 1 --count 3"};
  return options;
}

std::string text_of(const StatView& view, const StatOptions& options) {
  if (options.format == "json") return stat_json(view);
  if (options.format == "gpustat-json") return gpustat_json(view);
  const int width = options.width > 0 ? options.width : output_width();
  Lines lines = stat_lines(view, options.style, width);
  if (options.style.header && !options.watch_ns)
    append(lines, {Line(),
                   Line(fmt::format("Next: {}profgpu stat --watch 1   ·   profgpu doctor",
                                    options.style.table ? "" : "profgpu stat --full   ·   "),
                        Style::kFaint)});
  return rendered(lines, width, output_colour(options.colour));
}

// The old screen stays until it is overwritten: no flicker.
std::string overwriting(const std::string& text) {
  std::string out = "\x1b[H";
  for (const char c : text) out += c == '\n' ? "\x1b[K\n" : std::string(1, c);
  return out + "\x1b[J";
}

// A reader that leaves (`| head`) is no error, but ends the watch.
bool reader_left() {
  pollfd output{STDOUT_FILENO, POLLOUT, 0};
  return ::poll(&output, 1, 0) == 1 && (output.revents & (POLLERR | POLLNVAL)) != 0;
}

Outcome watch(StatSource& source, const StatOptions& options) {
  struct sigaction before{}, action{};
  action.sa_handler = [](int) { ::_exit(0); };   // Ctrl-C is how a watch ends, so it is no failure
  ::sigaction(SIGINT, nullptr, &before);
  if (before.sa_handler != SIG_IGN) ::sigaction(SIGINT, &action, nullptr);
  const bool text = options.format == "text", screen = stdout_is_terminal() && text;
  if (screen)
    if (auto written = write_stdout("\x1b[2J"); !written) return written;
  auto next = std::chrono::steady_clock::now();
  for (int64_t shown_views = 1;; ++shown_views) {
    const StatView view = source.take(options.style.table || !text);
    const std::string shown = text ? for_locale(text_of(view, options)) : text_of(view, options);
    const auto written = write_stdout(screen ? overwriting(shown) : text ? shown + "\n" : shown);
    if (!written) return written;
    if (view.backend->ended() || reader_left() || shown_views == options.count) return {};
    // Late views are skipped, not made up for.
    const auto now = std::chrono::steady_clock::now();
    while (next <= now) next += std::chrono::nanoseconds(*options.watch_ns);
    std::this_thread::sleep_until(next);
  }
}

Outcome stat(const Arguments& arguments) {
  auto options = stat_options(arguments);
  if (!options) return Outcome::usage(options.error());
  auto devices = device_options(arguments, "all");
  if (!devices) return Outcome::usage(devices.error());
  auto open = open_shown("stat", *devices);
  if (!open) return open.error();
  StatSource source(*open, {.processes = options->style.processes, .rates = options->format == "json"});
  Outcome outcome;
  if (options->watch_ns) outcome = watch(source, *options);
  else {
    const std::string shown = text_of(source.take(options->style.table || options->format != "text"), *options);
    outcome = options->format == "text" ? write_text(shown) : write_stdout(shown);
  }
  if (source.any_stuck()) leave_stuck("stat", outcome);
  return outcome;
}

}  // namespace

extern const Command kStat{
    .name = "stat",
    .summary = "every GPU on one line: load, power, memory, processes",
    .groups = {device_flags(kAllDevices),
               {"What to show",
                {{"--json", "every metric as JSON, same as --format json"},
                 {"--format NAME", "output format (default text)", {"text", "json", "gpustat-json"}},
                 {"-i, --watch TIME", "repeat at this interval until Ctrl-C"},
                 {"--count N", "with --watch: end after so many times"},
                 {"-f, --full", "add a table of processes: user, CPU, memory, container or job, command"},
                 {"--no-processes", "GPUs only"},
                 {"--no-header", "leave out host, time and driver"}}},
               {"What each line has (as gpustat's)",
                {{"-c, --cmd", "command of each process (default: user, command and pid)"},
                 {"-u, --user", "user of each process"},
                 {"-p, --pid", "pid of each process"},
                 {"-F, --fan", "fan speed, even if no GPU has a fan"},
                 {"-e, --codec", "video encoder and decoder"},
                 {"-P, --power", "power and its limit (always shown)"},
                 {"-a, --all", "all of these"}}},
               {"Screen", {kWidthFlag, kColourFlag}}},
    .examples = {{"profgpu stat", "all GPUs, once"},
                 {"profgpu stat --watch 1", "like `watch nvidia-smi`, without starting it each time"},
                 {"profgpu stat --full", "whose processes they are, and where they run"},
                 {"profgpu stat --json | jq '.devices[] | select(.utilization_pct < 5) | .index'", "idle GPUs"}},
    .notes =
        "A GPU that is lost or hangs gets one line with the reason; the others are shown as usual. All GPUs are shown, "
        "whatever CUDA_VISIBLE_DEVICES says; --device chooses. The JSON document is profgpu.stat.v1: for each GPU every "
        "metric by name, null if it is absent, and absent[] with the reasons.\n\n"
        "Exit status: 0 shown, 1 no GPU can be read, 2 usage.",
    .run = stat,
};

}  // namespace profgpu
