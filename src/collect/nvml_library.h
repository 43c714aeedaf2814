// The NVML library, opened and initialised, with a count of the calls that were made into it.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "base/dyn_lib.h"
#include "base/result.h"
#include "collect/nvml_api.h"

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

}  // namespace profgpu::nvml
