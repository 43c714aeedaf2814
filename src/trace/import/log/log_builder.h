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

#include "trace/import/log/epoch_numbers.h"
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

  // The course of its numbers: see step_course.cc.
  static constexpr size_t kNone = SIZE_MAX;
  int64_t run = 0;          ///< of the log's runs, the one that its last step is of
  size_t run_begin = 0;     ///< place of that run's first step
  size_t course_begin = 0;  ///< since then, or since the numbers began anew with an epoch
  int64_t newest = 0;       ///< the highest number of the course
  size_t held = kNone;      ///< place of the first step that may be another process's copy, or of a new run
  LogEvent fall;            ///< where `held` begins

  /// The run before, to which an evaluation that is printed as the training is returns.
  struct RunBefore {
    int64_t run = 0;
    size_t run_begin = 0, course_begin = 0;
    int64_t newest = 0, next = 0;  ///< its last number, and the one that would follow
    int64_t line = 0;              ///< of the first row behind it
    bool told = false;             ///< another series has told of the row's run
  };
  std::optional<RunBefore> before;  ///< none: something says that it ended
  std::optional<std::pair<int64_t, int64_t>> evaluated;  ///< first and last number of the last such evaluation
};

class LogBuilder {
 public:
  /// The steps of a family that the process of `line` printed. `family` is one of log_families()' names.
  LogSeries& series(std::string_view family, const LogLine& line);
  /// A step of a family, begun by `line`. Null: the line repeats a step that the family gave already, as another
  /// process does that is not told apart.
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

  /// A line that stands where a training begins or is resumed: the next step is a new run's, if there were steps
  /// before.
  void run_may_begin(const LogLine& line);
  /// Steps are counted anew, but the run goes on.
  void epoch_begins(const LogLine& line) { epoch_line_ = line.number; }
  /// A run of which the family knows that it begins: its first step has this number.
  void begin_run(LogSeries& series, const LogLine& line, int64_t number);

  LogEvent& event(LogEventKind kind, const LogLine& line);
  /// Null: there is none.
  LogEvent* newest_event(LogEventKind kind);
  /// Those of one device; line, rank and step are set.
  void memory(LogMemory row, const LogLine& line);
  void serving(ServingLine row);
  /// The first value that is stated stays, until another run begins: then what is stated holds from there on.
  void setting(std::string_view name, std::string_view value);
  [[nodiscard]] std::optional<int64_t> setting(const std::string& name) const { return log_.setting(name); }
  RunLog& log() { return log_; }
  void found(std::string_view family);
  /// Once `line` has been read: notes if it begins a step whose loss is no number.
  void mark_lost_loss(const LogLine& line);
  /// Of the last line that reports on a step.
  [[nodiscard]] std::optional<int64_t> newest_step() const { return newest_step_; }
  [[nodiscard]] int64_t newest_step_line() const { return newest_step_line_; }
  /// That have begun.
  [[nodiscard]] int64_t runs() const { return runs_; }
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
  /// The same, of which nothing is left here.
  RunLog taken();

 private:
  [[nodiscard]] StepsWithoutTimes steps_without_times() const;
  [[nodiscard]] static LogEvent event_at(LogEventKind kind, const LogLine& line);
  bool is_row(LogSeries& series, const LogLine& line, int64_t number);
  bool falls(LogSeries& series, const LogLine& line, int64_t number);
  bool is_row_behind_fall(LogSeries& series, const LogLine& line, int64_t number);
  [[nodiscard]] bool is_marked(const LogSeries& series, const LogLine& line) const;
  [[nodiscard]] bool broke_off(int64_t line) const;
  [[nodiscard]] bool ended_before(const LogSeries& series, const LogLine& line, int64_t number) const;
  void add_run(LogSeries& series, size_t begin, LogEvent first);
  static void forget_timers(LogSeries& series);
  void remember_run(LogSeries& series, size_t begin, const LogEvent& first, bool told) const;
  static bool returns(const LogSeries& series, int64_t number);
  void drop_evaluation(LogSeries& series);
  void drop_last_evaluations();
  LogEvent* add_event(LogEvent event);

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
  int64_t newest_step_line_ = 0;
  int64_t runs_ = 1;
  int64_t highest_ = 0;                // number in this run, of all processes
  int64_t mark_ = 0, epoch_line_ = 0;  // of the last such line
  std::map<int, int64_t> marks_;       // the same by rank
};

// In step_course.cc.

/// Removes rows from `held` on whose numbers are those of the course before them.
void drop_copies(std::vector<LogStep>& steps, size_t course_begin, size_t held);
/// Sets of which run figures are, and the steps of others.
void mark_other_runs(RunLog& log);

// In log_times.cc.

/// Sets iterations, durations and starts of steps: durations that no line states come from rates or clock times. Steps
/// without any are left out and counted.
void set_times(LogRank& process, RunLog& log);
/// Puts starts on one clock: RunLog::base_ns is set.
void set_base(RunLog& log);

// In log_nodes.cc.

/// Where launchers count ranks on each node from 0, gives processes the numbers of a job that counts node by node.
void number_by_node(RunLog& log);

}  // namespace profgpu
