// TensorRT-LLM's iterations (print_iter_log):
//
//   [TRT-LLM] [I] [_torch][RANK 0] iter = 12, global_rank = 0, rank = 0, currank_total_requests = 1/1, host_step_time =
//   7.4ms, prev_device_step_time = 7.1ms, timestamp = 2025-05-01 12:00:00, num_scheduled_requests: 3, states = {…}
//
// One in which no request is scheduled waits for some, and is no step.
#include "base/text.h"
#include "trace/import/log/log_family.h"

namespace profgpu {
namespace {

constexpr std::string_view kTensorRtLlmName = "tensorrt_llm";

// "host_step_time = 7.4ms", before: "elapsed_time = 0.0051s".
std::optional<int64_t> iteration_ns(std::string_view text) {
  std::string_view unit;
  if (const auto time = after(text, "host_step_time = ")) {
    const auto ns = leading_ms(*time, &unit);
    return unit.starts_with("ms") ? ns : std::nullopt;
  }
  const auto time = after(text, "elapsed_time = ");
  const auto seconds = time ? printed_number(*time, &unit) : std::nullopt;
  const bool fits = seconds && *seconds > 0 && *seconds < 1e6 && unit.starts_with('s');
  return fits ? std::optional(static_cast<int64_t>(*seconds * 1e9)) : std::nullopt;
}

bool read_tensorrt_llm(const LogLine& line, LogBuilder& rows) {
  const std::string_view text = line.text;
  const auto number = integer_after(text, "iter = "), rank = integer_after(text, "global_rank = ");
  const auto duration_ns = iteration_ns(text);
  if (!number || *number < 0 || !duration_ns) return false;
  auto requests = integer_after(text, "num_scheduled_requests: ");
  if (!requests) requests = integer_after(text, "num_scheduled_requests = ");
  if (requests && *requests == 0) return true;
  LogLine of = line;
  if (of.rank < 0 && rank && *rank >= 0 && *rank < 10'000'000) of.rank = static_cast<int>(*rank);
  size_t length = 0;
  if (const auto stamp = after(text, "timestamp = ")) of.printed_ns = clock_time(*stamp, length);
  LogStep* step = rows.step(kTensorRtLlmName, of, *number);
  if (step != nullptr) step->duration_ns = duration_ns, step->iterations = 1;
  return true;
}

}  // namespace

extern const LogFamily kTensorRtLlm = {kTensorRtLlmName,
                                       "TensorRT-LLM: its iterations, with print_iter_log",
                                       {"host_step_time = ", "currank_total_requests = "},
                                       stateless<read_tensorrt_llm>};

}  // namespace profgpu
