// What storage measures of a data loader.
#pragma once

#include <string>
#include <vector>

#include "measure/benchmark.h"

namespace profgpu {

/// Of these files: reading many in random order, decoding those that are images, sequences of those that are tokens.
void measure_loader(Bench& bench, const std::vector<std::string>& paths);

}  // namespace profgpu
