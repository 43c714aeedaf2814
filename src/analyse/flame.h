// Call trees: what each thread called, calls of one name below one parent together. Python frames, ranges, ops and
// runtime calls stand below each other as they were called.
//
// All steps of the training loop are one node. Parts of a tree that take least are joined into one node a parent, named
// "…", so that sums stay what they are.
#pragma once

#include <vector>

#include "analyse/facts.h"
#include "report/page.h"

namespace profgpu {

/// One tree a thread, that of the step's thread first, else by time. A tree has at most `most_nodes` nodes besides those named "…".
std::vector<PageFlame> flames(const Facts& facts, PageStrings& strings, size_t most_nodes = 5000);

}  // namespace profgpu
