// Hardware counters of kernels (KernelProfile) beside what the roofline says of the same kernels, and how far that is
// off.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "analyse/rank/facts.h"
#include "analyse/rank/roofline.h"
#include "analyse/report/document.h"

namespace profgpu {

/// Launches of one kernel, grid and block. Means over the launches that have the figure; none: no launch has.
struct CountersRow {
  std::string name;                       ///< as the trace has it, else as the profile has it
  std::string grid, block;                ///< "128x1x1"; empty: not stated
  int64_t launches = 0;                   ///< profiled ones
  std::optional<double> duration_ns;      ///< under the profiler, which holds clocks and flushes caches
  std::optional<double> sm_pct, memory_pct, dram_pct, occupancy_pct, theoretical_occupancy_pct, dram_bytes;
  Bound bound = Bound::kUnknown;          ///< by the throughputs
  std::string stalls;                     ///< "long_scoreboard 62 %, wait 11 %": the most frequent reasons

  // Of the trace's launches, in the same order, as many as were profiled; none: the trace does not have the kernel.
  std::string matched;                    ///< "name", "function"; empty: not found, or several could be it
  int64_t trace_launches = 0;             ///< all of the trace
  std::optional<double> trace_ns;
  std::optional<double> limit_pct;        ///< the share of their time that their work needs at the device's limit
  Bound estimated_bound = Bound::kUnknown;
  std::optional<double> bytes;            ///< of a launch: the least that it has to move

  /// Of what bounds it by the estimate, what the counters say of the same: throughput of the multiprocessors for
  /// compute, of the device's memory for memory, the higher one for others.
  [[nodiscard]] std::optional<double> measured_pct() const;
  /// In percentage points: the estimate's share of the limit, less the measured throughput.
  [[nodiscard]] std::optional<double> limit_error_pct() const;
  /// Of the measured bytes: how many more the estimate has.
  [[nodiscard]] std::optional<double> bytes_error_pct() const;

  void fields(auto&& v) const {
    v("name", name), v("grid", unless_empty(grid)), v("block", unless_empty(block)), v("launches", launches);
    v("duration_ns", whole_ns(duration_ns)), v("sm_pct", sm_pct), v("memory_pct", memory_pct), v("dram_pct", dram_pct);
    v("occupancy_pct", occupancy_pct), v("theoretical_occupancy_pct", theoretical_occupancy_pct);
    v("dram_bytes", whole_ns(dram_bytes)), v("bound", bound_name(bound)), v("stalls", unless_empty(stalls));
    v("matched", unless_empty(matched)), v("trace_launches", trace_launches), v("trace_ns", whole_ns(trace_ns));
    v("limit_pct", limit_pct), v("estimated_bound", bound_name(estimated_bound)), v("bytes", whole_ns(bytes));
    v("limit_error_pct", limit_error_pct()), v("bytes_error_pct", bytes_error_pct());
  }
};

struct Counters {
  int64_t launches = 0;                   ///< profiled ones
  int64_t matched = 0;                    ///< of these, of kernels in the trace
  /// Means of the errors' magnitudes, weighted by the trace's time of each kernel; none: nothing to compare.
  std::optional<double> limit_error_pct, bytes_error_pct;
  std::vector<CountersRow> rows;          ///< most time in the trace first, else under the profiler

  void fields(auto&& v) const {
    v("launches", launches), v("matched", matched), v("limit_error_pct", limit_error_pct);
    v("bytes_error_pct", bytes_error_pct), v("rows", rows);
  }
  /// None: there are no counters.
  static std::optional<Counters> compute(const Facts& facts);
};

}  // namespace profgpu
