// Calls of MPI: how long the program is in them, and in which, where a recording has them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "analyse/rank/facts.h"
#include "analyse/report/document.h"
#include "base/statistics.h"
#include "trace/intervals.h"

namespace profgpu {

bool is_mpi_call(const Trace& trace, HostId h);

/// A function of MPI, in the measured steps.
struct MpiFunction {
  std::string name;                     ///< "MPI_Recv"
  int64_t calls = 0, total_ns = 0;      ///< calls of other threads at the same time count each
  double pct = 0;                       ///< of the steps' wall time
  std::optional<int64_t> bytes;         ///< of all calls together; none: not recorded, or it moves nothing
  std::optional<int64_t> median_bytes;  ///< of one call
  std::string where;   ///< the program's own range, not a step's, in which half of the time is; empty: none

  void fields(auto&& v) const {
    v("name", name), v("calls", calls), v("total_ns", total_ns), v("wall_pct", pct), v("bytes", bytes);
    v("median_bytes", median_bytes), v("where", unless_empty(where));
  }
};

/// Of the measured steps. Starting MPI is not communication, and not the program's own time either.
struct MpiTime {
  int64_t wall_ns = 0;
  int64_t total_ns = 0;     ///< in calls of any thread, without those that start MPI
  int64_t outside_ns = 0;   ///< between the calls
  std::vector<MpiFunction> functions;   ///< most time first
  [[nodiscard]] double pct() const { return percent_of(total_ns, wall_ns); }
  /// That takes most of the time, of those that communicate; null: none does.
  [[nodiscard]] const MpiFunction* longest() const;

  void fields(auto&& v) const {
    v("total_ns", total_ns), v("wall_pct", pct()), v("outside_ns", outside_ns), v("functions", functions);
  }
  /// None without such calls.
  static std::optional<MpiTime> compute(const Facts& facts);
};

/// When the program is in a call of MPI, whatever the call does; merged.
struct MpiCalls {
  Intervals time;
  static MpiCalls compute(const Facts& facts);
};

}  // namespace profgpu
