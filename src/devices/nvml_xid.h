// Xid events: errors that the driver reports about a device while we watch.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "devices/nvml_library.h"

namespace profgpu::nvml {

/// Watches on a thread of its own, since an event set is for one thread and a lost device may hang the call.
class XidWatch {
 public:
  struct Seen {
    int state = kNotReady;         ///< Return of the registration
    int64_t count = 0;
    int64_t last = 0, last_ns = 0; ///< code and Unix time of the last one; only where count > 0
  };
  XidWatch(std::shared_ptr<Library> library, std::vector<Device> devices);
  /// The first call starts it: only who samples needs it, and it costs a thread.
  void start();
  /// A watch that is stuck in the driver is left behind, with the library.
  ~XidWatch();
  XidWatch(const XidWatch&) = delete;
  XidWatch& operator=(const XidWatch&) = delete;

  /// Looks now if nobody has since `since_ns` (monotonic), and waits for that for a short while: an error often ends
  /// the program that caused it, and with it us. Does nothing while the devices are still being enrolled.
  void refresh(int64_t since_ns);

  /// Of the device at that position of those given.
  [[nodiscard]] Seen seen(size_t device) const;
  /// Another number after anything that seen() and take_events() tell has changed, of any device. Takes no lock.
  [[nodiscard]] uint32_t version() const { return state_->version.load(std::memory_order_acquire); }

  struct Event {
    int64_t code = 0, time_ns = 0;
  };
  /// Events of that device since the call before, oldest first; of very many the newest kMostEvents.
  std::vector<Event> take_events(size_t device);
  static constexpr size_t kMaxEvents = 64;

 private:
  struct State {
    std::shared_ptr<Library> library;
    std::vector<Device> devices;
    std::atomic<uint32_t> version{0};
    std::mutex lock;               // all below
    std::condition_variable changed;
    std::vector<Seen> seen;
    std::vector<std::vector<Event>> events;   // that nobody took yet, by device
    bool stopping = false, ended = false;
    int64_t asked = 0, looked = -1; ///< refreshes wanted and done; looked is -1 until the devices are enrolled
    int64_t looked_ns = 0;          ///< monotonic: when the last look began
    bool silent = false;           ///< the driver did not answer one in time: the next need not wait too
  };
  static void watch(State& state);
  static EventSet enrol(State& state);
  static void take(State& state, const EventData& event);

  std::shared_ptr<State> state_;
  std::once_flag started_;
  std::thread thread_;
};

}  // namespace profgpu::nvml
