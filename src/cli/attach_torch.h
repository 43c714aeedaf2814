// `profgpu attach PID torch`: a trace by PyTorch's own profiler.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/command.h"
#include "watch/live/kineto_daemon.h"

namespace profgpu {

struct TorchAttachOptions {
  TorchTraceRequest request;  ///< trace_path is not yet known
  std::string folder;         ///< empty: that of the recording, or where PyTorch writes them
  int64_t timeout_ns = 0;     ///< 0: as long as it should take
  bool json = false;
};

Outcome attach_torch(const TorchAttachOptions& options);

}  // namespace profgpu
