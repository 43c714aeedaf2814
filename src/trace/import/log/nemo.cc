// NVIDIA NeMo, whose loggers print what the model logged: lines of its progress printer, and notes of Lightning's bar.
//
//   Training epoch 0, iteration 120/149 | lr: 3e-05 | consumed_samples: 121 | global_batch_size: 1 | global_step: 120 |
//   reduced_train_loss: 1.233 | train_step_timing in s: 0.03146
//   Epoch 0: :   3%|▎  | 9000/301500 [1:42:42<55:37:46, reduced_train_loss=2.1, global_step=9e+3,
//   consumed_samples=6.3e+5, train_step_timing in s=0.615]
//
// The time is that of one step. A bar's notes have three digits, so the step is the one that the bar counts.
#include <cmath>

#include "base/text.h"
#include "trace/import/log/log_family.h"
#include "trace/import/log/progress_bar.h"

namespace profgpu {
namespace {

constexpr std::string_view kNemoName = "nemo";

// "key: 1.2" of a printed line, "key=1.2" of a bar's notes.
std::optional<double> value_of(std::string_view text, std::string_view key) {
  for (const char sign : {':', '='})
    if (const auto value = number_after(text, std::string(key) + sign)) return value;
  return std::nullopt;
}

std::optional<int64_t> nemo_step(std::string_view text) {
  const auto bar = bar_drawing(text);
  const auto epoch = integer_after(text, "poch ");
  if (!bar) {
    const auto step = integer_after(text, "global_step:");
    return step ? step : integer_after(text, "iteration ");
  }
  const int64_t before = epoch.value_or(0);
  if (before < 0 || before > 1'000'000 || bar->total > 1'000'000'000) return std::nullopt;
  return before * bar->total + bar->done;
}

bool read_nemo(const LogLine& line, LogBuilder& rows) {
  const std::string_view text = line.message;
  const auto seconds = value_of(text, "train_step_timing in s");
  const auto number = nemo_step(text);
  if (!seconds || !number || *seconds < 0 || *seconds > 1e6) return false;
  LogStep* step = rows.step(kNemoName, line, *number);
  if (step == nullptr) return true;
  step->duration_ns = std::llround(*seconds * 1e9);
  LogFigures& f = step->figures;
  f.loss = value_of(text, "reduced_train_loss");
  f.learning_rate = value_of(text, " lr");
  f.grad_norm = value_of(text, "grad_norm");
  f.tflops = value_of(text, "TFLOPS_per_GPU");
  if (const auto samples = value_of(text, "global_batch_size"); samples && *samples >= 1 && *samples < 1e12)
    f.samples = std::llround(*samples);
  LogMemory memory{};
  memory.step = step->number;
  memory.max_reserved_bytes = integer_after(text, "max_memory_reserved: ");
  memory.max_allocated_bytes = integer_after(text, "max_memory_allocated: ");
  if (memory.max_reserved_bytes || memory.max_allocated_bytes) rows.memory(memory, line);
  return true;
}

}  // namespace

extern const LogFamily kNemo = {kNemoName, "NVIDIA NeMo: its progress printer and bar, with train_step_timing",
                                {"train_step_timing"}, stateless<read_nemo>};

}  // namespace profgpu
