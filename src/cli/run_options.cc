#include "cli/run_options.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>

#include "app/words.h"
#include "base/decimal.h"
#include "base/text.h"
#include "trace/sample_file.h"

namespace profgpu {
namespace {

constexpr int kMaxGpus = 1024, kMaxNodes = 100'000, kMaxPort = 65'535;

int number_from(std::initializer_list<const char*> variables, int otherwise) {
  for (const char* name : variables)
    if (const char* text = std::getenv(name))
      if (const auto n = whole_number(text); n && *n >= 0 && *n <= kMaxNodes) return static_cast<int>(*n);
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

bool is_script(const std::string& word) {
  struct stat s{};
  return word.ends_with(".py") && ::stat(word.c_str(), &s) == 0 && S_ISREG(s.st_mode);
}

bool names_interpreter(const std::string& script) {
  char begin[2] = {};
  std::ifstream(script, std::ios::binary).read(begin, sizeof begin);
  return std::string_view(begin, sizeof begin) == "#!";
}

// A script that cannot run by itself runs with Python. On some file systems every file is executable, and without "#!"
// the lines of a script would run as a shell's.
std::vector<std::string> with_python(std::vector<std::string> words) {
  const std::string& first = words.front();
  if (first == "-m") words.insert(words.begin(), python());
  const bool runs = first.find('/') == std::string::npos ? in_path(first)
                                                         : is_executable(first) && names_interpreter(first);
  if (!runs && is_script(first)) words.insert(words.begin(), python());
  return words;
}

std::vector<std::string> torchrun() {
  if (in_path("torchrun")) return {"torchrun"};
  return {python(), "-m", "torch.distributed.run"};
}

// The first host of Slurm's short form of a list: "n[07-12,20],login" begins with n07. Empty: none.
std::string first_host(std::string_view list) {
  const size_t end = list.find(','), open = list.find('[');
  if (open == list.npos || open > end) return std::string(list.substr(0, end));
  const size_t close = list.find(']', open);
  if (close == list.npos) return "";
  const std::string_view numbers = list.substr(open + 1, close - open - 1);
  const std::string_view after = list.substr(close + 1);
  return std::string(list.substr(0, open)) + std::string(numbers.substr(0, numbers.find_first_of(",-"))) +
         first_host(after);
}

std::string first_node_of_slurm() {
  for (const char* name : {"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST"})
    if (const char* list = std::getenv(name); list && *list) return first_host(list);
  return "";
}

// Options that were not given come from Slurm's or the launcher's own variables.
Status complete(LaunchOptions& o) {
  const auto needs = [](std::string_view flag, std::string_view why) {
    return Error{fmt::format("--mode multi-node needs {}", flag), std::string(why)};
  };
  if (o.nodes == 0) o.nodes = number_from({"SLURM_JOB_NUM_NODES", "SLURM_NNODES"}, 0);
  if (o.node_rank < 0) o.node_rank = number_from({"SLURM_NODEID", "GROUP_RANK"}, -1);
  if (const char* address = std::getenv("MASTER_ADDR"); address && o.master_address.empty()) o.master_address = address;
  if (o.master_address.empty()) o.master_address = first_node_of_slurm();
  if (o.nodes == 0) return needs("--nodes N", "the number of nodes");
  if (o.node_rank < 0)
    return needs("--node-rank R", "the number of this node, from 0; run the command on each node with its own number");
  if (o.node_rank >= o.nodes)
    return Error{fmt::format("--node-rank {} is too high for {} nodes", o.node_rank, o.nodes), "nodes count from 0"};
  if (o.master_address.empty())
    return needs("--master-addr HOST", "the node with --node-rank 0, the same on all nodes");
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
  if (is_script(word)) return true;
  if (word.find('/') == std::string::npos) return in_path(word);
  if (!is_executable(word)) return false;
  // On some file systems every file is executable, a trace too.
  char begin[4] = {};
  std::ifstream(word, std::ios::binary).read(begin, sizeof begin);
  const std::string_view read(begin, sizeof begin);
  return read.starts_with("#!") || read == "\x7f" "ELF";
}

Result<std::vector<std::string>> launch_command(LaunchOptions o, const std::vector<std::string>& words,
                                                size_t devices) {
  if (o.mode.empty()) return with_python(words);
  const std::string mode = chosen_mode(o, devices);
  std::vector<std::string> out;
  if (mode == "single") {
    if (words[0].ends_with(".py") || words[0] == "-m") out.push_back(python());
  } else {
    if (o.gpus == 0) o.gpus = static_cast<int>(devices);
    if (o.gpus == 0) return Error{"--mode " + mode + " needs --gpus N: no GPU was found here"};
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

namespace {

constexpr int64_t kMillion = 1'000'000;
constexpr int64_t kDefaultInterval_ns = kSecond_ns / 5;
constexpr int kMaxRuns = 1'000'000, kMaxTorchSteps = 10'000;
constexpr size_t kMaxRangeName = 255;

FlagGroup launch_flags() {
  return {"Starting a PyTorch script (COMMAND is the script and its arguments)",
          {{"--mode MODE",
            "run the script with python, or with torchrun on all GPUs of one node or of several nodes",
            {"auto", "single", "multi-gpu", "multi-node"}},
           {"--gpus N", "processes on each node (default: one for each GPU)"},
           {"--nodes N", "number of nodes (default: Slurm's)"},
           {"--node-rank R", "number of this node, from 0 (default: Slurm's)"},
           {"--master-addr HOST", "address of node 0 (default: MASTER_ADDR, else Slurm's first node)"},
           {"--master-port PORT", "port of node 0 (default: MASTER_PORT, else 29500)"}}};
}

FlagGroup trace_flags() {
  return {"Recording",
          {{"--trace",
            "record kernels, copies, NVTX ranges, collectives, steps and threads of all processes into a folder "
            "(default profgpu-COMMAND-TIME; -o names it)"},
           {"--steps A:B",
            "record GPU activity only in steps A to B-1, counted from 0: optimizer steps, or the ranges of --range"},
           {"--range NAME", "record GPU activity only while this NVTX range is open"},
           {"--delay TIME", "start recording GPU activity after this time"},
           {"--duration TIME", "stop recording GPU activity after this time"},
           {"--capture-range WHO",
            "record GPU activity only between the program's cudaProfilerStart and cudaProfilerStop, or when `profgpu "
            "attach` starts it",
            {"cudaProfilerApi", "attach"}},
           {"--graphs HOW", "record each CUDA graph launch as one row, or each of its nodes (default node)",
            {"graph", "node"}},
           {"--no-python-hook", "do not mark steps and phases of PyTorch programs"},
           {"--python-stacks TIME",
            "sample the training loop's Python stack at this interval, so that findings name lines of code; 0 turns it "
            "off (default 20ms)"},
           {"--memory",
            "keep the history of PyTorch's CUDA allocator: snapshots at the end, when `profgpu attach PID memory` asks "
            "for one, and when memory runs out, with an explanation before the traceback"},
           {"--no-perf-events", "sample threads only; do not read context switches from the kernel"},
           {"--preload",
            "also load the recorder with LD_PRELOAD: for programs that use torch.profiler themselves, and to record calls "
            "of cuBLAS, cuDNN and MPI"},
           {"--flush TIME", "write recorded events this often (default 250ms)"},
           {"--torch-steps N",
            "also trace N steps with PyTorch's own profiler, from the fourth step on: operators and shapes, joined with "
            "the recording; implies --preload"},
           {"--torch-on-demand",
            "let `profgpu attach PID torch` request a trace from PyTorch's own profiler; with --trace this implies "
            "--preload, so that the recorder makes way for PyTorch"}}};
}

// Flags of a group that need its first one. `standalone`: one that does not.
Status check_needs(const Arguments& arguments, const FlagGroup& group, std::string_view standalone = {}) {
  const std::string_view first = group.flags.front().name;
  for (const Flag& flag : group.flags)
    if (flag.name != first && flag.name != standalone && arguments.has(flag.name))
      return Error{fmt::format("{} needs {}", flag.name, first), fmt::format("add {}", group.flags.front().synopsis)};
  return ok();
}

Status read_launch(const Arguments& arguments, LaunchOptions& o) {
  o.mode = arguments.value("--mode");
  if (o.mode.empty()) return check_needs(arguments, launch_flags());
  o.master_port = number_from({"MASTER_PORT"}, o.master_port);
  o.master_address = arguments.value("--master-addr");
  OptionReader read(arguments);
  read.whole("--gpus", 1, kMaxGpus, o.gpus).whole("--nodes", 1, kMaxNodes, o.nodes);
  read.whole("--node-rank", 0, kMaxNodes - 1, o.node_rank).whole("--master-port", 1, kMaxPort, o.master_port);
  if (!read.status()) return read.status();
  const bool names_nodes = o.nodes > 1 || o.node_rank > 0;
  if (names_nodes && (o.mode == "single" || o.mode == "multi-gpu"))
    return Error{"--mode " + o.mode + " runs on one node", "--mode multi-node"};
  if (o.gpus > 1 && o.mode == "single") return Error{"--mode single runs on one GPU", "--mode multi-gpu"};
  return ok();
}

// Ways to choose what is recorded: one of them at most, except that steps may be counted in a range.
constexpr std::string_view kWindowFlags[][2] = {{"--capture-range"}, {"--steps", "--range"}, {"--delay", "--duration"}};

Status check_windows(const Arguments& arguments) {
  std::string_view first;
  for (const auto& [one, other] : kWindowFlags) {
    const std::string_view flag = arguments.has(one) ? one : arguments.has(other) ? other : "";
    if (!flag.empty() && !first.empty())
      return Error{fmt::format("{} and {} cannot be combined", first, flag), "each chooses by itself what is recorded"};
    if (!flag.empty()) first = flag;
  }
  return ok();
}

Result<std::string> counted_steps(const Arguments& arguments) {
  if (!arguments.has("--steps")) return std::string(":");
  const std::string text = arguments.value("--steps");
  if (text.size() > 1 && step_range(text)) return text;
  return Error{"--steps takes A:B, not \"" + text + "\"",
               "steps count from 0, B is not included: --steps 10:20 records ten; --steps 10: records from step 10 on"};
}

// A comma would end the option.
std::string escaped(const std::string& name) {
  std::string out;
  for (const char c : name) out += c == ',' || c == '%' ? fmt::format("%{:02X}", c) : std::string(1, c);
  return out;
}

// For PROFGPU_RECORD_OPTIONS.
Result<std::string> window(const Arguments& arguments) {
  if (auto status = check_windows(arguments); !status) return status.error();
  if (arguments.has("--capture-range"))
    return std::string(arguments.value("--capture-range") == "attach" ? "manual" : "cudaProfilerApi");
  auto counted = counted_steps(arguments);
  if (!counted) return counted;
  if (arguments.has("--range")) {
    const std::string name = arguments.value("--range");
    if (name.empty() || name.size() > kMaxRangeName)
      return Error{fmt::format("--range takes the name of an NVTX range, up to {} bytes", kMaxRangeName)};
    return "range:" + escaped(name) + ":" + *counted;
  }
  if (arguments.has("--steps")) return "steps:" + *counted;
  int64_t delay_ns = 0;
  std::optional<int64_t> duration_ns;
  OptionReader read(arguments);
  read.time("--delay", 0, INT64_MAX, delay_ns).time("--duration", kMillion, INT64_MAX, duration_ns);
  if (!read.status()) return read.status().error();
  if (!arguments.has("--delay") && !duration_ns) return std::string("all");
  return fmt::format("time:{}:{}", delay_ns / kMillion, duration_ns ? std::to_string(*duration_ns / kMillion) : "");
}

Status read_trace(const Arguments& arguments, TraceOptions& options) {
  options.wanted = arguments.has("--trace");
  RecordingRequest& request = options.request;
  request.torch_on_demand = arguments.has("--torch-on-demand");
  if (!options.wanted) return check_needs(arguments, trace_flags(), "--torch-on-demand");
  for (const std::string_view flag : {"--repeats", "--warmup-runs"})
    if (arguments.has(flag))
      return Error{fmt::format("--trace and {} cannot be combined: a recording is of one run", flag)};
  auto when = window(arguments);
  if (!when) return when.error();
  request.options = "window=" + *when;
  std::vector<std::string> words;
  for (const auto& way : kWindowFlags)
    for (const std::string_view flag : way)
      if (arguments.has(flag)) words.insert(words.end(), {std::string(flag), arguments.value(flag)});
  options.window = shell_line(words);
  if (arguments.has("--graphs")) request.options += ",graphs=" + arguments.value("--graphs");
  std::optional<int64_t> flush_ns;
  request.python_stacks_ns = 20 * kMillion;
  OptionReader read(arguments);
  read.time("--flush", 10 * kMillion, 3600 * kSecond_ns, flush_ns);
  read.time("--python-stacks", 0, 10 * kSecond_ns, request.python_stacks_ns);
  if (flush_ns) request.options += fmt::format(",flush_ms={}", *flush_ns / kMillion);
  request.python_hook = !arguments.has("--no-python-hook");
  request.memory = arguments.has("--memory");
  if (request.memory && !request.python_hook)
    return Error{"--memory and --no-python-hook cannot be combined: the hook takes the snapshots"};
  read.whole("--torch-steps", 1, kMaxTorchSteps, request.torch_steps);
  if (request.torch_steps > 0 && !request.python_hook)
    return Error{"--torch-steps and --no-python-hook cannot be combined: the hook starts PyTorch's profiler"};
  options.perf_events = !arguments.has("--no-perf-events");
  request.preload = arguments.has("--preload") || request.torch_on_demand || request.torch_steps > 0;
  return read.status();
}

}  // namespace

std::vector<FlagGroup> run_flags() {
  return {
      {"What to watch",
       {{"--warmup TIME", "leave out the samples of this first part of each run"},
        {"--repeats N", "run the command N times and show how much the figures vary (default 1)"},
        {"--warmup-runs N", "runs before those, not sampled (default 0)"},
        {"--torch-sync", "accepted for compatibility, no effect: a program ends after its GPU work"}}},
      device_flags(kVisibleDevices,
                   {kStrictFlag, {"-i, --interval TIME", "time between samples: seconds, or 100ms, 2m (default 0.2)"}}),
      trace_flags(),
      launch_flags(),
      {"Where results go",
       {{"--json", "print the summary as JSON: the last line on standard output, after the command's own output"},
        {"--samples FILE", "write all samples to FILE.csv or FILE.jsonl while the command runs"},
        {"-o, --output FOLDER", "write FOLDER/summary.json and FOLDER/samples.jsonl; with --trace also the recording"},
        {"-q, --quiet", "no summary; errors are still printed"},
        kColourFlag}}};
}

Result<RunOptions> run_options(const Arguments& arguments) {
  RunOptions options;
  options.command = arguments.positional;
  auto devices = device_options(arguments, {}, kDefaultInterval_ns);
  if (!devices) return devices.error();
  options.devices = std::move(*devices);
  options.devices.constants_later = true;
  OptionReader read(arguments);
  read.whole("--repeats", 1, kMaxRuns, options.repeats).whole("--warmup-runs", 0, kMaxRuns, options.warmup_runs);
  read.time("--warmup", 0, INT64_MAX, options.warmup_ns);
  for (const Status& status :
       {read.status(), read_trace(arguments, options.trace), read_launch(arguments, options.launch)})
    if (!status) return status.error();
  options.json = arguments.has("--json");
  options.quiet = arguments.has("--quiet");
  options.samples = arguments.value("--samples");
  options.folder = arguments.value("--output");
  if (arguments.has("--samples"))
    if (const auto format = sample_format_of(options.samples); !format) return format.error();
  if (arguments.has("--output") && options.folder.empty()) return Error{"--output needs the name of a folder"};
  options.colour = colour_option(arguments);
  return options;
}

}  // namespace profgpu
