// Where in the program host time goes, or work is launched.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "analyse/rank/captures.h"
#include "analyse/rank/facts.h"
#include "analyse/report/report.h"
#include "trace/intervals.h"
#include "trace/trace.h"

namespace profgpu {

struct Names;

/// Of Python's own libraries, and of those that a program calls for one thing. Frameworks that run the loop are none.
bool is_library_file(std::string_view file);

/// Which function stands for what it calls.
enum class PlaceOf : uint8_t {
  kFunction,   ///< the innermost that is not framework code
  kOwnCode,    ///< the innermost of the program's own, whatever it calls; a library's function only if there is none
};

/// Sums up time by place. A Python function's time includes the framework internals and builtins that it calls; without
/// stacks, ranges are places. A sample of a stack counts for the time until the next sample: an estimate, without the
/// time in which no samples were taken. Threads of autograd run no Python: their work is at the function that called
/// the forward op, "backward of f", or if only the loop's stack was sampled, at the line that waits for the backward
/// pass, "backward pass started in f".
class Places {
 public:
  explicit Places(const Facts& facts, PlaceOf of = PlaceOf::kFunction);
  Places(const Places&) = delete;   // sum_of_ points into sums_
  Places(Places&&) = default;

  void add(HostId range, int64_t ns);
  /// Its duration, at the place that launched or captured it.
  void add(ActivityId activity);
  /// A thread's time within `part`: each instant counts for the innermost range.
  void add_host_time(ThreadId thread, Interval part);
  /// The same of parts that may be shorter than the time between samples: of a sampled thread, the samples that were
  /// taken within them, each for all its time within `whole`.
  void add_host_time(ThreadId thread, const Intervals& parts, const Intervals& whole);
  /// Without places that have less than 1 % of the first one's time.
  [[nodiscard]] std::vector<Place> most_expensive(size_t most = 5) const;
  /// Time at a place by the frame, op or call directly below its function: what it calls; most first. Only with
  /// PlaceOf::kOwnCode.
  [[nodiscard]] std::vector<std::pair<std::string_view, int64_t>> calls_of(const Place& place) const;
  /// Of a library's function, by its time within `time`: the innermost function of the program's own that runs it; if
  /// there is none, the innermost of another library. None: its callers were not recorded.
  [[nodiscard]] std::optional<Place> caller_of(const Place& place, const Intervals& time) const;

 private:
  using Key = std::tuple<std::string, std::string, int64_t>;   // name, file, line
  static Key key_of(const Place& place) { return {place.name, place.file, place.line.value_or(0)}; }

  /// The innermost Python function around it that is not framework code, else the op or annotation, else a call that
  /// launches nothing; invalid: none.
  [[nodiscard]] HostId representative(HostId range) const;
  [[nodiscard]] HostId own_function(HostId range) const;
  [[nodiscard]] HostId caller_outside(HostId frame, std::string_view library) const;
  /// The frame that a thread's samples show; invalid: no sample within the range, and those before and after differ.
  [[nodiscard]] HostId sampled_in(HostId range, ThreadId stack) const;
  void add_samples(ThreadId stack, Interval part, std::string_view prefix = {});
  /// `range`: whose time it is.
  void sum_up(HostId representative, HostId range, int64_t ns, std::string_view prefix = {});
  /// Whether the row's line is the one that runs, not the function's first.
  [[nodiscard]] bool is_sampled(HostId row) const { return sampled_[trace_.host.thread[row.value].value]; }
  /// Of the op of which the range is a part of the backward pass; invalid: not known, or without Python frames.
  [[nodiscard]] HostId forward_function(HostId range) const;
  [[nodiscard]] bool has_ops(ThreadId thread);
  [[nodiscard]] Place place_of(HostId range) const;

  /// What a Python frame's name says; parsed once.
  enum class FrameKind : uint8_t { kNotParsed, kFramework, kLibrary, kWholeProgram, kComprehension, kFunction };
  [[nodiscard]] FrameKind kind_of(StringId frame) const;

  const Facts& facts_;
  const Trace& trace_;
  const Names& names_;
  const Captures& captures_;
  PlaceOf of_;
  std::vector<ThreadId> stacks_;   // by thread: Trace::sampled_stacks
  std::vector<bool> sampled_;      // by thread: it is such a stack
  ThreadId loop_stack_;            // the one of the steps' thread; invalid: none
  const Intervals* backward_ = nullptr;   // passes; with loop_stack_
  std::unordered_map<uint32_t, bool> has_ops_;        // by thread
  std::vector<bool> steps_;   // by name: ranges that mark steps, which are not places
  mutable std::vector<FrameKind> frame_kinds_;   // by name
  std::map<Key, Place> sums_;
  std::map<Key, std::map<StringId, int64_t>> calls_;                 // time by name of what the place calls
  std::map<std::pair<StringId, std::string_view>, Place*> sum_of_;   // by name of the range, and prefix
};

/// The program's own functions on the steps' thread over the measured steps, most expensive first. Of a host alone or
/// whose stack was sampled: beside a device the host's time is not the step's, and whole stacks are many.
struct HostPlaces {
  std::vector<Place> places;

  static HostPlaces compute(const Facts& facts);
};

/// How many samples of a thread's stack stand for so much time, from how long its samples last.
int64_t samples_in(const Trace& trace, ThreadId stack, int64_t ns);

/// A thread's time within `part`, by the innermost range that covers each instant (rows of HostTable). Without `python`
/// Python frames do not count: their time belongs to the range around them.
std::unordered_map<uint32_t, int64_t> self_times(const Trace& trace, ThreadId thread, Interval part,
                                                 bool python = true);

}  // namespace profgpu
