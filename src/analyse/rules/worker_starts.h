// Workers of a DataLoader that start again at each epoch.
#pragma once

#include "analyse/rules/measure.h"

namespace profgpu {

struct WorkerStarts {
  int64_t count = 0;        ///< in the measured steps
  int64_t median_ns = 0;    ///< from the end of one epoch to the first batch of the next
  int64_t extra_ns = 0;     ///< of all of them, beyond what other batches are waited for
  int64_t waited_ns = 0;    ///< for all batches, with these
  [[nodiscard]] bool are_most() const { return count > 0 && 2 * extra_ns >= waited_ns; }
};

/// Nothing counted if workers do not start again, or that can't be told.
WorkerStarts worker_starts(const Measured& measured);

}  // namespace profgpu
