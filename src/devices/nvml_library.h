// NVML as its library exports it, in declarations of our own: the vendor's header need not be there.
//
// Sizes and version words are those of x86-64 and of NVIDIA's header (11.1 to 13.2). A version word is the size of the
// struct with the version in the top byte, but for GPM, whose versions are plain numbers.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "base/dyn_lib.h"
#include "base/result.h"
#include "trace/metric.h"

namespace profgpu::nvml {

struct OpaqueDevice;
using Device = OpaqueDevice*;
using EventSet = struct OpaqueEventSet*;
using GpmSample = struct OpaqueGpmSample*;

enum Return : int {
  kSuccess = 0, kUninitialized = 1, kInvalidArgument = 2, kNotSupported = 3, kNoPermission = 4, kNotFound = 6,
  kInsufficientSize = 7, kDriverNotLoaded = 9, kTimeout = 10, kLibraryNotFound = 12, kFunctionNotFound = 13,
  kGpuIsLost = 15, kResetRequired = 16, kOperatingSystem = 17, kVersionMismatch = 18, kInUse = 19, kMemory = 20,
  kNoData = 21, kArgumentVersionMismatch = 25, kDeprecated = 26, kNotReady = 27, kUnknown = 999,
};

constexpr uint32_t version_word(size_t size, uint32_t version) { return static_cast<uint32_t>(size) | version << 24; }
/// What stands in a number that the driver cannot know (per-process memory under Windows and WSL).
constexpr uint64_t kNotAvailable = ~uint64_t{0};
constexpr uint32_t kNotAvailable32 = ~uint32_t{0};
constexpr uint32_t kAllLinks = ~uint32_t{0};  ///< scope of NVLink fields: the sum
constexpr uint32_t kMaxLinks = 18;
constexpr uint32_t kTdpClock = 0xffffff01;   ///< in place of MHz: what the device holds within its power limit

struct PciInfo {
  char bus_id_legacy[16];
  uint32_t domain, bus, device, pci_device_id, pci_subsystem_id;
  char bus_id[32];
};
static_assert(sizeof(PciInfo) == 68);

struct Memory {
  uint64_t total, free, used;
};
static_assert(sizeof(Memory) == 24);
struct MemoryV2 {
  uint32_t version;
  uint64_t total, reserved, free, used;
};
static_assert(version_word(sizeof(MemoryV2), 2) == 0x02000028);
struct Bar1Memory {
  uint64_t total, free, used;
};
static_assert(sizeof(Bar1Memory) == 24);

struct Utilization {
  uint32_t gpu, memory;  ///< percent
};

union Value {
  double d;
  uint32_t u32;
  uint64_t u64;
  int64_t i64;
  int32_t i32;
  uint16_t u16;
};
enum ValueType : uint32_t {
  kDouble = 0, kUint = 1, kUlong = 2, kUlonglong = 3, kSlonglong = 4, kSint = 5, kUshort = 6,
};

struct FieldValue {
  uint32_t field, scope;
  int64_t time_us;   ///< since 1970
  int64_t latency_us;
  uint32_t type;     ///< ValueType
  int32_t result;    ///< Return
  Value value;
};
static_assert(sizeof(FieldValue) == 40);
enum Field : uint32_t {
  kEccSbeVolatile = 3, kEccDbeVolatile = 4, kEccSbeLifetime = 5, kEccDbeLifetime = 6, kRetiredSbe = 29,
  kRetiredDbe = 30, kRetiredPending = 31, kLinkCrcFlit = 38, kLinkCrcData = 45, kLinkReplay = 52, kLinkRecovery = 59,
  kThrottlePower = 74, kThrottleThermal = 75, kThrottleSyncBoost = 76, kThrottleBoardLimit = 77,
  kThrottleLowUtilization = 78, kThrottleReliability = 79, kMemoryTemperature = 82, kTotalEnergy = 83,
  kPcieReplay = 94, kLinkDataTx = 138, kLinkDataRx = 139, kRemappedCorrected = 142, kRemappedUncorrected = 143,
  kRemappedPending = 144, kRemappedFailed = 145, kLinkSpeedMBps = 164, kPowerAverage = 185, kPowerInstant = 186,
  kPcieTxBytes = 197, kPcieRxBytes = 198, kRecoveryAction = 230, kThrottleSwThermal = 269, kThrottleHwThermal = 270,
  kThrottleHwPowerBrake = 271,
};

struct RingSample {
  uint64_t time_us;  ///< since 1970
  Value value;
};
static_assert(sizeof(RingSample) == 16);
enum SamplingType : uint32_t { kPowerSamples = 0, kGpuSamples = 1, kMemorySamples = 2 };

struct ProcessV1 {
  uint32_t pid;
  uint64_t memory;
};
static_assert(sizeof(ProcessV1) == 16);
/// Of the _v2 and _v3 calls. Drivers 535.43 to 535.85 return ProcessConfidential from _v3 instead.
struct ProcessV2 {
  uint32_t pid;
  uint64_t memory;
  uint32_t gpu_instance, compute_instance;
};
static_assert(sizeof(ProcessV2) == 24);
struct ProcessConfidential {
  ProcessV2 process;
  uint64_t protected_memory;
};
static_assert(sizeof(ProcessConfidential) == 32);

struct ProcessUtilization {
  uint32_t pid;
  uint64_t time_us;
  uint32_t sm, memory, encoder, decoder;
};
static_assert(sizeof(ProcessUtilization) == 32);
struct ProcessUtilizationInfo {
  uint64_t time_us;
  uint32_t pid, sm, memory, encoder, decoder, jpeg, ofa;
};
static_assert(sizeof(ProcessUtilizationInfo) == 40);
struct ProcessesUtilizationInfo {
  uint32_t version, count;
  uint64_t last_seen_us;
  ProcessUtilizationInfo* rows;
};
static_assert(version_word(sizeof(ProcessesUtilizationInfo), 1) == 0x01000018);

struct TemperatureV1 {
  uint32_t version, sensor;
  int32_t degrees;
};
static_assert(version_word(sizeof(TemperatureV1), 1) == 0x0100000c);
struct MarginTemperature {
  uint32_t version;
  int32_t degrees;
};
static_assert(version_word(sizeof(MarginTemperature), 1) == 0x01000008);

struct DeviceAttributes {
  uint32_t multiprocessors, copy_engines, decoders, encoders, jpegs, ofas, gpu_slices, compute_slices;
  uint64_t memory_mib;
};
static_assert(sizeof(DeviceAttributes) == 40);

struct EventData {
  Device device;
  uint64_t type, data;  ///< of an Xid event `data` is the Xid, 999 where unknown
  uint32_t gpu_instance, compute_instance;
};
static_assert(sizeof(EventData) == 32);
constexpr uint64_t kXidEvent = 8;

struct GpmSupport {
  uint32_t version, supported;
};
struct GpmMetric {
  uint32_t id;
  int32_t result;  ///< Return
  double value;
  const char *short_name, *long_name, *unit;
};
static_assert(sizeof(GpmMetric) == 40);
/// The vendor's array has a length that grew with the years while the version stayed 1: the driver goes by `count`.
template <size_t N>
struct GpmMetrics {
  uint32_t version, count;
  GpmSample before, after;
  GpmMetric metrics[N];
};
static_assert(offsetof(GpmMetrics<1>, metrics) == 24 && sizeof(GpmMetrics<3>) == 24 + 3 * 40);

enum ClockType : uint32_t { kGraphicsClock = 0, kSmClock = 1, kMemoryClock = 2, kVideoClock = 3 };
enum Threshold : uint32_t { kShutdownThreshold = 0, kSlowdownThreshold = 1 };
enum LinkDevice : uint32_t { kLinkGpu = 0, kLinkIbmNpu = 1, kLinkSwitch = 2 };
enum Ancestor : uint32_t { kInternal = 0, kSingle = 10, kMultiple = 20, kHostBridge = 30, kNode = 40, kSystem = 50 };

using CountedProcesses = Return (*)(Device, uint32_t* count, void* rows);
using GetUint = Return (*)(Device, uint32_t*);
using GetText = Return (*)(Device, char*, uint32_t);

/// The calls. Null: the library has none. Where a call has several versions with one signature, the newest there is:
/// its name comes first, as an older one may leave out what the newer call reports.
class Api {
  const DynLib& library_;   // what the calls are initialised from
  template <class... Names>
  [[nodiscard]] DynLib::Symbol find(Names... names) const {
    return library_.first_symbol({names...});
  }

 public:
  explicit Api(const DynLib& library) : library_(library) {}

  Return (*init)() = find("nvmlInit_v2", "nvmlInit");
  Return (*shutdown)() = find("nvmlShutdown");
  Return (*count)(uint32_t*) = find("nvmlDeviceGetCount_v2", "nvmlDeviceGetCount");
  Return (*handle)(uint32_t, Device*) = find("nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetHandleByIndex");

  Return (*driver_version)(char*, uint32_t) = find("nvmlSystemGetDriverVersion");
  Return (*nvml_version)(char*, uint32_t) = find("nvmlSystemGetNVMLVersion");
  Return (*cuda_version)(int*) = find("nvmlSystemGetCudaDriverVersion_v2", "nvmlSystemGetCudaDriverVersion");

  GetText name = find("nvmlDeviceGetName");
  GetText uuid = find("nvmlDeviceGetUUID");
  GetText serial = find("nvmlDeviceGetSerial");
  GetText vbios = find("nvmlDeviceGetVbiosVersion");
  Return (*pci_info)(Device, PciInfo*) =
      find("nvmlDeviceGetPciInfo_v3", "nvmlDeviceGetPciInfo_v2", "nvmlDeviceGetPciInfo");
  Return (*memory_affinity)(Device, uint32_t words, unsigned long* nodes, uint32_t scope) =
      find("nvmlDeviceGetMemoryAffinity");
  Return (*mig_mode)(Device, uint32_t* current, uint32_t* pending) = find("nvmlDeviceGetMigMode");
  GetUint mig_count = find("nvmlDeviceGetMaxMigDeviceCount");
  GetUint gpu_instance = find("nvmlDeviceGetGpuInstanceId");
  GetUint compute_instance = find("nvmlDeviceGetComputeInstanceId");
  Return (*mig_handle)(Device, uint32_t, Device*) = find("nvmlDeviceGetMigDeviceHandleByIndex");
  Return (*attributes)(Device, DeviceAttributes*) = find("nvmlDeviceGetAttributes_v2");

  Return (*fields)(Device, int, FieldValue*) = find("nvmlDeviceGetFieldValues");
  Return (*samples)(Device, uint32_t type, uint64_t since_us, uint32_t* value_type, uint32_t* count, RingSample*) =
      find("nvmlDeviceGetSamples");
  Return (*utilization)(Device, Utilization*) = find("nvmlDeviceGetUtilizationRates");
  Return (*encoder)(Device, uint32_t*, uint32_t* period_us) = find("nvmlDeviceGetEncoderUtilization");
  Return (*decoder)(Device, uint32_t*, uint32_t* period_us) = find("nvmlDeviceGetDecoderUtilization");
  Return (*jpeg)(Device, uint32_t*, uint32_t* period_us) = find("nvmlDeviceGetJpgUtilization");
  Return (*ofa)(Device, uint32_t*, uint32_t* period_us) = find("nvmlDeviceGetOfaUtilization");
  Return (*memory)(Device, Memory*) = find("nvmlDeviceGetMemoryInfo");
  Return (*memory_v2)(Device, MemoryV2*) = find("nvmlDeviceGetMemoryInfo_v2");
  Return (*bar1)(Device, Bar1Memory*) = find("nvmlDeviceGetBAR1MemoryInfo");
  GetUint power = find("nvmlDeviceGetPowerUsage");
  GetUint power_limit = find("nvmlDeviceGetEnforcedPowerLimit");
  GetUint power_default = find("nvmlDeviceGetPowerManagementDefaultLimit");
  GetUint fan = find("nvmlDeviceGetFanSpeed");
  GetUint pstate = find("nvmlDeviceGetPerformanceState");
  Return (*power_range)(Device, uint32_t*, uint32_t*) = find("nvmlDeviceGetPowerManagementLimitConstraints");
  Return (*energy)(Device, uint64_t*) = find("nvmlDeviceGetTotalEnergyConsumption");
  Return (*temperature)(Device, uint32_t sensor, uint32_t*) = find("nvmlDeviceGetTemperature");
  Return (*temperature_v)(Device, TemperatureV1*) = find("nvmlDeviceGetTemperatureV");
  Return (*margin)(Device, MarginTemperature*) = find("nvmlDeviceGetMarginTemperature");
  Return (*threshold)(Device, uint32_t, uint32_t*) = find("nvmlDeviceGetTemperatureThreshold");
  Return (*clock)(Device, uint32_t, uint32_t*) = find("nvmlDeviceGetClockInfo");
  Return (*clock_max)(Device, uint32_t, uint32_t*) = find("nvmlDeviceGetMaxClockInfo");
  Return (*clock_reasons)(Device, uint64_t*) =
      find("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons");
  Return (*lock_clocks)(Device, uint32_t least_mhz, uint32_t most_mhz) = find("nvmlDeviceSetGpuLockedClocks");
  Return (*unlock_clocks)(Device) = find("nvmlDeviceResetGpuLockedClocks");
  GetUint pcie_generation = find("nvmlDeviceGetCurrPcieLinkGeneration");
  GetUint pcie_width = find("nvmlDeviceGetCurrPcieLinkWidth");
  GetUint pcie_generation_max = find("nvmlDeviceGetMaxPcieLinkGeneration");
  GetUint pcie_width_max = find("nvmlDeviceGetMaxPcieLinkWidth");

  CountedProcesses compute_v3 = find("nvmlDeviceGetComputeRunningProcesses_v3");
  CountedProcesses compute_v2 = find("nvmlDeviceGetComputeRunningProcesses_v2");
  CountedProcesses compute_v1 = find("nvmlDeviceGetComputeRunningProcesses");
  CountedProcesses graphics_v3 = find("nvmlDeviceGetGraphicsRunningProcesses_v3");
  CountedProcesses graphics_v2 = find("nvmlDeviceGetGraphicsRunningProcesses_v2");
  CountedProcesses graphics_v1 = find("nvmlDeviceGetGraphicsRunningProcesses");
  CountedProcesses mps_v3 = find("nvmlDeviceGetMPSComputeRunningProcesses_v3");
  CountedProcesses mps_v2 = find("nvmlDeviceGetMPSComputeRunningProcesses_v2");
  CountedProcesses mps_v1 = find("nvmlDeviceGetMPSComputeRunningProcesses");
  Return (*process_utilization)(Device, ProcessUtilization*, uint32_t*, uint64_t since_us) =
      find("nvmlDeviceGetProcessUtilization");
  Return (*processes_utilization)(Device, ProcessesUtilizationInfo*) = find("nvmlDeviceGetProcessesUtilizationInfo");

  GetUint persistence = find("nvmlDeviceGetPersistenceMode");
  GetUint compute_mode = find("nvmlDeviceGetComputeMode");
  Return (*ecc_mode)(Device, uint32_t* current, uint32_t* pending) = find("nvmlDeviceGetEccMode");
  Return (*link_state)(Device, uint32_t, uint32_t*) = find("nvmlDeviceGetNvLinkState");
  Return (*link_version)(Device, uint32_t, uint32_t*) = find("nvmlDeviceGetNvLinkVersion");
  Return (*link_remote)(Device, uint32_t, PciInfo*) =
      find("nvmlDeviceGetNvLinkRemotePciInfo_v2", "nvmlDeviceGetNvLinkRemotePciInfo");
  Return (*link_remote_type)(Device, uint32_t, uint32_t*) = find("nvmlDeviceGetNvLinkRemoteDeviceType");
  Return (*link_errors)(Device, uint32_t, uint32_t counter, uint64_t*) = find("nvmlDeviceGetNvLinkErrorCounter");
  Return (*ancestor)(Device, Device, uint32_t*) = find("nvmlDeviceGetTopologyCommonAncestor");

  Return (*event_create)(EventSet*) = find("nvmlEventSetCreate");
  Return (*event_free)(EventSet) = find("nvmlEventSetFree");
  Return (*event_register)(Device, uint64_t, EventSet) = find("nvmlDeviceRegisterEvents");
  Return (*event_wait)(EventSet, EventData*, uint32_t timeout_ms) = find("nvmlEventSetWait_v2", "nvmlEventSetWait");

  Return (*gpm_support)(Device, GpmSupport*) = find("nvmlGpmQueryDeviceSupport");
  Return (*gpm_alloc)(GpmSample*) = find("nvmlGpmSampleAlloc");
  Return (*gpm_free)(GpmSample) = find("nvmlGpmSampleFree");
  Return (*gpm_sample)(Device, GpmSample) = find("nvmlGpmSampleGet");
  Return (*gpm_mig_sample)(Device, uint32_t gpu_instance, GpmSample) = find("nvmlGpmMigSampleGet");
  Return (*gpm_metrics)(void*) = find("nvmlGpmMetricsGet");
};

// The NVML library, opened and initialised, with a count of the calls that were made into it.

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
