#include "analyse/run/log_report.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <set>
#include <span>

#include "analyse/run/log_end.h"
#include "base/statistics.h"

namespace profgpu {
namespace {

constexpr size_t kMaxStalls = 2'000;
constexpr double kSlow = 1.5;                 // medians: what Steps calls warm-up
constexpr int64_t kClock_ns = 2'000'000'000;  // clock times may be whole seconds
constexpr int64_t kShortestGap_ns = 5'000'000'000;

// Of one run of a process.
struct Rows {
  const LogRank* process = nullptr;
  std::span<const LogStep> steps;
  size_t warmup = 0;     // leading steps
  double median_ns = 0;  // of the measured ones

  [[nodiscard]] bool empty() const { return steps.empty(); }
  [[nodiscard]] std::span<const LogStep> all() const { return steps; }
  [[nodiscard]] std::span<const LogStep> measured() const { return all().subspan(warmup); }
};

std::vector<int64_t> durations(std::span<const LogStep> steps) {
  std::vector<int64_t> out;
  for (const LogStep& s : steps) out.push_back(s.duration_ns.value_or(0));
  return out;
}

std::span<const LogStep> told_steps(const LogRank& process) {
  const auto begin = std::ranges::find(process.steps, false, &LogStep::other_run);
  const auto end = std::find_if(begin, process.steps.end(), [](const LogStep& s) { return s.other_run; });
  return {begin, end};
}

Rows rows_of(const LogRank& process, std::span<const LogStep> steps) {
  Rows rows{&process, steps, 0, 0};
  if (steps.empty()) return rows;
  const auto usual = static_cast<double>(lower_median(durations(rows.all())));
  const auto slow = [&](const LogStep& s) { return static_cast<double>(*s.duration_ns) > kSlow * usual; };
  while (rows.warmup < steps.size() && slow(steps[rows.warmup])) ++rows.warmup;
  if (rows.warmup == steps.size()) rows.warmup = 0;  // nothing but warm-up: all count
  rows.median_ns = percentile(durations(rows.measured()), 50).value_or(0);
  return rows;
}

int64_t mean_ns(std::span<const LogStep> steps) {
  double sum = 0;
  for (const LogStep& s : steps) sum += static_cast<double>(*s.duration_ns);
  return steps.empty() ? 0 : whole_ns(sum / static_cast<double>(steps.size()));
}

// Of the lines that print it.
std::optional<double> mean_figure(std::span<const LogStep> steps, std::optional<double> LogFigures::*figure) {
  double sum = 0;
  int64_t n = 0;
  for (const LogStep& s : steps)
    if (s.figures.*figure) sum += *(s.figures.*figure), ++n;
  return n > 0 ? std::optional(sum / static_cast<double>(n)) : std::nullopt;
}

LogThroughput throughput(const Rows& rows) {
  LogThroughput t;
  const std::span<const LogStep> measured = rows.measured();
  t.lines = static_cast<int64_t>(rows.all().size());
  t.warmup_lines = static_cast<int64_t>(rows.warmup);
  for (const LogStep& s : rows.all()) t.iterations += s.iterations;
  const std::vector<int64_t> each = durations(measured);
  t.mean_ns = mean_ns(measured);
  t.median_ns = whole_ns(rows.median_ns);
  t.p95_ns = whole_ns(percentile(each, 95));
  t.min_ns = *std::ranges::min_element(each), t.max_ns = *std::ranges::max_element(each);
  t.samples_per_s = mean_figure(measured, &LogFigures::samples_per_s);
  t.tokens_per_s = mean_figure(measured, &LogFigures::tokens_per_s);
  t.device_tokens_per_s = mean_figure(measured, &LogFigures::device_tokens_per_s);
  t.tflops = mean_figure(measured, &LogFigures::tflops);
  t.mfu_pct = mean_figure(measured, &LogFigures::mfu_pct);
  return t;
}

std::vector<LogPhaseRow> breakdown(const Rows& rows) {
  std::array<double, kLogPhases> sum{};
  double step = 0;
  int64_t timed = 0;
  for (const LogStep& s : rows.measured()) {
    if (!s.timed()) continue;
    ++timed;
    int64_t left = *s.duration_ns;
    for (size_t p = 0; p < kLogPhases; ++p) {
      const int64_t part = std::clamp<int64_t>(s.phase_ns[p], 0, left);
      sum[p] += static_cast<double>(part), left -= part;
    }
    step += static_cast<double>(*s.duration_ns);
  }
  std::vector<LogPhaseRow> out;
  if (timed == 0) return out;
  double other = step;
  const auto add = [&](std::string_view name, double ns) {
    if (ns > 0) out.push_back({std::string(name), whole_ns(ns / static_cast<double>(timed)), 100 * ns / step});
  };
  for (size_t p = 0; p < kLogPhases; ++p) add(log_phase_name(static_cast<LogPhase>(p)), sum[p]), other -= sum[p];
  add("other", other);
  return out;
}

// Of the measured lines: the warm-up's are before the first of these.
std::vector<LogTimerRow> timers(const Rows& rows, int64_t step_ns) {
  std::vector<LogTimerRow> out;
  const bool others = rows.steps.size() < rows.process->steps.size();
  const int64_t begin = rows.warmup > 0 || others ? rows.measured().front().line : 0;
  for (const LogTimer& t : rows.process->timers) {
    const LogTimerValues values = t.from(begin);
    if (values.count == 0) continue;
    const double mean = values.sum_ns / static_cast<double>(values.count);
    LogTimerRow& row = out.emplace_back();
    row = {t.name,
           t.phase ? std::string(log_phase_name(*t.phase)) : "",
           values.count,
           whole_ns(mean),
           whole_ns(values.min_ns),
           whole_ns(values.max_ns),
           {}};
    if (step_ns > 0) row.step_pct = 100 * mean / static_cast<double>(step_ns);
  }
  std::ranges::stable_sort(out, std::greater(), &LogTimerRow::mean_ns);
  return out;
}

double fullness(const LogMemoryRow& row) {
  const int64_t used = std::max(row.peak_allocated_bytes.value_or(0), row.peak_reserved_bytes.value_or(0));
  return row.capacity_bytes.value_or(0) > 0 ? static_cast<double>(used) / static_cast<double>(*row.capacity_bytes) : 0;
}

// Of one rank. Where it goes on upon another device, the fuller of the two stands.
void add_memory(const LogMemory& m, std::vector<LogMemoryRow>& devices) {
  constexpr double kSame = 0.1;  // a capacity may follow from a rounded percentage
  const auto raise = [](std::optional<int64_t>& peak, const std::optional<int64_t>& value) {
    if (value && *value > peak.value_or(-1)) peak = value;
  };
  const auto known = devices.empty() ? std::nullopt : devices.back().capacity_bytes;
  const bool other = known && m.capacity_bytes && std::abs(static_cast<double>(*m.capacity_bytes - *known)) >
                                                      kSame * static_cast<double>(*known);
  if (devices.empty() || other) devices.emplace_back();
  LogMemoryRow& row = devices.back();
  row.rank = m.rank;
  ++row.lines;
  raise(row.peak_allocated_bytes, m.allocated_bytes), raise(row.peak_allocated_bytes, m.max_allocated_bytes);
  raise(row.peak_reserved_bytes, m.reserved_bytes), raise(row.peak_reserved_bytes, m.max_reserved_bytes);
  raise(row.capacity_bytes, m.capacity_bytes);
}

std::vector<LogMemoryRow> memory(const RunLog& log) {
  std::map<int, std::vector<LogMemoryRow>> by_rank;
  const bool any = std::ranges::any_of(log.memory, [&](const LogMemory& m) { return log.is_told(m.line); });
  for (const LogMemory& m : log.memory) {
    if (any && !log.is_told(m.line)) continue;
    if (!m.allocated_bytes && !m.max_allocated_bytes && !m.reserved_bytes && !m.max_reserved_bytes && !m.capacity_bytes)
      continue;
    add_memory(m, by_rank[m.rank.value_or(-1)]);
  }
  std::vector<LogMemoryRow> out;
  for (const auto& [rank, devices] : by_rank) out.push_back(*std::ranges::max_element(devices, {}, fullness));
  std::ranges::stable_sort(out, std::greater(), [](const LogMemoryRow& r) {
    return std::pair(r.peak_reserved_bytes.value_or(0), r.peak_allocated_bytes.value_or(0));
  });
  return out;
}

LogLoss loss(const Rows& rows) {
  LogLoss out;
  for (const LogStep& s : rows.all()) {
    out.skipped += s.figures.skipped.value_or(0), out.not_finite += s.figures.not_finite.value_or(0);
    if (s.figures.not_finite.value_or(0) > 0 && !out.not_finite_since) out.not_finite_since = s.number;
    if (!s.figures.loss) continue;
    if (s.figures.not_finite.value_or(0) == 0) out.not_finite_since.reset();
    if (!out.first) out.first = s.figures.loss;
    out.last = s.figures.loss;
    if (!out.lowest || *s.figures.loss < *out.lowest) out.lowest = s.figures.loss, out.lowest_step = s.number;
  }
  return out;
}

LogWarmup warmup(const Rows& rows) {
  LogWarmup out;
  out.lines = static_cast<int64_t>(rows.warmup);
  for (const LogStep& s : rows.all().first(rows.warmup))
    out.extra_ns += std::max<int64_t>(s.whole_ns() - whole_ns(rows.median_ns * static_cast<double>(s.iterations)), 0);
  return out;
}

// Of the steps since the line before, of which a line may time one alone.
int64_t passed_ns(const LogStep& before, const LogStep& step) {
  const int64_t steps = step.number - before.number;
  if (steps <= step.iterations || step.begins_epoch) return step.whole_ns();
  const double all = static_cast<double>(step.duration_ns.value_or(0)) * static_cast<double>(steps);
  return whole_ns(std::min(all, static_cast<double>(LogStep::kLongest_ns)));
}

// What a clock saw between two lines beyond what the later one states of its steps.
std::optional<int64_t> gap_ns(const LogStep& before, const LogStep& step) {
  if (!before.printed_ns || !step.printed_ns || step.derived || step.number <= before.number) return std::nullopt;
  return *step.printed_ns - *before.printed_ns - passed_ns(before, step);
}

class Stalls {
 public:
  Stalls(const RunLog& log, const Rows& rows) : rows_(rows) {
    for (const LogEvent& e : log.events)
      if (log.is_told(e.line) && (e.kind == LogEventKind::kCheckpoint || e.kind == LogEventKind::kEvaluation))
        add({std::string(log_event_name(e.kind)), e.step, e.line, e.duration_ns, e.text});
    if (rows.empty()) return;
    for (size_t i = 1; i < rows.all().size(); ++i) add_gap(rows.all()[i - 1], rows.all()[i]);
    for (const LogStep& s : rows.measured()) add_slow(s);
    std::ranges::stable_sort(all_, {}, &LogStall::line);
  }
  std::vector<LogStall> all_;

 private:
  void add(LogStall stall) {
    if (all_.size() < kMaxStalls) all_.push_back(std::move(stall));
  }
  // Time outside of steps belongs to what is printed between their lines: what those state, and the rest to the one
  // that states none. A checkpoint and an evaluation share it, and nothing tells how.
  void add_gap(const LogStep& before, const LogStep& step) {
    const auto gap = gap_ns(before, step);
    const double least = std::max(static_cast<double>(kClock_ns), 0.5 * rows_.median_ns);
    if (!gap || static_cast<double>(*gap) < least) return;
    int64_t left = *gap;
    std::vector<LogStall*> untimed;
    for (LogStall& s : all_) {
      if (s.line <= before.line || s.line >= step.line) continue;
      if (s.duration_ns) left -= std::min(*s.duration_ns, left);
      else untimed.push_back(&s);
    }
    const bool shared = std::ranges::any_of(untimed, [&](const LogStall* s) { return s->kind != untimed.front()->kind; });
    if (static_cast<double>(left) < least || shared) return;
    if (!untimed.empty()) untimed.front()->duration_ns = left;
    else if (left >= kShortestGap_ns && static_cast<double>(left) >= 2 * rows_.median_ns)
      add({"gap", step.number, step.line, left, ""});
  }
  void add_slow(const LogStep& s) {
    const double over = static_cast<double>(*s.duration_ns) - rows_.median_ns;
    if (static_cast<double>(*s.duration_ns) <= kSlow * rows_.median_ns) return;
    add({"slow_step", s.number, s.line, whole_ns(over * static_cast<double>(s.iterations)), ""});
  }

  const Rows& rows_;
};

LogWall wall(const Rows& rows) {
  LogWall out;
  out.in_steps_ns = rows.all().front().whole_ns();
  for (size_t i = 1; i < rows.all().size(); ++i) out.in_steps_ns += passed_ns(rows.all()[i - 1], rows.all()[i]);
  const LogStep &first = rows.all().front(), &last = rows.all().back();
  const bool stated = std::ranges::none_of(rows.all(), &LogStep::derived);
  if (!first.printed_ns || !last.printed_ns || !stated || last.number <= first.number) return out;
  out.wall_ns = *last.printed_ns - *first.printed_ns + first.whole_ns();
  out.outside_ns = std::max<int64_t>(*out.wall_ns - out.in_steps_ns, 0);
  return out;
}

std::vector<LogRestart> restarts(const RunLog& log) {
  std::vector<LogRestart> out;
  for (const LogEvent& e : log.events) {
    if (e.kind != LogEventKind::kRestart || out.size() >= kMaxStalls) continue;
    LogEnd cause = end_before(log, e.line);
    const auto after_step = cause.after_step;
    out.push_back({e.line, e.step, after_step, std::move(cause), ""});
  }
  return out;
}

bool is_error(LogEventKind kind) {
  return ends_run(kind) && kind != LogEventKind::kFinished && kind != LogEventKind::kNotFinite &&
         kind != LogEventKind::kTerminated;
}

// Lines with a clock time that is later than the error's show that the run went on; others do not.
void set_earlier_error(const RunLog& log, const LogRank& most, LogEnd& end) {
  const LogStep& last = most.steps.back();
  if (end.kind != "unknown" || last.printed_ns || log.ranks.size() > 1) return;
  for (const LogEvent& e : log.events) {
    if (!is_error(e.kind) || e.follows || e.line >= last.line || log.run_of(e.line) != log.run_of(last.line)) continue;
    end.earlier_error = log_event_name(e.kind);
    end.earlier_error_line = e.line, end.earlier_error_text = e.text;
  }
}

std::vector<LogRunRow> runs(const RunLog& log, const LogRank& most, const LogReport& report) {
  std::vector<LogRunRow> out;
  if (log.run_lines.empty()) return out;
  const std::span<const LogStep> all = most.steps;
  for (size_t begin = 0, end = 0; begin < all.size() && out.size() < kMaxStalls; begin = end) {
    const int64_t run = log.run_of(all[begin].line);
    while (end < all.size() && log.run_of(all[end].line) == run) ++end;
    const std::span<const LogStep> steps = all.subspan(begin, end - begin);
    LogRunRow& row = out.emplace_back();
    row.line = steps.front().line, row.first_step = steps.front().number, row.last_step = steps.back().number;
    row.lines = static_cast<int64_t>(steps.size());
    row.median_ns = whole_ns(rows_of(most, steps).median_ns);
    row.told = run == log.told_run;
    const auto next = static_cast<size_t>(run);
    row.end = next < report.restarts.size() ? report.restarts[next].cause : report.end;
  }
  return out;
}

std::vector<LogProcess> processes(const RunLog& log) {
  std::vector<LogProcess> out;
  if (log.ranks.size() < 2) return out;
  for (const LogRank& r : log.ranks) {
    const Rows rows = rows_of(r, told_steps(r));
    if (rows.empty()) continue;   // it has gone before
    out.push_back({r.rank, r.node, r.pid, static_cast<int64_t>(rows.steps.size()), mean_ns(rows.measured()),
                   whole_ns(percentile(durations(rows.measured()), 95).value_or(0))});
  }
  std::ranges::stable_sort(out, std::greater(), &LogProcess::mean_ns);
  return out;
}

std::optional<NcclReport> nccl(const NcclLog& log) {
  if (log.lines == 0) return std::nullopt;
  NcclReport out;
  out.version = log.version, out.network = log.network, out.network_devices = log.network_devices;
  if (log.ranks > 0) out.ranks = log.ranks;
  if (log.hosts > 0) out.hosts = log.hosts;
  if (log.channels > 0) out.channels = log.channels;
  for (const auto& [name, count] : log.transports) out.transports.push_back({name, count});
  std::ranges::stable_sort(out.transports, std::greater(), &NcclTransport::connections);
  for (const NcclLog::Remark& r : log.remarks) out.remarks.push_back({r.kind, r.text, r.line, r.count});
  out.environment = log.environment;
  out.lines = log.lines;
  return out;
}

std::vector<LogModuleRow> modules(const RunLog& log) {
  std::vector<LogModuleRow> out;
  const double whole = log.modules.empty() ? 0 : static_cast<double>(log.modules.front().latency_ns.value_or(0));
  for (const LogModule& m : log.modules) {
    LogModuleRow& row = out.emplace_back();
    row = {m.depth, m.name, m.type, m.parameters, m.macs, m.flops_per_s, m.latency_ns, {}};
    if (whole > 0 && m.latency_ns) row.latency_pct = 100 * static_cast<double>(*m.latency_ns) / whole;
  }
  return out;
}

// The mean and the most of one figure of many lines.
class Figure {
 public:
  void add(const std::optional<double>& value) {
    if (!value) return;
    sum_ += *value, ++count_;
    most_ = std::max(most_.value_or(*value), *value);
  }
  [[nodiscard]] std::optional<double> mean() const {
    return count_ > 0 ? std::optional(sum_ / static_cast<double>(count_)) : std::nullopt;
  }
  [[nodiscard]] std::optional<double> most() const { return most_; }

 private:
  double sum_ = 0;
  int64_t count_ = 0;
  std::optional<double> most_;
};

// One figure of several engines that share the work, each with lines of its own: a total of every round, in which each
// engine says its figure once, or one says its own again before an idle one says any. Some engines print nothing while
// they are idle: one that is silent for several of its intervals does no work.
class EngineTotals {
 public:
  explicit EngineTotals(size_t engines) : engines_(engines) {}
  void add(const ServingLine& line, const std::optional<double>& value, bool busy) {
    if (!value) return;
    const int engine = line.rank.value_or(-1);
    if (said_.contains(engine)) end_round();
    if (line.printed_ns) leave_out_silent(*line.printed_ns);
    Latest& latest = latest_[engine];
    if (line.printed_ns && latest.printed_ns && !latest.silent)
      latest.interval_ns = std::max(latest.interval_ns, *line.printed_ns - *latest.printed_ns);
    set(latest, *value, busy);
    latest.printed_ns = line.printed_ns, latest.silent = false;
    said_.insert(engine);
    if (said_.size() >= engines_) end_round();
  }
  [[nodiscard]] const Figure& totals() {
    if (!ended_ && !said_.empty()) end_round();
    return totals_;
  }

 private:
  struct Latest {
    double value = 0;
    bool busy = false, silent = false;
    std::optional<int64_t> printed_ns;
    int64_t interval_ns = 0;   // the longest between two lines
  };
  void set(Latest& latest, double value, bool busy) {
    sum_ += value - latest.value, busy_ += busy, busy_ -= latest.busy;
    latest.value = value, latest.busy = busy;
  }
  void leave_out_silent(int64_t now_ns) {
    constexpr int64_t kIntervals = 3, kLeast_ns = 1'000'000'000, kUnknown_ns = 30'000'000'000;
    for (auto& [engine, l] : latest_) {
      if (!l.printed_ns || l.silent) continue;
      const int64_t usual_ns = l.interval_ns > 0 ? std::max(l.interval_ns, kLeast_ns) : kUnknown_ns;
      if (now_ns - *l.printed_ns > kIntervals * usual_ns) set(l, 0, false), l.silent = true;
    }
  }
  void end_round() {
    if (busy_ > 0) totals_.add(sum_);
    said_.clear(), ended_ = true;
  }

  size_t engines_;
  std::map<int, Latest> latest_;
  double sum_ = 0;      // of the latest values
  int64_t busy_ = 0;    // engines
  std::set<int> said_;  // in this round
  bool ended_ = false;  // some round
  Figure totals_;
};

// Requests may come and end between two lines.
bool is_busy(const ServingLine& line) {
  return line.running.value_or(0) + line.waiting.value_or(0) + line.generated_tokens_per_s.value_or(0) +
             line.prompt_tokens_per_s.value_or(0) > 0 || !line.speculation.empty();
}

// Means by weight.
class WeightedMean {
 public:
  void add(double value, double weight) { sum_ += value * weight, weight_ += weight; }
  [[nodiscard]] std::optional<double> value() const {
    return weight_ > 0 ? std::optional(sum_ / weight_) : std::nullopt;
  }

 private:
  double sum_ = 0, weight_ = 0;
};

std::optional<LogSpeculation> speculation(const std::vector<ServingLine>& lines) {
  LogSpeculation out;
  WeightedMean share, length;
  std::vector<WeightedMean> positions;
  bool any = false;
  const auto add = [&](const Speculation& s) {
    any = true;
    const double weight = s.drafted.value_or(1);
    if (s.drafted) out.drafted_tokens = out.drafted_tokens.value_or(0) + *s.drafted;
    if (s.accepted) out.accepted_tokens = out.accepted_tokens.value_or(0) + *s.accepted;
    if (s.accepted_pct) share.add(*s.accepted_pct, weight);
    if (s.length) length.add(*s.length, weight);
    positions.resize(std::max(positions.size(), s.position_pct.size()));
    for (size_t i = 0; i < positions.size(); ++i)
      positions[i].add(i < s.position_pct.size() ? s.position_pct[i] : 0, weight);
  };
  std::map<int, const Speculation*> in_all;   // by engine: the newest has all before
  for (const ServingLine& line : lines)
    for (const Speculation& s : line.speculation) {
      if (s.in_all) in_all[line.rank.value_or(-1)] = &s;
      else add(s);
    }
  for (const auto& [engine, s] : in_all) add(*s);
  if (!any) return std::nullopt;
  out.accepted_pct = share.value(), out.length = length.value();
  if (out.drafted_tokens.value_or(0) > 0 && out.accepted_tokens)
    out.accepted_pct = 100 * *out.accepted_tokens / *out.drafted_tokens;
  for (const WeightedMean& p : positions) out.position_pct.push_back(p.value().value_or(0));
  return out;
}

// Lines that do not say which engine they are of count as one only where no line says so.
size_t engines_of(const std::vector<ServingLine>& lines) {
  std::set<int> engines;
  for (const ServingLine& line : lines)
    if (line.rank) engines.insert(*line.rank);
  return std::max<size_t>(engines.size(), 1);
}

std::optional<LogServing> serving(const RunLog& log) {
  const std::vector<ServingLine>& lines = log.serving;
  if (lines.empty()) return std::nullopt;
  LogServing s;
  s.program = lines.front().program;
  const size_t engines = engines_of(lines);
  s.engines = static_cast<int64_t>(engines);
  EngineTotals all_prompt(engines), all_generated(engines), all_running(engines), all_waiting(engines);
  Figure cache;
  WeightedMean prefix_hits;
  for (const ServingLine& line : lines) {
    ++s.lines;
    if (line.prefix_hit_pct && line.prompt_tokens) prefix_hits.add(*line.prefix_hit_pct, *line.prompt_tokens);
    else if (line.prefix_hit_pct) s.prefix_hit_pct = line.prefix_hit_pct;   // the server's own mean
    const double waits = line.waiting.value_or(0);
    const bool busy = is_busy(line);
    all_prompt.add(line, line.prompt_tokens_per_s, busy), all_generated.add(line, line.generated_tokens_per_s, busy);
    all_running.add(line, line.running, busy), all_waiting.add(line, line.waiting, busy);
    if (!busy) continue;
    ++s.busy_lines;
    cache.add(line.cache_pct);
    if (line.preempted) s.preempted = s.preempted.value_or(0) + *line.preempted;
    s.waiting_lines += waits > 0;
    s.full_lines += waits > 0 && line.cache_pct.value_or(0) >= LogServing::kFull_pct;
  }
  for (const auto& [engine, count] : log.preempted) s.preempted = s.preempted.value_or(0) + count;
  s.preempted_at_least = log.preempted_mixed;
  const Figure &prompt = all_prompt.totals(), &generated = all_generated.totals();
  const Figure &running = all_running.totals(), &waiting = all_waiting.totals();
  s.prompt_tokens_per_s = prompt.mean();
  s.generated_tokens_per_s = generated.mean(), s.most_generated_tokens_per_s = generated.most();
  s.running = running.mean(), s.most_running = running.most();
  s.waiting = waiting.mean(), s.most_waiting = waiting.most();
  s.cache_pct = cache.mean(), s.most_cache_pct = cache.most();
  if (prefix_hits.value()) s.prefix_hit_pct = prefix_hits.value();
  s.speculation = speculation(lines);
  return s;
}

std::vector<LogServingRow> serving_rows(const std::vector<ServingLine>& lines) {
  std::vector<LogServingRow> rows;
  std::optional<int64_t> begin_ns;
  for (const ServingLine& l : lines) {
    if (!begin_ns) begin_ns = l.printed_ns;
    LogServingRow& row = rows.emplace_back();
    row.line = l.line, row.rank = l.rank;
    if (l.printed_ns) row.start_ns = *l.printed_ns - *begin_ns;
    row.prompt_tokens_per_s = l.prompt_tokens_per_s, row.generated_tokens_per_s = l.generated_tokens_per_s;
    row.running = l.running, row.waiting = l.waiting;
    row.cache_pct = l.cache_pct, row.prefix_hit_pct = l.prefix_hit_pct;
  }
  return rows;
}

}  // namespace

std::string LogReport::setting_text(const std::string& name) const {
  const auto at = log->settings.find(name);
  return at != log->settings.end() ? at->second : "";
}

const LogRunRow* LogReport::told_run() const {
  return runs.size() > 1 ? first_where(runs, [](const LogRunRow& r) { return r.told; }) : nullptr;
}

const LogTimerRow* LogReport::timer(std::string_view name) const {
  return first_where(timers, [&](const LogTimerRow& t) { return t.name == name; });
}

double LogReport::phase_pct(LogPhase phase) const {
  const LogPhaseRow* row =
      first_where(breakdown, [&](const LogPhaseRow& r) { return r.name == log_phase_name(phase); });
  return row != nullptr ? row->step_pct : 0;
}

void compare_processes(std::vector<LogReport>& logs) {
  std::vector<LogProcess> all;
  LogReport* slowest = nullptr;
  for (LogReport& log : logs) {
    if (!log.rank || log.goes_on || !log.has_steps() || log.log->ranks.size() != 1) continue;
    const LogThroughput& t = log.throughput;
    all.push_back({log.rank, log.log->ranks.front().node, 0, t.lines, t.mean_ns.value_or(0), t.p95_ns.value_or(0)});
    if (slowest == nullptr || t.mean_ns > slowest->throughput.mean_ns) slowest = &log;
  }
  std::ranges::stable_sort(all, std::greater(), &LogProcess::mean_ns);
  if (slowest != nullptr) slowest->beside = std::move(all);
}

LogReport log_report(std::shared_ptr<const RunLog> log) {
  LogReport r;
  r.log = std::move(log);
  const RunLog& of = *r.log;
  r.path = of.path, r.families = of.families, r.lines = of.lines;
  for (const auto& [name, value] : of.settings) r.settings.push_back({name, value});
  const auto most = std::ranges::max_element(of.ranks, {}, [](const LogRank& p) { return p.steps.size(); });
  const Rows rows = most != of.ranks.end() ? rows_of(*most, told_steps(*most)) : Rows();
  if (!rows.empty()) {
    r.throughput = throughput(rows);
    r.breakdown = breakdown(rows);
    r.timers = timers(rows, *r.throughput.mean_ns);
    r.warmup = warmup(rows);
    r.loss = loss(rows);
    if (most->first_loss && of.run_lines.empty()) r.loss.first = most->first_loss;
    r.wall = wall(rows);
  }
  if (rows.empty()) r.loss.first = of.no_times.first_loss, r.loss.last = of.no_times.last_loss;
  if (const StepsWithoutTimes& s = of.no_times; rows.empty() && s.lines > 0)
    r.untimed = {s.lines, s.last_step, s.samples_per_s, s.tokens_per_s, s.device_tokens_per_s, s.tflops, s.mfu_pct};
  r.memory = memory(of);
  for (const LogMemory& m : of.memory)
    if (m.host_bytes) r.host_memory_bytes = std::max(r.host_memory_bytes.value_or(0), *m.host_bytes);
  r.stalls = Stalls(of, rows).all_;
  r.restarts = restarts(of);
  r.end = end_before(of, std::numeric_limits<int64_t>::max());
  if (most != of.ranks.end()) set_earlier_error(of, *most, r.end);
  if (most != of.ranks.end()) r.runs = runs(of, *most, r);
  r.processes = processes(of);
  r.modules = modules(of);
  r.link_rates = link_rows(of.rates);
  r.links = link_summaries(r.link_rates);
  r.copies = copy_report(of.copies);
  r.nccl = nccl(of.nccl);
  r.serving = serving(of), r.serving_lines = serving_rows(of.serving);
  return r;
}

}  // namespace profgpu
