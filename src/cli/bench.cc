// profgpu bench: what this machine gives.
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "app/analyze.h"
#include "app/words.h"
#include "base/text.h"
#include "cli/bench_compare.h"
#include "cli/bench_output.h"
#include "cli/bench_products.h"
#include "cli/bench_view.h"
#include "cli/device_options.h"
#include "cli/output.h"
#include "cli/terminal.h"
#include "devices/pending.h"
#include "measure/benchmark.h"

namespace profgpu {
namespace {

constexpr std::chrono::seconds kOpeningBackend{30};
constexpr size_t kProducts = 20, kMostProducts = 100;   // of a job
constexpr int64_t kHeadStart_ns = 5 * kSecond_ns;

volatile std::sig_atomic_t interrupted = 0;

std::vector<std::string> benchmark_names() { return names_of(benchmarks()); }

struct BenchCommand {
  BenchOptions bench;
  DeviceOptions devices;
  std::string output, saved, compare;
  std::string from;                  ///< a trace whose products are measured
  bool json = false, quiet = false, fails_on_worse = false, saves = false;
  int width = 0;
  Colour colour = Colour::kAuto;

  /// Another process reports what is measured.
  [[nodiscard]] bool follows() const { return bench.launched && bench.launched->rank > 0; }
};

Result<BenchCommand> bench_command(const Arguments& arguments) {
  BenchCommand c;
  for (const std::string& name : arguments.positional) {
    const std::vector<std::string> known = benchmark_names();
    if (std::ranges::count(known, name) == 0)
      return Error{"there is no benchmark \"" + name + "\"", "benchmarks: " + joined(known)};
  }
  c.bench.names = arguments.positional;
  // Of several processes each would measure this machine; collectives are over all of them.
  if (c.bench.names == std::vector<std::string>{"collectives"}) c.bench.launched = launched_rank();
  c.bench.rendezvous = arguments.value("--rendezvous");
  c.bench.lock_clocks = arguments.has("--lock-clocks");
  c.bench.full = arguments.has("--full"), c.bench.path = arguments.value("--path");
  c.output = arguments.value("--output"), c.saved = arguments.value("--saved");
  c.compare = arguments.value("--compare");
  c.json = arguments.has("--json"), c.quiet = arguments.has("--quiet");
  c.fails_on_worse = arguments.has("--fail-on");
  c.colour = colour_option(arguments);
  if (c.fails_on_worse && c.compare.empty()) return Error{"--fail-on needs --compare FILE to compare with"};
  c.from = arguments.value("--from"), c.saves = arguments.has("--save");
  if (!c.from.empty() && c.bench.names != std::vector<std::string>{"matmul"})
    return Error{"--from is for the benchmark matmul", "profgpu bench matmul --from trace.json.gz"};
  if (c.bench.lock_clocks && c.saves)
    return Error{"--lock-clocks measures at clocks that jobs do not run at: --save is for the clocks that they have",
                 "-o FILE saves it for comparisons"};
  OptionReader read(arguments);
  read.time("--duration", kSecond_ns, 24 * 3600 * kSecond_ns, c.bench.duration_ns);
  read.whole("--width", 0, 10'000, c.width).time("--timeout", kSecond_ns, 3600 * kSecond_ns, c.bench.patience_ns);
  if (!read.status()) return read.status().error();
  // Rank 0 reports: others that gave up first would have the launcher end it.
  if (c.follows()) c.bench.patience_ns += kHeadStart_ns;
  auto devices = device_options(arguments);
  if (!devices) return devices.error();
  c.devices = *std::move(devices);
  for (const std::string& input : {c.saved, c.compare})
    if (!input.empty())
      if (const Status writable = refuse_overwrite({input}, c.output); !writable) return writable.error();
  return c;
}

// Devices are watched where that works. CUDA finds those that are measured.
Result<OpenDevices> watched_devices(const DeviceOptions& options) {
  Pending<Result<OpenDevices>> pending([options] { return open_devices(options); });
  auto open = pending.await(std::chrono::steady_clock::now() + kOpeningBackend);
  if (open) return *std::move(open);
  left_in_driver = true;
  return OpenDevices{};
}

// What is under way, on a terminal.
class BenchProgress {
 public:
  explicit BenchProgress(bool shown) : shown_(shown) { clear_line_on_interrupt(shown); }
  BenchProgress(const BenchProgress&) = delete;
  ~BenchProgress() {
    if (shown_) std::fputs("\r\x1b[K", stderr);
    clear_line_on_interrupt(false);
  }
  void show(const Figure& figure) const {
    if (shown_)
      std::fputs(fmt::format("\r\x1b[K{}  {}  {}", figure.benchmark, figure.label, figure.place()).c_str(), stderr);
  }

 private:
  bool shown_;
};

Result<BenchEnd> measured(const BenchCommand& c) {
  if (!c.saved.empty()) {
    auto saved = read_bench(c.saved);
    if (!saved) return saved.error();
    return BenchEnd{*std::move(saved)};
  }
  BenchOptions options = c.bench;
  if (!c.from.empty()) {
    auto products = products_of(c.from, c.bench.full ? kMostProducts : kProducts);
    if (!products) return products.error();
    options.products = *std::move(products);
  }
  auto open = watched_devices(c.devices);
  if (!open) return open.error();
  if (!c.devices.device.empty()) options.wanted = joined(c.devices.device, ","), options.only = open->devices;
  // What was measured until then is shown.
  struct sigaction before{}, action{};
  action.sa_handler = [](int) { interrupted = 1; };
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    ::sigaction(signal, nullptr, &before);
    if (before.sa_handler != SIG_IGN) ::sigaction(signal, &action, nullptr);
  }
  const BenchProgress progress(!c.quiet && !c.json && stderr_is_terminal());
  return run_benchmarks(options, open->backend, [&](const Bench::Now& now) {
    progress.show(now.figure);
    return interrupted != 0;
  });
}

// A benchmark that was named and gave nothing, a fault that was found, or figures that are worse.
Outcome outcome_of(const BenchCommand& c, const BenchEnd& end, const BenchResult* before) {
  if (end.stopped) return {ExitCode::kInterrupted};
  std::string missing;
  for (const std::string& name : c.bench.names)
    if (std::ranges::none_of(end.result.figures, [&](const Figure& f) { return f.benchmark == name; }))
      append_listed(missing, name);
  if (!missing.empty()) return Error{missing + " could not be measured"};
  if (end.result.figures.empty()) return Error{"nothing could be measured"};
  if (before) {
    const BenchComparison all = compare_results(*before, end.result);
    if (c.fails_on_worse && all.any_worse()) return ExitCode::kFindings;
    if (all.figures.empty() && all.lost.empty())
      return Error{fmt::format("{} has none of these figures{}", c.compare,
                               all.not_judged.empty() ? "" : ": " + all.not_judged.front())};
  }
  if (const NotMeasured* fault = first_where(end.result.not_measured, &NotMeasured::is_fault))
    return Error{fault->what() + ": " + fault->why, fault->hint};
  return {};
}

// A folder of many machines' results: which is slow.
Outcome compare_folder(const BenchCommand& c) {
  if (c.json || c.saves || !c.output.empty() || !c.saved.empty() || !c.bench.names.empty())
    return Outcome::usage({"--compare FOLDER measures nothing and only prints",
                           "leave out names of benchmarks, --json, --output, --save and --saved"});
  const auto read = read_bench_folder(c.compare);
  if (!read) return read.error();
  auto found = compare_machines(read->results);
  if (!found) return Error{c.compare + ": " + found.error().message, found.error().hint};
  found->missing.insert(found->missing.end(), read->broken.begin(), read->broken.end());
  const int width = c.width > 0 ? c.width : output_width();
  const Status shown =
      write_text(rendered(machine_lines(read->results, *found, width), width, output_colour(c.colour)));
  if (!shown) return shown;
  const bool fails = !found->slow.empty() || !found->missing.empty();
  return fails && c.fails_on_worse ? ExitCode::kFindings : ExitCode::kOk;
}

bool of_one_machine(const BenchResult& a, const BenchResult& b) {
  return a.machine.host == b.machine.host && a.simulated == b.simulated;
}

// A result without a GPU would take the place of another machine's, or of a container's, whose GPUs were measured.
Status check_own_file(const BenchCommand& c, const BenchResult& now) {
  if (!c.saves || !now.devices.empty()) return ok();
  const auto before = read_bench(machine_file());
  if (!before || before->devices.empty() || of_one_machine(*before, now)) return ok();
  return Error{fmt::format("not saved: no GPU was measured, and {} has figures of {}'s GPUs", machine_file(),
                           before->machine.host),
               "`profgpu doctor` shows why there is no GPU; -o saves to another file"};
}

// What was measured before and is not now stays in the machine's own file.
BenchResult with_older(const std::string& file, const BenchResult& now) {
  const auto before = read_bench(file);
  return before && of_one_machine(*before, now) ? merged_results(*before, now) : now;
}

std::vector<std::string> written_files(const BenchCommand& c, bool saves) {
  std::vector<std::string> files;
  if (!c.output.empty()) files.push_back(c.output);
  if (saves) files.push_back(machine_file());
  return files;
}

// Before minutes of measuring, whether their result can be written.
Status check_files(const BenchCommand& c) {
  for (const std::string& file : written_files(c, c.saves)) {
    std::error_code error;
    const std::filesystem::path folder = std::filesystem::path(file).parent_path();
    if (c.saves && file == machine_file()) std::filesystem::create_directories(folder, error);
    if (std::filesystem::is_directory(file, error)) return Error{file + " cannot be written: it is a folder"};
    const bool there = std::filesystem::exists(file, error);
    const std::string checked = there ? file : folder.empty() ? "." : folder.string();
    if (::access(checked.c_str(), W_OK) != 0)
      return Error{fmt::format("{} cannot be written: {}", file, std::strerror(errno))};
  }
  return ok();
}

Status save(const BenchCommand& c, const BenchResult& result, bool saves) {
  for (const std::string& file : written_files(c, saves)) {
    const bool own = saves && file == machine_file();
    const std::string text = own ? bench_json(with_older(file, result)) : bench_text_for(result, file);
    if (Status written = write_file(file, text); !written) return written;
  }
  return ok();
}

// Shows and saves the result. What cannot be saved is shown all the same, and the other way round.
Status give_out(const BenchCommand& c, const BenchEnd& end, const BenchResult* compared) {
  const Status own = check_own_file(c, end.result);
  const Status saved = save(c, end.result, c.saves && own);
  const int width = c.width > 0 ? c.width : output_width();
  Lines lines = bench_lines(end.result, compared, width);
  if (c.saves && own && saved)
    append_apart(lines, wrapped_after(Line("Saved: ", Style::kFaint), machine_file(), width));
  if (c.output.empty() && c.saved.empty())
    append_apart(lines, next_lines({end.result.figures.empty() ? "profgpu doctor" : "profgpu bench -o machine.json"},
                                   width));
  const Status shown = c.json ? write_stdout(bench_json(end.result))
                              : write_text(rendered(lines, width, output_colour(c.colour)));
  if (!saved) return saved;
  return shown ? own : shown;
}

// Of the processes that a launcher starts on a machine one measures it, but for collectives, which are over all.
bool leaves_it_to_another(const BenchCommand& c) {
  const std::optional<LaunchedRank> launched = launched_rank();
  if (c.bench.launched || !c.saved.empty() || !launched) return false;
  if (!launched->local_known)
    print_message(fmt::format("profgpu: bench: this is rank {} of {}: each measures its machine on its own",
                              launched->rank, launched->ranks));
  if (!launched->local_known || launched->local_rank == 0) return false;
  print_message(fmt::format("profgpu: bench: rank {} measures nothing: local rank 0 measures this machine; only "
                            "`profgpu bench collectives` is over all ranks",
                            launched->rank));
  return true;
}

Outcome bench(const Arguments& arguments) {
  auto c = bench_command(arguments);
  if (!c) return Outcome::usage(c.error());
  if (std::error_code error; std::filesystem::is_directory(c->compare, error)) return compare_folder(*c);
  std::optional<BenchResult> before;
  if (!c->compare.empty()) {
    auto read = read_bench(c->compare);
    if (!read) return read.error();
    before = *std::move(read);
  }
  if (leaves_it_to_another(*c)) return {};
  if (const Status writable = c->follows() ? ok() : check_files(*c); !writable) return writable;
  auto end = measured(*c);
  if (!end) return end.error();
  if (c->follows()) {
    if (end->stopped) return {ExitCode::kInterrupted};
    if (end->result.not_measured.empty()) return {};
    return Error{fmt::format("rank {}: {}", c->bench.launched->rank, end->result.not_measured.front().why)};
  }
  const BenchResult* compared = before ? &*before : nullptr;
  if (const Status given = give_out(*c, *end, compared); !given) return given;
  return outcome_of(*c, *end, compared);
}

}  // namespace

extern const Command kBench{
    .name = "bench",
    .summary = "measure this machine: copies, launches, GEMMs, storage",
    .positional = "[NAME...]",
    .positional_help = "host, storage, launch, bandwidth, matmul, collectives, overlap, crossover or burn (default: all "
                       "but the last two)",
    .groups = {{"What to measure",
                {{"--full", "more sizes, and two seconds for each figure"},
                 {"--path PATH", "storage: file or folder to read, such as your data set"},
                 {"--from TRACE", "matmul: the GEMMs of this job, each alone"},
                 {"--duration TIME", "burn: how long (default 600)"},
                 {"--lock-clocks", "lock clocks during the run so that results repeat; needs root"},
                 {"--rendezvous FILE", "where the ranks of a job find each other, if the launcher does not say"},
                 {"--timeout TIME", "give up on a call that takes longer (default 60)"}}},
               device_flags(kVisibleDevices),
               {"What to show",
                {{"--json", "print the result as JSON"},
                 {"-o, --output FILE", "also save the result: as CSV or a page for .csv and .html, else as JSON"},
                 {"--save", "also save it for later reports of traces from these GPUs"},
                 {"--saved FILE", "show a saved result; measure nothing"},
                 {"--compare PATH", "compare with a saved result; in a folder of machines' results, name the slow ones"},
                 {"--fail-on WHAT", "exit 3 if a figure is worse than in --compare, or a machine is slow", {"worse"}}}},
               {"Screen", {kQuietFlag, kWidthFlag, kColourFlag}}},
    .examples = {{"profgpu bench", "the short set: under a minute"},
                 {"profgpu bench bandwidth matmul --full -o machine.json", "two of them in full, saved"},
                 {"profgpu bench --compare machine.json", "is this machine as fast as it was?"},
                 {"profgpu bench matmul --from trace.json.gz", "what the GEMMs of this job could reach"},
                 {"profgpu bench burn --duration 600", "ten minutes at full load: which card is weak?"},
                 {"srun profgpu bench collectives", "over the ranks of a job; also with torchrun and mpirun"},
                 {"profgpu bench storage --path /data/train", "how fast the data set can be read"}},
    .notes =
        "Every figure is the median of at least 10 runs after warm-up. Its spread is the interquartile range. Copies "
        "and kernels are timed by events of the device, calls by the host's clock. With several GPUs, each is measured "
        "alone, and one that is over 10 % slower than the others is named.\n\n"
        "Nothing of CUDA needs to be installed but the driver. matmul needs cuBLASLt and collectives need NCCL, which "
        "come with PyTorch. Ctrl-C shows what was measured by then.\n\n"
        "Exit status: 0 measured, 1 nothing measured, a named benchmark gave no figure, or a fault: wrong results, a "
        "device that stopped working, a call that did not return; 2 usage; 3 worse than --compare, or without figures "
        "that it has, with --fail-on worse.",
    .candidates = benchmark_names,
    .run = bench,
};

}  // namespace profgpu
