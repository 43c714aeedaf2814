#include "watch/live/remote_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>

#include "base/clock.h"
#include "watch/exporter/exporter_page.h"

namespace profgpu {
namespace {

constexpr std::string_view kUsualPort = "9400", kUsualPath = "/metrics";
constexpr std::chrono::milliseconds kShortestLimit{2000};
constexpr std::chrono::seconds kLastWait{1};

std::string local_time(int64_t unix_ns) { return timestamp_text(unix_ns, TimestampStyle::kNvidiaSmi).substr(11, 8); }

Result<ExporterPage> ask(const HttpUrl& url, std::chrono::milliseconds limit, const std::string& program) {
  HttpCall call;
  call.url = url;
  call.accept = "text/plain;version=0.0.4";
  call.limit = limit;
  auto answer = http_call(call, program);
  if (!answer) return answer.error();
  if (answer->status == 401)
    return Error{url.authorization.empty() ? "asks for a password: USER:PASSWORD@ stands before the host's name"
                                           : "does not take that password"};
  if (answer->status != 200) return Error{fmt::format("answers {}", answer->status)};
  return read_exporter_page(answer->body);
}

}  // namespace

Result<HttpUrl> remote_address(std::string_view text) {
  const bool whole = text.find("://") != text.npos;
  const std::string url = whole ? std::string(text) : "http://" + std::string(text);
  auto address = parse_http_url(url);
  if (!address)
    return Error{fmt::format("\"{}\" is not HOST, HOST:PORT or an address that begins with http:// or https://",
                             text.substr(0, 200)),
                 "node1, node1:9400, https://user:password@node1:9400"};
  if (address->target == "/") address->target = kUsualPath;
  // "node1" has no port; a whole address has the port of its kind.
  const size_t host_end = url.rfind(']') == url.npos ? url.find("://") + 3 : url.rfind(']');
  if (!whole && url.find(':', std::max(host_end, url.rfind('@') == url.npos ? 0 : url.rfind('@'))) == url.npos)
    address->port = kUsualPort;
  return address;
}

struct RemoteSource::State {
  struct Host {
    std::string shown;              // until the page says its name
    ExporterPage page;              // the last that came
    std::string problem;            // of the last request; empty: it went well
    int64_t good_at_ns = 0;         // Unix time; 0: never
    bool tried = false;
    std::vector<size_t> positions;  // of its devices, among all
  };
  struct Place {
    size_t host = 0;
    std::shared_ptr<const DeviceInfo> info;
    const ExporterDevice* said = nullptr;   // in the host's page; null: no longer on it
  };

  explicit State(RemoteSourceOptions o)
      : options(std::move(o)), interval(options.interval_ns), hosts(options.addresses.size()) {
    for (size_t i = 0; i < hosts.size(); ++i) hosts[i].shown = options.addresses[i].host;
  }
  void ask_on(size_t which);
  void take(size_t which, Result<ExporterPage> page);
  void place_devices(size_t which);
  [[nodiscard]] std::string trouble(const Host& host) const;

  const RemoteSourceOptions options;
  std::function<void()> news;
  std::mutex mutex;                 // all below
  std::condition_variable changed;
  std::chrono::nanoseconds interval;
  std::vector<Host> hosts;
  std::vector<Place> places;        // only grows: a position means the same device for ever
  bool settled = false;             // each host was tried
  bool stopping = false;
  size_t threads = 0;
};

std::string RemoteSource::State::trouble(const Host& host) const {
  if (host.problem.empty()) return "";
  if (host.good_at_ns == 0) return host.problem;
  return fmt::format("no news since {}: {}", local_time(host.good_at_ns), host.problem);
}

bool same_device(const DeviceInfo& a, const DeviceInfo& b) {
  return a.index == b.index && a.uuid == b.uuid && a.gpu_instance == b.gpu_instance;
}

// Under `mutex`.
void RemoteSource::State::place_devices(size_t which) {
  Host& host = hosts[which];
  for (const size_t p : host.positions) places[p].said = nullptr;
  for (const ExporterDevice& device : host.page.devices) {
    const auto known = std::find_if(host.positions.begin(), host.positions.end(),
                                    [&](size_t p) { return same_device(*places[p].info, device.info); });
    if (known != host.positions.end()) {
      places[*known].said = &device;
      continue;
    }
    host.positions.push_back(places.size());
    places.push_back({which, std::make_shared<const DeviceInfo>(device.info), &device});
  }
}

void RemoteSource::State::take(size_t which, Result<ExporterPage> page) {
  const std::lock_guard lock(mutex);
  Host& host = hosts[which];
  host.tried = true;
  host.problem = page ? "" : page.error().message;
  if (page) {
    host.page = *std::move(page);
    host.good_at_ns = unix_ns();
    if (!host.page.host.empty()) host.shown = host.page.host;
    if (settled) place_devices(which);
  }
  if (settled || !std::all_of(hosts.begin(), hosts.end(), [](const Host& h) { return h.tried; })) return;
  settled = true;
  for (size_t i = 0; i < hosts.size(); ++i) place_devices(i);
}

void RemoteSource::State::ask_on(size_t which) {
  std::unique_lock lock(mutex);
  while (!stopping) {
    const auto limit = std::max(kShortestLimit, std::chrono::duration_cast<std::chrono::milliseconds>(interval));
    lock.unlock();
    const auto begun = std::chrono::steady_clock::now();
    take(which, ask(options.addresses[which], limit, options.program));
    news();
    lock.lock();
    while (!stopping && std::chrono::steady_clock::now() < begun + interval) changed.wait_until(lock, begun + interval);
  }
  --threads;
  changed.notify_all();
}

RemoteSource::RemoteSource(RemoteSourceOptions options) : state_(std::make_shared<State>(std::move(options))) {}

RemoteSource::~RemoteSource() { stop(); }

int64_t RemoteSource::interval_ns() const {
  const std::lock_guard lock(state_->mutex);
  return state_->interval.count();
}

void RemoteSource::set_interval(int64_t interval_ns) {
  const std::lock_guard lock(state_->mutex);
  state_->interval = std::chrono::nanoseconds(interval_ns);
  state_->changed.notify_all();
}

void RemoteSource::start(std::function<void()> news) {
  state_->news = std::move(news);
  state_->threads = state_->hosts.size();
  for (size_t i = 0; i < state_->hosts.size(); ++i) std::thread([state = state_, i] { state->ask_on(i); }).detach();
}

LiveView RemoteSource::view() {
  State& s = *state_;
  LiveView view;
  view.time_ns = unix_ns();
  const std::lock_guard lock(s.mutex);
  for (const State::Host& host : s.hosts) {
    const std::string driver = host.page.devices.empty() ? "" : host.page.devices.front().info.driver_version;
    view.hosts.push_back({host.shown, driver, host.tried ? s.trouble(host) : "not asked yet", false});
    for (const ExporterDevice& d : host.page.devices)
      if (!d.jobs.empty())
        view.lines.push_back(fmt::format("{}, GPU {}: job {}", host.shown, d.info.label(), fmt::join(d.jobs, ", ")));
  }
  for (const State::Place& place : s.places) {
    const State::Host& host = s.hosts[place.host];
    LiveDevice& device = view.devices.emplace_back();
    device.info = place.info;
    device.host = place.host;
    device.time_ns = device.since_ns = host.good_at_ns;
    if (!host.problem.empty()) device.state = DeviceState::kNotAnswering, device.trouble = host.problem;
    if (!place.said) {
      device.state = DeviceState::kError;
      device.trouble = "no longer on the exporter's page";
      continue;
    }
    if (place.said->good_at_ns != 0) device.since_ns = place.said->good_at_ns;
    if (!place.said->up) device.state = DeviceState::kError, device.trouble = "does not answer its exporter";
    device.values = place.said->values;
    for (size_t m = 0; m < kMetricCount; ++m)
      if (device.values[m]) device.read_ns[m] = host.good_at_ns;
  }
  return view;
}

bool RemoteSource::complete() const {
  const std::lock_guard lock(state_->mutex);
  return state_->settled;
}

bool RemoteSource::stop() {
  State& s = *state_;
  std::unique_lock lock(s.mutex);
  s.stopping = true;
  s.changed.notify_all();
  return !s.changed.wait_for(lock, kLastWait, [&] { return s.threads == 0; });
}

}  // namespace profgpu
