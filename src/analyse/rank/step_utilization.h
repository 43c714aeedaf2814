// How much of each step the device's peak rate would need for the step's products.
#pragma once

#include <cstddef>
#include <vector>

#include "analyse/rank/facts.h"

namespace profgpu {

struct StepUtilization {
  struct Row {
    size_t step = 0;                  ///< place in Steps::steps
    double mfu_pct = 0, hfu_pct = 0;  ///< as in Roofline, of this step alone
  };
  /// Of all steps that launched products, warm-up too. Empty where Roofline knows no MFU.
  std::vector<Row> rows;
  static StepUtilization compute(const Facts& facts);
};

}  // namespace profgpu
