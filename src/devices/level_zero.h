// LevelZero: the counters of whole devices in Intel's management interface (Level Zero Sysman). The kernel's files
// cover only the processes that this user may see, and neither memory bandwidth nor PCIe traffic.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/dyn_lib.h"
#include "devices/level_zero_api.h"
#include "devices/pending.h"
#include "trace/sample.h"

namespace profgpu {

/// For one thread at a time; says() for any.
class LevelZeroDevice {
 public:
  LevelZeroDevice(const level_zero::Api& api, level_zero::Device device);
  /// "0000:04:00.0"
  [[nodiscard]] const std::string& pci() const { return pci_; }
  /// Adds the device's counters; shares of time are since the previous reading.
  void read(Reading& reading);
  /// Whether the last reading had it.
  [[nodiscard]] bool says(Metric metric) const {
    return said_[static_cast<size_t>(metric)].load(std::memory_order_relaxed);
  }
  [[nodiscard]] int64_t calls() const { return calls_.load(std::memory_order_relaxed); }

 private:
  struct Engine {
    level_zero::Engine handle = nullptr;
    level_zero::EngineStats before{};
  };
  struct Memory {
    level_zero::Memory handle = nullptr;
    level_zero::MemoryBandwidth before{};
  };
  template <class... Parameters, class... Arguments>
  bool call(level_zero::Return (*function)(Parameters...), Arguments... arguments) {
    if (!function) return false;
    calls_.fetch_add(1, std::memory_order_relaxed);
    return function(arguments...) == level_zero::kSuccess;
  }
  void find_engines();
  void find_memories();
  void add(Reading& reading, Metric metric, double value);
  void add_utilization(Reading& reading);
  void add_memory(Reading& reading);
  void add_bandwidth(Reading& reading);
  void add_pcie(Reading& reading);

  const level_zero::Api& api_;
  const level_zero::Device device_;
  std::string pci_;
  bool counts_bytes_ = false, counts_replays_ = false;   // over PCIe
  std::vector<Engine> engines_;     // those that run kernels
  std::vector<Memory> memories_;    // on the device
  std::array<std::atomic<bool>, kMetricCount> said_{};
  std::atomic<int64_t> calls_{0};
};

class LevelZero {
 public:
  /// Waits for an opening that is under way, but not for one that hangs.
  ~LevelZero();

  /// The first call opens it in the background, since the driver takes most of a second for that and may hang.
  void start();
  /// Null while it is not open, or has no such device.
  [[nodiscard]] LevelZeroDevice* device(const std::string& pci) const;
  /// Why it has no values; empty if it is open.
  [[nodiscard]] std::string why() const;
  [[nodiscard]] int64_t calls() const;

 private:
  struct Opened {
    std::string why;   // empty: it is open
    DynLib library;
    std::optional<level_zero::Api> api;
    std::vector<std::unique_ptr<LevelZeroDevice>> devices;
  };
  static std::unique_ptr<Opened> open();
  const Opened* opened() const;   // under lock_

  mutable std::mutex lock_;
  mutable std::optional<Pending<std::unique_ptr<Opened>>> pending_;
  mutable std::unique_ptr<Opened> opened_;
};

}  // namespace profgpu
