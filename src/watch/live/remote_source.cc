#include "watch/live/remote_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <tuple>

#include "base/clock.h"
#include "watch/exporter/exporter_page.h"

namespace profgpu {
namespace {

constexpr std::string_view kUsualPort = "9400", kUsualPath = "/metrics";
constexpr std::chrono::milliseconds kShortestLimit{2000};
constexpr std::chrono::seconds kLastWait{1};
// Of all hosts, also those that have gone: an exporter whose devices are new at each request must not fill our memory.
constexpr size_t kMaxDevices = 8192;

Result<ExporterPage> fetch(const HttpUrl& url, std::chrono::milliseconds limit, const std::string& program) {
  HttpCall call;
  call.url = url;
  call.accept = "text/plain;version=0.0.4";
  call.limit = limit;
  auto answer = http_call(call, program);
  if (!answer) return answer.error();
  if (answer->status == 401)
    return Error{url.authorization.empty() ? "wants a password: write USER:PASSWORD@ before the host's name"
                                           : "rejects that password"};
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
  // Colons of USER:PASSWORD@ and of an IPv6 address in brackets do not begin a port.
  const std::string_view authority = text.substr(0, text.find_first_of("/?#"));
  if (!whole && authority.find(':', authority.find_last_of("@]") + 1) == text.npos) address->port = kUsualPort;
  return address;
}

struct RemoteSource::State {
  struct Host {
    std::string shown;              // its address until its page states a name
    ExporterPage page;              // the last one
    std::string problem;            // of the last request; empty: none
    int64_t good_at_ns = 0;         // Unix time; 0: never
    bool tried = false;
  };
  struct KnownDevice {
    size_t host = 0;
    std::shared_ptr<const DeviceInfo> info;
    const ExporterDevice* on_page = nullptr;   // of its host; null: no longer there
  };

  explicit State(RemoteSourceOptions o)
      : options(std::move(o)), interval(options.interval_ns), hosts(options.addresses.size()) {
    for (size_t i = 0; i < hosts.size(); ++i) hosts[i].shown = options.addresses[i].host;
  }
  void poll(size_t which);
  void take(size_t which, Result<ExporterPage> page);
  void find_devices(size_t which);
  [[nodiscard]] std::string trouble(const Host& host) const;

  const RemoteSourceOptions options;
  std::function<void()> news;
  std::mutex mutex;                 // all below
  std::condition_variable changed;
  std::chrono::nanoseconds interval;
  std::vector<Host> hosts;
  std::vector<KnownDevice> devices; // only grows: an index always means the same device
  std::map<std::tuple<size_t, uint32_t, std::string, std::optional<uint32_t>>, size_t> places;   // in `devices`
  bool settled = false;             // each host was tried
  bool stopping = false;
  size_t threads = 0;
};

std::string RemoteSource::State::trouble(const Host& host) const {
  if (host.problem.empty()) return "";
  if (host.good_at_ns == 0) return host.problem;
  return fmt::format("no news since {}: {}", clock_time(host.good_at_ns), host.problem);
}

// Under `mutex`.
void RemoteSource::State::find_devices(size_t which) {
  for (KnownDevice& d : devices)
    if (d.host == which) d.on_page = nullptr;
  for (const ExporterDevice& device : hosts[which].page.devices) {
    const auto& [index, uuid, instance] = std::tie(device.info.index, device.info.uuid, device.info.gpu_instance);
    const auto place = places.find({which, index, uuid, instance});
    if (place != places.end()) {
      devices[place->second].on_page = &device;
    } else if (devices.size() < kMaxDevices) {
      places.emplace(std::tuple(which, index, uuid, instance), devices.size());
      devices.push_back({which, std::make_shared<const DeviceInfo>(device.info), &device});
    }
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
    if (settled) find_devices(which);
  }
  if (settled || !std::all_of(hosts.begin(), hosts.end(), [](const Host& h) { return h.tried; })) return;
  settled = true;
  for (size_t i = 0; i < hosts.size(); ++i) find_devices(i);
}

void RemoteSource::State::poll(size_t which) {
  std::unique_lock lock(mutex);
  while (!stopping) {
    const auto limit = std::max(kShortestLimit, std::chrono::duration_cast<std::chrono::milliseconds>(interval));
    lock.unlock();
    const auto begun = std::chrono::steady_clock::now();
    take(which, fetch(options.addresses[which], limit, options.program));
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
  for (size_t i = 0; i < state_->hosts.size(); ++i) std::thread([state = state_, i] { state->poll(i); }).detach();
}

LiveView RemoteSource::view() {
  State& s = *state_;
  LiveView view;
  view.time_ns = unix_ns();
  const std::lock_guard lock(s.mutex);
  for (const State::Host& host : s.hosts) {
    const std::string driver = host.page.devices.empty() ? "" : host.page.devices.front().info.driver_version;
    view.hosts.push_back({host.shown, driver, host.tried ? s.trouble(host) : "not polled yet", false, {}});
    for (const ExporterDevice& d : host.page.devices)
      if (!d.jobs.empty())
        view.lines.push_back(fmt::format("{}, GPU {}: job {}", host.shown, d.info.label(), fmt::join(d.jobs, ", ")));
  }
  for (const State::KnownDevice& known : s.devices) {
    const State::Host& host = s.hosts[known.host];
    LiveDevice& device = view.devices.emplace_back();
    device.info = known.info;
    device.host = known.host;
    device.time_ns = device.since_ns = host.good_at_ns;
    if (!host.problem.empty()) device.state = DeviceState::kNotAnswering, device.trouble = host.problem;
    if (!known.on_page) {
      device.state = DeviceState::kError;
      device.trouble = "no longer on the exporter's page";
      continue;
    }
    if (known.on_page->good_at_ns != 0) device.since_ns = known.on_page->good_at_ns;
    if (!known.on_page->up) device.state = DeviceState::kError, device.trouble = "does not answer its exporter";
    device.values = known.on_page->values;
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
