// What nvbandwidth measured of copies between hosts and GPUs, and which pairs are far behind the others.
//
// A test whose copies run one after another should give the same for each pair that has the same link. A pair is slow
// if it has less than 70 % of what its better peers have (the 75th percentile; of latencies, over 1/0.7 of the 25th),
// and if at most half of the pairs do: otherwise the pairs have different links.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "trace/run_log.h"

namespace profgpu {

struct SlowPair {
  std::string test, from, to;  ///< "CPU", "GPU 3": of the row and of the column
  double value = 0, usual = 0;
  int64_t line = 0;   ///< of the matrix
  std::string place;  ///< " on node1", " in the table at line 27"; empty: the log has one such matrix

  void fields(auto&& v) const {
    v("test", test), v("from", from), v("to", to), v("value", value), v("usual", usual), v("line", line);
  }
};

/// Of one matrix.
struct CopyRow {
  std::string test, description, unit;  ///< "GB/s", "ns"
  int64_t rows = 0, columns = 0, pairs = 0;
  std::optional<double> sum, min, median, max;

  void fields(auto&& v) const {
    v("test", test), v("description", description), v("unit", unit), v("rows", rows), v("columns", columns);
    v("pairs", pairs), v("sum", sum), v("min", min), v("median", median), v("max", max);
  }
};

/// One cell of a matrix.
struct CopyCell {
  std::string test;
  int64_t row = 0, column = 0;
  double value = 0;

  void fields(auto&& v) const { v("test", test), v("row", row), v("column", column), v("value", value); }
};

struct CopyReport {
  std::vector<CopyRow> tests;
  std::vector<SlowPair> slow;  ///< slowest first
  std::vector<CopyCell> cells;
};

CopyReport copy_report(const std::vector<CopyMatrix>& matrices);

/// The GPU that all of these have in common; empty: there is none, or there are fewer than two.
std::string common_device(const std::vector<SlowPair>& pairs);

}  // namespace profgpu
