#include "watch/live/run_session.h"

#include <fcntl.h>
#include <poll.h>
#include <time.h>
#include <unistd.h>

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/clock.h"
#include "base/start_up_memory.h"
#include "base/steady_unix.h"

namespace profgpu {
namespace {

// How long the command waits for its devices' first readings, so that counters are read before it begins.
constexpr int64_t kMaxHeadStart_ns = 100'000'000;
// The readings before and after a short command may each add this much to it.
constexpr int64_t kEnds_ns = 2'000'000;

void run_command(CommandRunner& runner, const RunSessionOptions& options, OneRun& run, RunSession& session) {
  run.begun_ns = unix_ns();
  session.not_started = runner.start(options.command);
  if (!session.not_started) run.end = runner.wait();
  session.last = run.end;
}

// Collects readings, of one run and of all of them.
class Watch {
 public:
  explicit Watch(const RunSessionOptions& options) : options_(options), processes_(options.backend->devices()) {
    if (options.repeats > 1) all_ = collectors(0);
  }

  void run(CommandRunner& runner, OneRun& run, RunSession& session);
  void finish(RunSession& session) {
    for (const TelemetryCollector& c : all_) session.devices.push_back(named(c.summary()));
    if (options_.repeats == 1 && !session.runs.empty()) session.devices = session.runs.front().devices;
    session.processes = processes_.known();
    session.replay_ended = options_.backend->ended();
  }

 private:
  [[nodiscard]] std::vector<TelemetryCollector> collectors(int64_t warmup_ns) const {
    std::vector<TelemetryCollector> out;
    for (const uint32_t d : options_.devices)
      out.emplace_back(options_.backend->devices()[d], options_.interval_ns, warmup_ns);
    return out;
  }
  void take(const Reading& reading);
  [[nodiscard]] DeviceTelemetry named(DeviceTelemetry telemetry) const;

  const RunSessionOptions& options_;
  RunProcesses processes_;
  std::vector<TelemetryCollector> now_, all_;
  int64_t counts_from_ns_ = 0;
  bool warned_ = false;
};

void Watch::take(const Reading& reading) {
  const auto found = std::find(options_.devices.begin(), options_.devices.end(), reading.device);
  if (found == options_.devices.end()) return;
  const auto index = static_cast<size_t>(found - options_.devices.begin());
  now_[index].add(reading);
  if (!all_.empty() && reading.time_ns >= counts_from_ns_) all_[index].add(reading);
  if (reading.has_processes) processes_.see(reading);
  if (!options_.samples) return;
  Reading room;
  options_.samples->add(as_shown(reading, room));
  if (options_.samples->problem().empty() || warned_) return;
  warned_ = true;
  options_.warn(options_.samples->problem());
}

DeviceTelemetry Watch::named(DeviceTelemetry telemetry) const {
  for (ProcessTelemetry& p : telemetry.processes)
    if (auto it = processes_.known().find(p.process.pid); it != processes_.known().end() && !it->second.command.empty())
      p.process.name = it->second.command;
  return telemetry;
}

void add(SamplerStatistics& sum, const SamplerStatistics& one) {
  sum.ticks += one.ticks;
  sum.late_ticks += one.late_ticks;
  sum.missed_ticks += one.missed_ticks;
  sum.calls += one.calls;
  sum.cpu_ns += one.cpu_ns;
  sum.busy_ns += one.busy_ns;
  sum.jitter_p50_ns = std::max(sum.jitter_p50_ns, one.jitter_p50_ns);
  sum.jitter_p99_ns = std::max(sum.jitter_p99_ns, one.jitter_p99_ns);
  sum.jitter_max_ns = std::max(sum.jitter_max_ns, one.jitter_max_ns);
  if (sum.first_reading_ns == 0) sum.first_reading_ns = one.first_reading_ns;
}

void await_first_reading(const Sampler& sampler) {
  const timespec pause{0, 100'000};
  for (const int64_t until = monotonic_ns() + kMaxHeadStart_ns;
       sampler.statistics().first_reading_ns == 0 && monotonic_ns() < until;)
    ::nanosleep(&pause, nullptr);
}

void Watch::run(CommandRunner& runner, OneRun& run, RunSession& session) {
  now_ = collectors(options_.warmup_ns);
  counts_from_ns_ = steady_unix_ns() + options_.warmup_ns;
  SamplerOptions sampling;
  sampling.interval_ns = options_.interval_ns;
  sampling.devices = options_.devices;
  sampling.ends_ns = kEnds_ns;
  Sampler sampler(options_.backend, sampling, [this](const Reading& reading) { take(reading); });
  sampler.start();
  await_first_reading(sampler);
  release_start_up_memory();
  run_command(runner, options_, run, session);
  sampler.stop();
  for (const TelemetryCollector& c : now_) run.devices.push_back(named(c.summary()));
  for (const DeviceTrouble& t : sampler.troubles()) session.troubles.push_back(t);
  add(session.sampler, sampler.statistics());
  session.stuck = session.stuck || sampler.any_stuck();
}

// Whether there should be another run.
bool went_well(const CommandEnd& end) { return end.exit_code == 0 && !end.interrupted; }

}  // namespace

RunSession run_session(CommandRunner& runner, const RunSessionOptions& options) {
  RunSession session;
  for (int i = 1; i <= options.warmup_runs && session.failed_warmup_run == 0 && !session.not_started; ++i) {
    OneRun run;
    run_command(runner, options, run, session);
    if (!session.not_started && !went_well(run.end)) session.failed_warmup_run = i;
  }
  if (session.failed_warmup_run == 0 && !session.not_started) {
    std::optional<Watch> watch;
    if (options.backend && !options.devices.empty()) watch.emplace(options);
    for (int i = 1; i <= options.repeats && !session.not_started; ++i) {
      if (options.samples && options.repeats > 1) options.samples->mark(unix_ns(), fmt::format("run {}", i));
      OneRun run;
      // While a device hangs in the driver, no second thread may query it.
      if (watch && !session.stuck) watch->run(runner, run, session);
      else run_command(runner, options, run, session);
      if (session.not_started) break;
      session.runs.push_back(std::move(run));
      if (!went_well(session.last)) break;
    }
    if (watch) watch->finish(session);
  }
  if (options.samples) session.sample_rows = options.samples->rows();
  session.processes_left = processes_left();
  return session;
}

namespace {

constexpr int64_t kReaderComes_ns = 5'000'000'000;
constexpr int kReaderTakes_ms = 1'000;

// A pipe opens once it has a reader; without O_NONBLOCK, open() would wait for one without limit.
Descriptor open_to_write(const std::string& path) {
  const timespec pause{0, 10'000'000};
  const int64_t until_ns = monotonic_ns() + kReaderComes_ns;
  for (;;) {
    Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0666));
    if (file || errno != ENXIO || monotonic_ns() >= until_ns) return file;
    ::nanosleep(&pause, nullptr);
  }
}

}  // namespace

Result<std::unique_ptr<SampleOutput>> SampleOutput::open(const std::string& path,
                                                         const std::vector<DeviceInfo>& devices,
                                                         std::string_view host) {
  const auto format = sample_format_of(path);
  if (!format) return format.error();
  Descriptor file = open_to_write(path);
  if (!file && errno == ENXIO) return Error{path + ": this pipe has no reader", "start its reader first, or name a file"};
  if (!file) return Error{path + ": cannot be written: " + std::strerror(errno)};
  std::unique_ptr<SampleOutput> out(new SampleOutput(path, std::move(file), {*format, devices, {}, host}));
  out->write(out->writer_.header());
  return out;
}

void SampleOutput::add(const Reading& reading) {
  if (!problem_.empty()) return;
  const std::string_view rows = writer_.rows(reading);
  write(rows);
  if (problem_.empty()) rows_ += std::count(rows.begin(), rows.end(), '\n');
}

void SampleOutput::mark(int64_t time_ns, std::string_view name) {
  if (problem_.empty()) write(writer_.mark(time_ns, name));
}

void SampleOutput::write(std::string_view row) {
  size_t done = 0;
  while (done < row.size()) {
    const ssize_t n = ::write(file_.get(), row.data() + done, row.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) {
      pollfd room{file_.get(), POLLOUT, 0};
      if (::poll(&room, 1, kReaderTakes_ms) != 0) continue;
    }
    if (n < 0) {
      const char* why = errno == EAGAIN ? "its reader stopped reading" : std::strerror(errno);
      problem_ = fmt::format("{}: cannot be written: {}; {} rows are in it", path_, why, rows_);
      // Half a row is useless. A pipe cannot be truncated.
      if (done > 0 && ::ftruncate(file_.get(), size_bytes_) != 0) problem_ += ", the last one torn";
      return;
    }
    done += static_cast<size_t>(n);
  }
  size_bytes_ += static_cast<int64_t>(row.size());
}

}  // namespace profgpu
