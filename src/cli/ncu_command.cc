// profgpu ncu-command: the line that has Nsight Compute look at the kernels which are worth it.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>

#include "analyse/rank/devices.h"
#include "analyse/rank/kernels.h"
#include "analyse/rank/profile_targets.h"
#include "analyse/report/quantity.h"
#include "analyse/rules/measure.h"
#include "app/loaded_run.h"
#include "app/words.h"
#include "base/text.h"
#include "cli/trace_command.h"

namespace profgpu {
namespace {

constexpr int64_t kMaxKernels = 50;

/// A regular expression that matches the text, or a long one's beginning, and nothing else.
std::string literal_pattern(std::string_view text) {
  constexpr size_t kMost = 400;
  std::string out;
  for (const char c : text.substr(0, kMost)) {
    const bool ascii = static_cast<unsigned char>(c) < 0x80;
    if (ascii && !is_letter(c) && !is_digit(c) && c != '_') out += '\\';
    out += c;
  }
  return text.size() > kMost ? out + ".*" : out;
}

std::string in_single_quotes(std::string_view text) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'') out += "'\\''";
    else out += static_cast<unsigned char>(c) < ' ' ? ' ' : c;
  }
  return out + "'";
}

// A path with control characters is left to the user.
std::string shell_word(const std::string& path) {
  const auto controls = [](char c) { return static_cast<unsigned char>(c) < ' '; };
  return std::ranges::any_of(path, controls) ? "TRACE" : shell_line({path});
}

std::string kernel_filter(const ProfileTargets& targets) {
  const std::string all =
      joined(targets.targets, "|", [](const ProfileTarget& t) { return literal_pattern(t.function); });
  return "regex:" + in_single_quotes(targets.targets.size() == 1 ? "^" + all + "$" : "^(" + all + ")$");
}

std::string why(const ProfileTarget& t) {
  const std::string times =
      fmt::format("{} launches, {}", t.launches, format_duration(static_cast<double>(t.total_ns)));
  return t.limit_pct ? fmt::format("{}, at {:.0f} % of its limit: {} to gain", times, *t.limit_pct,
                                   format_duration(static_cast<double>(t.gain_ns)))
                     : times + ", limit unknown";
}

std::string ncu_text(const ProfileTargets& targets, const std::string& program, const std::vector<std::string>& paths) {
  std::string out = "# Kernels with the most time to gain, in the measured steps of the trace:\n";
  for (const ProfileTarget& t : targets.targets) {
    std::string name = shortened(short_kernel_name(t.name), 60);
    std::ranges::replace_if(name, [](char c) { return static_cast<unsigned char>(c) < ' '; }, ' ');
    out += fmt::format("#   {}: {}\n", name, why(t));
  }
  out += fmt::format("ncu --target-processes all --kernel-name {} \\\n"
                     "    --launch-skip {} --launch-count {} \\\n"
                     "    --section SpeedOfLight --section MemoryWorkloadAnalysis --section Occupancy \\\n"
                     "    --section LaunchStats --section WarpStateStats \\\n"
                     "    -o profgpu-ncu {}\n",
                     kernel_filter(targets), targets.skip, targets.count, program);
  out += "ncu --import profgpu-ncu.ncu-rep --csv --page raw > profgpu-ncu.csv\n";
  out += "profgpu analyze";
  for (const std::string& path : paths) out += " " + shell_word(path);
  return out + " profgpu-ncu.csv --section counters\n";
}

/// The rank that was asked for, else the first one with work on a device.
Result<std::unique_ptr<TraceFacts>> facts_of(LoadedRun& run, std::optional<int64_t> wanted) {
  for (const auto& [rank, outline] : run.read.outlines) {
    if (wanted && *wanted != rank) continue;
    if (const auto kept = run.read.traces.find(rank); kept != run.read.traces.end()) {
      if (wanted || kept->second->trace.activity.size() > 0) return std::move(kept->second);
      continue;
    }
    auto again = run.read_again(rank);
    if (!again || wanted || (*again)->trace.activity.size() > 0) return again;
  }
  return wanted ? Error{fmt::format("there is no rank {}", *wanted), "profgpu analyze PATH lists the ranks"}
                : Error{"the trace has no kernels", "was ProfilerActivity.CUDA on?"};
}

// None: of NVIDIA's, or it is not known.
std::optional<Error> other_tool(Vendor vendor) {
  constexpr std::string_view kOnly = "Nsight Compute profiles NVIDIA GPUs only, and this trace is of ";
  switch (vendor) {
    case Vendor::kAmd: return Error{fmt::format("{}an AMD GPU", kOnly), "use rocprof-compute"};
    case Vendor::kIntel: return Error{fmt::format("{}an Intel GPU", kOnly), "use vtune -collect gpu-hotspots"};
    case Vendor::kGoogle: return Error{fmt::format("{}a TPU", kOnly), "use XProf"};
    case Vendor::kMeta: return Error{fmt::format("{}an MTIA accelerator", kOnly), "use the tools of that device"};
    case Vendor::kNvidia:
    case Vendor::kUnknown: break;
  }
  return std::nullopt;
}

Outcome ncu_command(const Arguments& arguments) {
  auto options = trace_command(arguments);
  if (!options) return Outcome::usage(options.error());
  int64_t kernels = 3;
  std::optional<int64_t> rank;
  OptionReader reader(arguments);
  reader.whole("--kernels", 1, kMaxKernels, kernels).whole("--rank", 0, INT32_MAX, rank);
  if (!reader.status()) return Outcome::usage(reader.status().error());
  Progress progress;
  auto bar = std::make_unique<ProgressBar>(progress, options->draws());
  auto run = load_run(options->read.paths, {.analysis = options->read.analysis}, progress);
  bar.reset();
  if (!run) return run.error();
  if (!options->quiet) print_issues(*run);
  auto facts = facts_of(*run, rank);
  if (!facts) return facts.error();
  const Devices& devices = (*facts)->facts.get<Devices>();
  if (devices.busiest >= 0)
    if (auto other = other_tool(vendor((*facts)->trace, devices.devices[static_cast<size_t>(devices.busiest)].id)))
      return std::move(*other);
  const ProfileTargets targets = ProfileTargets::of((*facts)->facts, static_cast<size_t>(kernels));
  if (targets.targets.empty())
    return Error{"no compute kernel ran in the measured steps", "choose steps with --steps, or record for longer"};
  const std::string program = arguments.value("--program", std::string(program_command((*facts)->facts)));
  return options->write(ncu_text(targets, program, options->read.paths));
}

}  // namespace

extern const Command kNcuCommand{
    .name = "ncu-command",
    .summary = "print the Nsight Compute command for the slowest kernels",
    .positional = "PATH...",
    .positional_help = "traces or a folder of them, as for analyze",
    .groups = {{"What to profile",
                {{"--kernels N", "number of kernels (default 3)"},
                 {"--rank N", "only this rank's kernels (default: the first rank with a GPU)"},
                 {"--program COMMAND", "the program to run under ncu (default: a placeholder, such as python train.py)"},
                 {"--steps A:B", "count only steps A to B-1"},
                 kStepPatternFlag}},
               {"Output",
                {{"-o, --output FILE", "write to this file instead of standard output"}, kQuietFlag, kNoProgressFlag}}},
    .examples = {{"profgpu ncu-command trace.json.gz", "commands to profile, convert and compare"},
                 {"profgpu ncu-command trace.json.gz --kernels 1 --program \"python bench.py\"",
                  "the first kernel alone"}},
    .notes = "ncu selects kernels by the name of their function, so other kernels of the same function are profiled "
             "too. --launch-skip assumes that all steps launch as many kernels as the measured ones.",
    .run = ncu_command,
};

}  // namespace profgpu
