// Saved results of `profgpu bench` among the runs that `diff`, `baseline` and `history` know.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "app/compare/history.h"
#include "cli/command.h"
#include "measure/result/bench_result.h"

namespace profgpu {

/// Whether the file, or the text, is such a result, or begins as one.
bool is_bench_file(const std::string& path);
bool is_bench_text(std::string_view text);

/// `profgpu diff` of such results: the second is compared with the first, or one with the baseline.
Outcome diff_bench(const Arguments& arguments);
/// `profgpu baseline save NAME FILE` of such a result.
Outcome save_bench(const std::string& history, const std::string& name, const std::string& path);

/// A saved run of `profgpu bench`, with the one before.
struct BenchHistoryRow {
  int64_t id = 0, figures = 0;
  std::optional<int64_t> worse, better, lost;   ///< none: there is no run before
  std::optional<double> product_tflops, memory_gbps;   ///< the best of all devices

  void fields(auto&& v) const {
    v("id", id), v("figures", figures), v("worse", worse), v("better", better), v("lost", lost);
    v("product_tflops", product_tflops), v("memory_gbps", memory_gbps);
  }
};
/// Of the runs that are results of bench, each compared with the one of its name before it.
Result<std::vector<BenchHistoryRow>> bench_history(History& file, const std::vector<HistoryRun>& runs);

/// The results in a folder and in the folders in it.
struct BenchFolder {
  std::vector<BenchResult> results;
  std::vector<std::string> broken;   ///< which cannot be read, and why
};
/// The error: none can be read.
Result<BenchFolder> read_bench_folder(const std::string& folder);

}  // namespace profgpu
