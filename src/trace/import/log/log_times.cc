// When steps were, and how long each took, where a log states it in pieces.
#include <algorithm>
#include <cmath>

#include "trace/import/log/log_builder.h"

namespace profgpu {
namespace {

constexpr int64_t kMaxStep_ns = LogStep::kLongest_ns;
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

// From the rate at which samples or tokens went through, and how many of them an iteration has.
std::optional<int64_t> by_rate(const LogStep& step, const RunLog& log) {
  const LogFigures& f = step.figures;
  const auto samples = f.samples ? f.samples : log.setting("global_batch_size");
  if (f.samples_per_s.value_or(0) > 0 && samples) return whole_ns_of(static_cast<double>(*samples) / *f.samples_per_s);
  const auto tokens = log.setting("tokens_per_device");
  if (f.device_tokens_per_s.value_or(0) > 0 && tokens)
    return whole_ns_of(static_cast<double>(*tokens) / *f.device_tokens_per_s);
  return std::nullopt;
}

void derive_durations(std::vector<LogStep>& steps, const RunLog& log) {
  for (size_t i = 0; i < steps.size(); ++i) {
    LogStep& s = steps[i];
    if (s.duration_ns) continue;
    s.derived = true;
    s.duration_ns = by_rate(s, log);
    if (s.duration_ns || i == 0 || s.begins_epoch || !s.printed_ns || !steps[i - 1].printed_ns) continue;
    const int64_t between = *s.printed_ns - *steps[i - 1].printed_ns, steps_between = s.number - steps[i - 1].number;
    if (steps_between > 0 && between > 0 && between < kMaxStep_ns) s.duration_ns = between / steps_between;
  }
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
void complete_figures(LogStep& s, const RunLog& log) {
  LogFigures& f = s.figures;
  if (!f.samples) f.samples = log.setting("global_batch_size");
  const double seconds = static_cast<double>(*s.duration_ns) * 1e-9;
  if (!f.samples_per_s && f.samples && seconds > 0) f.samples_per_s = static_cast<double>(*f.samples) / seconds;
  const auto length = log.setting("sequence_length");
  if (!f.tokens_per_s && f.samples_per_s && length) f.tokens_per_s = *f.samples_per_s * static_cast<double>(*length);
  const auto world = log.setting("world_size");
  if (!f.tokens_per_s && f.device_tokens_per_s && world)
    f.tokens_per_s = *f.device_tokens_per_s * static_cast<double>(*world);
}

}  // namespace

void set_times(LogRank& process, const RunLog& log) {
  std::vector<LogStep>& steps = process.steps;
  count_iterations(steps, log);
  derive_durations(steps, log);
  for (const LogStep& s : steps)
    if (!process.first_loss) process.first_loss = s.figures.loss;
  process.untimed = std::ranges::count_if(steps, [](const LogStep& s) { return s.duration_ns.value_or(0) <= 0; });
  std::erase_if(steps, [](const LogStep& s) { return s.duration_ns.value_or(0) <= 0 || *s.duration_ns > kMaxStep_ns; });
  for (LogStep& s : steps) complete_figures(s, log);
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
