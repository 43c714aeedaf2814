#include "trace/run_log.h"

#include <algorithm>

#include "base/decimal.h"

namespace profgpu {

std::string_view log_phase_name(LogPhase phase) {
  constexpr std::array<std::string_view, kLogPhases> kNames = {
      "data_loading", "forward", "backward", "optimizer", "communication", "checkpoint", "forward_backward"};
  return kNames[static_cast<size_t>(phase)];
}

std::string_view log_event_name(LogEventKind kind) {
  switch (kind) {
    case LogEventKind::kCheckpoint:
      return "checkpoint";
    case LogEventKind::kEvaluation:
      return "evaluation";
    case LogEventKind::kRestart:
      return "restart";
    case LogEventKind::kSkipped:
      return "skipped_update";
    case LogEventKind::kFinished:
      return "finished";
    case LogEventKind::kOutOfMemory:
      return "out_of_memory";
    case LogEventKind::kHostOutOfMemory:
      return "host_out_of_memory";
    case LogEventKind::kCollectiveTimeout:
      return "collective_timeout";
    case LogEventKind::kNcclError:
      return "nccl_error";
    case LogEventKind::kDeviceError:
      return "device_error";
    case LogEventKind::kException:
      return "exception";
    case LogEventKind::kKilled:
      return "killed";
    case LogEventKind::kExitCode:
      return "exit_code";
    case LogEventKind::kTerminated:
      return "terminated";
    case LogEventKind::kTimeLimit:
      return "time_limit";
    case LogEventKind::kPreempted:
      return "preempted";
    case LogEventKind::kNodeFailure:
      return "node_failure";
    case LogEventKind::kNotFinite:
      return "not_finite";
  }
  return "";
}

bool LogStep::timed() const {
  return std::any_of(phase_ns.begin(), phase_ns.end(), [](int64_t ns) { return ns > 0; });
}

void LogTimerValues::add(double least_ns, double most_ns) { add({1, most_ns, least_ns, most_ns}); }

void LogTimerValues::add(const LogTimerValues& others) {
  if (others.count == 0) return;
  min_ns = count > 0 ? std::min(min_ns, others.min_ns) : others.min_ns;
  max_ns = count > 0 ? std::max(max_ns, others.max_ns) : others.max_ns;
  sum_ns += others.sum_ns, count += others.count;
}

LogTimerValues LogTimer::from(int64_t line) const {
  LogTimerValues values = later;
  for (const Value& v : leading)
    if (v.line >= line) values.add(v.least_ns, v.most_ns);
  return values.count > 0 || line <= 0 ? values : from(0);
}

int64_t LogStep::whole_ns() const {
  const int64_t each = duration_ns.value_or(0);
  return each > 0 && iterations < kLongest_ns / each ? iterations * each : std::max<int64_t>(each, 0);
}

void LogFigures::complete(const LogFigures& other) {
  const auto take = [](auto& mine, const auto& theirs) {
    if (!mine) mine = theirs;
  };
  take(loss, other.loss), take(learning_rate, other.learning_rate), take(grad_norm, other.grad_norm);
  take(loss_scale, other.loss_scale), take(samples_per_s, other.samples_per_s);
  take(tokens_per_s, other.tokens_per_s), take(device_tokens_per_s, other.device_tokens_per_s);
  take(tflops, other.tflops), take(mfu_pct, other.mfu_pct), take(samples, other.samples);
  take(skipped, other.skipped), take(not_finite, other.not_finite);
  take(allocated_bytes, other.allocated_bytes), take(reserved_bytes, other.reserved_bytes);
}

int64_t RunLog::events_left_out() const {
  int64_t all = 0;
  for (const auto& [kind, count] : event_lines) all += count;
  return std::max<int64_t>(all - static_cast<int64_t>(events.size()), 0);
}

namespace {

std::optional<int64_t> whole_setting(const std::map<std::string, std::string>& of, const std::string& name) {
  const auto at = of.find(name);
  return at != of.end() ? whole_number(at->second) : std::nullopt;
}

}  // namespace

std::optional<int64_t> RunLog::setting(const std::string& name, int64_t line) const {
  for (const Settings& s : settings_before)
    if (const auto value = line < s.until_line ? whole_setting(s.values, name) : std::nullopt) return value;
  return setting(name);
}

int64_t RunLog::run_of(int64_t line) const {
  return std::ranges::upper_bound(run_lines, line) - run_lines.begin();
}

std::optional<int64_t> RunLog::setting(const std::string& name) const { return whole_setting(settings, name); }

}  // namespace profgpu
