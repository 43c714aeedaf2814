// Operators, as PyTorch's key_averages lists them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "analyse/rank/facts.h"
#include "analyse/report/document.h"

namespace profgpu {

struct OpRow {
  StringId name;                ///< of the first call
  std::string text;             ///< the row's name in key_averages: `ProfilerStep*` for all steps
  bool annotation = false;      ///< a record_function range; an op of the same name has its own row
  int64_t calls = 0;
  int64_t cpu_total_ns = 0;     ///< sum of durations
  int64_t cpu_self_ns = 0;      ///< without the ranges directly inside
  int64_t device_total_ns = 0;  ///< sum of durations of activities launched, or captured, from inside
  /// Of activities for which it is the innermost op. An annotation only counts what was launched outside any op.
  int64_t device_self_ns = 0;
  /// Of calls whose work is known (OpWorks), else as recorded; none: of no call.
  std::optional<int64_t> flops, bytes;
  bool flops_is_lower_bound = false;   ///< some calls have at least so many
  int64_t measured_calls = 0;   ///< calls that begin in a measured step
  int64_t measured_self_ns = 0; ///< cpu_self of those
  double step_stddev_ns = 0;    ///< of that, per measured step: the sample standard deviation; 0 for one step

  void fields(auto&& v) const {
    v("name", text), v("calls", calls), v("cpu_total_ns", cpu_total_ns), v("cpu_self_ns", cpu_self_ns);
    v("device_total_ns", device_total_ns), v("device_self_ns", device_self_ns);
    v("flops", flops), v("flops_is_lower_bound", only_if(flops.has_value(), flops_is_lower_bound));
    v("bytes", bytes);
  }
  static std::vector<OpRow> rows(const Facts& facts);
};

struct Ops {
  std::vector<OpRow> rows;      ///< by cpu_self, longest first, then name
  /// Innermost op or annotation (not call, not Python frame) that launched each activity, or that was captured for it
  /// (Captures); may be invalid.
  std::vector<HostId> of_activity;
  static Ops compute(const Facts& facts);
};

}  // namespace profgpu
