#include "watch/live/local_source.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/steady_unix.h"
#include "devices/selection.h"
#include "trace/sample.h"
#include "watch/live/child_process.h"
#include "watch/live/recorded_jobs.h"

namespace profgpu {
namespace {

constexpr std::chrono::seconds kLookUpDeadline{1};
constexpr std::chrono::seconds kHostDeadline{3};   // between looks at this machine's load
constexpr size_t kMaxParents = 256;

struct Slot {
  LiveDevice device;         // without its state and its processes
  int64_t at_ns = 0;         // monotonic time of the newest reading
  bool fresh = false;        // read since the last news
  std::vector<ProcessSample> processes;
};

}  // namespace

// What the threads share.
struct LocalSource::State {
  State(std::shared_ptr<Backend> b, const LocalSourceOptions& o);

  void take(const Reading& taken);
  void record(const Reading& reading);
  [[nodiscard]] bool all_fresh(int64_t now) const;
  void look_up_processes();
  void look_up_once(HostProcesses& processes, RecordedJobs& jobs);
  void look_at_host(HostLoadWatch& watch);
  void query_topology();

  const std::shared_ptr<Backend> backend;
  const LocalSourceOptions options;
  const bool recorded;        // its processes are another machine's
  std::vector<LiveHost> hosts;
  std::function<void()> news;

  // Of the sampler's threads, one at a time.
  SampleRow row;
  Reading annotated;

  mutable std::mutex mutex;   // all below
  std::condition_variable changed;
  int64_t interval_ns;
  std::vector<Slot> slots;    // by the backend's indices
  std::map<int64_t, HostProcess> known;
  std::vector<HostProcess> parents;
  std::vector<std::string> job_lines;
  HostLoad load;
  LiveTopology topology;
  int64_t rounds = 0;         // of looking up processes
  bool due = false, stopping = false, looking_up = false, querying = false, queried = false;
};

// A replay may be of several hosts.
LocalSource::State::State(std::shared_ptr<Backend> b, const LocalSourceOptions& o)
    : backend(std::move(b)), options(o), recorded(backend->name() == "replay"), interval_ns(o.interval_ns) {
  const auto& infos = backend->devices();
  const std::string here = host_name();
  slots.resize(infos.size());
  for (const uint32_t d : options.devices) {
    const std::string& name = recorded && !infos[d].host.empty() ? infos[d].host : here;
    LiveDevice& device = slots[d].device;
    device.info = {backend, &infos[d]};
    while (device.host < hosts.size() && hosts[device.host].name != name) ++device.host;
    if (device.host == hosts.size()) hosts.push_back({name, common_driver(infos, options.devices), "", !recorded, {}});
  }
}

// Under `mutex`. Does not wait for a device that has fallen behind.
bool LocalSource::State::all_fresh(int64_t now) const {
  return std::all_of(options.devices.begin(), options.devices.end(), [&](uint32_t d) {
    return slots[d].fresh || (slots[d].at_ns != 0 && now - slots[d].at_ns > 2 * interval_ns + 100'000'000);
  });
}

void LocalSource::State::take(const Reading& taken) {
  Reading room;
  const Reading& reading = as_shown(taken, room);
  row.take(reading);
  bool tell = false;
  {
    const std::lock_guard lock(mutex);
    Slot& slot = slots[reading.device];
    LiveDevice& device = slot.device;
    for (size_t m = 0; m < kMetricCount; ++m)
      if (const auto& value = row[static_cast<Metric>(m)]) device.values[m] = value, device.read_ns[m] = reading.time_ns;
    device.time_ns = reading.time_ns;
    slot.at_ns = monotonic_ns();
    slot.fresh = true;
    if (reading.has_processes) {
      device.has_processes = true;
      slot.processes = reading.processes;
      due = true;
    }
    tell = all_fresh(slot.at_ns);
    if (tell)
      for (Slot& s : slots) s.fresh = false;
    if (tell && due) changed.notify_all();
  }
  if (tell && news) news();
  if (options.recorder) record(reading);
}

void LocalSource::State::record(const Reading& reading) {
  annotated = reading;
  {
    const std::lock_guard lock(mutex);
    for (ProcessSample& p : annotated.processes) {
      const auto it = known.find(p.pid);
      if (it == known.end()) continue;
      if (p.name.empty()) p.name = it->second.command_line();
      p.origin = it->second.origin();
    }
  }
  options.recorder(annotated);
}

void LocalSource::State::look_up_once(HostProcesses& processes, RecordedJobs& jobs) {
  std::map<int64_t, std::string_view> wanted;   // pid to what holds its device
  {
    const std::lock_guard lock(mutex);
    for (const uint32_t d : options.devices)
      for (const ProcessSample& p : slots[d].processes)
        wanted.emplace(p.pid, compute_file(backend->devices()[d].vendor));
  }
  std::map<int64_t, HostProcess> found;
  std::set<int64_t> shown;
  for (const auto& [pid, file] : wanted) {
    HostProcess process = processes.look(pid, file, wanted.size() == 1);
    if (process.visible_pid != 0) shown.insert(process.visible_pid);
    found.emplace(pid, std::move(process));
  }
  std::set<int64_t> above;
  for (const auto& [pid, process] : found)
    if (process.parent > 1 && !shown.contains(process.parent) && above.size() < kMaxParents)
      above.insert(process.parent);
  std::vector<HostProcess> up;
  for (const int64_t pid : above) up.push_back(processes.look_here(pid));
  std::vector<std::string> lines = jobs.look({shown.begin(), shown.end()});
  const std::lock_guard lock(mutex);
  known = std::move(found);
  parents = std::move(up);
  job_lines = std::move(lines);
  ++rounds;
}

void LocalSource::State::look_at_host(HostLoadWatch& watch) {
  const HostLoad look = watch.look();
  const std::lock_guard lock(mutex);
  load = look;
}

void LocalSource::State::look_up_processes() {
  HostProcesses processes;
  RecordedJobs jobs;
  HostLoadWatch host;
  if (!recorded) look_at_host(host);
  std::unique_lock lock(mutex);
  while (true) {
    // This machine's load is news even if no device answers.
    const auto wanted = [&] { return due || stopping; };
    if (recorded) changed.wait(lock, wanted);
    else changed.wait_for(lock, kHostDeadline, wanted);
    if (stopping) break;
    const bool processes_due = std::exchange(due, false);
    lock.unlock();
    if (!recorded) look_at_host(host);
    if (!recorded && processes_due) look_up_once(processes, jobs);
    if (news) news();
    lock.lock();
  }
  looking_up = false;
  changed.notify_all();
}

void LocalSource::State::query_topology() {
  std::vector<std::vector<Link>> links = backend->topology();
  std::unique_lock lock(mutex);
  if (links.size() == slots.size())
    for (const uint32_t i : options.devices) {
      topology.emplace_back();
      for (const uint32_t j : options.devices)
        topology.back().push_back(j < links[i].size() ? links[i][j].kind : "");
    }
  querying = false;
  changed.notify_all();
  lock.unlock();
  if (news) news();
}

namespace {

SamplerOptions sampling(const LocalSourceOptions& options) {
  SamplerOptions sampler;
  sampler.interval_ns = options.interval_ns;
  sampler.process_interval_ns = options.process_interval_ns;
  sampler.devices = options.devices;
  return sampler;
}

}  // namespace

LocalSource::LocalSource(std::shared_ptr<Backend> backend, LocalSourceOptions options)
    : options_(std::move(options)),
      state_(std::make_shared<State>(backend, options_)),
      sampler_(backend, sampling(options_), [state = state_](const Reading& r) { state->take(r); }) {}

LocalSource::~LocalSource() { stop(); }

void LocalSource::start(std::function<void()> news) {
  State& s = *state_;
  s.news = std::move(news);
  s.looking_up = true;
  std::thread([state = state_] { state->look_up_processes(); }).detach();
  sampler_.start();
}

int64_t LocalSource::interval_ns() const {
  const std::lock_guard lock(state_->mutex);
  return state_->interval_ns;
}

void LocalSource::set_interval(int64_t interval_ns) {
  {
    const std::lock_guard lock(state_->mutex);
    state_->interval_ns = interval_ns;
  }
  state_->backend->set_interval(interval_ns);
  sampler_.set_interval(interval_ns);
}

// Queried when it is first shown: for sixteen devices it takes hundreds of calls.
LiveTopology LocalSource::topology() {
  const std::lock_guard lock(state_->mutex);
  if (!std::exchange(state_->queried, true)) {
    state_->querying = true;
    std::thread([state = state_] { state->query_topology(); }).detach();
  }
  return state_->topology;
}

LiveView LocalSource::view() {
  const State& s = *state_;
  LiveView view;
  view.time_ns = unix_ns();
  view.hosts = s.hosts;
  view.ended = s.backend->ended();
  const std::vector<DeviceHealth> health = sampler_.health();
  const std::lock_guard lock(s.mutex);
  for (size_t i = 0; i < options_.devices.size(); ++i) {
    const Slot& slot = s.slots[options_.devices[i]];
    LiveDevice& device = view.devices.emplace_back(slot.device);
    device.trouble = health[i].trouble;
    if (!device.trouble.empty())
      device.state = device.trouble == kDoesNotAnswer ? DeviceState::kNotAnswering : DeviceState::kError;
    device.since_ns = health[i].good_at_ns == 0 ? 0 : health[i].good_at_ns + clock_set_by_ns();
    for (const ProcessSample& p : slot.processes) {
      const auto it = s.known.find(p.pid);
      device.processes.push_back({p, it == s.known.end() ? recorded_process(p) : it->second});
    }
  }
  view.parents = s.parents;
  view.lines = s.job_lines;
  for (LiveHost& host : view.hosts)
    if (host.here) host.load = s.load;
  return view;
}

bool LocalSource::complete() const {
  const State& s = *state_;
  const std::vector<DeviceHealth> health = sampler_.health();
  const std::lock_guard lock(s.mutex);
  bool any = false;
  for (size_t i = 0; i < options_.devices.size(); ++i) {
    const Slot& slot = s.slots[options_.devices[i]];
    if (health[i].trouble.empty() && !slot.device.has_processes) return false;
    any |= !slot.processes.empty();
  }
  return !any || s.rounds >= 2 || s.recorded;
}

bool LocalSource::stop() {
  State& s = *state_;
  sampler_.stop();
  std::unique_lock lock(s.mutex);
  s.stopping = true;
  s.changed.notify_all();
  const bool ended = s.changed.wait_for(lock, kLookUpDeadline, [&] { return !s.looking_up && !s.querying; });
  return sampler_.any_stuck() || !ended;
}

}  // namespace profgpu
