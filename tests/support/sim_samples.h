// Samples of the devices of a simulated job, as `profgpu run` writes them beside a recording: JSON lines, every 10 ms.
#pragma once

#include <string>
#include <vector>

#include "tests/support/simulator.h"

namespace profgpu::sim {

struct SampleText {
  std::string host;   // empty: the only one
  std::string text;
};

/// One a host. The devices of slow ranks run at the plan's lower clock in the steps in which they are slow.
std::vector<SampleText> sample_texts(const SimOptions& options, const std::vector<TraceTruth>& traces);

}  // namespace profgpu::sim
