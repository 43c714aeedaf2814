// What a job's own log says, in sentences and one table.
#include <fmt/format.h>

#include <algorithm>
#include <ranges>

#include "analyse/report/quantity.h"
#include "analyse/run/log_report.h"
#include "base/text.h"
#include "view/overview.h"
#include "view/wording.h"

namespace profgpu {
namespace {

std::string time_text(int64_t ns) { return format_duration(static_cast<double>(ns)); }

template <class Rates>
void append_rates(std::string& text, const Rates& t) {
  if (t.samples_per_s) text += fmt::format("; {} samples/s", format_number(*t.samples_per_s));
  if (t.tokens_per_s)
    text += fmt::format("; {} tokens/s", format_number(*t.tokens_per_s));
  else if (t.device_tokens_per_s)
    text += fmt::format("; {} tokens/s per GPU", format_number(*t.device_tokens_per_s));
  if (t.tflops) text += fmt::format("; {} TFLOP/s per GPU", format_number(*t.tflops));
  if (t.mfu_pct) text += fmt::format("; MFU {}", format_percent(*t.mfu_pct));
}

std::string speed_text(const LogThroughput& t) {
  std::string text = fmt::format("{} for {}: mean {}", plural(t.lines, "log line", "log lines"),
                                 plural(t.iterations, "step", "steps"), time_text(*t.mean_ns));
  text += fmt::format(", median {}, p95 {}, longest {}", time_text(*t.median_ns), time_text(*t.p95_ns),
                      time_text(*t.max_ns));
  append_rates(text, t);
  return text;
}

std::string untimed_text(const LogUntimed& s) {
  std::string text = fmt::format("{} up to step {}, without a time; medians", plural(s.lines, "log line", "log lines"),
                                 format_count(s.last_step));
  const size_t bare = text.size();
  append_rates(text, s);
  if (text.size() == bare) return "";
  text.replace(bare, 1, ":");
  return text;
}

std::string memory_text(const LogReport& log) {
  const LogMemoryRow& most = log.memory.front();
  const auto bytes = [](int64_t n) { return format_bytes(static_cast<double>(n)); };
  std::string text;
  if (most.peak_allocated_bytes) text += bytes(*most.peak_allocated_bytes) + " allocated";
  if (most.peak_reserved_bytes) append_listed(text, bytes(*most.peak_reserved_bytes) + " reserved");
  const bool used = !text.empty();
  if (most.capacity_bytes) text += (used ? " of " : "") + bytes(*most.capacity_bytes) + (used ? "" : " per device");
  if (log.host_memory_bytes) append_listed(text, bytes(*log.host_memory_bytes) + " used on the host", "; ");
  const std::string who =
      most.rank && used && log.memory.size() > 1 ? fmt::format("rank {} is fullest, ", *most.rank) : "";
  return "memory: " + who + text;
}

// "2 checkpoints, 34.1 s; 1 evaluation"
std::string stalls_text(const LogReport& log) {
  struct Kind {
    std::string_view code;
    const char *one, *several;
  };
  constexpr Kind kKinds[] = {{"checkpoint", "checkpoint", "checkpoints"},
                             {"evaluation", "evaluation", "evaluations"},
                             {"slow_step", "slow step", "slow steps"},
                             {"gap", "gap between steps", "gaps between steps"}};
  std::string text;
  for (const Kind& kind : kKinds) {
    int64_t count = 0, sum = 0, timed = 0;
    for (const LogStall& s : log.stalls)
      if (s.kind == kind.code) ++count, sum += s.duration_ns.value_or(0), timed += s.duration_ns.has_value();
    if (count == 0) continue;
    text += (text.empty() ? "" : "; ") + plural(count, kind.one, kind.several);
    if (timed > 0) text += fmt::format(", {}{}", timed < count ? "of which known: " : "", time_text(sum));
  }
  return text;
}

// "restarted at step 11 (line 24) after step 20: exception, line 23: RuntimeError: …"
std::string restart_text(const LogReport& log) {
  const LogRestart& last = log.restarts.back();
  std::string text = log.restarts.size() > 1
                         ? fmt::format("{} restarts, the last at step ", log.restarts.size())
                         : std::string("restarted at step ");
  text += fmt::format("{} (line {})", last.step.value_or(0), last.line);
  if (last.after_step) text += fmt::format(" after step {}", *last.after_step);
  if (!last.cause.failed()) return text;
  const std::string file = last.file.empty() ? "" : " of " + last.file;
  return text + fmt::format(": {}, line {}{}: {}", words(last.cause.kind), last.cause.line.value_or(0), file,
                            last.cause.text);
}

// "figures are of run 2 of 2 (steps 510 to 1,000 from line 60 on); medians of a step by run: 1.00 s, 2.00 s"
std::string runs_text(const LogReport& log) {
  const LogRunRow* told = log.told_run();
  if (told == nullptr) return "";
  constexpr size_t kMost = 8;
  std::string medians;
  for (const LogRunRow& r : log.runs | std::views::drop(log.runs.size() - std::min(log.runs.size(), kMost)))
    append_listed(medians, time_text(r.median_ns), ", ");
  return fmt::format("figures are of run {} of {} (steps {} to {}, from line {} on); medians of a step by run: {}{}",
                     told - log.runs.data() + 1, log.runs.size(), format_count(told->first_step),
                     format_count(told->last_step), told->line, log.runs.size() > kMost ? "…, " : "", medians);
}

std::string end_text(const LogReport& log) {
  const LogEnd& end = log.end;
  const std::string after = end.after_step ? fmt::format(" after step {}", *end.after_step) : "";
  if (end.kind == "unknown") {
    std::string text = log.has_steps() ? fmt::format("end: the log stops{} and does not say why", after) : "";
    if (end.earlier_error_line)
      text += fmt::format("; line {}, above its last steps, has an error: {}: {}", *end.earlier_error_line,
                          words(end.earlier_error), end.earlier_error_text);
    return text;
  }
  if (end.kind == "finished") return fmt::format("end: the training finished{}", after);
  return fmt::format("end: {}{}, line {}: {}", words(end.kind), after, end.line.value_or(0), end.text);
}

Table timer_table(const LogReport& log, size_t most) {
  Table table{{"timer", "phase", "mean_ns", "step_pct"}, {}};
  for (const LogTimerRow& t : log.timers)
    if (table.rows.size() < most)
      table.rows.push_back({t.name, t.phase.empty() ? Value() : Value(words(t.phase)), t.mean_ns, t.step_pct});
  return table;
}

// Of a profile, where the log has no timers.
Table module_table(const LogReport& log, size_t most) {
  Table table{{"module", "parameters", "latency_ns", "latency_pct", "tflops"}, {}};
  std::vector<LogModuleRow> modules = log.modules;
  std::ranges::stable_sort(modules, std::greater(), [](const LogModuleRow& m) { return m.latency_ns.value_or(0); });
  for (const LogModuleRow& m : modules)
    if (table.rows.size() < most)
      table.rows.push_back({m.name == m.type ? m.name : m.name + " " + m.type, m.parameters, m.latency_ns, m.latency_pct,
                            m.flops_per_s ? Value(*m.flops_per_s / 1e12) : Value()});
  return table;
}

Table process_table(const LogReport& log, size_t most) {
  Table table{{"rank", "node", "lines", "mean_ns", "p95_ns"}, {}};
  for (const LogProcess& p : log.processes)
    if (table.rows.size() < most)
      table.rows.push_back({p.rank, p.node.empty() ? Value() : Value(p.node), p.lines, p.mean_ns, p.p95_ns});
  return table;
}

// "1,234 tokens/s read, 567 generated (at most 890); 12 requests run, 3 wait (at most 40)"
std::string serving_text(const LogServing& s) {
  std::string text = fmt::format("{}, {} with requests", plural(s.lines, "line", "lines"), format_count(s.busy_lines));
  if (s.prompt_tokens_per_s) append_listed(text, format_number(*s.prompt_tokens_per_s) + " tokens/s of prompts", ": ");
  if (s.generated_tokens_per_s)
    append_listed(text, fmt::format("{} tokens/s generated, at most {}", format_number(*s.generated_tokens_per_s),
                                    format_number(*s.most_generated_tokens_per_s)), s.prompt_tokens_per_s ? ", " : ": ");
  return text;
}

std::string requests_text(const LogServing& s) {
  std::string text;
  const auto add = [&](const std::optional<double>& mean, const std::optional<double>& most, std::string_view what) {
    if (mean) append_listed(text, fmt::format("{} {}, at most {}", format_number(*mean), what, format_number(*most)), "; ");
  };
  add(s.running, s.most_running, "run");
  add(s.waiting, s.most_waiting, "wait");
  if (s.preempted)
    append_listed(text, fmt::format("{}{} preempted{}", s.preempted_at_least ? "at least " : "",
                                    format_number(*s.preempted),
                                    s.preempted_at_least ? " (the lines do not say of which engine)" : ""), "; ");
  return text.empty() ? text : "requests: " + text;
}

std::string cache_text(const LogServing& s) {
  if (!s.cache_pct) return "";
  std::string text = fmt::format("key-value cache: {} in use, at most {}", format_percent(*s.cache_pct),
                                 format_percent(*s.most_cache_pct));
  if (s.prefix_hit_pct) text += fmt::format("; prefix cache hit rate {} at last", format_percent(*s.prefix_hit_pct));
  return text;
}

// "speculative decoding: 15.5 % of the drafted tokens are accepted; a step gives a request 1.77 tokens; by position …"
std::string speculation_text(const LogSpeculation& s) {
  std::string text = "speculative decoding: ";
  const size_t bare = text.size();
  if (s.accepted_pct) text += format_percent(*s.accepted_pct) + " of the drafted tokens accepted";
  if (s.length)
    text += fmt::format("{}{:.2f} tokens per step for a request", text.size() > bare ? "; " : "", *s.length);
  std::string positions;
  for (const double p : s.position_pct)
    if (positions.size() < 60) append_listed(positions, fmt::format("{:.0f}", p));
  if (!positions.empty()) text += fmt::format("; by position {} %", positions);
  return text;
}

}  // namespace

ReportPart log_part(const LogReport& log, size_t most) {
  ReportPart part{"From the log", {}, {}};
  const auto say = [&](std::string text) {
    if (!text.empty()) part.sentences.push_back(std::move(text));
  };
  if (log.has_steps()) say(speed_text(log.throughput));
  if (log.untimed) say(untimed_text(*log.untimed));
  if (log.serving) say(serving_text(*log.serving)), say(requests_text(*log.serving)), say(cache_text(*log.serving));
  if (log.serving && log.serving->speculation) say(speculation_text(*log.serving->speculation));
  if (log.warmup.lines > 0) say(fmt::format("warm-up: {} more than usual", time_text(log.warmup.extra_ns)));
  if (log.loss.first && log.loss.last)
    say(fmt::format(
        "loss: {} at first, {} at last{}", format_number(*log.loss.first), format_number(*log.loss.last),
        log.loss.skipped > 0 ? fmt::format("; {} iterations without an update", format_count(log.loss.skipped)) : ""));
  if (log.loss.not_finite_since)
    say(fmt::format("from step {} on the loss is not a number", format_count(*log.loss.not_finite_since)));
  if (!log.memory.empty()) say(memory_text(log));
  say(stalls_text(log));
  if (log.wall.wall_ns && log.wall.outside_ns.value_or(0) > *log.wall.wall_ns / 100)
    say(fmt::format("{} of {} by the clock lie outside of steps", time_text(*log.wall.outside_ns),
                    time_text(*log.wall.wall_ns)));
  if (!log.restarts.empty()) say(restart_text(log));
  say(runs_text(log));
  say(end_text(log));
  part.table = log.processes.empty() ? timer_table(log, most) : process_table(log, most);
  if (part.table.rows.empty()) part.table = module_table(log, most);
  return part;
}

std::vector<ReportPart> run_parts(const Report& report, size_t most) {
  std::vector<ReportPart> parts;
  if (report.flight) parts.push_back(flight_part(*report.flight, most));
  for (const LogReport& log : report.logs) {
    ReportPart part = log_part(log, most);
    if (report.logs.size() > 1) part.title += " (" + log.path.substr(log.path.rfind('/') + 1) + ")";
    if (!part.sentences.empty() || !part.table.rows.empty()) parts.push_back(std::move(part));
    if (!log.link_rates.empty()) parts.push_back(link_part(log, most));
    if (!log.copies.tests.empty()) parts.push_back(copy_part(log, most));
    if (log.nccl) parts.push_back(nccl_part(*log.nccl));
  }
  return parts;
}

}  // namespace profgpu
