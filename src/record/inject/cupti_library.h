// Which libcupti of those on a machine belongs to this process, and its functions.
//
// Order: $PROFGPU_CUPTI; one that is mapped already; one beside the mapped libcudart; by name, never of a higher major
// than the driver's CUDA; the toolkit's own folder. A second one is never loaded beside one that is mapped: two copies
// in one process fight over the driver's one subscriber.
#pragma once

#include "record/inject/cupti_types.h"

namespace profgpu::inject::cupti {

struct Library {
  Calls calls{};
  uint32_t version = 0;  ///< CUPTI_API_VERSION; 0: none was opened
  char path[512] = "";
  char problem[256] = "";  ///< one sentence: why none was opened, or what is wrong with the one that was
};

/// `driver_version`: as cuDriverGetVersion says it, 12050 for 12.5; 0: not known. True if `library` can be used.
bool open_library(int driver_version, Library& library);

/// Number of different libcupti files that the process has mapped. `other` (of `size` bytes) gets the path of one that
/// is not `than`.
int mapped_libraries(const char* than, char* other, size_t size);

}  // namespace profgpu::inject::cupti
