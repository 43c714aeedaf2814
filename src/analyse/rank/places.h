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
/// where a thread has no stacks, ranges stand for themselves. Of stacks that were sampled, a sample stands for the time
/// until the next one: what is said is an estimate, and nothing of a stretch in which no sample was taken.
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
  /// The frame that samples of its thread name for it; invalid: none was taken in it, and before and after they differ.
  [[nodiscard]] HostId sampled_in(HostId range) const;
  void add_samples(ThreadId stack, Interval part);
  /// `told`: valid.
  void sum_up(HostId told, int64_t ns);
  [[nodiscard]] Place place_of(HostId range) const;

  const Trace& trace_;
  const Captures& captures_;
  std::vector<ThreadId> stacks_;   // by thread: Trace::sampled_stacks
  std::vector<bool> steps_;   // by name: ranges that mark steps, which say nothing of where
  std::map<std::tuple<std::string, std::string, int64_t>, Place> sums_;   // by name, file, line
};

}  // namespace profgpu
