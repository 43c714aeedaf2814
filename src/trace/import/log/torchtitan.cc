// torchtitan, with or without colours; descendants put more fields between these.
//
//   [rank0]:[titan] 2024-12-05 12:34:56,789 - root - INFO - step: 10  loss: 7.9  grad_norm: 1.2  memory: 5.52GiB(5.81%)
//   tps: 1,234  tflops: 1.23  mfu: 12.34%
//
// tps is of one device: tokens since the last line, by the time since then and by the devices that share them.

#include "base/text.h"
#include "trace/import/log/log_family.h"

namespace profgpu {
namespace {

constexpr std::string_view kTitanName = "torchtitan";

class TorchTitan : public LogReading {
 public:
  bool read(const LogLine& line, LogBuilder& rows) override {
    const std::string_view text = line.message;
    if (has(text, "initialized with local batch size")) return read_trainer(text, rows);
    if (has(text, "device mesh with")) return read_mesh(text, rows);
    const size_t at = text.find("step:");
    if (at == text.npos || !has(text, "loss:")) return false;
    if (!has(text, "tps:") && !has(text, "wps:")) return false;
    const auto number = integer_after(text, "step:");
    if (!number) return false;
    if (has(text.substr(0, at), "validate")) {
      rows.event(LogEventKind::kEvaluation, line).step = number;
      return true;
    }
    LogStep* step = rows.step(kTitanName, line, *number);
    if (step != nullptr) set_figures(text, *step, line, rows);
    return true;
  }

 private:
  static void set_figures(std::string_view text, LogStep& step, const LogLine& line, LogBuilder& rows) {
    LogFigures& f = step.figures;
    f.loss = number_after(text, " loss:");
    if (!f.loss) f.loss = number_after(text, "loss:");
    f.grad_norm = number_after(text, "grad_norm:");
    f.device_tokens_per_s = number_after(text, " tps:");
    if (!f.device_tokens_per_s) f.device_tokens_per_s = number_after(text, "wps:");
    f.tflops = number_after(text, "tflops:");
    f.mfu_pct = number_after(text, "mfu:");
    for (const std::string_view key : {"step_time:", "elapsed_time_per_step:"})
      if (const auto time = after(text, key)) step.duration_ns = leading_seconds(*time);
    const auto memory = after(text, "memory:");
    f.reserved_bytes = memory ? leading_bytes(*memory) : std::nullopt;
    if (!f.reserved_bytes) return;
    LogMemory row{};
    row.step = step.number;
    row.max_reserved_bytes = f.reserved_bytes;
    const auto share = number_after(*memory, "(");
    if (share && *share > 0)
      row.capacity_bytes = static_cast<int64_t>(static_cast<double>(*f.reserved_bytes) * 100 / *share);
    rows.memory(row, line);
  }

  // "Trainer is initialized with local batch size 8, global batch size 64, gradient accumulation steps 1, sequence
  // length 2048, total steps 1000 (warmup 200)"
  bool read_trainer(std::string_view text, LogBuilder& rows) {
    const auto local = integer_after(text, "local batch size "), length = integer_after(text, "sequence length ");
    const int64_t accumulated = std::clamp<int64_t>(integer_after(text, "accumulation steps ").value_or(1), 1, 100'000);
    if (const auto n = integer_after(text, "global batch size ")) rows.setting("global_batch_size", std::to_string(*n));
    if (const auto n = integer_after(text, "total steps ")) rows.setting("total_steps", std::to_string(*n));
    if (!local || !length || *local <= 0 || *length <= 0 || *local > 1'000'000 || *length > 100'000'000) return true;
    rows.setting("micro_batch_size", std::to_string(*local));
    rows.setting("sequence_length", std::to_string(*length));
    rows.setting("tokens_per_device", std::to_string(*local * *length * accumulated / sharing_));
    return true;
  }

  // "Building 2-D device mesh with ['dp_shard', 'tp'], [4, 2]": devices that work on one part of a batch.
  bool read_mesh(std::string_view text, LogBuilder& rows) {
    const auto names = after(text, "device mesh with [");
    const auto sizes = names ? after(*names, "], [") : std::nullopt;
    if (!sizes) return false;
    const std::vector<std::string_view> of = pieces_of(names->substr(0, names->find(']')), ','),
                                        by = pieces_of(sizes->substr(0, sizes->find(']')), ',');
    int64_t world = 1, sharing = 1;
    for (size_t i = 0; i < std::min(of.size(), by.size()); ++i) {
      const int64_t size = std::clamp<int64_t>(leading_integer(by[i]).value_or(1), 1, 100'000);
      const bool data = has(of[i], "dp");
      if (!data && sharing < 100'000) sharing *= size;
      if (world < 10'000'000) world *= size;
    }
    sharing_ = std::max(sharing_, sharing);   // each rank says so
    rows.setting("world_size", std::to_string(world));
    return true;
  }

  int64_t sharing_ = 1;
};

}  // namespace

extern const LogFamily kTorchTitan = {
    kTitanName, "torchtitan, with its colors", {"tps:", "wps:", "local batch size", "device mesh with"}, [] {
      return std::unique_ptr<LogReading>(new TorchTitan);
    }};

}  // namespace profgpu
