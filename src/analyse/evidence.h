// What findings rest on, one by one: the longest gaps with what stands around them, and how long each kernel's calls took.
#pragma once

#include <vector>

#include "analyse/facts.h"
#include "report/page.h"

namespace profgpu {

/// The longest `most` of each cause and device, longest first.
std::vector<PageGap> longest_gaps(const Facts& facts, int64_t shift_ns, size_t most = 50);

/// The `most` kernels of each device that take the longest together, if they ran at least twice.
std::vector<PageHistogram> kernel_histograms(const Facts& facts, size_t most = 100);

}  // namespace profgpu
