// verl, whose console logger prints all metrics of a step of reinforcement learning on one line:
//
//   step:1 - actor/pg_loss:0.1 - perf/mfu/actor:0.32 - perf/max_memory_allocated_gb:43.1 - timing_s/gen:12.3 -
//   timing_s/update_actor:20.1 - timing_s/step:40.2 - perf/throughput:1234.5
//
// Newer ones print values as "np.float64(12.3)". timing_s/step is the whole step, the others are its parts.
#include <cmath>

#include "base/text.h"
#include "trace/import/log/log_family.h"

namespace profgpu {
namespace {

constexpr std::string_view kVerlName = "verl", kTimed = "timing_s/";

std::string_view unwrapped(std::string_view text) {
  for (const std::string_view wrapped : {"np.float64(", "np.float32(", "np.int64(", "np.int32("})
    if (text.starts_with(wrapped)) return text.substr(wrapped.size());
  return text;
}

std::optional<double> metric(std::string_view text, std::string_view name) {
  const auto value = after(text, name);
  return value ? printed_number(unwrapped(*value)) : std::nullopt;
}

void set_verl_timers(const LogLine& line, LogBuilder& rows) {
  LogSeries& series = rows.series(kVerlName, line);
  for (std::optional<std::string_view> rest = after(line.message, kTimed); rest; rest = after(*rest, kTimed)) {
    const std::string_view name = rest->substr(0, rest->find(':'));
    if (name == "step" || name.size() == rest->size() || name.size() > 64) continue;
    if (const auto ns = leading_seconds(unwrapped(rest->substr(name.size() + 1))))
      LogBuilder::time(series, {name, std::nullopt, line.number}, *ns, *ns);
  }
}

void set_verl_memory(const LogLine& line, int64_t step, LogBuilder& rows) {
  const auto bytes = [&](std::string_view name) -> std::optional<int64_t> {
    const auto gb = metric(line.message, name);
    return gb && *gb >= 0 && *gb < 1e6 ? std::optional(std::llround(*gb * (1 << 30))) : std::nullopt;
  };
  LogMemory memory{};
  memory.step = step;
  memory.max_allocated_bytes = bytes(" perf/max_memory_allocated_gb:");
  memory.max_reserved_bytes = bytes(" perf/max_memory_reserved_gb:");
  if (memory.max_allocated_bytes || memory.max_reserved_bytes) rows.memory(memory, line);
}

bool read_verl(const LogLine& line, LogBuilder& rows) {
  const auto whole = after(line.message, " - timing_s/step:");
  const auto duration_ns = whole ? leading_seconds(unwrapped(*whole)) : std::nullopt;
  const auto number = line.message.starts_with("step:") ? leading_integer(line.message.substr(5)) : std::nullopt;
  if (!number || *number < 0 || !duration_ns) return false;
  LogStep* step = rows.step(kVerlName, line, *number);
  if (step == nullptr) return true;
  step->duration_ns = duration_ns, step->iterations = 1;
  LogFigures& f = step->figures;
  f.device_tokens_per_s = metric(line.message, " perf/throughput:");
  f.grad_norm = metric(line.message, " actor/grad_norm:");
  f.learning_rate = metric(line.message, " actor/lr:");
  f.loss = metric(line.message, " actor/pg_loss:");
  if (const auto share = metric(line.message, " perf/mfu/actor:"); share && *share >= 0) f.mfu_pct = 100 * *share;
  set_verl_timers(line, rows);
  set_verl_memory(line, *number, rows);
  return true;
}

}  // namespace

extern const LogFamily kVerl = {kVerlName, "verl: \"step:1 - ... timing_s/gen:12.3 - timing_s/step:40.2\"", {kTimed},
                                stateless<read_verl>};

}  // namespace profgpu
