// This machine's devices, or a replay's, as a LiveSource: the sampler's readings, and processes as /proc describes
// them.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "devices/backend.h"
#include "devices/sampler.h"
#include "watch/live/live_view.h"

namespace profgpu {

struct LocalSourceOptions {
  std::vector<uint32_t> devices;                ///< indices among the backend's
  int64_t interval_ns = 1'000'000'000;          ///< initially
  int64_t process_interval_ns = 1'000'000'000;  ///< shortest, between queries of processes
  /// Gets each reading, with commands and origins of its processes where known. Called by the sampler's threads, one at
  /// a time; must be quick.
  std::function<void(const Reading&)> recorder = {};
};

class LocalSource final : public LiveSource {
 public:
  LocalSource(std::shared_ptr<Backend> backend, LocalSourceOptions options);
  ~LocalSource() override;

  void start(std::function<void()> news) override;
  LiveView view() override;
  LiveTopology topology() override;
  bool stop() override;
  [[nodiscard]] int64_t interval_ns() const override;
  void set_interval(int64_t interval_ns) override;

  /// Whether each device has answered, or failed, and its processes have been looked up twice.
  [[nodiscard]] bool complete() const override;

 private:
  struct State;
  const LocalSourceOptions options_;
  std::shared_ptr<State> state_;    // threads that hang keep it
  Sampler sampler_;
};

}  // namespace profgpu
