// Composite: the devices of several backends as one list, for machines with GPUs of several vendors.
#pragma once

#include <memory>
#include <vector>

#include "collect/backend.h"

namespace profgpu {

/// At least one; with one that one itself.
std::shared_ptr<Backend> composite_backend(std::vector<std::unique_ptr<Backend>> parts);

}  // namespace profgpu
