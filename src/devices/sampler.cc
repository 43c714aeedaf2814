#include "devices/sampler.h"

#include <sys/prctl.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>

#include "base/clock.h"
#include "base/steady_unix.h"

namespace profgpu {
namespace {

constexpr ptrdiff_t kLastOfOne = 4;   // devices whose last readings one worker takes

// Delays in eighths of powers of two: a percentile is right within 12 %, in a few hundred numbers.
class DelayHistogram {
 public:
  void add(int64_t ns) {
    ++counts_[bucket(std::max<int64_t>(ns, 0))];
    max_ = std::max(max_, ns);
    ++total_;
  }
  [[nodiscard]] int64_t max() const { return max_; }
  [[nodiscard]] int64_t percentile(int pct) const {
    int64_t before = 0;
    for (size_t i = 0; i < counts_.size(); ++i) {
      before += counts_[i];
      if (before > 0 && before * 100 >= total_ * pct) return std::min(upper(i), max_);
    }
    return 0;
  }

 private:
  static size_t bucket(int64_t ns) {
    const auto n = static_cast<uint64_t>(ns) | 8;
    const int width = std::bit_width(n);
    return std::min<size_t>(static_cast<size_t>(width - 4) * 8 + ((n >> (width - 4)) & 7), 319);
  }
  static int64_t upper(size_t bucket) { return static_cast<int64_t>((8 + bucket % 8 + 1) << (bucket / 8)) - 1; }

  std::array<int64_t, 320> counts_{};
  int64_t total_ = 0, max_ = 0;
};

}  // namespace

// Shared by the threads. A worker that is stuck in a driver keeps it alive after the Sampler is gone.
struct Sampler::State : std::enable_shared_from_this<State> {
  struct Device {
    DeviceHealth health;
    bool read_once = false;
    int64_t processes_at_ns = 0;   // monotonic
  };
  struct Worker {
    std::vector<size_t> devices;               // into State::devices; changed only under `crew`
    std::atomic<int64_t> reading_since_ns{0};  // monotonic; 0: not in the driver
    std::atomic<size_t> reading{0};            // which of State::devices
    std::atomic<bool> relieved{false};         // the others were given to another worker
    bool finished = false;                     // under `crew`
    TickTimer timer;
    std::thread thread;
  };

  State(std::shared_ptr<Backend> b, SamplerOptions o, Consumer c)
      : backend(std::move(b)), options(std::move(o)), consumer(std::move(c)), interval_ns(options.interval_ns) {
    if (options.devices.empty())
      for (uint32_t i = 0; i < backend->devices().size(); ++i) options.devices.push_back(i);
    for (uint32_t d : options.devices) devices.emplace_back().health.device = d;
  }

  Worker& engage(std::vector<size_t> which);
  void employ(std::vector<size_t> which);
  void work(Worker& worker);
  std::vector<size_t> share_last(Worker& worker);
  void finish(Worker& worker, std::vector<size_t> mine, Reading& reading);
  [[nodiscard]] int64_t next_tick(int64_t after_ns) const {
    return zero_ns + ((after_ns - zero_ns) / interval_ns + 1) * interval_ns;
  }
  bool wait_for_tick(Worker& worker, int64_t& due);
  void count_tick(int64_t due, int64_t begun, int64_t ended);
  void tick(Worker& worker, std::vector<size_t>& mine, Reading& reading, bool last);
  [[nodiscard]] ReadRequest request_of(const Device& device, int64_t tick_ns, int64_t now_ns, int64_t until_ns,
                                       bool last) const;
  void hand_over(Device& device, const Reading& reading, const Status& status, int64_t ended_unix_ns);
  int64_t look_for_silent(int64_t now_ns);
  void note_trouble(DeviceHealth& health, std::string_view message);
  void end_trouble(DeviceHealth& health);
  void watch();
  void relieve(Worker& worker);

  const std::shared_ptr<Backend> backend;
  SamplerOptions options;
  const Consumer consumer;
  std::vector<Device> devices;
  int64_t started_ns = 0;    // monotonic
  int64_t calls_before = 0;

  std::timed_mutex consuming;        // the consumer sees one reading at a time
  std::atomic<bool> closed{false};   // the consumer is called no more
  mutable std::mutex crew;   // everything below
  std::condition_variable changed;
  int64_t zero_ns = 0;       // monotonic; the schedule has a tick there, and one each interval from there on
  int64_t interval_ns;
  std::vector<std::unique_ptr<Worker>> workers;
  std::thread watchdog;
  bool stopping = false, stopped = false, stuck = false;
  SamplerStatistics statistics;
  DelayHistogram jitter;
  std::vector<DeviceTrouble> troubles;
};

Sampler::State::Worker& Sampler::State::engage(std::vector<size_t> which) {   // under `crew`
  workers.push_back(std::make_unique<Worker>());
  workers.back()->devices = std::move(which);
  return *workers.back();
}

void Sampler::State::employ(std::vector<size_t> which) {   // under `crew`
  Worker& worker = engage(std::move(which));
  worker.timer.start(next_tick(monotonic_ns()), interval_ns);
  worker.thread = std::thread([self = shared_from_this(), &worker] { self->work(worker); });
}

// Until the next tick. False if stopping came first.
bool Sampler::State::wait_for_tick(Worker& worker, int64_t& due) {
  const int64_t since = monotonic_ns();
  for (;;) {
    {
      std::lock_guard lock(crew);
      if (stopping) return false;
      due = next_tick(std::max(since, zero_ns));   // of the interval as it is now
      if (monotonic_ns() >= due) return true;
    }
    worker.timer.wait();
  }
}

void Sampler::State::work(Worker& worker) {
  prctl(PR_SET_TIMERSLACK, 1000UL);   // the kernel may wake others up to 50 µs late
  std::vector<size_t> mine;
  {
    std::lock_guard lock(crew);
    mine = worker.devices;
  }
  Reading reading;
  reading.samples.reserve(4 * kMetricCount);
  int64_t due = started_ns;
  do {
    const int64_t begun = monotonic_ns();
    tick(worker, mine, reading, false);
    count_tick(due, begun, monotonic_ns());
  } while (wait_for_tick(worker, due));
  finish(worker, share_last(worker), reading);
}

// A command that has ended waits for the last readings: those of many devices are taken side by side. Returns what is
// left for this worker.
std::vector<size_t> Sampler::State::share_last(Worker& worker) {
  std::lock_guard lock(crew);
  std::vector<size_t>& mine = worker.devices;
  while (options.ends_ns > 0 && mine.size() > kLastOfOne) {
    Worker& other = engage({mine.end() - kLastOfOne, mine.end()});
    try {
      other.thread = std::thread([self = shared_from_this(), &other, which = other.devices] {
        Reading reading;
        self->finish(other, which, reading);
      });
    } catch (const std::system_error&) {   // no thread to be had: this one reads the rest
      workers.pop_back();
      break;
    }
    mine.resize(mine.size() - kLastOfOne);
  }
  return mine;
}

void Sampler::State::finish(Worker& worker, std::vector<size_t> mine, Reading& reading) {
  tick(worker, mine, reading, true);
  std::lock_guard lock(crew);
  statistics.cpu_ns += thread_cpu_ns();
  worker.finished = true;
  changed.notify_all();
}

void Sampler::State::count_tick(int64_t due, int64_t begun, int64_t ended) {
  std::lock_guard lock(crew);
  if (due != started_ns) jitter.add(begun - due);
  statistics.late_ticks += begun - due > interval_ns / 2;
  statistics.missed_ticks += std::max<int64_t>((next_tick(ended) - due) / interval_ns - 1, 0);
  statistics.busy_ns += ended - begun;
  if (statistics.first_reading_ns == 0) statistics.first_reading_ns = ended - started_ns;
}

void Sampler::State::tick(Worker& worker, std::vector<size_t>& mine, Reading& reading, bool last) {
  const int64_t begun_ns = monotonic_ns(), to_unix_ns = steady_unix_ns() - begun_ns;
  const int64_t for_all_ns = last ? std::max(options.ends_ns, (begun_ns - started_ns) / 100) : options.ends_ns;
  for (size_t i = 0; i < mine.size(); ++i) {
    Device& device = devices[mine[i]];
    const int64_t now_ns = i == 0 ? begun_ns : monotonic_ns();
    const int64_t until_ns = begun_ns + for_all_ns * static_cast<int64_t>(i + 1) / static_cast<int64_t>(mine.size());
    const ReadRequest request = request_of(device, begun_ns, now_ns, options.ends_ns > 0 ? until_ns : 0, last);
    if (request.processes) device.processes_at_ns = now_ns;
    device.read_once = true;
    reading.clear();
    reading.device = device.health.device;
    reading.time_ns = now_ns + to_unix_ns;
    worker.reading.store(mine[i], std::memory_order_relaxed);
    worker.reading_since_ns.store(now_ns, std::memory_order_release);
    const Status status = backend->read(request, reading);
    worker.reading_since_ns.store(0, std::memory_order_release);
    reading.failed = !status;
    hand_over(device, reading, status, monotonic_ns() + to_unix_ns);
    if (worker.relieved.load(std::memory_order_acquire)) {
      mine = {mine[i]};
      return;
    }
  }
}

ReadRequest Sampler::State::request_of(const Device& device, int64_t tick_ns, int64_t now_ns, int64_t until_ns,
                                       bool last) const {
  ReadRequest request;
  request.now_ns = now_ns;
  request.tick_ns = tick_ns;
  request.wanted = options.wanted;
  request.everything = last || !device.read_once;
  request.until_ns = request.everything ? until_ns : 0;
  // A first reading that must be short leaves processes to the next: the command has none yet.
  // A tick that is a little early must not delay them by a whole tick.
  const int64_t apart_ns = options.process_interval_ns - options.process_interval_ns / 20;
  const bool due = device.read_once ? request.now_ns - device.processes_at_ns >= apart_ns : until_ns == 0;
  request.processes = options.process_interval_ns > 0 && (last || due);
  return request;
}

void Sampler::State::hand_over(Device& device, const Reading& reading, const Status& status, int64_t ended_unix_ns) {
  {
    std::lock_guard lock(crew);
    ++statistics.ticks;
    if (status) {
      device.health.good_at_ns = ended_unix_ns;
      end_trouble(device.health);
    } else {
      ++device.health.errors;
      note_trouble(device.health, status.error().message);
    }
  }
  const bool empty = reading.samples.empty() && !reading.has_processes;
  if (empty && !(reading.failed && options.failures)) return;
  std::lock_guard lock(consuming);
  if (!closed) consumer(reading);
}

void Sampler::State::note_trouble(DeviceHealth& health, std::string_view message) {   // under `crew`
  health.trouble = message;
  for (DeviceTrouble& t : troubles)
    if (t.device == health.device && !t.over) {
      t.message = message;
      return;
    }
  if (troubles.size() < kMaxTroubles)
    troubles.push_back({health.device, health.good_at_ns ? health.good_at_ns : steady_unix_ns(), std::string(message),
                        false});
}

void Sampler::State::end_trouble(DeviceHealth& health) {   // under `crew`
  if (health.trouble.empty()) return;
  health.trouble.clear();
  for (DeviceTrouble& t : troubles)
    if (t.device == health.device) t.over = true;
}

// Looks for workers that are stuck in a driver, each when its call reaches the deadline.
void Sampler::State::watch() {
  std::unique_lock lock(crew);
  while (!stopping) {
    const std::chrono::steady_clock::time_point when{std::chrono::nanoseconds(look_for_silent(monotonic_ns()))};
    changed.wait_until(lock, when);
  }
}

// When to look again.
int64_t Sampler::State::look_for_silent(int64_t now_ns) {   // under `crew`
  int64_t next_ns = now_ns + options.deadline_ns;
  for (size_t i = 0; i < workers.size(); ++i) {
    const int64_t since = workers[i]->reading_since_ns.load(std::memory_order_acquire);
    if (since == 0) continue;
    if (now_ns - since < options.deadline_ns) {
      next_ns = std::min(next_ns, since + options.deadline_ns);
      continue;
    }
    DeviceHealth& silent = devices[workers[i]->reading.load(std::memory_order_relaxed)].health;
    silent.errors += silent.trouble.empty();
    note_trouble(silent, kDoesNotAnswer);
    if (!workers[i]->relieved.load() && workers[i]->devices.size() > 1) relieve(*workers[i]);
  }
  return next_ns;
}

void Sampler::State::relieve(Worker& worker) {   // under `crew`
  const size_t silent = worker.reading.load(std::memory_order_relaxed);
  worker.relieved.store(true, std::memory_order_release);
  std::vector<size_t> others = worker.devices;
  std::erase(others, silent);
  try {
    employ(std::move(others));   // begins once `crew` is free
    worker.devices = {silent};
  } catch (const std::system_error&) {   // no thread to be had: tried again at the next look
    workers.pop_back();
    worker.relieved.store(false, std::memory_order_release);
  }
}

Sampler::Sampler(std::shared_ptr<Backend> backend, SamplerOptions options, Consumer consumer)
    : state_(std::make_shared<State>(std::move(backend), std::move(options), std::move(consumer))) {}

Sampler::~Sampler() { stop(); }

void Sampler::start() {
  State& s = *state_;
  if (s.devices.empty() || s.started_ns != 0) return;
  std::lock_guard lock(s.crew);
  s.started_ns = s.zero_ns = monotonic_ns();
  s.calls_before = s.backend->calls();
  std::vector<size_t> all(s.devices.size());
  for (size_t i = 0; i < all.size(); ++i) all[i] = i;
  s.employ(std::move(all));
  s.watchdog = std::thread([self = state_] { self->watch(); });
}

void Sampler::set_interval(int64_t interval_ns) {
  State& s = *state_;
  std::lock_guard lock(s.crew);
  s.zero_ns = s.next_tick(monotonic_ns()) - s.interval_ns;   // the last one that was due
  s.interval_ns = interval_ns;
  for (const auto& w : s.workers) w->timer.start(s.next_tick(monotonic_ns()), interval_ns);
}

void Sampler::stop() {
  State& s = *state_;
  if (s.started_ns == 0) return;
  {
    std::unique_lock lock(s.crew);
    if (s.stopped) return;
    s.stopped = s.stopping = true;
    s.changed.notify_all();
    for (const auto& w : s.workers) w->timer.wake();
    // The deadline also bounds the last readings of all devices.
    s.changed.wait_for(lock, std::chrono::nanoseconds(s.options.deadline_ns), [&] {
      return std::all_of(s.workers.begin(), s.workers.end(), [](const auto& w) { return w->finished; });
    });
  }
  s.watchdog.join();
  std::vector<std::thread> finished;
  {
    std::lock_guard lock(s.crew);
    for (auto& w : s.workers) {
      if (w->finished) {
        finished.push_back(std::move(w->thread));
        continue;
      }
      s.stuck = true;
      if (w->reading_since_ns.load() != 0) s.note_trouble(s.devices[w->reading.load()].health, kDoesNotAnswer);
      w->thread.detach();
    }
    s.statistics.calls = s.backend->calls() - s.calls_before;
  }
  for (std::thread& t : finished) t.join();
  s.closed = true;
  // A running consumer may finish, but not one that waits for a reader or a disk for ever.
  if (s.consuming.try_lock_for(std::chrono::nanoseconds(s.options.deadline_ns))) s.consuming.unlock();
}

bool Sampler::any_stuck() const {
  std::lock_guard lock(state_->crew);
  return state_->stuck;
}

SamplerStatistics Sampler::statistics() const {
  std::lock_guard lock(state_->crew);
  SamplerStatistics out = state_->statistics;
  if (!state_->stopped) out.calls = state_->backend->calls() - state_->calls_before;
  out.jitter_p50_ns = state_->jitter.percentile(50);
  out.jitter_p99_ns = state_->jitter.percentile(99);
  out.jitter_max_ns = state_->jitter.max();
  return out;
}

std::vector<DeviceTrouble> Sampler::troubles() const {
  std::lock_guard lock(state_->crew);
  return state_->troubles;
}

std::vector<DeviceHealth> Sampler::health() const {
  std::lock_guard lock(state_->crew);
  std::vector<DeviceHealth> out;
  for (const State::Device& d : state_->devices) out.push_back(d.health);
  return out;
}

bool DeviceHealth::answers(int64_t now_ns, int64_t interval_ns) const {
  constexpr int64_t kPatience_ns = 10'000'000'000;
  return trouble.empty() && good_at_ns != 0 && now_ns - good_at_ns <= kPatience_ns + 3 * interval_ns;
}

const Reading& as_shown(const Reading& reading, Reading& room) {
  const int64_t by_ns = clock_set_by_ns();
  if (by_ns == 0) return reading;
  room = reading;
  room.time_ns += by_ns;
  for (Sample& s : room.samples) s.time_ns += by_ns;
  return room;
}

std::vector<std::string> health_changes(const std::vector<DeviceHealth>& health, const std::vector<DeviceInfo>& devices,
                                        std::vector<std::string>& before) {
  std::vector<std::string> lines;
  before.resize(health.size());
  for (size_t i = 0; i < health.size(); ++i) {
    const std::string& trouble = health[i].trouble;
    if (trouble == before[i]) continue;
    const std::string name = devices[health[i].device].label();
    lines.push_back(trouble.empty() ? fmt::format("GPU {} answers again", name)
                                    : fmt::format("GPU {}: {}", name, trouble));
    before[i] = trouble;
  }
  return lines;
}

}  // namespace profgpu
