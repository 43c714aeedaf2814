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

std::optional<int64_t> RunLog::setting(const std::string& name) const {
  const auto at = settings.find(name);
  return at != settings.end() ? whole_number(at->second) : std::nullopt;
}

}  // namespace profgpu
