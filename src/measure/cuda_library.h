// CUDA's driver library, or AMD's HIP runtime, as they export their functions, in declarations of our own: the vendor's
// header need not be there. Sizes and numbers are those of x86-64, of cuda.h (10 to 13) and of ROCm 5 to 7.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "measure/vendor_call.h"

namespace profgpu::cuda {

using Context = struct OpaqueContext*;
using Stream = struct OpaqueStream*;
using Event = struct OpaqueEvent*;
using Module = struct OpaqueModule*;
using Function = struct OpaqueFunction*;
using Graph = struct OpaqueGraph*;
using GraphExec = struct OpaqueGraphExec*;
using Address = uint64_t;

enum Attribute : int { kMultiprocessors = 16, kCacheBytes = 38, kComputeMajor = 75, kComputeMinor = 76 };
/// The same of HIP (hip_runtime_api.h since 4.3).
enum HipAttribute : int { kHipCacheBytes = 19, kHipComputeMajor = 23, kHipComputeMinor = 61, kHipMultiprocessors = 63 };
constexpr unsigned kNonBlockingStream = 1;
constexpr int kCaptureThreadLocal = 1;
constexpr int kNoDevice = 100;   ///< of cuInit
constexpr unsigned kPortable = 1;   ///< pinned memory that all devices know

std::string words_of(const DynLib& library, int code);

class Api {
  const DynLib& library_;   // what the calls are initialised from
  template <class... P>
  using Call = VendorCall<P...>;
#define PROFGPU_CALL(member, ...) member{library_, words_of, __VA_ARGS__}

 public:
  explicit Api(const DynLib& library) : library_(library) {}

  Call<unsigned> PROFGPU_CALL(init, "cuInit", "hipInit");
  Call<int*> PROFGPU_CALL(driver_version, "cuDriverGetVersion", "hipDriverGetVersion");
  Call<int*> PROFGPU_CALL(count, "cuDeviceGetCount", "hipGetDeviceCount");
  Call<int*, int> PROFGPU_CALL(device, "cuDeviceGet", "hipDeviceGet");
  Call<char*, int, int> PROFGPU_CALL(name, "cuDeviceGetName", "hipDeviceGetName");
  Call<unsigned char*, int> PROFGPU_CALL(uuid, "cuDeviceGetUuid_v2", "hipDeviceGetUuid");
  Call<char*, int, int> PROFGPU_CALL(pci_bus_id, "cuDeviceGetPCIBusId", "hipDeviceGetPCIBusId");
  Call<size_t*, int> PROFGPU_CALL(total_memory, "cuDeviceTotalMem_v2", "hipDeviceTotalMem");
  Call<int*, int, int> PROFGPU_CALL(attribute, "cuDeviceGetAttribute", "hipDeviceGetAttribute");
  Call<int*, int, int> PROFGPU_CALL(can_access_peer, "cuDeviceCanAccessPeer", "hipDeviceCanAccessPeer");
  Call<Context*, int> PROFGPU_CALL(retain, "cuDevicePrimaryCtxRetain");
  Call<int> PROFGPU_CALL(release, "cuDevicePrimaryCtxRelease_v2");
  Call<Context> PROFGPU_CALL(set_current, "cuCtxSetCurrent");
  Call<> PROFGPU_CALL(synchronize, "cuCtxSynchronize", "hipDeviceSynchronize");
  Call<int> PROFGPU_CALL(set_device, "hipSetDevice");
  Call<int, unsigned> PROFGPU_CALL(enable_peer_device, "hipDeviceEnablePeerAccess");
  Call<Address, int, Address, int, size_t, Stream> PROFGPU_CALL(to_peer_device, "hipMemcpyPeerAsync");
  Call<Context, unsigned> PROFGPU_CALL(enable_peer, "cuCtxEnablePeerAccess");
  Call<Address*, size_t> PROFGPU_CALL(allocate, "cuMemAlloc_v2", "hipMalloc");
  Call<Address> PROFGPU_CALL(free, "cuMemFree_v2", "hipFree");
  Call<void**, size_t, unsigned> PROFGPU_CALL(allocate_host, "cuMemHostAlloc", "hipHostMalloc");
  Call<void*> PROFGPU_CALL(free_host, "cuMemFreeHost", "hipHostFree");
  Call<Address, unsigned char, size_t, Stream> PROFGPU_CALL(fill, "cuMemsetD8Async", "hipMemsetD8Async");
  Call<Address, const void*, size_t, Stream> PROFGPU_CALL(to_device, "cuMemcpyHtoDAsync_v2", "hipMemcpyHtoDAsync");
  Call<void*, Address, size_t, Stream> PROFGPU_CALL(to_host, "cuMemcpyDtoHAsync_v2", "hipMemcpyDtoHAsync");
  Call<Address, Address, size_t, Stream> PROFGPU_CALL(within_device, "cuMemcpyDtoDAsync_v2", "hipMemcpyDtoDAsync");
  Call<Address, Context, Address, Context, size_t, Stream> PROFGPU_CALL(to_peer, "cuMemcpyPeerAsync");
  Call<Stream*, unsigned> PROFGPU_CALL(create_stream, "cuStreamCreate", "hipStreamCreateWithFlags");
  Call<Stream> PROFGPU_CALL(destroy_stream, "cuStreamDestroy_v2", "hipStreamDestroy");
  Call<Stream> PROFGPU_CALL(wait_for_stream, "cuStreamSynchronize", "hipStreamSynchronize");
  Call<Stream, Event, unsigned> PROFGPU_CALL(stream_waits, "cuStreamWaitEvent", "hipStreamWaitEvent");
  Call<Event*, unsigned> PROFGPU_CALL(create_event, "cuEventCreate", "hipEventCreateWithFlags");
  Call<Event> PROFGPU_CALL(destroy_event, "cuEventDestroy_v2", "hipEventDestroy");
  Call<Event, Stream> PROFGPU_CALL(record, "cuEventRecord", "hipEventRecord");
  Call<float*, Event, Event> PROFGPU_CALL(elapsed_ms, "cuEventElapsedTime", "hipEventElapsedTime");
  Call<Module*, const void*> PROFGPU_CALL(load_module, "cuModuleLoadData", "hipModuleLoadData");
  Call<Module> PROFGPU_CALL(unload_module, "cuModuleUnload", "hipModuleUnload");
  Call<Function*, Module, const char*> PROFGPU_CALL(function, "cuModuleGetFunction", "hipModuleGetFunction");
  Call<Function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, Stream, void**, void**>
      PROFGPU_CALL(launch, "cuLaunchKernel", "hipModuleLaunchKernel");
  Call<Stream, int> PROFGPU_CALL(begin_capture, "cuStreamBeginCapture_v2", "hipStreamBeginCapture");
  Call<Stream, Graph*> PROFGPU_CALL(end_capture, "cuStreamEndCapture", "hipStreamEndCapture");
  Call<GraphExec*, Graph, unsigned long long> PROFGPU_CALL(instantiate, "cuGraphInstantiateWithFlags",
                                                           "hipGraphInstantiateWithFlags");
  Call<GraphExec, Stream> PROFGPU_CALL(launch_graph, "cuGraphLaunch", "hipGraphLaunch");
  Call<GraphExec> PROFGPU_CALL(destroy_exec, "cuGraphExecDestroy", "hipGraphExecDestroy");
  Call<Graph> PROFGPU_CALL(destroy_graph, "cuGraphDestroy", "hipGraphDestroy");
#undef PROFGPU_CALL
};

class Library : public VendorLibrary<Api> {
 public:
  /// PROFGPU_CUDA_LIBRARY where it is set, else the driver's usual names; else PROFGPU_HIP_LIBRARY or HIP's. Starts
  /// it.
  static Result<std::shared_ptr<Library>> open();

  /// "13.0", the newest CUDA that the driver runs.
  [[nodiscard]] std::string version() const;
  [[nodiscard]] int devices() const;
  /// The host's clock. A stand-in for tests has one of its own, so that its figures are exact.
  [[nodiscard]] int64_t now_ns() const;
  /// It is AMD's HIP runtime, whose functions are CUDA's under other names but for contexts.
  [[nodiscard]] bool hip() const { return hip_; }
  /// The library is such a stand-in: no device is behind it.
  [[nodiscard]] bool simulated() const { return simulated_now_ != nullptr; }

 private:
  explicit Library(DynLib library);
  int64_t (*simulated_now_)();
  bool hip_;
};

/// One device with its primary context, a stream, two events and our kernels. What is created is destroyed with it.
class Device {
 public:
  /// Asks the driver what it is. It can be used after start().
  static Result<std::unique_ptr<Device>> find(std::shared_ptr<Library> library, int index);
  /// Creates its context; it is the current one then.
  Status create_context();
  /// Creates what else it needs, after its context.
  Status start();
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  /// Calls of this thread are for this device from now on.
  Status use() const { return library_->hip() ? api.set_device(handle_) : api.set_current(context_); }
  /// Lets copies to the other device go the direct way.
  Status reach(const Device& to) const;
  /// Copies to another device, in a stream of either.
  Status copy_to(const Device& to, Address target, Address source, size_t bytes, Stream stream) const;
  [[nodiscard]] Stream stream() const { return stream_; }
  [[nodiscard]] Event event() const { return end_; }
  /// One of kernel_text(), "copy". Null: the driver did not assemble them, see kernels().
  [[nodiscard]] Function kernel(const char* name) const;
  [[nodiscard]] const Status& kernels() const { return kernels_; }
  /// With a grid that fills the device.
  Status launch(Function kernel, std::vector<uint64_t> parameters) const;
  /// Time on the device from the first to the last that `work` put into the stream, waited for.
  template <class Work>
  Result<double> device_ns(Work work) const {
    Status status = begin_timing();
    if (status) status = work();
    if (status) status = end_timing();
    if (!status) return status.error();
    return timed_ns();
  }
  /// The same in parts, so that several devices work at once: begin_timing(), what is timed, end_timing(), and for the
  /// time timed_ns(), which waits.
  [[nodiscard]] Status begin_timing() const { return api.record(begin_, stream_); }
  [[nodiscard]] Status end_timing() const { return api.record(end_, stream_); }
  [[nodiscard]] Result<double> timed_ns() const;
  [[nodiscard]] int64_t now_ns() const { return library_->now_ns(); }
  [[nodiscard]] bool hip() const { return library_->hip(); }

  const int index;                 ///< as CUDA counts
  std::string name, uuid, pci_bus_id;   ///< uuid: "GPU-…"
  int64_t memory_bytes = 0;
  int32_t multiprocessors = 0;
  int64_t cache_bytes = 0;         ///< of its level-2 cache; 0: the driver does not say
  std::string compute_capability;  ///< "9.0"
  int64_t context_ns = 0;          ///< how long its context took to create

 private:
  Device(std::shared_ptr<Library> library, int at) : index(at), library_(std::move(library)), api(library_->api) {}
  Status identify();
  Status load_kernels();

  std::shared_ptr<Library> library_;

 public:
  const Api& api;

 private:
  int handle_ = 0;
  bool started_ = false;
  Context context_ = nullptr;
  Stream stream_ = nullptr;
  Event begin_ = nullptr, end_ = nullptr;
  Module module_ = nullptr;
  Status kernels_ = ok();
};

/// Another stream of a device, for work beside that of its own.
class SideStream {
 public:
  static Result<SideStream> make(const Device& device);
  SideStream(SideStream&& other) noexcept : device_(other.device_), stream_(std::exchange(other.stream_, nullptr)) {}
  ~SideStream() {
    if (stream_ && device_->use()) (void)device_->api.destroy_stream(stream_);
  }
  [[nodiscard]] Stream get() const { return stream_; }

 private:
  SideStream(const Device& device, Stream stream) : device_(&device), stream_(stream) {}
  const Device* device_;
  Stream stream_;
};

/// Memory of a device, filled with zeros.
class DeviceMemory {
 public:
  static Result<DeviceMemory> allocate(const Device& device, int64_t bytes);
  DeviceMemory(DeviceMemory&& other) noexcept : device_(other.device_), address_(std::exchange(other.address_, 0)) {}
  ~DeviceMemory();
  [[nodiscard]] Address address() const { return address_; }

 private:
  DeviceMemory(const Device& device, Address address) : device_(&device), address_(address) {}
  const Device* device_;
  Address address_;
};

/// Pinned memory of the host.
class PinnedMemory {
 public:
  static Result<PinnedMemory> allocate(const Device& device, int64_t bytes);
  PinnedMemory(PinnedMemory&& other) noexcept : device_(other.device_), data_(std::exchange(other.data_, nullptr)) {}
  ~PinnedMemory();
  [[nodiscard]] void* data() const { return data_; }

 private:
  PinnedMemory(const Device& device, void* data) : device_(&device), data_(data) {}
  const Device* device_;
  void* data_;
};

}  // namespace profgpu::cuda
