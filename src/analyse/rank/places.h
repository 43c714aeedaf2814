// Where in the program host time goes, or work is launched.
#pragma once

#include <map>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "analyse/rank/captures.h"
#include "analyse/rank/facts.h"
#include "analyse/report/report.h"
#include "trace/trace.h"

namespace profgpu {

/// Sums up time by place. A Python function's time includes the framework internals and builtins that it calls; without
/// stacks, ranges are places. A sample of a stack counts for the time until the next sample: an estimate, without the
/// time in which no samples were taken.
class Places {
 public:
  explicit Places(const Facts& facts);

  void add(HostId range, int64_t ns);
  /// Its duration, at the place that launched or captured it.
  void add(ActivityId activity);
  /// A thread's time within `part`: each instant counts for the innermost range.
  void add_host_time(ThreadId thread, Interval part);
  /// Without places that have less than 1 % of the first one's time.
  [[nodiscard]] std::vector<Place> most_expensive(size_t most = 5) const;

 private:
  /// The innermost Python function around it that is not framework code, else the op or annotation; invalid: none.
  [[nodiscard]] HostId representative(HostId range) const;
  /// The frame that its thread's samples show; invalid: no sample within it, and those before and after differ.
  [[nodiscard]] HostId sampled_in(HostId range) const;
  void add_samples(ThreadId stack, Interval part);
  void sum_up(HostId representative, int64_t ns);
  [[nodiscard]] Place place_of(HostId range) const;

  const Trace& trace_;
  const Captures& captures_;
  std::vector<ThreadId> stacks_;   // by thread: Trace::sampled_stacks
  std::vector<bool> steps_;   // by name: ranges that mark steps, which are not places
  std::map<std::tuple<std::string, std::string, int64_t>, Place> sums_;   // by name, file, line
};

/// A thread's time within `part`, by the innermost range that covers each instant (rows of HostTable). Without `python`
/// Python frames do not count: their time belongs to the range around them.
std::unordered_map<uint32_t, int64_t> self_times(const Trace& trace, ThreadId thread, Interval part,
                                                 bool python = true);

}  // namespace profgpu
