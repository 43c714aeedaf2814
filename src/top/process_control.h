// Signals and nice values, for processes that the user chose.
#pragma once

#include "base/result.h"
#include "top/model.h"

namespace profgpu {

/// Does it to the process that was meant, never to another that got its number since. The error says why not.
Status carry_out(const ProcessCommand& command);

}  // namespace profgpu
