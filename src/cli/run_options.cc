#include "cli/run_options.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <span>

#include "app/words.h"
#include "base/decimal.h"
#include "cli/run_recording.h"
#include "trace/sample_file.h"

namespace profgpu {
namespace {

constexpr int kMaxGpus = 1024, kMostNodes = 100'000;

Status read_number(const Arguments& arguments, std::string_view flag, int least, int most, int& value) {
  return read_option(arguments, flag, digits_only,
                     {fmt::format("a whole number from {} to {}", least, most), least, most}, value);
}

int number_from(std::initializer_list<const char*> names, int otherwise) {
  for (const char* name : names)
    if (const char* text = std::getenv(name))
      if (const auto n = whole_number(text); n && *n >= 0 && *n <= kMostNodes) return static_cast<int>(*n);
  return otherwise;
}

bool is_executable(const std::string& path) {
  struct stat s{};
  return ::stat(path.c_str(), &s) == 0 && S_ISREG(s.st_mode) && ::access(path.c_str(), X_OK) == 0;
}

bool in_path(const std::string& program) {
  const char* path = std::getenv("PATH");
  std::string rest = path ? path : "/usr/bin:/bin";
  for (size_t at = 0; at <= rest.size();) {
    const size_t end = std::min(rest.find(':', at), rest.size());
    if (is_executable(rest.substr(at, end - at) + "/" + program)) return true;
    at = end + 1;
  }
  return false;
}

std::string python() { return in_path("python") ? "python" : "python3"; }

std::vector<std::string> torchrun() {
  if (in_path("torchrun")) return {"torchrun"};
  return {python(), "-m", "torch.distributed.run"};
}

Error needs(std::string_view flag, std::string_view why) {
  return {fmt::format("--mode multi-node needs {}", flag), std::string(why)};
}

// What was not said is as Slurm or the launcher's own variables have it.
Status complete(LaunchOptions& o) {
  if (o.nodes == 0) o.nodes = number_from({"SLURM_JOB_NUM_NODES", "SLURM_NNODES"}, 0);
  if (o.node_rank < 0) o.node_rank = number_from({"SLURM_NODEID", "GROUP_RANK"}, -1);
  if (const char* address = std::getenv("MASTER_ADDR"); address && o.master_address.empty()) o.master_address = address;
  if (o.nodes == 0) return needs("--nodes N", "how many nodes there are");
  if (o.node_rank < 0)
    return needs("--node-rank R", "this node's number, from 0; each node runs the command with its own");
  if (o.node_rank >= o.nodes)
    return Error{fmt::format("--node-rank {} of {} nodes", o.node_rank, o.nodes), "nodes count from 0"};
  if (o.master_address.empty()) return needs("--master-addr HOST", "the node whose --node-rank is 0, for all the same");
  return ok();
}

std::string chosen_mode(const LaunchOptions& o, size_t devices) {
  if (o.mode != "auto") return o.mode;
  if (o.nodes > 1 || (o.nodes == 0 && number_from({"SLURM_JOB_NUM_NODES", "SLURM_NNODES"}, 1) > 1)) return "multi-node";
  return (o.gpus > 0 ? static_cast<size_t>(o.gpus) : devices) > 1 ? "multi-gpu" : "single";
}

}  // namespace

bool names_program(const std::string& word) {
  if (word.empty()) return false;
  if (word.find('/') == std::string::npos) return in_path(word);
  if (!is_executable(word)) return false;
  // On some file systems every file may be executed, a trace too.
  char begin[4] = {};
  std::ifstream(word, std::ios::binary).read(begin, sizeof begin);
  const std::string_view read(begin, sizeof begin);
  return read.starts_with("#!") || read == "\x7f" "ELF";
}

FlagGroup launch_flags() {
  return {"Starting a PyTorch script (COMMAND is the script and its arguments)",
          {{.name = "--mode",
            .value = "MODE",
            .help = "run the script with python, or with torchrun on all GPUs of one node or several nodes",
            .choices = {"auto", "single", "multi-gpu", "multi-node"}},
           {.name = "--gpus", .value = "N", .help = "processes on each node (default: as many as there are GPUs)"},
           {.name = "--nodes", .value = "N", .help = "nodes (default: as Slurm says)"},
           {.name = "--node-rank", .value = "R", .help = "number of this node, from 0 (default: as Slurm says)"},
           {.name = "--master-addr", .value = "HOST", .help = "node 0 (default: MASTER_ADDR)"},
           {.name = "--master-port", .value = "PORT", .help = "its port (default: MASTER_PORT, else 29500)"}}};
}

Result<LaunchOptions> launch_options(const Arguments& arguments) {
  LaunchOptions o;
  o.mode = arguments.value("--mode");
  if (o.mode.empty()) {
    for (const std::string_view flag : {"--gpus", "--nodes", "--node-rank", "--master-addr", "--master-port"})
      if (arguments.has(flag))
        return Error{fmt::format("{} is for --mode", flag), "--mode auto|single|multi-gpu|multi-node"};
    return o;
  }
  o.master_port = number_from({"MASTER_PORT"}, o.master_port);
  o.master_address = arguments.value("--master-addr");
  for (const auto& status : {read_number(arguments, "--gpus", 1, kMaxGpus, o.gpus),
                             read_number(arguments, "--nodes", 1, kMostNodes, o.nodes),
                             read_number(arguments, "--node-rank", 0, kMostNodes - 1, o.node_rank),
                             read_number(arguments, "--master-port", 1, 65'535, o.master_port)})
    if (!status) return status.error();
  const bool names_nodes = o.nodes > 1 || o.node_rank > 0;
  if (names_nodes && (o.mode == "single" || o.mode == "multi-gpu"))
    return Error{"--mode " + o.mode + " is for one node", "--mode multi-node"};
  if (o.gpus > 1 && o.mode == "single") return Error{"--mode single is for one GPU", "--mode multi-gpu"};
  return o;
}

Result<std::vector<std::string>> launch_command(const LaunchOptions& options, const std::vector<std::string>& words,
                                                size_t devices) {
  if (options.mode.empty()) return words;
  LaunchOptions o = options;
  const std::string mode = chosen_mode(o, devices);
  std::vector<std::string> out;
  if (mode == "single") {
    if (words[0].ends_with(".py") || words[0] == "-m") out.push_back(python());
  } else {
    if (o.gpus == 0) o.gpus = static_cast<int>(devices);
    if (o.gpus == 0) return Error{"--mode " + mode + " needs --gpus N: no GPU is seen here"};
    out = torchrun();
    if (mode == "multi-gpu") {
      out.insert(out.end(), {"--standalone", "--nproc-per-node", std::to_string(o.gpus)});
    } else {
      if (auto status = complete(o); !status) return status.error();
      out.insert(out.end(), {"--nnodes", std::to_string(o.nodes), "--nproc-per-node", std::to_string(o.gpus),
                             "--node-rank", std::to_string(o.node_rank), "--master-addr", o.master_address,
                             "--master-port", std::to_string(o.master_port)});
    }
  }
  out.insert(out.end(), words.begin(), words.end());
  return out;
}

// The flags of `profgpu run --trace` and what recorded processes are told of them.

namespace {

constexpr std::string_view kWindowFlags[] = {"--capture-range", "--steps", "--range", "--delay", "--duration"};
constexpr std::string_view kOtherFlags[] = {"--graphs", "--no-python-hook", "--python-stacks", "--no-perf-events",
                                             "--preload", "--flush"};
constexpr int64_t kMillion = 1'000'000;
constexpr int64_t kShortestFlush_ns = 10 * kMillion, kLongestFlush_ns = 3600 * 1000 * kMillion;
constexpr int64_t kLongestStacks_ns = 10 * 1000 * kMillion;
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
  const Takes time{"a time", 0, INT64_MAX, "seconds, or 500ms, 2m, 1h"};
  int64_t delay_ns = 0;
  if (Status read = read_option(arguments, "--delay", duration_ns, time, delay_ns); !read) return read.error();
  const auto lasts_ns = option_value(arguments, "--duration", duration_ns, time);
  if (!lasts_ns) return lasts_ns.error();
  if (lasts_ns->value_or(kMillion) < kMillion) return Error{"--duration takes a time of a millisecond or more"};
  return fmt::format("time:{}:{}", delay_ns / kMillion, *lasts_ns ? std::to_string(**lasts_ns / kMillion) : "");
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
       {.name = "--python-stacks",
        .value = "TIME",
        .help = "sample the Python stack of the training loop so often, to name lines of code; 0: never (default 20ms)"},
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
  const auto flush_ns = option_value(arguments, "--flush", duration_ns,
                                     {"a time from 10ms to 1h", kShortestFlush_ns, kLongestFlush_ns});
  if (!flush_ns) return flush_ns.error();
  if (*flush_ns) options.options += fmt::format(",flush_ms={}", **flush_ns / kMillion);
  options.python_hook = !arguments.has("--no-python-hook");
  auto status = read_option(arguments, "--python-stacks", duration_ns, {"a time up to 10s", 0, kLongestStacks_ns},
                            options.python_stacks_ns);
  if (!status) return status.error();
  options.perf_events = !arguments.has("--no-perf-events");
  options.preload = arguments.has("--preload") || options.torch_on_demand;
  return options;
}

namespace {

constexpr int64_t kDefaultInterval_ns = 200'000'000;
constexpr int64_t kMaxRuns = 1'000'000;

Status read_runs(const Arguments& arguments, std::string_view flag, int64_t least, int& value) {
  return read_option(arguments, flag, digits_only,
                     {fmt::format("a whole number from {}", least), least, kMaxRuns}, value);
}

Status read_warmup(const Arguments& arguments, RunOptions& options) {
  const Takes time{"a time", 0, INT64_MAX, "seconds, or a number with a unit: --warmup 5, --warmup 500ms"};
  return read_option(arguments, "--warmup", duration_ns, time, options.warmup_ns);
}

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
      device_flags({.interval = "time between samples in seconds, or with a unit: 0.5, 100ms (default 0.2)"}),
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
  if (auto status = read_runs(arguments, "--repeats", 1, options.repeats); !status) return status.error();
  if (auto status = read_runs(arguments, "--warmup-runs", 0, options.warmup_runs); !status) return status.error();
  if (auto status = read_warmup(arguments, options); !status) return status.error();
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

}  // namespace profgpu
