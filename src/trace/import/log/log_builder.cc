#include "trace/import/log/log_builder.h"

#include <algorithm>
#include <unordered_map>

#include "base/statistics.h"
#include "trace/import/log/log_family.h"

namespace profgpu {
namespace {

constexpr int64_t kMaxEvents = 20'000;  // of a kind: more tell nothing new
constexpr size_t kMaxMemory = 200'000;
constexpr size_t kMaxServing = 1'000'000;
constexpr size_t kMaxSeries = 20'000;  // processes times families; a log of noise may seem to have more

size_t preference_of(std::string_view family) {
  const auto& all = log_families();
  return static_cast<size_t>(std::ranges::find(all, family, [](const LogFamily* f) { return f->name; }) - all.begin());
}

bool has_time(const LogStep& step) {
  return step.duration_ns || step.printed_ns || step.figures.samples_per_s || step.figures.device_tokens_per_s;
}

LogRank process_of(LogSeries series) {
  LogRank process;
  if (series.rank >= 0) process.rank = series.rank;
  process.node = std::move(series.node);
  process.pid = series.pid;
  process.family = series.family;
  process.steps = std::move(series.steps);
  if (series.held != LogSeries::kNone) drop_copies(process.steps, series.course_begin, series.held);
  process.timers = std::move(series.timers);
  return process;
}

// The process whose steps another family's lines tell of: the same, else the only one, if neither says otherwise.
LogRank* told_of(std::vector<LogRank>& ranks, const LogSeries& series) {
  for (LogRank& r : ranks)
    if (r.rank.value_or(-1) == series.rank && r.node == series.node && r.pid == series.pid) return &r;
  if (ranks.size() != 1) return nullptr;
  const bool same = !ranks[0].rank || series.rank < 0 || *ranks[0].rank == series.rank;
  return same ? ranks.data() : nullptr;
}

std::optional<double> median_figure(const std::vector<LogStep>& steps, std::optional<double> LogFigures::* figure) {
  std::vector<double> values;
  for (const LogStep& s : steps)
    if (s.figures.*figure) values.push_back(*(s.figures.*figure));
  return values.empty() ? std::nullopt : std::optional(median_of(values));
}

void complete(LogRank& process, const LogSeries& series, const RunLog& log) {
  std::vector<std::unordered_map<int64_t, const LogStep*>> by_run(log.run_lines.size() + 1);
  for (const LogStep& s : series.steps) by_run[static_cast<size_t>(log.run_of(s.line))][s.number] = &s;
  for (LogStep& s : process.steps) {
    const auto& by_number = by_run[static_cast<size_t>(log.run_of(s.line))];
    const auto at = by_number.find(s.number);
    if (at == by_number.end()) continue;
    s.figures.complete(at->second->figures);
    if (!s.timed()) s.phase_ns = at->second->phase_ns;
    if (!s.printed_ns) s.printed_ns = at->second->printed_ns;
    if (!s.duration_ns && !at->second->derived) s.duration_ns = at->second->duration_ns;
  }
  for (const LogTimer& t : series.timers)
    if (std::ranges::count(process.timers, t.name, &LogTimer::name) == 0) process.timers.push_back(t);
}

}  // namespace

LogTimer& LogSeries::timer(std::string_view name) {
  if (next_timer >= timers.size()) next_timer = 0;
  if (!timers.empty() && timers[next_timer].name == name) return timers[next_timer++];
  for (size_t i = 0; i < timers.size(); ++i)  // a few dozen
    if (timers[i].name == name) return next_timer = i + 1, timers[i];
  next_timer = 0;
  LogTimer& added = timers.emplace_back();
  added.name = name;
  return added;
}

LogSeries& LogBuilder::series(std::string_view family, const LogLine& line) {
  const auto same = [&](const LogSeries& s) {
    return s.rank == line.rank && s.family == family && s.node == line.node && s.pid == line.pid;
  };
  if (latest_ != nullptr && same(*latest_)) return *latest_;
  const auto found = by_process_.find({family, line.rank, line.pid, line.node});
  if (found != by_process_.end()) return *(latest_ = found->second);
  if (LogSeries* replaced = ended_worker(family, line)) {
    by_process_[key(*replaced)] = replaced;
    return *(latest_ = replaced);
  }
  if (series_.size() >= kMaxSeries) return *(latest_ = &series_.back());
  LogSeries& s = series_.emplace_back();
  s.family = family, s.rank = line.rank, s.pid = line.pid, s.node = line.node;
  by_process_[key(s)] = &s;
  return *(latest_ = &s);
}

// Ray starts a worker again as another process: the one whose run broke off goes on in it.
LogSeries* LogBuilder::ended_worker(std::string_view family, const LogLine& line) {
  if (line.pid == 0 || line.rank >= 0 || log_.events.empty()) return nullptr;
  for (LogSeries& s : series_) {
    if (s.family != family || s.node != line.node || s.rank >= 0 || s.pid == 0 || s.steps.empty()) continue;
    const auto behind = [&](const LogEvent& e) { return e.line > s.steps.back().line && ends_run(e.kind); };
    if (!behind(log_.events.back())) continue;
    s.pid = line.pid;
    return &s;
  }
  return nullptr;
}

LogStep* LogBuilder::last(std::string_view family, const LogLine& line) {
  LogSeries& all = series(family, line);
  return all.steps.empty() ? nullptr : &all.steps.back();
}

LogStep* LogBuilder::step(std::string_view family, const LogLine& line, int64_t number) {
  LogSeries& of = series(family, line);
  found(family);
  newest_step_ = number, newest_step_line_ = line.number;
  if (!is_row(of, line, number)) return nullptr;
  LogStep& s = of.steps.emplace_back();
  s.number = number;
  s.iterations = 0;
  s.line = line.number;
  s.printed_ns = line.printed_ns;
  forget_timers(of);
  return &of.steps.back();
}

bool LogBuilder::has_steps() const {
  return std::ranges::any_of(series_, [](const LogSeries& s) { return !s.steps.empty(); });
}

void LogBuilder::time(LogSeries& series, const TimerOfLine& of, int64_t least_ns, int64_t most_ns) {
  constexpr size_t kMaxTimers = 1'000;
  if (series.timers.size() >= kMaxTimers && std::ranges::count(series.timers, of.name, &LogTimer::name) == 0) return;
  LogTimer& t = series.timer(of.name);
  const auto least = static_cast<double>(least_ns), most = static_cast<double>(most_ns);
  if (t.leading.empty()) t.phase = of.phase;
  if (t.leading.size() < LogTimer::kLeading) t.leading.push_back({of.line, least, most});
  else t.later.add(least, most);
}

LogEvent LogBuilder::event_at(LogEventKind kind, const LogLine& line) {
  LogEvent e;
  e.kind = kind;
  e.line = line.number;
  if (line.rank >= 0) e.rank = line.rank;
  e.node = line.node;
  e.printed_ns = line.printed_ns;
  return e;
}

// Where runs begin stays known, however many errors they end with.
LogEvent* LogBuilder::add_event(LogEvent event) {
  if (++log_.event_lines[event.kind] > kMaxEvents) return nullptr;
  return &log_.events.emplace_back(std::move(event));
}

LogEvent& LogBuilder::event(LogEventKind kind, const LogLine& line) {
  static thread_local LogEvent left_out;
  LogEvent* added = add_event(event_at(kind, line));
  if (added == nullptr) return left_out = {};
  LogEvent& e = *added;
  e.step = newest_step_;
  e.text = quotable(line.text);
  return e;
}

LogEvent* LogBuilder::newest_event(LogEventKind kind) {
  const auto is_kind = [&](const LogEvent& e) { return e.kind == kind; };
  const auto found = std::find_if(log_.events.rbegin(), log_.events.rend(), is_kind);
  return found != log_.events.rend() ? &*found : nullptr;
}

void LogBuilder::memory(LogMemory row, const LogLine& line) {
  row.line = line.number;
  if (line.rank >= 0) row.rank = line.rank;
  row.node = line.node;
  if (!row.step) row.step = newest_step_;
  if (log_.memory.size() < kMaxMemory) log_.memory.push_back(std::move(row));
  else raise_memory(std::move(row));
}

// Behind the most rows, one of each rank has the peaks of all that follow.
void LogBuilder::raise_memory(LogMemory row) {
  const auto [at, added] = raised_.try_emplace({row.rank.value_or(-1), row.node}, log_.memory.size());
  if (added) return log_.memory.push_back(std::move(row));
  LogMemory& peak = log_.memory[at->second];
  for (const auto figure : {&LogMemory::allocated_bytes, &LogMemory::max_allocated_bytes, &LogMemory::reserved_bytes,
                            &LogMemory::max_reserved_bytes, &LogMemory::capacity_bytes, &LogMemory::host_bytes})
    if (row.*figure && *(row.*figure) > (peak.*figure).value_or(-1)) peak.*figure = row.*figure;
}

void LogBuilder::serving(ServingLine row) {
  if (log_.serving.size() < kMaxServing) log_.serving.push_back(std::move(row));
  else ++log_.serving_left_out;
}

void LogBuilder::setting(std::string_view name, std::string_view value) {
  const auto [at, added] = log_.settings.try_emplace(std::string(name), value);
  if (added || at->second == value || mark_ <= newest_step_line_ || newest_step_line_ == 0) return;
  // Another run's. What it states line by line belongs together.
  const bool begun = !log_.settings_before.empty() && log_.settings_before.back().until_line > newest_step_line_;
  if (!begun) log_.settings_before.push_back({mark_, log_.settings});
  at->second = value;
}

void LogBuilder::mark_lost_loss(const LogLine& line) {
  if (latest_ == nullptr || latest_->steps.empty()) return;
  LogStep& step = latest_->steps.back();
  if (step.line != line.number || step.figures.loss || step.figures.not_finite) return;
  if (loses_loss(line.message)) step.figures.not_finite = 1;
}

void LogBuilder::found(std::string_view family) {
  if (log_.families.empty() || log_.families.back() != family)
    if (std::ranges::count(log_.families, family) == 0) log_.families.emplace_back(family);
}

StepsWithoutTimes LogBuilder::steps_without_times() const {
  StepsWithoutTimes out;
  for (const LogSeries& s : series_) {
    if (std::cmp_less_equal(s.steps.size(), out.lines)) continue;
    out = {};
    out.lines = static_cast<int64_t>(s.steps.size());
    out.last_step = s.steps.back().number, out.last_line = s.steps.back().line;
    out.samples_per_s = median_figure(s.steps, &LogFigures::samples_per_s);
    out.tokens_per_s = median_figure(s.steps, &LogFigures::tokens_per_s);
    out.device_tokens_per_s = median_figure(s.steps, &LogFigures::device_tokens_per_s);
    out.tflops = median_figure(s.steps, &LogFigures::tflops);
    out.mfu_pct = median_figure(s.steps, &LogFigures::mfu_pct);
    for (const LogStep& step : s.steps) {
      if (!step.figures.loss) continue;
      if (!out.first_loss) out.first_loss = step.figures.loss;
      out.last_loss = step.figures.loss;
    }
  }
  return out;
}

RunLog LogBuilder::finished() const { return LogBuilder(*this).taken(); }

RunLog LogBuilder::taken() {
  drop_last_evaluations();
  RunLog log = std::move(log_);
  log_ = {};
  // The first family of which a step has a time, or may be given one.
  size_t first = SIZE_MAX;
  for (const LogSeries& s : series_)
    if (std::ranges::any_of(s.steps, has_time)) first = std::min(first, preference_of(s.family));
  // Lines of one process need not all say whose they are: those that do not are of the only one that does.
  const auto of_first = [&](const LogSeries& s) { return preference_of(s.family) == first && !s.steps.empty(); };
  const auto labelled = std::ranges::count_if(series_, [&](const LogSeries& s) { return of_first(s) && s.rank >= 0; });
  const auto is_timed = [](const LogStep& s) { return s.duration_ns > 0 && *s.duration_ns <= LogStep::kLongest_ns; };
  const bool timed = std::ranges::any_of(
      series_, [&](const LogSeries& s) { return of_first(s) && std::ranges::any_of(s.steps, is_timed); });
  StepsWithoutTimes no_times;
  if (!timed) no_times = steps_without_times();
  std::vector<const LogSeries*> others;
  for (LogSeries& s : series_) {
    if (of_first(s) && (s.rank >= 0 || labelled != 1))
      log.ranks.push_back(process_of(std::move(s)));
    else
      others.push_back(&s);
  }
  std::ranges::stable_sort(others, {}, [](const LogSeries* s) { return preference_of(s->family); });
  std::ranges::stable_sort(log.events, {}, &LogEvent::line);
  for (const LogEvent& e : log.events)
    if (e.kind == LogEventKind::kRestart) log.run_lines.push_back(e.line);
  for (const LogSeries* s : others)
    if (LogRank* process = told_of(log.ranks, *s)) complete(*process, *s, log);
  for (LogRank& process : log.ranks) set_times(process, log);
  std::erase_if(log.ranks, [](const LogRank& r) { return r.steps.empty(); });
  if (log.ranks.empty()) log.no_times = no_times;
  std::ranges::stable_sort(log.ranks, {}, [](const LogRank& r) { return std::pair(r.rank.value_or(-1), r.node); });
  number_by_node(log);
  mark_other_runs(log);
  set_base(log);
  return log;
}

}  // namespace profgpu
