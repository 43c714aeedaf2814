#include "cli/run_launch.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include "base/decimal.h"
#include "cli/flag_values.h"

namespace profgpu {
namespace {

constexpr int kMaxGpus = 1024, kMostNodes = 100'000;

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
  for (const auto& status : {read_whole(arguments, "--gpus", 1, kMaxGpus, o.gpus),
                             read_whole(arguments, "--nodes", 1, kMostNodes, o.nodes),
                             read_whole(arguments, "--node-rank", 0, kMostNodes - 1, o.node_rank),
                             read_whole(arguments, "--master-port", 1, 65'535, o.master_port)})
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

}  // namespace profgpu
