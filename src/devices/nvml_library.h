// The NVML library, opened and initialised, with a count of the calls that were made into it.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <string>

#include "base/dyn_lib.h"
#include "base/result.h"
#include "devices/nvml_api.h"
#include "trace/metric.h"

namespace profgpu::nvml {

class Library {
 public:
  /// PROFGPU_NVML_LIBRARY where it is set, else the driver's usual names. Initialises NVML.
  static Result<std::shared_ptr<Library>> open();
  ~Library();
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  /// kFunctionNotFound where this driver has no such call.
  template <class... Parameters, class... Arguments>
  Return call(Return (*function)(Parameters...), Arguments... arguments) {
    if (!function) return kFunctionNotFound;
    calls_.fetch_add(1, std::memory_order_relaxed);
    return function(arguments...);
  }
  [[nodiscard]] int64_t calls() const { return calls_.load(std::memory_order_relaxed); }
  [[nodiscard]] const std::string& path() const { return library_.path(); }
  /// "535.54.03"; empty: not known.
  [[nodiscard]] const std::string& driver_version() const { return driver_version_; }
  /// A thread is stuck in the driver: never shut it down or unload it.
  void abandon();

 private:
  explicit Library(DynLib library) : library_(std::move(library)) {}
  Status initialise();

  DynLib library_;

 public:
  const Api api{library_};

 private:
  std::atomic<int64_t> calls_{0};
  std::string driver_version_;
  bool initialised_ = false;
};

/// There is such a library, whether or not it works.
bool installed();
/// For people: "not supported by this device".
std::string words_of(Return code);
/// The device as a whole does not work: lost, or to be reset.
constexpr bool device_gone(Return code) { return code == kGpuIsLost || code == kResetRequired; }
/// It will give the same answer for ever.
constexpr bool is_final(Return code) {
  return code == kNotSupported || code == kNoPermission || code == kFunctionNotFound || code == kInvalidArgument ||
         code == kArgumentVersionMismatch || code == kDeprecated;
}

// The calls that concern one device: how many were made, and what the driver last said about each metric.

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
