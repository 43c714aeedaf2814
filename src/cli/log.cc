// profgpu log: readings of devices, row by row, to the screen, a pipe or a file.
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
#include "base/start_up_memory.h"
#include "base/text.h"
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
  LogFile::Options file;
  std::optional<int64_t> count;            ///< rows of each device
  std::optional<int64_t> duration_ns;
  bool header = true;

  /// A signal before the requested end cuts the log short.
  [[nodiscard]] bool bounded() const { return count || duration_ns; }
};

Result<LogFormat> log_format(const Arguments& arguments) {
  const std::string format = arguments.value("--format"), output = arguments.value("--output");
  if (format == "table" && !output.empty())
    return Error{"--format table is for the screen", "leave out --output, or name a .csv or .jsonl file"};
  if (format == "json") return LogFormat::kJson;
  if (format == "csv") return LogFormat::kCsv;
  if (format == "table") return LogFormat::kTable;
  if (output.empty()) return stdout_is_terminal() ? LogFormat::kTable : LogFormat::kCsv;
  auto by_name = sample_format_of(output);
  if (!by_name) return Error{by_name.error().message, by_name.error().hint + ", or add --format"};
  return *by_name == SampleFormat::kCsv ? LogFormat::kCsv : LogFormat::kJson;
}

// The memory's size is always known at once.
bool has_constants(const std::vector<LogColumn>& columns) {
  return std::any_of(columns.begin(), columns.end(), [](const LogColumn& c) {
    return c.what.kind == SampleColumn::Kind::kMetric && c.what.metric->kind == MetricKind::kConstant &&
           c.what.metric->metric != Metric::kMemoryTotal;
  });
}

Status read_rows(const Arguments& arguments, LogRows::Options& rows) {
  auto format = log_format(arguments);
  if (!format) return format.error();
  rows.format = *format;
  const bool units = arguments.has("--units"), no_units = arguments.has("--no-units");
  if (units && no_units) return Error{"--units and --no-units cannot be combined"};
  if (units && rows.format == LogFormat::kJson)
    return Error{"--units is for CSV and tables: JSON has bare numbers"};
  rows.units = units ? LogUnits::kValues : no_units ? LogUnits::kNone : LogUnits::kHeader;
  const std::string style = arguments.value("--timestamps");
  if (!style.empty())
    rows.timestamps = style == "iso"     ? TimestampStyle::kIso
                      : style == "epoch" ? TimestampStyle::kEpoch
                                         : TimestampStyle::kNvidiaSmi;
  rows.queried = arguments.has("--query");
  auto columns = rows.queried ? log_columns(joined(arguments.values("--query"), ","), rows.timestamps)
                              : default_log_columns(rows.format, rows.timestamps);
  if (!columns) return columns.error();
  rows.columns = *std::move(columns);
  if (stdout_is_terminal()) rows.width = output_width();
  return ok();
}

Result<LogOptions> log_options(const Arguments& arguments) {
  LogOptions options;
  options.rows.host = recording_host();
  auto devices = device_options(arguments);
  if (!devices) return devices.error();
  options.devices = *std::move(devices);
  if (options.devices.backend == "none") return Error{"--backend none leaves nothing to log"};
  options.file.path = arguments.value("--output");
  const bool to_file = !options.file.path.empty();
  if (arguments.has("--output") && !to_file) return Error{"--output is empty", "name a .csv or .jsonl file"};
  if (arguments.has("--rotate") && !to_file) return Error{"--rotate needs a file", "name one with --output"};
  if (arguments.has("--keep") && !arguments.has("--rotate"))
    return Error{"--keep needs --rotate", "--keep is how many older files --rotate keeps"};
  options.header = !arguments.has("--no-header");
  if (to_file && !options.header)
    return Error{"--no-header is for the screen and pipes: a file without names cannot be read again"};
  OptionReader read(arguments);
  read.whole("--count", 1, INT64_MAX, options.count)
      .time("--duration", kSecond_ns / 1000, INT64_MAX, options.duration_ns);
  for (const Status& status : {read.status(), read_rows(arguments, options.rows),
                               read_rotation(arguments, options.file.rotate_bytes, options.file.keep)})
    if (!status) return status.error();
  options.devices.constants_later = !options.rows.queried || !has_constants(options.rows.columns);
  return options;
}

constexpr int kHeaderEvery = 40;                          // rows on the screen
constexpr int64_t kGrace_ns = 2'000'000'000;              // for devices that lag behind --count
constexpr std::chrono::seconds kFactsPatience{5};
constexpr int64_t kAsksForAll_ns = 50'000'000;            // shorter intervals leave cells empty that change slowly
constexpr int64_t kMaxPause_ns = 500'000'000, kMinPause_ns = 10'000'000;

std::atomic<int> stop_signal{0};
int wake_pipe[2] = {-1, -1};

void wake() {
  const char byte = 0;
  if (::write(wake_pipe[1], &byte, 1) < 0) return;   // it is full, so the reader wakes anyhow
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

/// Writes the sampler's readings. All but the constructor is called by the workers or under `mutex_`.
class Log {
 public:
  /// Writes nothing more once `closed` is true.
  Log(LogOptions options, const OpenDevices& devices, LogFile file, const std::atomic<bool>& closed)
      : closed_(closed),
        options_(std::move(options)),
        rows_(options_.rows, devices.backend->devices()),
        file_(std::move(file)),
        of_device_(devices.backend->devices().size()),
        seen_(devices.backend->devices().size()),
        watched_(devices.devices.size()) {}

  void add(const Reading& reading);
  /// A row waits for the reader of the pipe.
  [[nodiscard]] bool blocked() {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    return !lock.owns_lock();
  }
  /// Whether it is time to stop.
  bool done();
  [[nodiscard]] int64_t rows() const { return written_; }
  [[nodiscard]] std::string repeats() const { return rows_.repeats_text(); }
  [[nodiscard]] const Status& status() const { return status_; }
  [[nodiscard]] bool reader_left() const { return file_.reader_left(); }

 private:
  Status write(const Reading& taken);
  /// The first reading of a device, where a row would lack rates: they need two looks.
  [[nodiscard]] bool waits_for_rates(const Reading& reading);

  const std::atomic<bool>& closed_;
  const LogOptions options_;
  std::mutex mutex_;
  LogRows rows_;
  LogFile file_;
  Reading shown_;
  std::vector<int64_t> of_device_;    // rows
  std::vector<bool> seen_;            // devices
  size_t watched_, finished_ = 0;     // devices, and those of them with --count rows
  int64_t written_ = 0, first_finished_ns_ = 0;
  Status status_ = ok();
};

Status Log::write(const Reading& taken) {
  const Reading& reading = as_shown(taken, shown_);
  std::string_view row = rows_.row(reading);
  if (file_.is_full(row.size())) {
    if (Status rotated = file_.rotate(); !rotated) return rotated;
    rows_.begin_file();
    row = rows_.row(reading);
  }
  const bool again = options_.header && written_ > 0 && written_ % kHeaderEvery == 0;
  if (again && options_.rows.format == LogFormat::kTable && stdout_is_terminal())
    if (Status written = file_.write(for_locale(rows_.header())); !written) return written;
  return file_.write(options_.rows.format == LogFormat::kTable ? for_locale(row) : row);
}

bool Log::waits_for_rates(const Reading& reading) {
  if (seen_[reading.device]) return false;
  seen_[reading.device] = true;
  if (!options_.rows.queried || options_.devices.backend.starts_with("replay")) return false;
  const auto is_rate = [](Metric metric) { return metric_info(metric).unit == "B/s"; };
  const auto& columns = options_.rows.columns;
  if (std::ranges::any_of(columns, &LogColumn::share)) return true;
  return std::ranges::any_of(columns, [&](const LogColumn& c) {
           return c.what.kind == SampleColumn::Kind::kMetric && is_rate(c.what.metric->metric);
         }) && std::ranges::none_of(reading.samples, [&](const Sample& s) { return is_rate(s.metric); });
}

void Log::add(const Reading& reading) {
  std::lock_guard lock(mutex_);
  int64_t& count = of_device_[reading.device];
  if (closed_ || !status_ || (options_.count && count >= *options_.count)) return;
  if (waits_for_rates(reading)) return rows_.keep(reading);
  Status status = write(reading);
  if (closed_ && !status) return;   // it was waiting for its reader when the log was closed
  status_ = std::move(status);
  if (!status_) return wake();
  ++written_;
  if (++count != options_.count) return;
  if (first_finished_ns_ == 0) first_finished_ns_ = monotonic_ns();
  if (++finished_ == watched_) wake();
}

bool Log::done() {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock()) return false;   // Ctrl-C must work while a row waits for its reader
  if (!status_ || finished_ == watched_) return true;
  return finished_ > 0 && monotonic_ns() - first_finished_ns_ > options_.devices.interval_ns + kGrace_ns;
}

std::string trouble_text(const DeviceTrouble& t, const Backend& backend) {
  return fmt::format("GPU {}: {}, since {}", device_word(backend.devices(), t.device), t.message,
                     timestamp_text(t.since_ns, TimestampStyle::kNvidiaSmi).substr(11, 8));
}

// Prints new device errors.
void print_troubles(const Sampler& sampler, const Backend& backend, size_t& printed) {
  const auto troubles = sampler.troubles();
  for (; printed < troubles.size(); ++printed)
    print_message("profgpu: log: " + trouble_text(troubles[printed], backend));
}

// Read once: they do not change while a log runs.
void take_facts(const OpenDevices& devices, LogRows::Options& rows) {
  if (!has_facts(rows.columns)) return;
  auto facts = PendingFacts(devices.backend, devices.devices).await(std::chrono::steady_clock::now() + kFactsPatience);
  rows.facts.resize(devices.backend->devices().size());
  for (size_t i = 0; i < facts.size(); ++i) {
    const uint32_t d = devices.devices[i];
    if (facts[i]) rows.facts[d] = *std::move(facts[i]);
    else
      print_message(fmt::format(
          "profgpu: log: GPU {}: its driver did not report modes and versions within {} s; those fields stay "
          "empty",
          device_word(devices.backend->devices(), d), kFactsPatience.count()));
  }
}

// Returns when the log has ended, for whatever reason.
void follow(const LogOptions& options, Log& log, const Sampler& sampler, const Backend& backend, size_t& printed) {
  const int64_t begin = monotonic_ns();
  while (stop_signal == 0 && !log.done()) {
    int64_t pause = std::clamp(options.devices.interval_ns, kMinPause_ns, kMaxPause_ns);
    if (options.duration_ns) {
      const int64_t left = begin + *options.duration_ns - monotonic_ns();
      if (left <= 0) return;
      pause = std::min(pause, left);
    }
    if (backend.ended()) return;
    nap(pause);
    if (!log.blocked()) print_troubles(sampler, backend, printed);
  }
}

// Without times or without metrics it is not a log of samples.
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
  const std::string& to = options.file.path;
  const std::string rows =
      fmt::format("{} row{} {}", log.rows(), log.rows() == 1 ? "" : "s", log.rows() == 1 ? "was" : "were");
  if (!log.status() && !log.reader_left()) {
    const Error& e = log.status().error();
    return Error{fmt::format("{}; {} written before", e.message, rows), e.hint};
  }
  if (log.rows() == 0 && troubles > 0 && stop_signal == 0)
    return Error{"no GPU answered", "run `profgpu doctor` for details"};
  if (log.rows() == 0 && to.empty() && stop_signal == 0)
    print_message("profgpu: log: no rows: nothing was read before the log ended");
  if (!to.empty())
    print_message(fmt::format("{} written to {}", rows, to) + (log.rows() > 0 && can_be_analysed(options.rows)
                                                                   ? "\nNext: profgpu analyze " + shell_line({to})
                                                                   : ""));
  else if (options.rows.format == LogFormat::kTable && stderr_is_terminal())
    print_note("Next: profgpu log -o gpu.csv   ·   profgpu stat   ·   profgpu log --help-query");
  if (stop_signal != 0 && options.bounded()) return static_cast<ExitCode>(128 + stop_signal);
  return {};
}

Outcome write_log(const LogOptions& options, const OpenDevices& devices, LogFile file, std::atomic<bool>& closed) {
  Log log(options, devices, std::move(file), closed);
  SamplerOptions sampling;
  sampling.interval_ns = options.devices.interval_ns;
  sampling.devices = devices.devices;
  // Otherwise metrics that change slowly are read in turns, and their cells are empty in between.
  if (options.rows.queried ||
      (options.rows.format != LogFormat::kJson && options.devices.interval_ns >= kAsksForAll_ns))
    sampling.wanted = metrics_of(options.rows.columns);
  if (options.rows.format != LogFormat::kJson || options.rows.queried) sampling.process_interval_ns = 0;
  sampling.failures = true;   // rows with empty cells: nothing holds that the device said before
  Sampler sampler(devices.backend, sampling, [&log](const Reading& r) { log.add(r); });
  size_t printed = 0;
  listen_for_signals();
  sampler.start();
  release_start_up_memory();
  follow(options, log, sampler, *devices.backend, printed);
  closed = true;   // the last reading comes off the schedule
  sampler.stop();
  if (!log.blocked()) print_troubles(sampler, *devices.backend, printed);
  if (const std::string repeats = log.blocked() ? "" : log.repeats(); !repeats.empty())
    print_note("profgpu: log: " + repeats);
  Outcome outcome = outcome_of(options, log, printed);
  if (sampler.any_stuck()) leave_stuck("log", outcome);
  return outcome;
}

// Before the heading, which is written when the log is opened.
void say_what_is_left_out(const LogRows& rows) {
  const std::string left_out = rows.left_out();
  if (left_out.empty()) return;
  std::string text = fmt::format("profgpu: log: no room for {}; -o FILE.csv has every column", left_out);
  if (stderr_is_terminal()) {
    text = wrap(text, message_width(), "");
    text.pop_back();   // its line feed
  }
  print_note(text);
}

Outcome log(const Arguments& arguments) {
  if (arguments.has("--help-query")) return write_text(log_column_help(stdout_is_terminal() ? output_width() : 0));
  auto options = log_options(arguments);
  if (!options) return Outcome::usage(options.error());
  auto devices = open_shown("log", options->devices);
  if (!devices) return devices.error();
  for (const std::string& note : devices->notes)
    print_note("profgpu: log: " + note + (options->devices.device.empty() ? " (--device all: every GPU)" : ""));
  take_facts(*devices, options->rows);
  std::atomic<bool> closed = false;
  const LogRows rows(options->rows, devices->backend->devices());
  say_what_is_left_out(rows);
  if (options->header) options->file.header = rows.header();
  options->file.given_up = &closed;
  auto file = LogFile::open(options->file);
  if (!file) return file.error();
  return write_log(*options, *devices, *std::move(file), closed);
}

}  // namespace

extern const Command kLog{
    .name = "log",
    .summary = "log GPU metrics row by row, to screen, CSV or JSON lines",
    .groups = {device_flags(kVisibleDevices, {kStrictFlag, kIntervalFlag}),
               {"What to log",
                {{"--query FIELDS...",
                  "fields separated by commas, by our names or nvidia-smi's, or all (default: the most useful ones)"},
                 {"--help-query", "list the fields"},
                 {"--count N", "stop after N rows of each GPU"},
                 {"--duration TIME", "stop after this time: seconds, or 10m, 1h"}}},
               {"Where and how",
                {{"-o, --output FILE", "append to this file, .csv or .jsonl"},
                 {"--format NAME",
                  "output format (default: by the file's extension; a table on a terminal, else csv)",
                  {"table", "csv", "json"}},
                 {"--rotate SIZE", "start a new file at this size; FILE becomes FILE.1, and so on"},
                 {"--keep N", "number of older files to keep (default: all)"},
                 {"--no-header", "rows only"},
                 {"--units", "print units after values too"},
                 {"--no-units", "no units, not even in the header"},
                 {"--timestamps STYLE",
                  "format of times (default: time_ns, nanoseconds since 1970; in a table the time of day)",
                  {"iso", "epoch", "nvidia-smi"}}}}},
    .examples = {{"profgpu log", "on the screen, once a second, until Ctrl-C"},
                 {"profgpu log -i 0.1 --duration 60 -o gpu.csv", "one minute, for `profgpu analyze gpu.csv`"},
                 {"profgpu log --query timestamp,index,utilization.gpu,memory.used", "nvidia-smi's names and units"},
                 {"profgpu log -o gpu.jsonl --rotate 100MB --keep 5", "run forever, in at most 600 MB"}},
    .notes =
        "Each row is appended by one write, so that a log stays readable when it is killed or the disk fills up. An "
        "empty field, or in JSON a missing one, means that the GPU had no new value at that tick or does not "
        "support the metric; below 50 ms, what changes slowly is also read in turns. It never means 0. With --query, the "
        "last value is repeated, and a message at the end counts such cells; the field age_s has their age. A GPU that "
        "does not answer has rows without values. An existing file must have the same columns.\n\n"
        "Fields by nvidia-smi's names have its units in the header and bare values; with --units the format is that of "
        "its csv, with --no-units units are left out.\n\n"
        "Ctrl-C is the normal end and exits 0; with --count or --duration it cuts the log short and exits 130 (SIGTERM "
        "143). Exit status: 0 logged, 1 no GPU or a row could not be written, 2 usage (also for --backend none).",
    .run = log,
};

}  // namespace profgpu
