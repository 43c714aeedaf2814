// Inputs of the operators that launch a role's kernel, as record_shapes writes them. At its healthy duration a kernel
// then reaches 55 to 95 % of what its device could do with these sizes.
#pragma once

#include <string>

#include "tests/support/sim_device.h"

namespace profgpu::sim {

struct ShapeText {
  std::string v2, v1_8;   // arguments of an event as Kineto 2.x and PyTorch 1.8 write them; empty: none
};

/// `permille`: of the usual batch. Empty for roles whose operators have the inputs of any other.
ShapeText shapes_of_role(Role role, Gpu gpu, int64_t permille, bool full_precision, bool odd_sizes);

}  // namespace profgpu::sim
