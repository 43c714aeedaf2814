#include "cli/run_options.h"

#include <fmt/format.h>

#include <span>

#include "base/decimal.h"
#include "cli/flag_values.h"
#include "cli/run_recording.h"
#include "cli/words.h"
#include "trace/sample_file.h"

namespace profgpu {

namespace {

constexpr int64_t kDefaultInterval_ns = 200'000'000;
constexpr int64_t kMaxRuns = 1'000'000;

}  // namespace

std::vector<FlagGroup> run_flags() {
  return {
      {"What to watch",
       {{.name = "--warmup", .value = "TIME", .help = "leave out the samples of the first seconds of a run"},
        {.name = "--repeats",
         .value = "N",
         .help = "run the command N times and say how much figures vary (default 1)"},
        {.name = "--warmup-runs", .value = "N", .help = "runs before those, not sampled (default 0)"},
        {.name = "--torch-sync", .help = "taken and not needed: a program ends after its work on the GPU"}}},
      device_flags(true, "0.2"),
      trace_flags(),
      launch_flags(),
      {"Where results go",
       {{.name = "--json", .help = "the summary as JSON: the last line on standard output, after the command's own"},
        {.name = "--samples",
         .value = "FILE",
         .help = "write all samples as they come, to FILE.csv or FILE.jsonl",
         .takes_path = true},
        {.name = "--output",
         .short_name = "-o",
         .value = "FOLDER",
         .help = "write FOLDER/summary.json and FOLDER/samples.jsonl, with --trace the recording too",
         .takes_path = true},
        {.name = "--quiet", .short_name = "-q", .help = "no summary; errors are still said"},
        colour_flag()}}};
}

Result<RunOptions> run_options(const Arguments& arguments) {
  RunOptions options;
  options.command = arguments.positional;
  auto devices = device_options(arguments, kDefaultInterval_ns);
  if (!devices) return devices.error();
  options.devices = std::move(*devices);
  options.devices.constants_later = true;
  for (const Status& read : {read_whole(arguments, "--repeats", 1, kMaxRuns, options.repeats),
                             read_whole(arguments, "--warmup-runs", 0, kMaxRuns, options.warmup_runs),
                             read_time(arguments, "--warmup", {}, options.warmup_ns)})
    if (!read) return read.error();
  auto trace = trace_options(arguments);
  if (!trace) return trace.error();
  options.trace = std::move(*trace);
  auto launch = launch_options(arguments);
  if (!launch) return launch.error();
  options.launch = std::move(*launch);
  options.json = arguments.has("--json");
  options.quiet = arguments.has("--quiet");
  options.samples = arguments.value("--samples");
  options.folder = arguments.value("--output");
  if (arguments.has("--samples"))
    if (const auto format = sample_format_of(options.samples); !format) return format.error();
  if (arguments.has("--output") && options.folder.empty()) return Error{"--output takes a folder, not an empty word"};
  options.colour = asked_colour(arguments);
  return options;
}

// The flags of `profgpu run --trace` and what recorded processes are told of them.

namespace {

constexpr std::string_view kWindowFlags[] = {"--capture-range", "--steps", "--range", "--delay", "--duration"};
constexpr std::string_view kOtherFlags[] = {"--graphs", "--no-python-hook", "--no-perf-events", "--preload", "--flush"};
constexpr int64_t kMillion = 1'000'000;
constexpr int64_t kShortestFlush_ns = 10 * kMillion, kLongestFlush_ns = 3600 * 1000 * kMillion;
constexpr size_t kLongestRangeName = 255;

Error bad_steps(const std::string& text) {
  return {"--steps takes A:B, not \"" + text + "\"",
          "steps count from 0 and B is not among them: --steps 10:20 records ten; --steps 10: all from the tenth on"};
}

// "A:B", each of which may be missing but not both.
Result<std::string> steps(const std::string& text) {
  const size_t colon = text.find(':');
  if (colon == std::string::npos || text.size() == 1 || text.find_first_not_of("0123456789:") != std::string::npos)
    return bad_steps(text);
  const std::string first = text.substr(0, colon), end = text.substr(colon + 1);
  const auto a = whole_number(first.empty() ? "0" : first);
  const auto b = end.empty() ? std::optional(INT64_MAX) : whole_number(end);
  if (!a || !b || *a >= *b) return bad_steps(text);
  return text;
}

// A comma would end the option.
std::string escaped(const std::string& name) {
  std::string out;
  for (const char c : name) out += c == ',' || c == '%' ? fmt::format("%{:02X}", c) : std::string(1, c);
  return out;
}

Result<std::string> time_window(const Arguments& arguments) {
  int64_t delay = 0;
  std::optional<int64_t> duration;
  if (Status read = read_time(arguments, "--delay", {}, delay); !read) return read.error();
  if (Status read =
          read_time(arguments, "--duration", {.least = kMillion, .words = " of a millisecond or more"}, duration);
      !read)
    return read.error();
  return fmt::format("time:{}:{}", delay / kMillion, duration ? std::to_string(*duration / kMillion) : "");
}

// One way of choosing what is recorded; steps may be counted in a range.
Status check_windows(const Arguments& arguments) {
  const bool timed = arguments.has("--delay") || arguments.has("--duration");
  const bool counted = arguments.has("--steps") || arguments.has("--range");
  const bool told = arguments.has("--capture-range");
  if (timed + counted + told < 2) return ok();
  const std::string_view first = told ? "--capture-range" : arguments.has("--steps") ? "--steps" : "--range";
  const std::string_view second = !counted || !told ? (arguments.has("--delay") ? "--delay" : "--duration")
                                  : arguments.has("--steps") ? "--steps"
                                                             : "--range";
  return Error{fmt::format("{} and {} cannot go together", first, second),
               "each says on its own when the device is recorded"};
}

Result<std::string> window(const Arguments& arguments) {
  if (auto status = check_windows(arguments); !status) return status.error();
  if (arguments.has("--capture-range"))
    return std::string(arguments.value("--capture-range") == "attach" ? "manual" : "cudaProfilerApi");
  std::string counted = ":";
  if (arguments.has("--steps")) {
    auto text = steps(arguments.value("--steps"));
    if (!text) return text.error();
    counted = *text;
  }
  if (arguments.has("--range")) {
    const std::string name = arguments.value("--range");
    if (name.empty() || name.size() > kLongestRangeName)
      return Error{fmt::format("--range takes the name of an NVTX range, up to {} bytes", kLongestRangeName)};
    return "range:" + escaped(name) + ":" + counted;
  }
  if (arguments.has("--steps")) return "steps:" + counted;
  if (arguments.has("--delay") || arguments.has("--duration")) return time_window(arguments);
  return std::string("all");
}

std::vector<std::string> window_words(const Arguments& arguments) {
  std::vector<std::string> words;
  for (const std::string_view flag : kWindowFlags)
    if (arguments.has(flag)) words.insert(words.end(), {std::string(flag), arguments.value(flag)});
  return words;
}

Status check_without_trace(const Arguments& arguments) {
  for (const auto& flags :
       {std::span<const std::string_view>(kWindowFlags), std::span<const std::string_view>(kOtherFlags)})
    for (const std::string_view flag : flags)
      if (arguments.has(flag)) return Error{fmt::format("{} is for --trace", flag), "add --trace to record"};
  return ok();
}

}  // namespace

FlagGroup trace_flags() {
  return {
      "Recording",
      {{.name = "--trace",
        .help = "record kernels, copies, NVTX ranges, collectives, steps and threads of all processes into a folder "
                "(default profgpu-COMMAND-TIME; -o names it)"},
       {.name = "--steps",
        .value = "A:B",
        .help =
            "record the device in steps A to B-1 only, counted from 0; optimizer steps, or with --range that range's"},
       {.name = "--range", .value = "NAME", .help = "record the device while this NVTX range is open only"},
       {.name = "--delay", .value = "TIME", .help = "record the device from then on only"},
       {.name = "--duration", .value = "TIME", .help = "record the device for so long only"},
       {.name = "--capture-range",
        .value = "WHO",
        .help = "record the device between the program's cudaProfilerStart and Stop only, or when `profgpu attach` "
                "says so",
        .choices = {"cudaProfilerApi", "attach"}},
       {.name = "--graphs",
        .value = "HOW",
        .help = "CUDA graphs as one row a launch, or a row a node (default node)",
        .choices = {"graph", "node"}},
       {.name = "--no-python-hook", .help = "do not mark steps and phases of PyTorch programs"},
       {.name = "--no-perf-events", .help = "do not ask the kernel for context switches: threads are sampled only"},
       {.name = "--preload", .help = "LD_PRELOAD the recorder too: for programs that use torch.profiler themselves"},
       {.name = "--flush", .value = "TIME", .help = "write what was recorded so often (default 250ms)"},
       {.name = "--torch-on-demand",
        .help =
            "let `profgpu attach PID torch` ask PyTorch for a trace of its own; with --trace it brings --preload, so "
            "that the recorder makes room for PyTorch meanwhile"}}};
}

Result<TraceOptions> trace_options(const Arguments& arguments) {
  TraceOptions options;
  options.wanted = arguments.has("--trace");
  options.torch_on_demand = arguments.has("--torch-on-demand");
  if (!options.wanted) {
    if (auto status = check_without_trace(arguments); !status) return status.error();
    return options;
  }
  for (const std::string_view flag : {"--repeats", "--warmup-runs"})
    if (arguments.has(flag))
      return Error{fmt::format("--trace and {} cannot go together", flag), "a recording is of one run"};
  auto when = window(arguments);
  if (!when) return when.error();
  options.options = "window=" + *when;
  options.window = shell_line(window_words(arguments));
  if (arguments.has("--graphs")) options.options += ",graphs=" + arguments.value("--graphs");
  std::optional<int64_t> flush;
  if (Status read = read_time(arguments, "--flush", {kShortestFlush_ns, kLongestFlush_ns, " from 10ms to 1h"}, flush);
      !read)
    return read.error();
  if (flush) options.options += fmt::format(",flush_ms={}", *flush / kMillion);
  options.python_hook = !arguments.has("--no-python-hook");
  options.perf_events = !arguments.has("--no-perf-events");
  options.preload = arguments.has("--preload") || options.torch_on_demand;
  return options;
}

}  // namespace profgpu
