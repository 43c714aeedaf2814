// The backend that asks nvidia-smi: for machines where the program is there and the library is not, as in some
// containers.
#pragma once

#include <memory>

#include "base/result.h"
#include "devices/backend.h"
#include "devices/nvidia_smi_stream.h"

namespace profgpu {

/// `times`: tests have less patience.
Result<std::unique_ptr<Backend>> open_nvidia_smi(const BackendOptions& options, const SmiTimes& times);

}  // namespace profgpu
