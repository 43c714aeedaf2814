// Saved results of `profgpu bench` among the runs that `diff`, `baseline` and `history` know.
#pragma once

#include <string>
#include <vector>

#include "cli/command.h"
#include "measure/result/bench_result.h"

namespace profgpu {

/// Whether the file, or the text, begins as such a result does.
bool is_bench_file(const std::string& path);
bool is_bench_text(std::string_view text);

/// `profgpu diff` of such results: the second is compared with the first, or one with the baseline.
Outcome diff_bench(const Arguments& arguments);
/// `profgpu baseline save NAME FILE` of such a result.
Outcome save_bench(const std::string& history, const std::string& name, const std::string& path);

/// All results in a folder. The error: there is none, or one cannot be read.
Result<std::vector<BenchResult>> read_bench_folder(const std::string& folder);

}  // namespace profgpu
