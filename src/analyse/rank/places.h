// Where in the program host time goes, or work is launched from.
#pragma once

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "analyse/rank/captures.h"
#include "analyse/rank/facts.h"
#include "analyse/report/report.h"
#include "trace/trace.h"

namespace profgpu {

/// Sums up time by place. A Python function stands for all that it calls of the framework's plumbing and of builtins;
/// where a thread has no stacks, ranges stand for themselves.
class Places {
 public:
  explicit Places(const Facts& facts);

  void add(HostId range, int64_t ns);
  /// All of its time, where it was launched or captured.
  void add(ActivityId activity);
  /// What `thread` does within `part`: each instant counts for the innermost range.
  void add_host_time(ThreadId thread, Interval part);
  /// None under a hundredth of the first.
  [[nodiscard]] std::vector<Place> most_expensive(size_t most = 5) const;

 private:
  /// The range that stands for it; invalid: none that says anything.
  [[nodiscard]] HostId told_by(HostId range) const;
  [[nodiscard]] Place place_of(HostId range) const;

  const Trace& trace_;
  const Captures& captures_;
  std::vector<bool> steps_;   // by name: ranges that mark steps, which say nothing of where
  std::map<std::tuple<std::string, std::string, int64_t>, Place> sums_;   // by name, file, line
};

}  // namespace profgpu
