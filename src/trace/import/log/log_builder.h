// What families of lines tell of a run, gathered and put together.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "trace/import/log/log_line.h"
#include "trace/run_log.h"

namespace profgpu {

/// Steps of one family and process.
struct LogSeries {
  std::string_view family;
  int rank = -1;
  int64_t pid = 0;
  std::string node;
  std::vector<LogStep> steps;  ///< iterations 0: to be counted from the numbers
  std::vector<LogTimer> timers;

  /// Programs print their timers in the same order each time, which makes this fast.
  LogTimer& timer(std::string_view name);
  size_t next_timer = 0;
};

/// Counts on numbers that begin anew with each epoch.
class EpochNumbers {
 public:
  int64_t operator()(int64_t epoch, int64_t number) {
    begins_anew_ = epoch > epoch_ && epoch_ >= 0 && number + before_ <= newest_;
    if (begins_anew_) before_ = newest_ + (number == 0);
    epoch_ = std::max(epoch_, epoch);
    return newest_ = std::max(newest_, number + before_), number + before_;
  }

  /// Whether the last number is the first of its epoch: what has passed since the one before holds an evaluation, a
  /// checkpoint or new workers, too.
  [[nodiscard]] bool begins_anew() const { return begins_anew_; }

 private:
  int64_t epoch_ = -1, before_ = 0, newest_ = 0;
  bool begins_anew_ = false;
};

class LogBuilder {
 public:
  /// The steps of a family that the process of `line` printed. `family` is one of log_families()' names.
  LogSeries& series(std::string_view family, const LogLine& line);
  /// A step of a family, begun by `line`. Null: the line repeats a step that the family gave already, as another
  /// process does that is not told apart. A number that goes back is a restart some lines later, or after the run broke
  /// off.
  LogStep* step(std::string_view family, const LogLine& line, int64_t number);
  /// The last one of the same family and process; null: there is none.
  LogStep* last(std::string_view family, const LogLine& line);
  struct TimerOfLine {
    std::string_view name;
    std::optional<LogPhase> phase;
    int64_t line = 0;
  };
  /// One more value of a timer; of one iteration. The least and the most over ranks where several are told, else the
  /// same. A program with more timers than a person reads gets no more.
  static void time(LogSeries& series, const TimerOfLine& of, int64_t least_ns, int64_t most_ns);

  LogEvent& event(LogEventKind kind, const LogLine& line);
  /// Null: there is none.
  LogEvent* newest_event(LogEventKind kind);
  /// Those of one device; line, rank and step are set.
  void memory(LogMemory row, const LogLine& line);
  void serving(ServingLine row);
  /// The first value that is stated stays.
  void setting(std::string_view name, std::string_view value);
  [[nodiscard]] std::optional<int64_t> setting(const std::string& name) const { return log_.setting(name); }
  RunLog& log() { return log_; }
  void found(std::string_view family);
  /// Once `line` has been read: notes if it begins a step whose loss is no number.
  void mark_lost_loss(const LogLine& line);
  /// Of the last line that reports on a step.
  [[nodiscard]] std::optional<int64_t> newest_step() const { return newest_step_; }
  /// The last step of the process that printed last, whose time may not be known yet; null: there is none.
  [[nodiscard]] const LogStep* newest() const {
    return latest_ != nullptr && !latest_->steps.empty() ? &latest_->steps.back() : nullptr;
  }
  [[nodiscard]] const std::vector<LogEvent>& events() const { return log_.events; }
  /// Whether any family has a step so far.
  [[nodiscard]] bool has_steps() const;

  /// What is known so far. Steps of the family that comes first in log_families() stand for a process; others add what
  /// they know of the same steps.
  [[nodiscard]] RunLog finished() const;

 private:
  [[nodiscard]] StepsWithoutTimes steps_without_times() const;
  [[nodiscard]] bool starts_again(const LogStep& newest, const LogLine& line, int64_t number) const;

  void raise_memory(LogMemory row);
  LogSeries* ended_worker(std::string_view family, const LogLine& line);

  using Process = std::tuple<std::string_view, int, int64_t, std::string_view>;  // family, rank, pid, node
  static Process key(const LogSeries& s) { return {s.family, s.rank, s.pid, s.node}; }
  std::deque<LogSeries> series_;  // they stay where they are
  std::map<Process, LogSeries*> by_process_;
  std::map<std::pair<int, std::string>, size_t> raised_;  // by rank and node: its row of LogMemory
  LogSeries* latest_ = nullptr;
  RunLog log_;
  std::optional<int64_t> newest_step_;
};

// In log_times.cc.

/// Sets iterations, durations and starts of steps: durations that no line states come from rates or clock times. Steps
/// without any are left out and counted.
void set_times(LogRank& process, const RunLog& log);
/// Puts starts on one clock: RunLog::base_ns is set.
void set_base(RunLog& log);

// In log_nodes.cc.

/// Where launchers count ranks on each node from 0, gives processes the numbers of a job that counts node by node.
void number_by_node(RunLog& log);

}  // namespace profgpu
