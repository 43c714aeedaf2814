// The result of `profgpu bench` for people.
#pragma once

#include "measure/result/bench_result.h"
#include "view/layout.h"

namespace profgpu {

/// `before`: an older result to compare with; null: none.
Lines bench_lines(const BenchResult& result, const BenchResult* before, int width);

/// A line for each machine, and what is slow or missing.
Lines machine_lines(const std::vector<BenchResult>& all, const MachineComparison& found, int width);

}  // namespace profgpu
