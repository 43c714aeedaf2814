// Where a copy goes, by its name.
#pragma once

#include <cstdint>
#include <string_view>

namespace profgpu {

/// Numbers are CUPTI's CUpti_ActivityMemcpyKind. H: host, D: device, A: array, P: peer.
enum class CopyKind : uint8_t {
  kUnknown, kHtoD, kDtoH, kHtoA, kAtoH, kAtoA, kAtoD, kDtoA, kDtoD, kHtoH, kPtoP
};

/// Of "Memcpy HtoD (Pageable -> Device)", or ROCm's "CopyHostToDevice".
CopyKind copy_kind(std::string_view name);

}  // namespace profgpu
