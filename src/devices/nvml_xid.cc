#include "devices/nvml_xid.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/clock.h"
#include "base/steady_unix.h"

namespace profgpu::nvml {
namespace {

// The driver queues events, so that looking now and then loses none. Waiting inside the driver instead would make every
// program that ends wait for it.
constexpr auto kPause = std::chrono::seconds(1);
constexpr auto kPatience = std::chrono::milliseconds(100);  // for a call that is under way

}  // namespace

XidWatch::XidWatch(std::shared_ptr<Library> library, std::vector<Device> devices) : state_(std::make_shared<State>()) {
  state_->library = std::move(library);
  state_->devices = std::move(devices);
  state_->seen.resize(state_->devices.size());
  state_->events.resize(state_->devices.size());
  const Api& api = state_->library->api;
  if (api.event_create && api.event_register && api.event_wait && api.event_free) return;
  for (Seen& s : state_->seen) s.state = kFunctionNotFound;
}

void XidWatch::start() {
  std::call_once(started_, [this] {
    if (!state_->seen.empty() && state_->seen[0].state != kFunctionNotFound)
      thread_ = std::thread([state = state_] { watch(*state); });
  });
}

XidWatch::~XidWatch() {
  if (!thread_.joinable()) return;
  std::unique_lock lock(state_->lock);
  state_->stopping = true;
  state_->changed.notify_all();
  const bool ended = state_->changed.wait_for(lock, kPatience, [&] { return state_->ended; });
  lock.unlock();
  if (ended) {
    thread_.join();
  } else {
    state_->library->abandon();
    thread_.detach();
  }
}

void XidWatch::refresh(int64_t since_ns) {
  std::unique_lock lock(state_->lock);
  if (state_->looked < 0 || state_->ended || state_->silent) return;
  if (state_->looked_ns > since_ns) return;
  const int64_t wanted = ++state_->asked;
  state_->changed.notify_all();
  const auto answered = [&] { return state_->looked >= wanted || state_->ended; };
  state_->silent = !state_->changed.wait_for(lock, kPatience, answered);
}

XidWatch::Seen XidWatch::seen(size_t device) const {
  std::lock_guard lock(state_->lock);
  return state_->seen[device];
}

std::vector<XidWatch::Event> XidWatch::take_events(size_t device) {
  std::lock_guard lock(state_->lock);
  return std::exchange(state_->events[device], {});
}

EventSet XidWatch::enrol(State& state) {
  Library& library = *state.library;
  EventSet set = nullptr;
  const Return created = library.call(library.api.event_create, &set);
  for (size_t i = 0; i < state.devices.size(); ++i) {
    Return code = created;
    if (code == kSuccess)
      code = state.devices[i] ? library.call(library.api.event_register, state.devices[i], kXidEvent, set) : kGpuIsLost;
    std::lock_guard lock(state.lock);
    state.seen[i].state = code;
    state.version.fetch_add(1, std::memory_order_release);
  }
  return created == kSuccess ? set : nullptr;
}

void XidWatch::take(State& state, const EventData& event) {
  if (!(event.type & kXidEvent)) return;
  std::lock_guard lock(state.lock);
  for (size_t i = 0; i < state.devices.size(); ++i) {
    if (state.devices[i] != event.device) continue;
    ++state.seen[i].count;
    state.seen[i].last = static_cast<int64_t>(event.data);
    // Two events never have one time.
    state.seen[i].last_ns = std::max(steady_unix_ns(), state.seen[i].last_ns + 1);
    std::vector<Event>& events = state.events[i];
    if (events.size() == kMaxEvents) events.erase(events.begin());
    events.push_back({state.seen[i].last, state.seen[i].last_ns});
    state.version.fetch_add(1, std::memory_order_release);
  }
}

void XidWatch::watch(State& state) {
  Library& library = *state.library;
  const EventSet set = enrol(state);
  std::unique_lock lock(state.lock);
  state.looked = 0;
  while (set && !state.stopping) {
    state.changed.wait_for(lock, kPause, [&] { return state.stopping || state.asked > state.looked; });
    if (state.stopping) break;
    const int64_t asked = state.asked, began_ns = monotonic_ns();
    lock.unlock();
    EventData event{};
    // Bounded, so that a device that reports without end leaves time for the end.
    for (int i = 0; i < 64 && library.call(library.api.event_wait, set, &event, uint32_t{0}) == kSuccess; ++i)
      take(state, event);
    lock.lock();
    state.looked = asked;
    state.looked_ns = began_ns;
    state.silent = false;
    state.changed.notify_all();
  }
  lock.unlock();
  if (set) library.call(library.api.event_free, set);
  lock.lock();
  state.ended = true;
  state.changed.notify_all();
}

}  // namespace profgpu::nvml
