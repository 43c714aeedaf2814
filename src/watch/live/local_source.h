// This machine's devices, or a recording's, as a LiveSource: the sampler's readings, and what /proc knows of processes.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "devices/backend.h"
#include "devices/sampler.h"
#include "watch/live/live_view.h"

namespace profgpu {

struct LocalSourceOptions {
  std::vector<uint32_t> devices;                ///< positions among the backend's
  int64_t interval_ns = 1'000'000'000;          ///< to begin with
  int64_t process_interval_ns = 1'000'000'000;  ///< how often processes are asked for and looked up at most
  /// Gets each reading, with commands and origins of its processes where they are known. Called by the sampler's
  /// threads, one at a time; must be quick.
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

  /// Whether each device has answered, or been given up, and its processes have been looked up twice.
  [[nodiscard]] bool complete() const override;

 private:
  struct State;
  [[nodiscard]] LiveView bare_view() const;
  const LocalSourceOptions options_;
  std::shared_ptr<State> state_;    // stays with threads that hang
  Sampler sampler_;
};

}  // namespace profgpu
