// Which lines on steps are rows, and where runs begin: by the course of a process's step numbers.
//
// Numbers rise. One that has been is another process's copy, if that process is not told apart, or of another run. A
// copy lags by a few lines of steps, and the first process goes on meanwhile. A run that begins anew repeats one number
// after the other. So what falls is held until it shows which of the two it is, unless something else tells: the run
// broke off before, or the program printed what it prints when a training begins.
#include <algorithm>
#include <iterator>
#include <span>
#include <utility>

#include "trace/import/log/log_builder.h"

namespace profgpu {
namespace {

constexpr size_t kMostLag = 4;       // rows that another process may be behind
constexpr size_t kTellingRows = 3;   // in a row
constexpr size_t kTimerRows = 5;     // of a run, before its timers stand for themselves
constexpr int64_t kGrace_ns = 60'000'000'000;  // what a scheduler leaves a job that it has told to end

std::span<const LogStep> course_of(const LogSeries& s) {
  return std::span(s.steps).first(std::min(s.held, s.steps.size())).subspan(s.course_begin);
}

// Before what is held. A family may have given the last row another number.
int64_t newest_of(const LogSeries& s) { return std::max(s.newest, course_of(s).back().number); }

size_t rows_from(std::span<const LogStep> course, int64_t number) {
  return static_cast<size_t>(course.end() - std::ranges::lower_bound(course, number, {}, &LogStep::number));
}

// Of the rows of the course that the held ones may repeat.
bool has_repeated_all(const LogSeries& s) {
  const std::span<const LogStep> course = course_of(s), held = std::span(s.steps).subspan(s.held);
  const auto repeated = std::ranges::upper_bound(held, newest_of(s), {}, &LogStep::number) - held.begin();
  return static_cast<size_t>(repeated) >= rows_from(course, held.front().number);
}

bool may_survive(LogEventKind kind) {
  return kind == LogEventKind::kNotFinite || kind == LogEventKind::kException || kind == LogEventKind::kNcclError ||
         kind == LogEventKind::kDeviceError || kind == LogEventKind::kOutOfMemory ||
         kind == LogEventKind::kCollectiveTimeout || kind == LogEventKind::kHostOutOfMemory;
}

// Between two rows more time has passed than a job has that is told to end.
bool outlasts_grace(std::span<const LogStep> course, const LogLine& line) {
  const LogStep& newest = course.back();
  if (!line.printed_ns || !newest.printed_ns) return false;
  const bool known = course.size() > 1 && course[course.size() - 2].printed_ns.has_value();
  const int64_t before_ns = known ? *newest.printed_ns - *course[course.size() - 2].printed_ns : 0;
  const int64_t usual_ns = std::clamp<int64_t>(before_ns, 0, LogStep::kLongest_ns / 4);
  return *line.printed_ns - *newest.printed_ns > kGrace_ns + 3 * usual_ns;
}

}  // namespace

void drop_copies(std::vector<LogStep>& steps, size_t course_begin, size_t held) {
  const std::span<const LogStep> course = std::span(steps).first(held).subspan(course_begin);
  const auto is_copy = [&](const LogStep& s) {
    return std::ranges::binary_search(course, s.number, {}, &LogStep::number);
  };
  std::vector<LogStep> others;
  for (size_t i = held; i < steps.size(); ++i)
    if (!is_copy(steps[i])) others.push_back(std::move(steps[i]));
  steps.resize(held);
  std::ranges::move(others, std::back_inserter(steps));
}

void LogBuilder::run_may_begin(const LogLine& line) {
  mark_ = line.number;
  marks_[line.rank] = line.number;
}

bool LogBuilder::is_marked(const LogSeries& series, const LogLine& line) const {
  const int64_t since = course_of(series).back().line;
  if (mark_ <= since) return false;
  return line.rank < 0 || std::ranges::any_of(marks_, [&](const auto& mark) {
    return mark.second > since && (mark.first < 0 || mark.first == line.rank);
  });
}

bool LogBuilder::broke_off(int64_t line) const {
  for (auto e = log_.events.rbegin(); e != log_.events.rend() && e->line > line; ++e)
    if (ends_run(e->kind) && e->kind != LogEventKind::kNotFinite) return true;
  return false;
}

// Before a number that is higher than all: a job that ended behind a checkpoint goes on from there.
bool LogBuilder::ended_before(const LogSeries& series, const LogLine& line, int64_t number) const {
  const std::span<const LogStep> course = course_of(series);
  if (number <= highest_) return false;  // another process has been there
  if (is_marked(series, line) && course.size() >= kTellingRows) return true;
  for (auto e = log_.events.rbegin(); e != log_.events.rend() && e->line > course.back().line; ++e) {
    if (e->kind == LogEventKind::kFinished) return true;
    if (ends_run(e->kind) && !may_survive(e->kind) && outlasts_grace(course, line)) return true;
  }
  return false;
}

void LogBuilder::begin_run(LogSeries& series, const LogLine& line, int64_t number) {
  if (series.held != LogSeries::kNone) drop_copies(series.steps, series.course_begin, series.held);
  LogEvent first = event_at(LogEventKind::kRestart, line);
  first.step = number;
  add_run(series, series.steps.size(), std::move(first));
}

// One of several processes, or of several families of lines, is the first that shows it.
void LogBuilder::add_run(LogSeries& series, size_t begin, LogEvent first) {
  series.held = LogSeries::kNone;
  const bool told = series.run + 1 < runs_;
  remember_run(series, begin, first, told);
  series.run_begin = series.course_begin = begin;
  series.newest = first.step.value_or(0);
  highest_ = told ? std::max(highest_, series.newest) : series.newest;
  if (!told) ++runs_, add_event(std::move(first));
  series.run = runs_ - 1;
}

bool LogBuilder::is_row(LogSeries& series, const LogLine& line, int64_t number) {
  if (series.steps.empty()) series.run = runs_ - 1;
  if (series.course_begin < series.steps.size()) {
    if (series.held != LogSeries::kNone) return is_row_behind_fall(series, line, number);
    if (number <= newest_of(series)) return falls(series, line, number);
    if (returns(series, number)) drop_evaluation(series);
    if (ended_before(series, line, number)) begin_run(series, line, number);
  }
  series.newest = number;
  highest_ = std::max(highest_, number);
  return true;
}

bool LogBuilder::falls(LogSeries& series, const LogLine& line, int64_t number) {
  const std::span<const LogStep> course = course_of(series);
  if (number == newest_of(series)) return false;
  const bool far = rows_from(course, number + 1) > 1 || number < course.front().number;
  if (far && (is_marked(series, line) || broke_off(course.back().line))) return begin_run(series, line, number), true;
  if (epoch_line_ > course.back().line) {
    series.course_begin = series.steps.size(), series.newest = number;
    return true;
  }
  series.held = series.steps.size();
  series.fall = event_at(LogEventKind::kRestart, line);
  series.fall.step = number;
  return true;
}

bool LogBuilder::is_row_behind_fall(LogSeries& series, const LogLine& line, int64_t number) {
  const int64_t last = series.steps.back().number;
  if (number == last) return false;
  if (number > last && (number <= newest_of(series) || has_repeated_all(series))) {
    const size_t rows = series.steps.size() - series.held + 1;
    const size_t repeated = rows_from(course_of(series), series.steps[series.held].number);
    const bool tells = (repeated > kMostLag + 1 && rows >= kTellingRows) || rows >= repeated + kTellingRows;
    if (tells) add_run(series, series.held, std::move(series.fall));
    if (tells) series.newest = highest_ = number;
    return true;
  }
  drop_copies(series.steps, series.course_begin, series.held);
  series.held = LogSeries::kNone;
  series.newest = std::max(series.newest, series.steps.back().number);
  return is_row(series, line, number);
}

// Of an evaluation whose lines are as those of the training, numbers begin anew, and afterwards the training's go on
// where they were. A run that was resumed goes on from number to number.
void LogBuilder::remember_run(LogSeries& series, size_t begin, const LogEvent& first, bool told) const {
  series.before.reset();
  const std::span<const LogStep> course = std::span(series.steps).first(begin).subspan(series.course_begin);
  if (course.size() < kTellingRows || broke_off(course.back().line)) return;
  const int64_t newest = course.back().number, next = 2 * newest - course[course.size() - 2].number;
  const bool marked = mark_ > course.back().line || std::ranges::any_of(marks_, [&](const auto& mark) {
    return mark.second > course.back().line;
  });
  if (!marked && next > newest)
    series.before = {series.run, series.run_begin, series.course_begin, newest, next, first.line, told};
}

bool LogBuilder::returns(const LogSeries& series, int64_t number) {
  return series.before && series.held == LogSeries::kNone && number == series.before->next &&
         series.newest < series.before->newest && series.steps.back().number < series.before->newest;
}

// Its rows are none of the training's.
void LogBuilder::drop_evaluation(LogSeries& series) {
  const LogSeries::RunBefore before = *std::exchange(series.before, std::nullopt);
  const std::span<const LogStep> rows = std::span(series.steps).subspan(series.run_begin);
  int64_t all_ns = 0;
  for (const LogStep& s : rows) all_ns += s.duration_ns.value_or(0);
  if (!rows.empty()) series.evaluated = {rows.front().number, rows.back().number};
  if (!before.told) {
    --runs_;
    const auto is_its = [&](const LogEvent& e) { return e.kind == LogEventKind::kRestart && e.line == before.line; };
    const auto e = std::find_if(log_.events.rbegin(), log_.events.rend(), is_its);
    if (e != log_.events.rend()) {
      e->kind = LogEventKind::kEvaluation, e->step = before.newest;
      if (all_ns > 0 && !e->printed_ns) e->duration_ns = all_ns;   // else the clock tells it
      --log_.event_lines[LogEventKind::kRestart], ++log_.event_lines[LogEventKind::kEvaluation];
    }
  }
  series.steps.resize(series.run_begin);
  series.run = before.run, series.run_begin = before.run_begin, series.course_begin = before.course_begin;
  series.newest = highest_ = before.newest;
}

// Behind the last step of a training comes an evaluation as those before it.
void LogBuilder::drop_last_evaluations() {
  for (LogSeries& s : series_) {
    if (!s.before || !s.evaluated || s.held != LogSeries::kNone || s.run_begin >= s.steps.size()) continue;
    const bool same = s.steps[s.run_begin].number == s.evaluated->first && s.steps.back().number <= s.evaluated->second;
    if (same) drop_evaluation(s);
  }
}

// The first values of a timer are kept line by line, those of the runs before among them.
void LogBuilder::forget_timers(LogSeries& series) {
  if (series.run_begin == 0 || series.steps.size() != series.run_begin + kTimerRows) return;
  const int64_t line = series.steps[series.run_begin].line;
  for (LogTimer& t : series.timers) {
    std::erase_if(t.leading, [&](const LogTimer::Value& v) { return v.line < line; });
    t.later = {};
  }
}

// Figures are of the last run that has steps enough to tell, else of the one that has most.
void mark_other_runs(RunLog& log) {
  if (log.run_lines.empty() || log.ranks.empty()) return;
  constexpr int64_t kEnough = 5;
  std::vector<int64_t> rows(log.run_lines.size() + 1);
  const LogRank& most = *std::ranges::max_element(log.ranks, {}, [](const LogRank& r) { return r.steps.size(); });
  for (const LogStep& s : most.steps) ++rows[static_cast<size_t>(log.run_of(s.line))];
  auto told = std::ranges::find_if(rows.rbegin(), rows.rend(), [](int64_t n) { return n >= kEnough; });
  if (told == rows.rend()) told = std::ranges::max_element(rows.rbegin(), rows.rend());
  log.told_run = rows.rend() - told - 1;
  for (LogRank& r : log.ranks)
    for (LogStep& s : r.steps) s.other_run = !log.is_told(s.line);
}

}  // namespace profgpu
