#include "cli/run_options.h"

#include "base/decimal.h"
#include "trace/sample_file.h"

namespace profgpu {
namespace {

constexpr int64_t kDefaultInterval_ns = 200'000'000;
constexpr int64_t kMaxRuns = 1'000'000;

Status read_runs(const Arguments& arguments, std::string_view flag, int64_t least, int& value) {
  if (!arguments.has(flag)) return ok();
  const std::string text = arguments.value(flag);
  const auto n = whole_number(text);
  // 1e1 and 2.5 are numbers too, of a kind that nobody means here.
  if (!n || text.find_first_not_of("0123456789") != std::string::npos || *n < least || *n > kMaxRuns)
    return Error{std::string(flag) + " takes a whole number from " + std::to_string(least) + ", not \"" + text + "\""};
  value = static_cast<int>(*n);
  return ok();
}

Status read_warmup(const Arguments& arguments, RunOptions& options) {
  if (!arguments.has("--warmup")) return ok();
  const std::string text = arguments.value("--warmup");
  const auto ns = duration_ns(text);
  if (!ns)
    return Error{"--warmup takes a time, not \"" + text + "\"",
                 "seconds, or a number with a unit: --warmup 5, --warmup 500ms"};
  options.warmup_ns = *ns;
  return ok();
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
        {.name = "--color",
         .value = "WHEN",
         .help = "colours (default auto)",
         .choices = {"auto", "always", "never"}}}}};
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
  const std::string colour = arguments.value("--color", "auto");
  options.colour = colour == "always" ? Colour::kAlways : colour == "never" ? Colour::kNever : Colour::kAuto;
  return options;
}

}  // namespace profgpu
