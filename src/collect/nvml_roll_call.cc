// All devices asked who they are, so that one that hangs keeps no other from being watched.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "collect/nvml_inventory.h"
#include "collect/pending.h"

namespace profgpu::nvml {
namespace {

using Clock = std::chrono::steady_clock;

constexpr uint32_t kMostDevices = 256;
constexpr size_t kMostAtOnce = 16;
// Devices that take less than threads would are asked one after the other.
constexpr std::chrono::milliseconds kWorthThreads{1};
// For the next answer once a device has given one: a driver without persistence mode wakes them one by one.
constexpr std::chrono::seconds kNextAnswer{3};

// What the threads share. One that hangs keeps it.
struct RollCall {
  std::mutex lock;                          // everything below
  std::condition_variable changed;
  bool with_constants = true;
  std::shared_ptr<Library> library;
  std::optional<Error> failed;
  std::vector<std::vector<Found>> answers;  // by index; empty: none yet
  size_t next = 0, answered = 0;
  Clock::time_point answered_at;
  [[nodiscard]] bool complete() const { return failed || (library && answered == answers.size()); }
};

Result<uint32_t> count_of(Library& library) {
  uint32_t count = 0;
  if (const Return code = library.call(library.api.count, &count); code != kSuccess)
    return Error{"NVML does not count its devices: " + words_of(code)};
  if (count == 0)
    return Error{"the NVIDIA driver works but has no device",
                 "in a container pass the devices in (--gpus all); else see lspci -d 10de: and dmesg | grep -i nvrm"};
  return std::min(count, kMostDevices);
}

void ask_devices(RollCall& call) {
  std::unique_lock lock(call.lock);
  while (call.next < call.answers.size()) {
    const size_t index = call.next++;
    lock.unlock();
    auto answer = find_device(*call.library, static_cast<uint32_t>(index), call.with_constants);
    lock.lock();
    call.answers[index] = std::move(answer);
    ++call.answered;
    call.answered_at = Clock::now();
    call.changed.notify_all();
  }
}

void open_and_ask(RollCall& call) {
  auto library = Library::open();
  const Result<uint32_t> count = library ? count_of(**library) : Result<uint32_t>(library.error());
  {
    const std::lock_guard lock(call.lock);
    if (count) call.answers.resize(*count), call.library = std::move(*library);
    else call.failed = count.error();
    call.changed.notify_all();
  }
  if (count) ask_devices(call);
}

void employ_more(const std::shared_ptr<RollCall>& call, size_t most, std::vector<std::thread>& threads) {
  try {
    while (threads.size() < most) threads.emplace_back([call] { ask_devices(*call); });
  } catch (const std::system_error&) {   // no more threads to be had
  }
}

// False: nobody has answered.
bool await_answers(RollCall& call, std::unique_lock<std::mutex>& lock, Clock::time_point deadline) {
  for (;;) {
    const auto until = call.answered ? call.answered_at + kNextAnswer : deadline;
    const size_t before = call.answered;
    if (!call.changed.wait_until(lock, until, [&] { return call.complete() || call.answered > before; }))
      return call.answered > 0;
    if (call.complete()) return true;
  }
}

Found silent_device(const Library& library, size_t index) {
  Found f;
  f.broken = kTimeout;
  f.info.index = static_cast<uint32_t>(index);
  f.info.vendor = "NVIDIA";
  f.info.driver_version = library.driver_version();
  f.info.name = "NVIDIA GPU (" + words_of(f.broken) + ")";
  return f;
}

Result<std::vector<Found>> all_found(RollCall& call) {
  std::vector<Found> all;
  size_t forbidden = 0;
  for (size_t i = 0; i < call.answers.size(); ++i) {
    std::vector<Found> answer = std::exchange(call.answers[i], {});
    if (answer.empty()) answer.push_back(silent_device(*call.library, i));
    const auto gpu = static_cast<uint32_t>(all.size());
    for (Found& f : answer) {
      if (f.info.parent) f.info.parent = gpu;
      forbidden += f.broken == kNoPermission;
      all.push_back(std::move(f));
    }
  }
  if (forbidden == all.size())
    return Error{"no permission to use any of the NVIDIA devices", "see who may open /dev/nvidia0 and so on"};
  return all;
}

}  // namespace

Result<Inventory> take_inventory(int64_t patience_ns, bool with_constants) {
  const auto deadline = Clock::now() + std::chrono::nanoseconds(patience_ns);
  const auto call = std::make_shared<RollCall>();
  call->with_constants = with_constants;
  std::vector<std::thread> threads;
  threads.emplace_back([call] { open_and_ask(*call); });
  std::unique_lock lock(call->lock);
  call->changed.wait_until(lock, deadline, [&] { return call->library || call->failed; });
  call->changed.wait_for(lock, kWorthThreads, [&] { return call->complete(); });
  if (call->library && !call->complete())
    employ_more(call, std::min(call->answers.size(), kMostAtOnce), threads);
  const bool answered = await_answers(*call, lock, deadline), complete = call->complete();
  call->next = call->answers.size();
  if (!complete) left_in_driver = true;
  if (call->library && !complete) call->library->abandon();
  lock.unlock();
  for (std::thread& thread : threads) complete ? thread.join() : thread.detach();
  if (!answered)
    return Error{fmt::format("the NVIDIA driver has not answered for {} s", patience_ns / 1'000'000'000),
                 "dmesg | grep -i -e nvrm -e xid may say why; a device that hangs needs a reset or a reboot"};
  lock.lock();
  if (call->failed) return *call->failed;
  auto found = all_found(*call);
  if (!found) return found.error();
  return Inventory{call->library, std::move(*found)};
}

}  // namespace profgpu::nvml
