// The calls that concern one device: how many were made, and what the driver last said about each metric.
#pragma once

#include <array>
#include <atomic>
#include <string>

#include "collect/nvml_library.h"
#include "trace/metric.h"

namespace profgpu::nvml {

struct DeviceCalls {
  DeviceCalls(Library& l, Device d) : library(l), device(d) {
    for (auto& a : answers) a.store(kNeverAsked, std::memory_order_relaxed);
  }

  template <class... Parameters, class... Arguments>
  Return call(Return (*function)(Device, Parameters...), Arguments... arguments) {
    made += function != nullptr;
    return library.call(function, device, arguments...);
  }
  template <class... Parameters, class... Arguments>
  Return call_system(Return (*function)(Parameters...), Arguments... arguments) {
    made += function != nullptr;
    return library.call(function, arguments...);
  }

  void note(Metric metric, Return code) { answers[static_cast<size_t>(metric)].store(code, std::memory_order_relaxed); }
  /// Empty: the metric has been answered.
  [[nodiscard]] std::string why(Metric metric) const;

  static constexpr int kNeverAsked = -1;
  Library& library;
  Device device;
  Device parent = nullptr;         ///< of a MIG instance: its GPU
  uint32_t gpu_instance = 0;       ///< of a MIG instance
  bool divided = false;            ///< a GPU in MIG mode
  int64_t made = 0;                ///< for the thread that reads
  /// Return codes; other threads ask why while one reads.
  std::array<std::atomic<int>, kMetricCount> answers;
};

}  // namespace profgpu::nvml
