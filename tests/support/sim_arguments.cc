#include "tests/support/sim_arguments.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace profgpu::sim {

const char* const kSimHelp =
    "usage: kineto-sim --out PATH [options]\n\n"
    "Simulates a PyTorch training job and writes its Kineto trace, with NAME.truth.json beside it.\n"
    "With several ranks or windows PATH is a folder (rank-0.json, rank-1.json, ...); the truth lies beside the "
    "folder.\n\n"
    "  --fault NAME[:SEVERITY]  plant a fault, 1 is its default size; may be given again\n"
    "  --list-faults            name the faults and the rules that they must set off\n"
    "  --ranks N                ranks of the job (default 1, or what the faults need)\n"
    "  --only-rank R            write this rank's trace only\n"
    "  --steps K                recorded steps (default 10)\n"
    "  --layers L               transformer layers (default 12)\n"
    "  --micro-batches N        forward and backward passes per optimizer step\n"
    "  --windows N              a repeating profiler schedule: N files a rank\n"
    "  --first-step N           number of the first ProfilerStep# (default 5)\n"
    "  --seed S                 noise (default 1)\n"
    "  --step-noise PERMILLE    steps vary by this (standard deviation); --slower PERMILLE: all takes longer\n"
    "  --gpu h100|a100|mi300x   device (default h100); --vendor nvidia|amd picks h100 or mi300x\n"
    "  --strategy ddp|fsdp|zero1|zero2|tp|pp|ep     how ranks share the work\n"
    "  --group G                ranks that share one model with tp, pp and ep (default all); data parallel between "
    "them\n"
    "  --plain-groups           process groups without descriptions\n"
    "  --hosts H                ranks are spread over node-0, node-1, ...\n"
    "  --clock-offset HOST:NS --clock-drift HOST:PPM       what a host's clock is ahead, and gains\n"
    "  --clock-error-ns N --drift-error-ppm N      clocks of all hosts but the first are wrong by up to this, by the "
    "seed\n"
    "  --end-jitter NS          ranks see a collective end up to this apart\n"
    "  --slow-rank R            where straggler faults are planted (default the last rank); may be given again\n"
    "  --excess PCT             the fault's severity is what makes the job's steps so much longer\n"
    "  --slow-every N           they show in every Nth step only; --by-turns: on one rank after another\n"
    "  --target-bytes N[K|M|G]  as many steps as make about N bytes of text a rank\n"
    "  --graph --compiled --cpu-only        CUDA graph replay; Triton kernels; no device\n"
    "  --python-stacks --sync-rows --no-getters --no-shapes --no-memory --no-flows\n"
    "  --drop-kernels PCT       launches whose activity is missing\n"
    "  --clock-skew NS          rank r's clock is r times NS ahead\n"
    "  --style kineto-2.x|kineto-1.8        layout (default kineto-2.x)\n"
    "  --array                  the bare array of events\n"
    "  --no-steps --no-distributed-info\n"
    "  --shuffle-events SEED    events in random order\n"
    "  --time-shift NS          added to every time\n"
    "  --no-seq --no-group-ranks --no-host-names --no-collective-args   what older versions do not record\n"
    "  --hang-rank R            R misses the job's last collective, in which the others wait for ten steps\n"
    "  --step-shift R:N         R recorded as many steps, from N later on\n"
    "  --truncate R:PCT --double R --other-run R --missing R       rank R's file is cut, there twice, of another run, "
    "not there\n"
    "  --threads N              ranks written at once (default: all cores)\n"
    "  --no-truth               write no truth\n"
    "  --samples                write samples of the devices\n"
    "  --demo                   the small case of examples/: data loading and two lesser faults\n";

namespace {

Result<int64_t> parse_integer(const std::string& flag, const std::string& text, bool suffix = false) {
  char* end = nullptr;
  int64_t value = std::strtoll(text.c_str(), &end, 10);
  if (suffix && *end != '\0') {
    const char unit = *end++;
    value *= unit == 'K' ? 1'000 : unit == 'M' ? 1'000'000 : unit == 'G' ? 1'000'000'000 : 0;
    if (value == 0) return Error{flag + " takes a number with K, M or G, not '" + text + "'"};
  }
  if (text.empty() || *end != '\0') return Error{flag + " takes a whole number, not '" + text + "'"};
  return value;
}

bool switch_of(const std::string& flag, SimArguments& a) {
  if (flag == "--graph") a.sim.graph = true;
  else if (flag == "--compiled") a.sim.compiled = true;
  else if (flag == "--cpu-only") a.sim.cpu_only = true;
  else if (flag == "--python-stacks") a.sim.python_stacks = true;
  else if (flag == "--sync-rows") a.sim.sync_rows = true;
  else if (flag == "--no-getters") a.sim.runtime_getters = false;
  else if (flag == "--no-shapes") a.style.shapes = false;
  else if (flag == "--no-memory") a.style.memory = false;
  else if (flag == "--no-flows") a.style.flows = false;
  else if (flag == "--array") a.style.array = true;
  else if (flag == "--no-steps") a.style.steps = false;
  else if (flag == "--no-distributed-info") a.style.distributed_info = false;
  else if (flag == "--no-truth") a.truth = false;
  else if (flag == "--samples") a.samples = true;
  else if (flag == "--no-seq") a.style.sequence_numbers = false;
  else if (flag == "--no-group-ranks") a.style.group_ranks = false;
  else if (flag == "--no-host-names") a.style.host_names = false;
  else if (flag == "--no-collective-args") a.style.collective_arguments = false;
  else if (flag == "--by-turns") a.sim.by_turns = true;
  else if (flag == "--plain-groups") a.sim.named_groups = false;
  else if (flag == "--demo") {
    a.sim.steps = 7;
    a.sim.layers = 3;
    a.sim.gpu = Gpu::a100;
    a.sim.seed = 7;
    a.sim.faults = {{"data-loading-bound", 1.0}, {"excessive-synchronization", 2.0}, {"pageable-copies", 0.7}};
  } else {
    return false;
  }
  return true;
}

/// "RANK:VALUE" or "HOST:VALUE", the value in thousandths where `thousandths` says so.
Result<std::pair<int, int64_t>> parse_pair(const std::string& flag, const std::string& text, bool thousandths = false) {
  const size_t colon = text.find(':');
  const auto key = parse_integer(flag, text.substr(0, colon));
  if (!key || *key < 0 || *key > 1'000'000 || colon == std::string::npos)
    return Error{flag + " takes two numbers with a colon between, not '" + text + "'"};
  char* end = nullptr;
  const std::string value = text.substr(colon + 1);
  const double number = std::strtod(value.c_str(), &end);
  if (value.empty() || *end != '\0' || !(std::abs(number) < 1e18))
    return Error{flag + " takes a number after the colon, not '" + value + "'"};
  return std::pair<int, int64_t>(static_cast<int>(*key), std::llround(thousandths ? number * 1000 : number));
}

/// False: not such an option.
Result<bool> job_value(const std::string& flag, const std::string& value, SimArguments& a) {
  if (flag == "--clock-offset" || flag == "--clock-drift" || flag == "--truncate" || flag == "--step-shift") {
    const auto pair = parse_pair(flag, value, flag == "--clock-drift");
    if (!pair) return pair.error();
    if (flag == "--clock-offset") a.sim.clock_offsets.push_back(*pair);
    else if (flag == "--clock-drift") a.sim.clock_drifts.push_back(*pair);
    else if (flag == "--truncate")
      a.damage.truncated.emplace_back(pair->first, static_cast<int>(std::clamp<int64_t>(pair->second, 0, 100)));
    else
      a.sim.shifted_rank = pair->first,
      a.sim.shifted_steps = static_cast<int>(std::clamp<int64_t>(pair->second, 0, 100'000));
    return true;
  }
  const bool known = flag == "--slow-rank" || flag == "--double" || flag == "--other-run" || flag == "--missing" ||
                     flag == "--hosts" || flag == "--group" || flag == "--slow-every" || flag == "--hang-rank" ||
                     flag == "--threads" || flag == "--clock-error-ns" || flag == "--drift-error-ppm" ||
                     flag == "--end-jitter";
  if (!known) return false;
  const auto number = parse_integer(flag, value);
  if (!number) return number.error();
  if (*number < 0) return Error{flag + " does not take " + value};
  if (flag == "--clock-error-ns") return a.sim.clock_error_ns = *number, true;
  if (*number > 1'000'000'000) return Error{flag + " does not take " + value};
  const int i = static_cast<int>(*number);
  if (flag == "--drift-error-ppm") a.sim.drift_error_ppb = *number * 1000;
  else if (flag == "--end-jitter") a.sim.end_jitter_ns = *number;
  else if (flag == "--slow-rank") a.sim.slow_ranks.push_back(i);
  else if (flag == "--double") a.damage.doubled.push_back(i);
  else if (flag == "--other-run") a.damage.of_another_run.push_back(i);
  else if (flag == "--missing") a.damage.missing.push_back(i);
  else if (flag == "--hosts") a.sim.hosts = i;
  else if (flag == "--group") a.sim.group = i;
  else if (flag == "--slow-every") a.sim.slow_every = i;
  else if (flag == "--hang-rank") a.sim.hang_rank = i;
  else a.threads = i;
  return true;
}

Status value_of(const std::string& flag, const std::string& value, SimArguments& a) {
  if (flag == "--out") return a.out = value, ok();
  if (flag == "--fault") {
    auto use = parse_fault(value);
    if (!use) return use.error();
    a.sim.faults.push_back(*use);
    return ok();
  }
  const auto choose = [&](std::initializer_list<const char*> names) {
    int index = 0;
    for (const char* n : names) {
      if (value == n) return index;
      ++index;
    }
    return -1;
  };
  if (flag == "--gpu" || flag == "--vendor" || flag == "--style" || flag == "--strategy") {
    const int which = flag == "--gpu"      ? choose({"h100", "a100", "mi300x"})
                      : flag == "--vendor" ? choose({"nvidia", "-", "amd"})
                      : flag == "--style"  ? choose({"kineto-2.x", "kineto-1.8"})
                                           : choose({"ddp", "fsdp", "zero1", "zero2", "tp", "pp", "ep"});
    if (which < 0) return Error{flag + " does not know '" + value + "'"};
    if (flag == "--style") a.style.generation = static_cast<KinetoGeneration>(which);
    else if (flag == "--strategy") a.sim.strategy = static_cast<Strategy>(which);
    else a.sim.gpu = static_cast<Gpu>(which);
    return ok();
  }
  if (flag == "--excess") {
    char* end = nullptr;
    a.excess_pct = std::strtod(value.c_str(), &end);
    return value.empty() || *end != '\0' || !(a.excess_pct > 0 && a.excess_pct < 1000)
               ? Status(Error{"--excess takes a percentage, not '" + value + "'"})
               : ok();
  }
  const auto of_job = job_value(flag, value, a);
  if (!of_job) return of_job.error();
  if (*of_job) return ok();
  const auto number = parse_integer(flag, value, flag == "--target-bytes");
  if (!number) return number.error();
  const int64_t n = *number;
  if (flag == "--target-bytes") return a.target_bytes = n, ok();
  if (flag == "--seed") return a.sim.seed = static_cast<uint64_t>(n), ok();
  if (flag == "--shuffle-events") return a.style.shuffle_seed = static_cast<uint64_t>(n), ok();
  if (flag == "--time-shift") return a.style.time_shift_ns = n, ok();
  if (flag == "--clock-skew") return a.sim.clock_skew_ns = n, ok();
  if (n < 0 || n > 10'000'000) return Error{flag + " does not take " + value};
  const int i = static_cast<int>(n);
  if (flag == "--ranks") a.sim.ranks = i, a.ranks_given = true;
  else if (flag == "--only-rank") a.only_rank = i;
  else if (flag == "--steps") a.sim.steps = i;
  else if (flag == "--layers") a.sim.layers = i;
  else if (flag == "--micro-batches") a.sim.micro_batches = i;
  else if (flag == "--windows") a.sim.windows = i;
  else if (flag == "--first-step") a.sim.first_step = i;
  else if (flag == "--step-noise") a.sim.step_noise_permille = i;
  else if (flag == "--slower") a.sim.slower_permille = i;
  else if (flag == "--drop-kernels") a.sim.drop_pct = i;
  else return Error{"no option is called " + flag, "--help names them"};
  return ok();
}

}  // namespace

Result<SimArguments> parse_arguments(int count, char** words) {
  SimArguments a;
  for (int i = 1; i < count; ++i) {
    std::string flag = words[i], value;
    if (switch_of(flag, a)) continue;
    if (const size_t equals = flag.find('='); equals != std::string::npos) {
      value = flag.substr(equals + 1);
      flag.resize(equals);
    } else if (i + 1 < count) {
      value = words[++i];
    } else {
      return Error{flag + " needs a value, or is no option", "--help names them"};
    }
    if (Status s = value_of(flag, value, a); !s) return s.error();
  }
  if (a.out.empty()) return Error{"--out is missing", "kineto-sim --out trace.json"};
  for (const FaultUse& use : a.sim.faults) {
    if (!a.ranks_given && find_fault(use.name)->min_ranks > 1) a.sim.ranks = 4;
  }
  if (a.only_rank >= a.sim.ranks)
    return Error{"rank " + std::to_string(a.only_rank) + " is not one of " + std::to_string(a.sim.ranks)};
  return a;
}

}  // namespace profgpu::sim
