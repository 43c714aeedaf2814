// When steps were, and how long each took, where a log states it in pieces.
#include <algorithm>
#include <chrono>
#include <cmath>

#include "base/statistics.h"
#include "trace/import/log/log_builder.h"

namespace profgpu {
namespace {

constexpr int64_t kMaxStep_ns = LogStep::kLongest_ns;
constexpr int64_t kClockSecond_ns = 1'000'000'000;
constexpr int64_t kSlack_ns = 2 * kClockSecond_ns;  // of clock times in whole seconds
constexpr int64_t kEnd_ns = INT64_MAX / 2;  // of all times

// Steps that lines stand for: from number to number. The first line's are as many as the next one's, unless it is
// known how often the program prints.
void count_iterations(std::vector<LogStep>& steps, const RunLog& log) {
  for (size_t i = 1; i < steps.size(); ++i)
    if (steps[i].iterations == 0) steps[i].iterations = std::max<int64_t>(steps[i].number - steps[i - 1].number, 0);
  for (size_t i = steps.size(); i-- > 0;) {  // after a restart, and at the start
    if (steps[i].iterations > 0) continue;
    const int64_t interval = log.setting("log_interval").value_or(i + 1 < steps.size() ? steps[i + 1].iterations : 1);
    steps[i].iterations = std::clamp<int64_t>(interval, 1, std::max<int64_t>(steps[i].number, 1));
  }
}

std::optional<int64_t> whole_ns_of(double seconds) {
  const double ns = seconds * 1e9;
  return std::isfinite(ns) && ns > 0 && ns < static_cast<double>(kMaxStep_ns) ? std::optional(std::llround(ns))
                                                                              : std::nullopt;
}

// A setting at one line after the other.
class SettingOfLines {
 public:
  SettingOfLines(const RunLog& log, std::string name) : log_(log), name_(std::move(name)), last_(log.setting(name_)) {}
  std::optional<int64_t> operator()(int64_t line) const {
    return log_.settings_before.empty() ? last_ : log_.setting(name_, line);
  }

 private:
  const RunLog& log_;
  std::string name_;
  std::optional<int64_t> last_;
};

struct StepSettings {
  explicit StepSettings(const RunLog& log)
      : batch(log, "global_batch_size"), device_tokens(log, "tokens_per_device"), length(log, "sequence_length"),
        world(log, "world_size") {}

  SettingOfLines batch, device_tokens, length, world;
};

// From the rate at which samples or tokens went through, and how many of them an iteration has.
std::optional<int64_t> by_rate(const LogStep& step, const StepSettings& settings) {
  const LogFigures& f = step.figures;
  const auto samples = f.samples ? f.samples : settings.batch(step.line);
  if (f.samples_per_s.value_or(0) > 0 && samples) return whole_ns_of(static_cast<double>(*samples) / *f.samples_per_s);
  const auto tokens = settings.device_tokens(step.line);
  if (f.device_tokens_per_s.value_or(0) > 0 && tokens)
    return whole_ns_of(static_cast<double>(*tokens) / *f.device_tokens_per_s);
  return std::nullopt;
}

constexpr int64_t kHour_ns = int64_t{3600} * 1'000'000'000;

// Clocks change in a night to a Sunday in spring or autumn.
bool may_change(int64_t clock_ns) {
  const std::chrono::sys_time time{std::chrono::nanoseconds(clock_ns)};
  const std::chrono::sys_days day = std::chrono::floor<std::chrono::days>(time);
  const auto month = static_cast<unsigned>(std::chrono::year_month_day(day).month());
  const bool spring_or_autumn = month == 3 || month == 4 || (month >= 9 && month <= 11);
  const bool early = clock_ns % (24 * kHour_ns) < 4 * kHour_ns;
  return spring_or_autumn && early && std::chrono::weekday(day) == std::chrono::Sunday;
}

// What else a clock may show between two lines: a checkpoint or an evaluation of some minutes. The event whose time is
// taken from the clock has the changed hour in it.
bool takes_up(int64_t off_ns, const LogStep& before, const LogStep& s, int64_t change_ns, RunLog& log) {
  constexpr int64_t kLongestStop_ns = kHour_ns / 4;
  if (off_ns < 0 || off_ns > kLongestStop_ns || !may_change(*before.printed_ns)) return false;
  bool any = false;
  auto e = std::ranges::upper_bound(log.events, before.line, {}, &LogEvent::line);
  for (; e != log.events.end() && e->line <= s.line; ++e) {
    if (e->kind != LogEventKind::kCheckpoint && e->kind != LogEventKind::kEvaluation) continue;
    any = true;
    if (change_ns > 0 && e->duration_ns && *e->duration_ns >= change_ns) *e->duration_ns -= change_ns;
  }
  return any;
}

// A clock that summer time puts on or back while the program goes on: an hour more or less than the steps take, at a
// full hour. What follows is put back on the clock from before.
void undo_clock_changes(std::vector<LogStep>& steps, RunLog& log) {
  int64_t shift_ns = 0, usual_ns = 0;  // of a step
  for (size_t i = 1; i < steps.size(); ++i) {
    LogStep& s = steps[i];
    const LogStep& before = steps[i - 1];
    if (!s.printed_ns || !before.printed_ns) continue;
    *s.printed_ns += shift_ns;
    const int64_t passed = s.number - before.number, between_ns = *s.printed_ns - *before.printed_ns;
    if (passed <= 0 || passed > kMaxStep_ns / kClockSecond_ns) continue;
    const int64_t each_ns = s.duration_ns ? *s.duration_ns : usual_ns;
    if (each_ns <= 0 || each_ns > kHour_ns / passed) {
      usual_ns = between_ns > 0 ? between_ns / passed : 0;
      continue;
    }
    const int64_t expected_ns = each_ns * passed;
    for (const int64_t change_ns : {kHour_ns, -kHour_ns}) {
      const int64_t off_ns = between_ns - expected_ns - change_ns;
      const int64_t clock_ns = *before.printed_ns - shift_ns;   // as printed
      const int64_t later_ns = clock_ns + expected_ns + std::max<int64_t>(off_ns, 0);
      if (clock_ns / kHour_ns == (later_ns + kSlack_ns) / kHour_ns) continue;
      if (std::abs(off_ns) > std::max(kSlack_ns, each_ns) && !takes_up(off_ns, before, s, change_ns, log)) continue;
      shift_ns -= change_ns, *s.printed_ns -= change_ns;
      break;
    }
    usual_ns = std::max<int64_t>((*s.printed_ns - *before.printed_ns) / passed, 0);
  }
}

// Of the clock times of a process's lines.
class ClockTimes {
 public:
  ClockTimes(std::vector<LogStep>& steps, RunLog& log) : steps_(steps), log_(log) {
    for (const LogEvent& e : log.events)
      if (e.kind == LogEventKind::kCheckpoint || e.kind == LogEventKind::kEvaluation || e.kind == LogEventKind::kRestart)
        stops_.push_back(e.line);
    const auto is_whole = [](const LogStep& s) { return s.printed_ns.value_or(0) % kClockSecond_ns == 0; };
    const bool whole = std::ranges::all_of(steps, is_whole);
    resolution_ns_ = whole ? kClockSecond_ns : kClockSecond_ns / 1000;
  }

  // A clock is as fine as what it shows: steps that are shorter have the mean of a stretch that it tells. What is left
  // over before something else belongs to the stretch before.
  void set_durations() {
    for (size_t i = 1; i < steps_.size();) {
      if (!is_open(i)) {
        ++i;
        continue;
      }
      size_t end = i;
      while (end < steps_.size() && is_open(end)) ++end;
      set_stretches(i - 1, end - 1);
      i = end;
    }
    set_usual();
    for (size_t i = 1; i < steps_.size(); ++i)
      if (lacks(i) && has_stop(i)) set_around_stop(i);
  }

 private:
  static constexpr int64_t kTelling = 10, kTellingAlone = 5;  // of what a clock shows

  [[nodiscard]] bool lacks(size_t i) const {
    const LogStep &s = steps_[i], &before = steps_[i - 1];
    return !s.duration_ns && !s.begins_epoch && s.printed_ns && before.printed_ns && s.number > before.number &&
           *s.printed_ns >= *before.printed_ns && *s.printed_ns - *before.printed_ns < kMaxStep_ns;
  }
  // Between the line before and this one.
  [[nodiscard]] bool has_stop(size_t i) const {
    const auto next = std::ranges::upper_bound(stops_, steps_[i - 1].line);
    return next != stops_.end() && *next <= steps_[i].line;
  }
  [[nodiscard]] bool is_open(size_t i) const { return lacks(i) && !has_stop(i); }
  [[nodiscard]] int64_t passed_ns(size_t from, size_t to) const {
    return *steps_[to].printed_ns - *steps_[from].printed_ns;
  }

  // Of the lines behind `first` up to `last`.
  void set_stretches(size_t first, size_t last) {
    size_t from = first, told = last;
    for (size_t i = first + 1; i <= last; ++i) {
      const bool alone = i == from + 1 && passed_ns(from, i) >= kTellingAlone * resolution_ns_;
      if (!alone && passed_ns(from, i) < kTelling * resolution_ns_) continue;
      set(from, i);
      told = from, from = i;
    }
    if (from < last) set(told < from ? told : from, last);
  }
  void set(size_t from, size_t to) {
    const int64_t each_ns = passed_ns(from, to) / (steps_[to].number - steps_[from].number);
    if (each_ns <= 0) return;
    for (size_t i = from + 1; i <= to; ++i) steps_[i].duration_ns = each_ns;
  }

  // What passed is that of the steps and of a checkpoint or an evaluation: steps are as long as usual, unless the stops
  // say how long they took.
  void set_around_stop(size_t i) {
    int64_t stated_ns = 0;
    std::vector<LogEvent*> unstated;
    auto e = std::ranges::upper_bound(log_.events, steps_[i - 1].line, {}, &LogEvent::line);
    for (; e != log_.events.end() && e->line <= steps_[i].line; ++e) {
      if (e->kind == LogEventKind::kRestart) return;
      if (e->kind != LogEventKind::kCheckpoint && e->kind != LogEventKind::kEvaluation) continue;
      if (!e->duration_ns) unstated.push_back(&*e);
      else stated_ns += std::clamp<int64_t>(*e->duration_ns, 0, kMaxStep_ns);
    }
    const int64_t steps = steps_[i].number - steps_[i - 1].number, left_ns = passed_ns(i - 1, i) - stated_ns;
    if ((unstated.empty() || !usual_ns_) && left_ns > 0) steps_[i].duration_ns = left_ns / steps;
    if (unstated.empty() || !usual_ns_) return;
    const int64_t rest_ns = left_ns - *usual_ns_ * steps;
    steps_[i].duration_ns = rest_ns > 0 ? *usual_ns_ : std::max<int64_t>(left_ns / steps, 1);
    const LogEventKind kind = unstated.front()->kind;
    const bool shared = std::ranges::any_of(unstated, [&](const LogEvent* u) { return u->kind != kind; });
    if (!shared && rest_ns >= kSlack_ns) unstated.front()->duration_ns = rest_ns;
  }
  void set_usual() {
    std::vector<double> all;
    for (const LogStep& s : steps_)
      if (s.duration_ns) all.push_back(static_cast<double>(*s.duration_ns));
    if (all.size() >= 3) usual_ns_ = std::llround(median_of(all));
  }

  std::vector<LogStep>& steps_;
  RunLog& log_;
  std::vector<int64_t> stops_;  // lines
  int64_t resolution_ns_ = 0;
  std::optional<int64_t> usual_ns_;
};

void derive_durations(std::vector<LogStep>& steps, RunLog& log) {
  const StepSettings settings(log);
  for (LogStep& s : steps) {
    if (s.duration_ns) continue;
    s.derived = true;
    s.duration_ns = by_rate(s, settings);
  }
  ClockTimes(steps, log).set_durations();
}

// Of the first step: by the first clock time, less what there was until then; 0 without any.
int64_t start_of(const std::vector<LogStep>& steps) {
  int64_t before = 0;
  for (const LogStep& s : steps) {
    before = std::min(before, kEnd_ns / 4) + s.whole_ns();
    if (s.printed_ns) return *s.printed_ns - before;
  }
  return 0;
}

// Rates and batches tell each other.
void complete_figures(LogStep& s, const StepSettings& settings) {
  LogFigures& f = s.figures;
  if (!f.samples) f.samples = settings.batch(s.line);
  const double seconds = static_cast<double>(*s.duration_ns) * 1e-9;
  if (!f.samples_per_s && f.samples && seconds > 0) f.samples_per_s = static_cast<double>(*f.samples) / seconds;
  const auto length = settings.length(s.line);
  if (!f.tokens_per_s && f.samples_per_s && length) f.tokens_per_s = *f.samples_per_s * static_cast<double>(*length);
  const auto world = settings.world(s.line);
  if (!f.tokens_per_s && f.device_tokens_per_s && world)
    f.tokens_per_s = *f.device_tokens_per_s * static_cast<double>(*world);
}

}  // namespace

void set_times(LogRank& process, RunLog& log) {
  std::vector<LogStep>& steps = process.steps;
  count_iterations(steps, log);
  undo_clock_changes(steps, log);
  derive_durations(steps, log);
  for (const LogStep& s : steps)
    if (!process.first_loss) process.first_loss = s.figures.loss;
  process.untimed = std::ranges::count_if(steps, [](const LogStep& s) { return s.duration_ns.value_or(0) <= 0; });
  std::erase_if(steps, [](const LogStep& s) { return s.duration_ns.value_or(0) <= 0 || *s.duration_ns > kMaxStep_ns; });
  const StepSettings settings(log);
  for (LogStep& s : steps) complete_figures(s, settings);
  int64_t until = start_of(steps);
  for (LogStep& s : steps) {
    if (s.printed_ns) until = std::max(*s.printed_ns - s.whole_ns(), until);
    // Clock times are often whole seconds: what is printed at the same one follows each other.
    s.start_ns = until;
    until = std::min(until, kEnd_ns) + s.whole_ns();
  }
}

void set_base(RunLog& log) {
  const auto is_dated = [](const LogRank& r) {
    return std::ranges::any_of(r.steps, [](const LogStep& s) { return s.printed_ns.has_value(); });
  };
  int64_t base = INT64_MAX;
  for (const LogRank& r : log.ranks)
    if (is_dated(r)) base = std::min(base, r.steps.front().start_ns);
  log.dated = base != INT64_MAX;
  if (!log.dated) return;
  for (LogRank& r : log.ranks)
    if (is_dated(r))
      for (LogStep& s : r.steps) s.start_ns -= base;
  log.base_ns = base;
}

}  // namespace profgpu
