// The result of `profgpu bench` for other programs and for a browser.
#pragma once

#include <string>

#include "measure/result/bench_result.h"

namespace profgpu {

/// A row for each figure, with the members that JSON has.
std::string bench_csv(const BenchResult& result);
/// One file that loads and runs nothing: a curve for each quantity of several sizes, and all figures.
std::string bench_page(const BenchResult& result);
/// As the file's name ends: .csv, .html, else JSON.
std::string bench_text_for(const BenchResult& result, std::string_view path);

}  // namespace profgpu
