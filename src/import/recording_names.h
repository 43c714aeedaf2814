// Names as PyTorch's traces have them, so that analyses need to know one form only.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace profgpu {

/// "void gemm<4>(float*)" of "_Z4gemm...": as it is where it is not mangled.
std::string demangled(std::string_view name);
/// "Memcpy HtoD (Pageable -> Device)"; numbers are CUPTI's CUpti_ActivityMemcpyKind and CUpti_ActivityMemoryKind.
std::string copy_name(int copy_kind, int from_kind, int to_kind);
std::string set_name(int memory_kind);
/// "cudaLaunchKernel" of CUPTI's "cudaLaunchKernel_ptsz_v7000"; the driver's "cuMemAlloc_v2" stays.
std::string_view call_name(std::string_view recorded);
/// CUpti_ActivitySynchronizationType.
std::string_view sync_name(int type);
/// CUpti_ActivityOverheadKind.
std::string_view overhead_name(uint32_t type);

}  // namespace profgpu
