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

class TensorRtLlm : public LogReading {
 public:
  bool read(const LogLine& line, LogBuilder& rows) override {
    const std::string_view text = line.text;
    const auto number = integer_after(text, "iter = "), rank = integer_after(text, "global_rank = ");
    const auto time = after(text, "host_step_time = ");
    std::string_view unit;
    const auto duration_ns = time ? leading_ms(*time, &unit) : std::nullopt;
    if (!number || *number < 0 || !duration_ns || !unit.starts_with("ms")) return false;
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
};

}  // namespace

extern const LogFamily kTensorRtLlm;
const LogFamily kTensorRtLlm = {kTensorRtLlmName,
                                "TensorRT-LLM: its iterations, with print_iter_log",
                                {"host_step_time = "},
                                [] { return std::unique_ptr<LogReading>(new TensorRtLlm); }};

}  // namespace profgpu
