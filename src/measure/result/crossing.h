// From which size on a GPU is faster than the CPU.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "measure/result/bench_result.h"

namespace profgpu {

struct CrossingRow {
  int64_t size = 0;
  double cpu_ns = 0, gpu_ns = 0, copies_ns = 0;   ///< the GPU with its data there; with copies there and back
};

struct Crossing {
  std::string name, label;               ///< "sort", "sort of 32-bit numbers"
  std::vector<CrossingRow> rows;         ///< by size
  /// The first size from which on the GPU is always faster; none: it is not at the largest. As the Python package's
  /// Crossover has it.
  std::optional<int64_t> size, size_with_copies;

  /// "the GPU wins from 1024 on, data in its memory", and the same with both copies.
  [[nodiscard]] std::vector<std::string> texts() const;
  void fields(auto&& v) const {
    v("name", name), v("label", label), v("size", size), v("size_with_copies", size_with_copies);
  }
};

/// Of rows that are complete. By the order of the figures.
std::vector<Crossing> crossings(const std::vector<Figure>& figures);

}  // namespace profgpu
