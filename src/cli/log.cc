// profgpu log: what devices say, row by row, to the screen, a pipe or a file.
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <mutex>

#include "app/words.h"
#include "base/clock.h"
#include "base/decimal.h"
#include "cli/device_options.h"
#include "cli/log_columns.h"
#include "cli/log_file.h"
#include "cli/output.h"
#include "cli/terminal.h"
#include "devices/sampler.h"
#include "watch/live/recording_folder.h"

namespace profgpu {
namespace {

struct LogOptions {
  DeviceOptions devices;
  LogRows::Options rows;
  std::string output;                      ///< empty: standard output
  std::optional<int64_t> count;            ///< rows of each device
  std::optional<int64_t> duration_ns;
  int64_t rotate_bytes = 0;
  int64_t keep = INT64_MAX;

  /// An end was asked for, so that a signal before it cuts the log short.
  [[nodiscard]] bool bounded() const { return count || duration_ns; }
};

Result<LogFormat> format_of(const Arguments& arguments) {
  const std::string format = arguments.value("--format");
  const std::string output = arguments.value("--output");
  if (format == "json") return LogFormat::kJson;
  if (format == "csv") return LogFormat::kCsv;
  if (format == "table") {
    if (!output.empty())
      return Error{"--format table is for the screen", "leave --output out, or name a .csv or .jsonl file"};
    return LogFormat::kTable;
  }
  if (output.empty()) return stdout_is_terminal() ? LogFormat::kTable : LogFormat::kCsv;
  auto by_name = sample_format_of(output);
  if (!by_name) return Error{by_name.error().message, by_name.error().hint + ", or give --format"};
  return *by_name == SampleFormat::kCsv ? LogFormat::kCsv : LogFormat::kJson;
}

Status read_ends(const Arguments& arguments, LogOptions& options) {
  Status count = read_option(arguments, "--count", whole_number, {"a whole number from 1", 1}, options.count);
  if (!count) return count;
  return read_option(arguments, "--duration", duration_ns,
                     {"a time above 0", 1, INT64_MAX,
                      "seconds, or a number with a unit: --duration 60, --duration 10m"},
                     options.duration_ns);
}

Status check_rotation(const Arguments& arguments, const LogOptions& options) {
  if (arguments.has("--keep") && !arguments.has("--rotate"))
    return Error{"--keep says how many older files stay: give --rotate too"};
  if (arguments.has("--rotate") && options.output.empty()) return Error{"--rotate needs a file", "name one with --output"};
  return ok();
}

// The memory's size is always known at once.
bool has_constants(const std::vector<LogColumn>& columns) {
  return std::any_of(columns.begin(), columns.end(), [](const LogColumn& c) {
    return c.what.kind == SampleColumn::Kind::kMetric && c.what.metric->kind == MetricKind::kConstant &&
           c.what.metric->metric != Metric::kMemoryTotal;
  });
}

Status read_rows(const Arguments& arguments, LogRows::Options& rows) {
  auto format = format_of(arguments);
  if (!format) return format.error();
  rows.format = *format;
  if (arguments.has("--units") && arguments.has("--no-units"))
    return Error{"--units and --no-units exclude each other"};
  if (arguments.has("--units") && rows.format == LogFormat::kJson)
    return Error{"--units is for CSV and tables: in JSON a number is a number"};
  rows.units = arguments.has("--units")      ? LogUnits::kValues
               : arguments.has("--no-units") ? LogUnits::kNone
                                             : LogUnits::kHeader;
  const std::string style = arguments.value("--timestamps");
  if (!style.empty())
    rows.timestamps = style == "iso"     ? TimestampStyle::kIso
                      : style == "epoch" ? TimestampStyle::kEpoch
                                         : TimestampStyle::kNvidiaSmi;
  rows.queried = arguments.has("--query");
  if (!rows.queried) {
    rows.columns = default_log_columns(rows.format, rows.timestamps);
    return ok();
  }
  std::string query;
  for (const std::string& part : arguments.values("--query")) query += (query.empty() ? "" : ",") + part;
  auto columns = log_columns(query, rows.timestamps);
  if (!columns) return columns.error();
  rows.columns = *std::move(columns);
  return ok();
}

// Everything wrong with them is a usage error.
Result<LogOptions> log_options(const Arguments& arguments) {
  LogOptions options;
  options.rows.host = recording_host();
  auto devices = device_options(arguments, 1'000'000'000);
  if (!devices) return devices.error();
  options.devices = *std::move(devices);
  if (options.devices.backend == "none") return Error{"--backend none leaves nothing to log"};
  options.output = arguments.value("--output");
  if (arguments.has("--output") && options.output.empty())
    return Error{"--output is empty", "name a .csv or .jsonl file"};
  if (Status read = read_rows(arguments, options.rows); !read) return read.error();
  options.devices.constants_later = !options.rows.queried || !has_constants(options.rows.columns);
  if (Status read = read_ends(arguments, options); !read) return read.error();
  if (Status checked = check_rotation(arguments, options); !checked) return checked.error();
  if (Status read = read_rotation(arguments, options.rotate_bytes, options.keep); !read) return read.error();
  return options;
}

constexpr int kHeaderEvery = 40;                          // rows on the screen
constexpr int64_t kGrace_ns = 2'000'000'000;              // for devices that lag behind --count
constexpr std::chrono::seconds kFactsPatience{5};
constexpr int64_t kLongestPause_ns = 500'000'000, kShortestPause_ns = 10'000'000;

std::atomic<int> stop_signal{0};
int wake_pipe[2] = {-1, -1};

void wake() {
  const char byte = 0;
  if (::write(wake_pipe[1], &byte, 1) < 0) return;   // it is full: somebody wakes anyhow
}

void on_signal(int signal) {
  stop_signal = signal;
  wake();
}

void listen_for_signals() {
  if (::pipe2(wake_pipe, O_CLOEXEC | O_NONBLOCK) != 0) return;   // then we wake by the clock
  struct sigaction action{}, before{};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  ::sigaction(SIGTERM, &action, nullptr);
  ::sigaction(SIGINT, nullptr, &before);
  if (before.sa_handler != SIG_IGN) ::sigaction(SIGINT, &action, nullptr);
}

void nap(int64_t ns) {
  pollfd woken{wake_pipe[0], POLLIN, 0};
  ::poll(&woken, 1, static_cast<int>(std::clamp<int64_t>(ns / 1'000'000, 1, 1000)));
  char bytes[64];
  while (::read(wake_pipe[0], bytes, sizeof bytes) == sizeof bytes) {
  }
}

/// Writes what the sampler hands over. All but the constructor is called by the workers or under `mutex_`.
class Log {
 public:
  /// Nothing is written any more once `closed` is true.
  Log(LogOptions options, const OpenDevices& devices, LogFile file, const std::atomic<bool>& closed)
      : closed_(closed),
        options_(std::move(options)),
        rows_(options_.rows, devices.backend->devices()),
        file_(std::move(file)),
        of_device_(devices.backend->devices().size()),
        watched_(devices.devices.size()) {}

  void add(const Reading& reading);
  /// A row waits for whoever reads the pipe.
  [[nodiscard]] bool blocked() {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    return !lock.owns_lock();
  }
  /// Whether it is time to stop.
  bool done();
  [[nodiscard]] int64_t rows() const { return written_; }
  [[nodiscard]] const Status& status() const { return status_; }
  [[nodiscard]] bool reader_left() const { return file_.reader_left(); }

 private:
  Status write(const Reading& reading);

  const std::atomic<bool>& closed_;
  const LogOptions options_;
  std::mutex mutex_;
  LogRows rows_;
  LogFile file_;
  std::vector<int64_t> of_device_;    // rows
  size_t watched_, finished_ = 0;     // devices, and those of them with --count rows
  int64_t written_ = 0, first_finished_ns_ = 0;
  Status status_ = ok();
};

Status Log::write(const Reading& reading) {
  std::string_view row = rows_.row(reading);
  if (file_.is_full(row.size())) {
    if (Status rotated = file_.rotate(); !rotated) return rotated;
    rows_.begin_file();
    row = rows_.row(reading);
  }
  if (options_.rows.format == LogFormat::kTable && written_ > 0 && written_ % kHeaderEvery == 0 && stdout_is_terminal())
    if (Status written = file_.write(rows_.header()); !written) return written;
  return file_.write(row);
}

void Log::add(const Reading& reading) {
  std::lock_guard lock(mutex_);
  int64_t& count = of_device_[reading.device];
  if (closed_ || !status_ || (options_.count && count >= *options_.count)) return;
  Status status = write(reading);
  if (closed_ && !status) return;   // it waited for its reader when we were told to stop
  status_ = std::move(status);
  if (!status_) return wake();
  ++written_;
  if (++count != options_.count) return;
  if (first_finished_ns_ == 0) first_finished_ns_ = monotonic_ns();
  if (++finished_ == watched_) wake();
}

bool Log::done() {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock()) return false;   // Ctrl-C must be heard while a row waits for its reader
  if (!status_ || finished_ == watched_) return true;
  return finished_ > 0 && monotonic_ns() - first_finished_ns_ > options_.devices.interval_ns + kGrace_ns;
}

std::string trouble_text(const DeviceTrouble& t, const Backend& backend) {
  return fmt::format("GPU {}: {}, since {}", device_word(backend.devices(), t.device), t.message,
                     timestamp_text(t.since_ns, TimestampStyle::kNvidiaSmi).substr(11, 8));
}

// Says what is new among the devices' troubles.
void tell_troubles(const Sampler& sampler, const Backend& backend, size_t& told) {
  const auto troubles = sampler.troubles();
  for (; told < troubles.size(); ++told) print_message("profgpu: log: " + trouble_text(troubles[told], backend));
}

// Asked once: they do not change while a log runs.
void take_facts(const OpenDevices& devices, LogRows::Options& rows) {
  if (!has_facts(rows.columns)) return;
  auto facts = PendingFacts(devices.backend, devices.devices).await(std::chrono::steady_clock::now() + kFactsPatience);
  rows.facts.resize(devices.backend->devices().size());
  for (size_t i = 0; i < facts.size(); ++i) {
    const uint32_t d = devices.devices[i];
    if (facts[i]) rows.facts[d] = *std::move(facts[i]);
    else
      print_message(
          fmt::format("profgpu: log: GPU {}: its driver did not tell modes and versions within {} s; those fields stay "
                      "empty",
                      device_word(devices.backend->devices(), d), kFactsPatience.count()));
  }
}

// Returns when the log has ended, by whatever.
void follow(const LogOptions& options, Log& log, const Sampler& sampler, const Backend& backend, size_t& told) {
  const int64_t begin = monotonic_ns();
  while (stop_signal == 0 && !log.done()) {
    int64_t pause = std::clamp(options.devices.interval_ns, kShortestPause_ns, kLongestPause_ns);
    if (options.duration_ns) {
      const int64_t left = begin + *options.duration_ns - monotonic_ns();
      if (left <= 0) return;
      pause = std::min(pause, left);
    }
    if (backend.ended()) return;
    nap(pause);
    if (!log.blocked()) tell_troubles(sampler, backend, told);
  }
}

// Without times or without figures it is no log of samples.
bool can_be_analysed(const LogRows::Options& rows) {
  using Kind = SampleColumn::Kind;
  bool time = rows.format == LogFormat::kJson, figures = !rows.queried;
  for (const LogColumn& c : rows.columns) {
    time |= c.what.kind == Kind::kTime || c.what.kind == Kind::kUnixNs;
    figures |= c.what.kind == Kind::kMetric;
  }
  return time && figures;
}

Outcome outcome_of(const LogOptions& options, const Log& log, size_t troubles) {
  const std::string to = options.output.empty() ? "standard output" : options.output;
  const std::string rows =
      fmt::format("{} row{} {}", log.rows(), log.rows() == 1 ? "" : "s", log.rows() == 1 ? "was" : "were");
  if (!log.status() && !log.reader_left()) {
    const Error& e = log.status().error();
    return Outcome::failed({fmt::format("{}; {} written before", e.message, rows), e.hint});
  }
  if (log.rows() == 0 && troubles > 0 && stop_signal == 0)
    return Outcome::failed({"no device said anything", "`profgpu doctor` tells more"});
  if (!options.output.empty())
    print_message(fmt::format("{} written to {}", rows, to) + (log.rows() > 0 && can_be_analysed(options.rows)
                                                                   ? "\nNext: profgpu analyze " + shell_line({to})
                                                                   : ""));
  else if (options.rows.format == LogFormat::kTable && stderr_is_terminal())
    print_message("Next: profgpu log -o gpu.csv   ·   profgpu stat   ·   profgpu log --help-query");
  if (stop_signal != 0 && options.bounded()) return {static_cast<ExitCode>(128 + stop_signal)};
  return {};
}

Outcome write_log(const LogOptions& options, const OpenDevices& devices, LogFile file, std::atomic<bool>& closed) {
  Log log(options, devices, std::move(file), closed);
  SamplerOptions sampling;
  sampling.interval_ns = options.devices.interval_ns;
  sampling.devices = devices.devices;
  if (options.rows.queried) sampling.wanted = metrics_of(options.rows.columns);
  if (options.rows.format != LogFormat::kJson || options.rows.queried) sampling.process_interval_ns = 0;
  Sampler sampler(devices.backend, sampling, [&log](const Reading& r) { log.add(r); });
  size_t told = 0;
  listen_for_signals();
  sampler.start();
  follow(options, log, sampler, *devices.backend, told);
  closed = true;   // the last reading comes off the schedule
  sampler.stop();
  if (!log.blocked()) tell_troubles(sampler, *devices.backend, told);
  Outcome outcome = outcome_of(options, log, told);
  if (sampler.any_stuck()) leave_stuck("log", outcome);
  return outcome;
}

Outcome log(const Arguments& arguments) {
  if (arguments.has("--help-query")) return Outcome::of(write_stdout(log_column_help()));
  auto options = log_options(arguments);
  if (!options) return Outcome::usage(options.error());
  auto devices = open_devices(options->devices);
  if (!devices) return Outcome::failed(devices.error());
  if (!devices->backend || devices->devices.empty()) {
    const std::string why = devices->backend ? "" : tried_text(devices->tried);
    return Outcome::failed(
        {"there is no device to log" + (why.empty() ? "" : " (" + why + ")"),
         devices->backend
             ? "--device all takes those that the environment hides"
             : "`profgpu doctor` tells more; --backend replay:examples/replay.jsonl,loop tries it without a GPU"});
  }
  for (const std::string& note : devices->notes)
    print_message("profgpu: log: " + note + (options->devices.device.empty() ? " (--device all: every device)" : ""));
  take_facts(*devices, options->rows);
  const LogRows rows(options->rows, devices->backend->devices());
  std::atomic<bool> closed = false;
  auto file = LogFile::open({options->output, rows.header(), options->rotate_bytes, options->keep, &closed});
  if (!file) return Outcome::failed(file.error());
  return write_log(*options, *devices, *std::move(file), closed);
}

}  // namespace

extern const Command kLog;
const Command kLog{
    .name = "log",
    .summary = "what GPUs do, row by row, to screen, CSV or JSON lines",
    .positional = "",
    .groups = {device_flags({.interval = kIntervalHelp}),
               {"What to log",
                {{.name = "--query",
                  .value = "FIELDS",
                  .help = "names with commas between, ours or nvidia-smi's, or all (default: the most useful)",
                  .repeatable = true},
                 {.name = "--help-query", .help = "list the fields"},
                 {.name = "--count", .value = "N", .help = "end after N rows of each device"},
                 {.name = "--duration",
                  .value = "TIME",
                  .help = "end after this many seconds, or with a unit: 90, 10m, 1h"}}},
               {"Where and how",
                {output_flag("append to this file, .csv or .jsonl"),
                 {.name = "--format",
                  .value = "NAME",
                  .help = "how to write it (default: by the file's ending; a table on a terminal, else csv)",
                  .choices = {"table", "csv", "json"}},
                 {.name = "--rotate",
                  .value = "SIZE",
                  .help = "begin a new file at this size; FILE becomes FILE.1, and so on"},
                 {.name = "--keep", .value = "N", .help = "older files that stay (default: all)"},
                 {.name = "--units", .help = "units behind values too"},
                 {.name = "--no-units", .help = "no units, not even in the header"},
                 {.name = "--timestamps",
                  .value = "STYLE",
                  .help = "how to write times (default: nanoseconds since 1970 as time_ns)",
                  .choices = {"iso", "epoch", "nvidia-smi"}}}}},
    .examples = {{"profgpu log", "on the screen, once a second, until Ctrl-C"},
                 {"profgpu log -i 0.1 --duration 60 -o gpu.csv", "a minute, to be read by `profgpu analyze gpu.csv`"},
                 {"profgpu log --query timestamp,index,utilization.gpu,memory.used", "nvidia-smi's names and units"},
                 {"profgpu log -o gpu.jsonl --rotate 100MB --keep 5", "for ever, in at most 600 MB"}},
    .notes =
        "Rows are appended whole, one write each: whoever is killed, or fills the disk, leaves a file that can be "
        "read. "
        "An empty field, in JSON a missing one, means that the device did not say it at that tick: not supported, or "
        "slow-moving and read in turns; it never means 0. A file that exists must have the same columns. Fields by "
        "nvidia-smi's names have its units in the header and bare values, --units is its csv, --no-units leaves both "
        "out. Ctrl-C is the normal end and exits 0; with --count or --duration it cuts the log short and exits 130 "
        "(SIGTERM 143). Exit status: 0 logged, 1 no device or a row could not be written, 2 usage (also for --backend "
        "none).",
    .run = log,
};

}  // namespace profgpu
