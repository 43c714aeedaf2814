#include "collect/nvml_library.h"

#include <fmt/format.h>

#include <cstdlib>
#include <utility>
#include <vector>

#include "collect/pending.h"

namespace profgpu::nvml {
namespace {

// The newest name comes first: an older one may leave out what the newer call reports.
template <class Function>
void find(const DynLib& library, Function& out, std::initializer_list<const char*> names) {
  for (const char* name : names)
    if (!out) out = library.symbol<Function>(name);
}

void find_inventory(const DynLib& l, Api& a) {
  find(l, a.init, {"nvmlInit_v2", "nvmlInit"});
  find(l, a.shutdown, {"nvmlShutdown"});
  find(l, a.count, {"nvmlDeviceGetCount_v2", "nvmlDeviceGetCount"});
  find(l, a.handle, {"nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetHandleByIndex"});
  find(l, a.driver_version, {"nvmlSystemGetDriverVersion"});
  find(l, a.nvml_version, {"nvmlSystemGetNVMLVersion"});
  find(l, a.cuda_version, {"nvmlSystemGetCudaDriverVersion_v2", "nvmlSystemGetCudaDriverVersion"});
  find(l, a.name, {"nvmlDeviceGetName"});
  find(l, a.uuid, {"nvmlDeviceGetUUID"});
  find(l, a.serial, {"nvmlDeviceGetSerial"});
  find(l, a.vbios, {"nvmlDeviceGetVbiosVersion"});
  find(l, a.pci_info, {"nvmlDeviceGetPciInfo_v3", "nvmlDeviceGetPciInfo_v2", "nvmlDeviceGetPciInfo"});
  find(l, a.memory_affinity, {"nvmlDeviceGetMemoryAffinity"});
  find(l, a.mig_mode, {"nvmlDeviceGetMigMode"});
  find(l, a.mig_count, {"nvmlDeviceGetMaxMigDeviceCount"});
  find(l, a.mig_handle, {"nvmlDeviceGetMigDeviceHandleByIndex"});
  find(l, a.gpu_instance, {"nvmlDeviceGetGpuInstanceId"});
  find(l, a.compute_instance, {"nvmlDeviceGetComputeInstanceId"});
  find(l, a.attributes, {"nvmlDeviceGetAttributes_v2"});
}

void find_readings(const DynLib& l, Api& a) {
  find(l, a.fields, {"nvmlDeviceGetFieldValues"});
  find(l, a.samples, {"nvmlDeviceGetSamples"});
  find(l, a.utilization, {"nvmlDeviceGetUtilizationRates"});
  find(l, a.encoder, {"nvmlDeviceGetEncoderUtilization"});
  find(l, a.decoder, {"nvmlDeviceGetDecoderUtilization"});
  find(l, a.jpeg, {"nvmlDeviceGetJpgUtilization"});
  find(l, a.ofa, {"nvmlDeviceGetOfaUtilization"});
  find(l, a.memory, {"nvmlDeviceGetMemoryInfo"});
  find(l, a.memory_v2, {"nvmlDeviceGetMemoryInfo_v2"});
  find(l, a.bar1, {"nvmlDeviceGetBAR1MemoryInfo"});
  find(l, a.power, {"nvmlDeviceGetPowerUsage"});
  find(l, a.power_limit, {"nvmlDeviceGetEnforcedPowerLimit"});
  find(l, a.power_default, {"nvmlDeviceGetPowerManagementDefaultLimit"});
  find(l, a.power_range, {"nvmlDeviceGetPowerManagementLimitConstraints"});
  find(l, a.energy, {"nvmlDeviceGetTotalEnergyConsumption"});
  find(l, a.temperature, {"nvmlDeviceGetTemperature"});
  find(l, a.temperature_v, {"nvmlDeviceGetTemperatureV"});
  find(l, a.margin, {"nvmlDeviceGetMarginTemperature"});
  find(l, a.threshold, {"nvmlDeviceGetTemperatureThreshold"});
  find(l, a.fan, {"nvmlDeviceGetFanSpeed"});
  find(l, a.pstate, {"nvmlDeviceGetPerformanceState"});
  find(l, a.clock, {"nvmlDeviceGetClockInfo"});
  find(l, a.clock_max, {"nvmlDeviceGetMaxClockInfo"});
  find(l, a.clock_reasons, {"nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"});
  find(l, a.pcie_generation, {"nvmlDeviceGetCurrPcieLinkGeneration"});
  find(l, a.pcie_width, {"nvmlDeviceGetCurrPcieLinkWidth"});
  find(l, a.pcie_generation_max, {"nvmlDeviceGetMaxPcieLinkGeneration"});
  find(l, a.pcie_width_max, {"nvmlDeviceGetMaxPcieLinkWidth"});
}

void find_processes(const DynLib& l, Api& a) {
  find(l, a.compute_v3, {"nvmlDeviceGetComputeRunningProcesses_v3"});
  find(l, a.compute_v2, {"nvmlDeviceGetComputeRunningProcesses_v2"});
  find(l, a.compute_v1, {"nvmlDeviceGetComputeRunningProcesses"});
  find(l, a.graphics_v3, {"nvmlDeviceGetGraphicsRunningProcesses_v3"});
  find(l, a.graphics_v2, {"nvmlDeviceGetGraphicsRunningProcesses_v2"});
  find(l, a.graphics_v1, {"nvmlDeviceGetGraphicsRunningProcesses"});
  find(l, a.mps_v3, {"nvmlDeviceGetMPSComputeRunningProcesses_v3"});
  find(l, a.mps_v2, {"nvmlDeviceGetMPSComputeRunningProcesses_v2"});
  find(l, a.mps_v1, {"nvmlDeviceGetMPSComputeRunningProcesses"});
  find(l, a.process_utilization, {"nvmlDeviceGetProcessUtilization"});
  find(l, a.processes_utilization, {"nvmlDeviceGetProcessesUtilizationInfo"});
}

void find_others(const DynLib& l, Api& a) {
  find(l, a.persistence, {"nvmlDeviceGetPersistenceMode"});
  find(l, a.compute_mode, {"nvmlDeviceGetComputeMode"});
  find(l, a.ecc_mode, {"nvmlDeviceGetEccMode"});
  find(l, a.link_state, {"nvmlDeviceGetNvLinkState"});
  find(l, a.link_version, {"nvmlDeviceGetNvLinkVersion"});
  find(l, a.link_remote, {"nvmlDeviceGetNvLinkRemotePciInfo_v2", "nvmlDeviceGetNvLinkRemotePciInfo"});
  find(l, a.link_remote_type, {"nvmlDeviceGetNvLinkRemoteDeviceType"});
  find(l, a.link_errors, {"nvmlDeviceGetNvLinkErrorCounter"});
  find(l, a.ancestor, {"nvmlDeviceGetTopologyCommonAncestor"});
  find(l, a.event_create, {"nvmlEventSetCreate"});
  find(l, a.event_free, {"nvmlEventSetFree"});
  find(l, a.event_register, {"nvmlDeviceRegisterEvents"});
  find(l, a.event_wait, {"nvmlEventSetWait_v2", "nvmlEventSetWait"});
  find(l, a.gpm_support, {"nvmlGpmQueryDeviceSupport"});
  find(l, a.gpm_alloc, {"nvmlGpmSampleAlloc"});
  find(l, a.gpm_free, {"nvmlGpmSampleFree"});
  find(l, a.gpm_sample, {"nvmlGpmSampleGet"});
  find(l, a.gpm_mig_sample, {"nvmlGpmMigSampleGet"});
  find(l, a.gpm_metrics, {"nvmlGpmMetricsGet"});
}

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
    case kUninitialized: return "NVML is not initialised";
    case kInvalidArgument: return "not known to this driver or device";
    case kNotSupported: return "not supported by this device";
    case kNoPermission: return "no permission";
    case kNotFound: return "no data at present";
    case kInsufficientSize: return "the driver wants more room than it says";
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

Library::Library(DynLib library) : library_(std::move(library)) {
  find_inventory(library_, api);
  find_readings(library_, api);
  find_processes(library_, api);
  find_others(library_, api);
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
