// Our declarations of CUDA's driver against NVIDIA's, where those are installed: it compiles, or they differ.
#include <cuda.h>

#include <type_traits>

#include "measure/cuda_library.h"

namespace {

template <class Ours, class Theirs>
constexpr bool same_shape = sizeof(Ours) == sizeof(Theirs) && std::is_pointer_v<Ours> == std::is_pointer_v<Theirs>;

template <class... Ours, class... Theirs>
constexpr bool fits(const profgpu::VendorCall<Ours...>*, CUresult (*)(Theirs...)) {
  if constexpr (sizeof...(Ours) != sizeof...(Theirs)) return false;
  else return (same_shape<Ours, Theirs> && ...);
}

#define SAME(member, function) \
  static_assert(fits(static_cast<decltype(profgpu::cuda::Api::member)*>(nullptr), &function), #function)

SAME(init, cuInit);
SAME(driver_version, cuDriverGetVersion);
SAME(count, cuDeviceGetCount);
SAME(device, cuDeviceGet);
SAME(name, cuDeviceGetName);
SAME(uuid, cuDeviceGetUuid);
SAME(pci_bus_id, cuDeviceGetPCIBusId);
SAME(total_memory, cuDeviceTotalMem);
SAME(can_access_peer, cuDeviceCanAccessPeer);
SAME(retain, cuDevicePrimaryCtxRetain);
SAME(release, cuDevicePrimaryCtxRelease);
SAME(set_current, cuCtxSetCurrent);
SAME(enable_peer, cuCtxEnablePeerAccess);
SAME(allocate, cuMemAlloc);
SAME(free, cuMemFree);
SAME(allocate_host, cuMemHostAlloc);
SAME(free_host, cuMemFreeHost);
SAME(fill, cuMemsetD8Async);
SAME(to_device, cuMemcpyHtoDAsync);
SAME(to_host, cuMemcpyDtoHAsync);
SAME(within_device, cuMemcpyDtoDAsync);
SAME(to_peer, cuMemcpyPeerAsync);
SAME(create_stream, cuStreamCreate);
SAME(destroy_stream, cuStreamDestroy);
SAME(wait_for_stream, cuStreamSynchronize);
SAME(stream_waits, cuStreamWaitEvent);
SAME(create_event, cuEventCreate);
SAME(destroy_event, cuEventDestroy);
SAME(record, cuEventRecord);
SAME(elapsed_ms, cuEventElapsedTime);
SAME(load_module, cuModuleLoadData);
SAME(unload_module, cuModuleUnload);
SAME(function, cuModuleGetFunction);
SAME(launch, cuLaunchKernel);
SAME(begin_capture, cuStreamBeginCapture);
SAME(end_capture, cuStreamEndCapture);
SAME(instantiate, cuGraphInstantiateWithFlags);
SAME(launch_graph, cuGraphLaunch);
SAME(destroy_exec, cuGraphExecDestroy);
SAME(destroy_graph, cuGraphDestroy);

// cuDeviceGetAttribute takes an enumeration where we pass its number.
static_assert(fits(static_cast<decltype(profgpu::cuda::Api::attribute)*>(nullptr), &cuDeviceGetAttribute));
static_assert(profgpu::cuda::kMultiprocessors == static_cast<int>(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT));
static_assert(profgpu::cuda::kComputeMajor == static_cast<int>(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR));
static_assert(profgpu::cuda::kComputeMinor == static_cast<int>(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR));
static_assert(profgpu::cuda::kNonBlockingStream == CU_STREAM_NON_BLOCKING);
static_assert(profgpu::cuda::kCaptureThreadLocal == static_cast<int>(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
static_assert(profgpu::cuda::kNoDevice == static_cast<int>(CUDA_ERROR_NO_DEVICE));
static_assert(profgpu::cuda::kPortable == CU_MEMHOSTALLOC_PORTABLE);

}  // namespace

int main() {}
