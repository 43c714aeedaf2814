#include "watch/live/snapshot.h"

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <numeric>
#include <system_error>
#include <thread>

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

// What a thread that asks and the one that waits share. Stays with a thread that never comes back.
struct Snapshots::Poller {
  std::mutex mutex;
  std::condition_variable answered;
  bool asked = false;        // and not answered yet
  bool failed = false;
  std::string message;
  int64_t good_ns = 0;       // Unix time
  DeviceLook look;           // the answer
};

Snapshots::Snapshots(std::shared_ptr<Backend> backend, std::vector<uint32_t> devices, SnapshotOptions options)
    : backend_(std::move(backend)), options_(options) {
  for (const uint32_t device : devices) {
    eyes_.push_back(std::make_shared<Poller>());
    eyes_.back()->look.device = device;
    eyes_.back()->good_ns = unix_ns();
  }
}

std::vector<size_t> Snapshots::ask(const std::vector<size_t>& which) {
  std::vector<size_t> asked;
  for (const size_t i : which) {
    const std::shared_ptr<Poller> eye = eyes_[i];
    {
      const std::lock_guard lock(eye->mutex);
      if (eye->asked) continue;
      eye->asked = true;
    }
    asked.push_back(i);
    const auto read = [eye, backend = backend_, processes = options_.processes] {
      Reading reading;
      reading.device = eye->look.device;
      reading.time_ns = unix_ns();
      const Status status = backend->read({monotonic_ns(), processes, true}, reading);
      const std::lock_guard lock(eye->mutex);
      eye->asked = false;
      eye->failed = !status;
      eye->message = status ? "" : status.error().message;
      if (status) eye->good_ns = unix_ns();
      // What a first look found stays: newer samples win.
      auto& samples = eye->look.reading.samples;
      reading.samples.insert(reading.samples.begin(), samples.begin(), samples.end());
      eye->look.reading = std::move(reading);
      eye->answered.notify_all();
    };
    try {
      std::thread(read).detach();
    } catch (const std::system_error&) {
      read();  // no thread to be had: then without a deadline
    }
  }
  return asked;
}

void Snapshots::await(const std::vector<size_t>& which) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::nanoseconds(options_.deadline_ns);
  for (const size_t i : which) {
    std::unique_lock lock(eyes_[i]->mutex);
    eyes_[i]->answered.wait_until(lock, deadline, [&] { return !eyes_[i]->asked; });
  }
}

bool Snapshots::needs_second_look(const Poller& eye) const {
  if (eye.asked || eye.failed) return false;
  if (options_.rates) return true;
  // NVIDIA's driver keeps both itself: what is missing at first stays missing.
  if (backend_->devices()[eye.look.device].vendor == "NVIDIA") return false;
  return !eye.look.value(Metric::kUtilization) || !eye.look.value(Metric::kPower);
}

std::vector<DeviceLook> Snapshots::take() {
  std::vector<size_t> which(eyes_.size());
  std::iota(which.begin(), which.end(), size_t{0});
  const auto begin = std::chrono::steady_clock::now();
  for (const auto& eye : eyes_) {
    const std::lock_guard lock(eye->mutex);
    eye->look.reading.clear();
  }
  await(ask(which));
  if (first_) {
    std::erase_if(which, [&](size_t i) {
      const std::lock_guard lock(eyes_[i]->mutex);
      return !needs_second_look(*eyes_[i]);
    });
    if (!which.empty()) std::this_thread::sleep_until(begin + std::chrono::nanoseconds(options_.rate_window_ns));
    await(ask(which));
    first_ = false;
  }
  std::vector<DeviceLook> looks;
  for (const auto& eye : eyes_) {
    const std::lock_guard lock(eye->mutex);
    DeviceLook look = eye->look;
    look.state = eye->asked ? DeviceState::kNotAnswering : eye->failed ? DeviceState::kError : DeviceState::kOk;
    look.message = eye->asked ? std::string(kDoesNotAnswer) : eye->message;
    look.since_ns = eye->good_ns;
    looks.push_back(std::move(look));
  }
  return looks;
}

bool Snapshots::any_stuck() const {
  for (const auto& eye : eyes_) {
    const std::lock_guard lock(eye->mutex);
    if (eye->asked) return true;
  }
  return false;
}

}  // namespace profgpu
