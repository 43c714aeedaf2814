// Pending: the result of work on a thread of its own, awaited until a deadline. Drivers and network file systems hang.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

namespace profgpu {

/// A thread was left behind in a driver, which may hold a lock for ever: the program should exit by std::_Exit.
inline std::atomic<bool> left_in_driver{false};

template <class T>
class Pending {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// Starts `work`, which must own all that it uses: it may outlive everything else. It is destroyed before the result
  /// is available. Where no thread can be started it runs at once, without a deadline.
  template <class Work>
  explicit Pending(Work work) {
    const auto run = [state = state_, work = std::optional<Work>(std::move(work))]() mutable {
      T result = (*work)();
      work.reset();
      const std::lock_guard lock(state->mutex);
      state->result = std::move(result);
      state->done.notify_all();
    };
    try {
      std::thread(run).detach();
    } catch (const std::system_error&) {
      auto here = run;
      here();
    }
  }

  /// The result, once; nullopt if there is none by then.
  std::optional<T> await(Time deadline) {
    std::unique_lock lock(state_->mutex);
    state_->done.wait_until(lock, deadline, [&] { return state_->result.has_value(); });
    return std::exchange(state_->result, std::nullopt);
  }

 private:
  struct State {
    std::mutex mutex;
    std::condition_variable done;
    std::optional<T> result;
  };
  std::shared_ptr<State> state_ = std::make_shared<State>();
};

}  // namespace profgpu
