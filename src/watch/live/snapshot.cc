#include "watch/live/snapshot.h"

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <numeric>
#include <system_error>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "devices/sampler.h"

namespace profgpu {

std::string_view device_state_name(DeviceState state) {
  switch (state) {
    case DeviceState::kOk: return "ok";
    case DeviceState::kError: return "error";
    case DeviceState::kNotAnswering: return "not_answering";
  }
  return "";
}

std::optional<double> DeviceLook::value(Metric metric) const {
  const Sample* newest = nullptr;
  for (const Sample& s : reading.samples)
    if (s.metric == metric && (!newest || s.time_ns >= newest->time_ns)) newest = &s;
  return newest ? std::optional(newest->value) : std::nullopt;
}

std::optional<double> DeviceLook::mean(Metric metric) const {
  double sum = 0;
  int64_t n = 0;
  for (const Sample& s : reading.samples)
    if (s.metric == metric) sum += s.value, ++n;
  return n > 0 ? std::optional(sum / static_cast<double>(n)) : std::nullopt;
}

// Shared by the thread that queries a device and the one that waits, so that the former may never return.
struct Snapshots::Poller {
  std::mutex mutex;
  std::condition_variable answered;
  bool pending = false;
  DeviceLook look;

  void read(Backend& backend, bool processes) {
    Reading reading;
    reading.device = look.device;
    reading.time_ns = unix_ns();
    const Status status = backend.read({monotonic_ns(), processes, true}, reading);
    const std::lock_guard lock(mutex);
    pending = false;
    look.state = status ? DeviceState::kOk : DeviceState::kError;
    look.message = status ? "" : status.error().message;
    if (status) look.since_ns = unix_ns();
    // Samples of the first reading stay: newer ones win.
    reading.samples.insert(reading.samples.begin(), look.reading.samples.begin(), look.reading.samples.end());
    look.reading = std::move(reading);
    answered.notify_all();
  }
};

Snapshots::Snapshots(std::shared_ptr<Backend> backend, std::vector<uint32_t> devices, SnapshotOptions options)
    : backend_(std::move(backend)), options_(options) {
  for (const uint32_t device : devices)
    pollers_.emplace_back(std::make_shared<Poller>())->look = {.device = device, .since_ns = unix_ns()};
}

// Returns when all of them have answered, or at the deadline.
void Snapshots::query(const std::vector<size_t>& which) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::nanoseconds(options_.deadline_ns);
  std::vector<Poller*> queried;
  for (const size_t i : which) {
    const std::shared_ptr<Poller> poller = pollers_[i];
    {
      const std::lock_guard lock(poller->mutex);
      if (std::exchange(poller->pending, true)) continue;
    }
    queried.push_back(poller.get());
    const auto read = [poller, backend = backend_, processes = options_.processes] { poller->read(*backend, processes); };
    try {
      std::thread(read).detach();
    } catch (const std::system_error&) {
      read();  // without a thread there is no deadline
    }
  }
  for (Poller* poller : queried) {
    std::unique_lock lock(poller->mutex);
    poller->answered.wait_until(lock, deadline, [&] { return !poller->pending; });
  }
}

bool Snapshots::needs_second_reading(const Poller& poller) const {
  if (poller.pending || poller.look.state != DeviceState::kOk) return false;
  if (options_.rates) return true;
  // NVIDIA's driver keeps both itself: what is missing at first stays missing.
  if (backend_->devices()[poller.look.device].vendor == "NVIDIA") return false;
  return !poller.look.value(Metric::kUtilization) || !poller.look.value(Metric::kPower);
}

std::vector<DeviceLook> Snapshots::take() {
  std::vector<size_t> which(pollers_.size());
  std::iota(which.begin(), which.end(), size_t{0});
  const auto begin = std::chrono::steady_clock::now();
  for (const auto& poller : pollers_) {
    const std::lock_guard lock(poller->mutex);
    poller->look.reading.clear();
  }
  query(which);
  if (std::exchange(first_, false)) {
    std::erase_if(which, [&](size_t i) {
      const std::lock_guard lock(pollers_[i]->mutex);
      return !needs_second_reading(*pollers_[i]);
    });
    if (!which.empty()) std::this_thread::sleep_until(begin + std::chrono::nanoseconds(options_.rate_window_ns));
    query(which);
  }
  std::vector<DeviceLook> looks;
  for (const auto& poller : pollers_) {
    const std::lock_guard lock(poller->mutex);
    DeviceLook& look = looks.emplace_back(poller->look);
    if (poller->pending) look.state = DeviceState::kNotAnswering, look.message = kDoesNotAnswer;
  }
  return looks;
}

bool Snapshots::any_stuck() const {
  for (const auto& poller : pollers_) {
    const std::lock_guard lock(poller->mutex);
    if (poller->pending) return true;
  }
  return false;
}

}  // namespace profgpu
