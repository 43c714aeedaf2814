#include "devices/nvml_library.h"

#include <fmt/format.h>

#include <cstdlib>
#include <utility>
#include <vector>

#include "devices/pending.h"

namespace profgpu::nvml {

namespace {

Error not_initialised(Return code) {
  switch (code) {
    case kDriverNotLoaded:
      return {"the NVIDIA driver is not loaded", "load it (modprobe nvidia), or see why not: dmesg | grep -i nvrm"};
    case kVersionMismatch:
      return {"NVML and the NVIDIA kernel driver are of different versions: the driver was upgraded while loaded",
              "reboot, or unload and load the kernel module (rmmod nvidia_uvm nvidia; modprobe nvidia)"};
    case kNoPermission:
      return {"no permission to talk to the NVIDIA driver", "see who may open /dev/nvidiactl and /dev/nvidia0"};
    case kGpuIsLost:
      return {"a GPU is lost: it has fallen off the bus", "dmesg | grep -i xid names it; reset it or reboot"};
    default: return {"NVML does not start: " + words_of(code), "nvidia-smi should say the same"};
  }
}

}  // namespace

std::string words_of(Return code) {
  switch (code) {
    case kSuccess: return {};
    case kUninitialized: return "NVML is not initialized";
    case kInvalidArgument: return "not supported by this driver or device";
    case kNotSupported: return "not supported by this device";
    case kNoPermission: return "no permission";
    case kNotFound: return "no data at present";
    case kInsufficientSize: return "the driver needs a larger buffer than it reports";
    case kDriverNotLoaded: return "the driver is not loaded";
    case kTimeout: return "does not answer";
    case kLibraryNotFound: return "a library of the driver is missing";
    case kFunctionNotFound: return "this driver has no call for it";
    case kGpuIsLost: return "GPU is lost";
    case kResetRequired: return "GPU requires reset";
    case kOperatingSystem: return "the operating system blocks the driver";
    case kVersionMismatch: return "driver and library are of different versions";
    case kInUse: return "in use by another program";
    case kMemory: return "the driver has no memory left";
    case kNoData: return "no data at present";
    case kArgumentVersionMismatch: return "this driver has another version of the call";
    case kDeprecated: return "this driver no longer reports it";
    case kNotReady: return "the device is not ready";
    case kUnknown: return "unknown error of the driver";
  }
  return fmt::format("NVML error {}", static_cast<int>(code));
}

Library::~Library() {
  if (initialised_) call(api.shutdown);
}

void Library::abandon() {
  left_in_driver = true;
  initialised_ = false;
  library_.leak();
}

Status Library::initialise() {
  if (!api.init || !api.shutdown || !api.count || !api.handle)
    return Error{path() + " is no NVML: it has no nvmlInit, nvmlShutdown, nvmlDeviceGetCount or handle"};
  if (const Return code = call(api.init); code != kSuccess) return not_initialised(code);
  initialised_ = true;
  char text[96] = {};
  if (call(api.driver_version, text, uint32_t{sizeof text - 1}) == kSuccess) driver_version_ = text;
  return ok();
}

namespace {

Result<DynLib> open_driver_library() {
  const char* named = std::getenv("PROFGPU_NVML_LIBRARY");
  std::vector<std::string> names = {"libnvidia-ml.so.1", "libnvidia-ml.so", "/usr/lib/wsl/lib/libnvidia-ml.so.1"};
  if (named && *named) names = {named};
  auto opened = DynLib::open_first(names);
  if (opened) return opened;
  Error error = opened.error().within("NVML cannot be opened");
  error.hint = named && *named ? "PROFGPU_NVML_LIBRARY names this library"
                               : "it comes with the NVIDIA driver; in a container use --gpus all";
  return error;
}

}  // namespace

bool installed() { return static_cast<bool>(open_driver_library()); }

Result<std::shared_ptr<Library>> Library::open() {
  auto opened = open_driver_library();
  if (!opened) return opened.error();
  std::shared_ptr<Library> library(new Library(std::move(*opened)));
  if (Status status = library->initialise(); !status) return status.error();
  return library;
}

}  // namespace profgpu::nvml
