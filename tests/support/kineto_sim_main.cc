// kineto-sim: writes simulated Kineto traces and the truth beside them.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#ifdef PROFGPU_SIM_HAS_ZLIB
#include <zlib.h>
#endif

#include "tests/support/simulator.h"

namespace profgpu::sim {
namespace {

constexpr const char kHelp[] =
    "usage: kineto-sim --out PATH [options]\n\n"
    "Simulates a PyTorch training job and writes its Kineto trace, with NAME.truth.json beside it.\n"
    "With several ranks or windows PATH is a folder (rank-0.json, rank-1.json, ...); the truth lies beside the folder.\n\n"
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
    "  --strategy ddp|fsdp      how ranks share the work\n"
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
    "  --no-truth               write no truth\n"
    "  --demo                   the small case of examples/: data loading and two lesser faults\n";

struct Arguments {
  SimOptions sim;
  KinetoStyle style;
  std::string out;
  int64_t target_bytes = 0;
  int only_rank = -1;
  bool ranks_given = false, truth = true;
};

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

bool switch_of(const std::string& flag, Arguments& a) {
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

Status value_of(const std::string& flag, const std::string& value, Arguments& a) {
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
    const int which = flag == "--gpu" ? choose({"h100", "a100", "mi300x"}) : flag == "--vendor" ? choose({"nvidia", "-", "amd"}) : flag == "--style" ? choose({"kineto-2.x", "kineto-1.8"}) : choose({"ddp", "fsdp"});
    if (which < 0) return Error{flag + " does not know '" + value + "'"};
    if (flag == "--style") a.style.generation = static_cast<KinetoGeneration>(which);
    else if (flag == "--strategy") a.sim.strategy = static_cast<Strategy>(which);
    else a.sim.gpu = static_cast<Gpu>(which);
    return ok();
  }
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

Result<Arguments> parse(int count, char** words) {
  Arguments a;
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
  if (a.only_rank >= a.sim.ranks) return Error{"rank " + std::to_string(a.only_rank) + " is not one of " + std::to_string(a.sim.ranks)};
  return a;
}

/// One output file, compressed if its name ends in .gz.
class File {
 public:
  explicit File(const std::string& path) {
    const bool gz = path.size() > 3 && path.compare(path.size() - 3, 3, ".gz") == 0;
#ifdef PROFGPU_SIM_HAS_ZLIB
    if (gz) gz_ = gzopen(path.c_str(), "wb6");
    else plain_ = std::fopen(path.c_str(), "wb");
#else
    if (!gz) plain_ = std::fopen(path.c_str(), "wb");
#endif
  }
  File(const File&) = delete;
  ~File() { close(); }
  bool write(std::string_view text) {
#ifdef PROFGPU_SIM_HAS_ZLIB
    if (gz_ != nullptr) return gzwrite(gz_, text.data(), static_cast<unsigned>(text.size())) == static_cast<int>(text.size());
#endif
    return plain_ != nullptr && std::fwrite(text.data(), 1, text.size(), plain_) == text.size();
  }
  bool close() {
    bool good = true;
#ifdef PROFGPU_SIM_HAS_ZLIB
    if (gz_ != nullptr) good = gzclose(gz_) == Z_OK;
    gz_ = nullptr;
#endif
    if (plain_ != nullptr) good = std::fclose(plain_) == 0;
    plain_ = nullptr;
    return good;
  }

 private:
  std::FILE* plain_ = nullptr;
#ifdef PROFGPU_SIM_HAS_ZLIB
  gzFile gz_ = nullptr;
#endif
};

int64_t text_bytes(SimOptions options, const KinetoStyle& style, int steps) {
  options.steps = steps;
  options.windows = 1;
  const auto result = simulate(options);
  int64_t bytes = 0;
  if (result) write_kineto(result->traces[0], style, [&](std::string_view piece) { return bytes += static_cast<int64_t>(piece.size()), true; });
  return bytes;
}

/// Text grows by the same amount with every step after the first.
void aim(Arguments& a) {
  const int64_t two = text_bytes(a.sim, a.style, 2), six = text_bytes(a.sim, a.style, 6);
  const int64_t per_step = std::max<int64_t>((six - two) / 4, 1);
  a.sim.steps = static_cast<int>(std::max<int64_t>(1, (a.target_bytes - two + per_step / 2) / per_step + 2));
}

Status write_all(Arguments& a) {
  namespace fs = std::filesystem;
  if (a.target_bytes > 0) aim(a);
  const auto result = simulate(a.sim);
  if (!result) return result.error();
  const bool folder = (a.sim.ranks > 1 && a.only_rank < 0) || a.sim.windows > 1;
  std::error_code failed;
  if (folder) fs::create_directories(a.out, failed);
  if (failed) return Error{a.out + ": " + failed.message()};
  for (const RankTrace& t : result->traces) {
    if (a.only_rank >= 0 && t.rank != a.only_rank) continue;
    std::string path = a.out;
    if (folder) path += "/rank-" + std::to_string(t.rank) + (a.sim.windows > 1 ? ".window-" + std::to_string(t.window) : "") + ".json";
    File file(path);
    if (!write_kineto(t, a.style, [&](std::string_view piece) { return file.write(piece); }) || !file.close()) return Error{path + ": cannot be written"};
  }
  if (!a.truth) return ok();
  std::string stem = a.out;
  for (const char* end : {".gz", ".json"}) {
    if (const size_t n = std::strlen(end); stem.size() > n && stem.compare(stem.size() - n, n, end) == 0) stem.resize(stem.size() - n);
  }
  // Outside the folder: whoever reads a folder of traces should find traces in it.
  while (folder && stem.size() > 1 && stem.back() == '/') stem.pop_back();
  File file(stem + ".truth.json");
  if (!file.write(truth_json(a.sim, make_truth(a.sim, *result, a.style))) || !file.close()) return Error{stem + ".truth.json: cannot be written"};
  return ok();
}

void list_faults() {
  for (const Fault& f : faults()) {
    std::string rules;
    for (const char* r : f.expected) rules += (rules.empty() ? "" : ", ") + std::string(r);
    std::printf("%-26s %s\n%-26s   must fire: %s%s\n", f.name, f.summary, "", rules.empty() ? "nothing" : rules.c_str(), f.min_ranks > 1 ? "; several ranks" : "");
  }
}

int complain(const Error& e, int code) {
  std::fprintf(stderr, "kineto-sim: %s\n", e.message.c_str());
  if (!e.hint.empty()) std::fprintf(stderr, "  hint: %s\n", e.hint.c_str());
  return code;
}

}  // namespace
}  // namespace profgpu::sim

int main(int argc, char** argv) {
  using namespace profgpu::sim;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--help") == 0) return std::fputs(kHelp, stdout), 0;
    if (std::strcmp(argv[i], "--list-faults") == 0) return list_faults(), 0;
  }
  auto arguments = parse(argc, argv);
  if (!arguments) return complain(arguments.error(), 2);
  if (profgpu::Status s = write_all(*arguments); !s) return complain(s.error(), 1);
  return 0;
}
