// MLPerf's training log:
//
//   :::MLLOG {"namespace": "", "time_ms": 1592428880123, "event_type": "POINT_IN_TIME", "key": "global_batch_size",
//   "value": 256, "metadata": {…}}
//
// Blocks and epochs are what is timed: a row is a block. Where the records say how many samples one has, by the
// position at its start and its end or by whole epochs, and what the global batch is, the row stands for that many
// iterations. Times are Unix milliseconds.
#include <algorithm>

#include "base/text.h"
#include "trace/import/log/log_family.h"

namespace profgpu {
namespace {

constexpr std::string_view kMlperfName = "mlperf";

std::string_view quoted_after(std::string_view text, std::string_view key) {
  const auto rest = after(text, key);
  if (!rest) return {};
  const size_t begin = rest->find('"');
  const size_t end = begin == rest->npos ? rest->npos : rest->find('"', begin + 1);
  return end == rest->npos ? std::string_view() : rest->substr(begin + 1, end - begin - 1);
}

class Mlperf : public LogReading {
 public:
  bool read(const LogLine& line, LogBuilder& rows) override {
    const auto record = after(line.text, ":::MLLOG ");
    const auto time_ms = record ? integer_after(*record, "\"time_ms\":") : std::nullopt;
    if (!time_ms || *time_ms < 0 || *time_ms > 10'000'000'000'000) return false;
    LogLine dated = line;
    dated.printed_ns = *time_ms * 1'000'000;
    const std::string_view key = quoted_after(*record, "\"key\":");
    if (key == "global_batch_size" || key == "train_samples") read_size(*record, key, rows);
    if (key == "block_start" || key == "epoch_start") begin_block(*record, key == "block_start", dated);
    if (key == "block_stop" || key == "epoch_stop") add_block(*record, key, dated, rows);
    if (key == "eval_start") eval_begun_ = dated.printed_ns;
    if (key == "eval_stop" && eval_begun_) {
      rows.event(LogEventKind::kEvaluation, dated).duration_ns = *dated.printed_ns - *eval_begun_;
      eval_begun_.reset();
    }
    if (key == "run_stop") {
      const std::string_view status = quoted_after(*record, "\"status\":");
      rows.event(status.empty() || status == "success" ? LogEventKind::kFinished : LogEventKind::kTerminated, dated);
    }
    return true;
  }

 private:
  void read_size(std::string_view record, std::string_view key, LogBuilder& rows) {
    const auto value = integer_after(record, "\"value\":");
    if (!value || *value <= 0 || *value > kMaxSamples) return;
    if (key == "global_batch_size") rows.setting(key, std::to_string(*value)), batch_ = *value;
    if (key == "train_samples") epoch_samples_ = *value;
  }

  // An epoch within a block of several is one of them.
  void begin_block(std::string_view record, bool block, const LogLine& line) {
    begun_ = line.printed_ns;
    if (const auto position = position_of(record)) position_ = position;
    if (const auto epochs = integer_after(record, "\"epoch_count\":"); epochs || !block) epochs_ = epochs;
  }

  static std::optional<int64_t> position_of(std::string_view record) {
    const auto samples = integer_after(record, "\"samples_count\":");
    return samples && *samples >= 0 && *samples < kMaxSamples ? samples : std::nullopt;
  }

  // Samples of the block that `record` ends. An epoch is one, unless its count is stated; some programs count tokens or
  // samples as epochs.
  std::optional<int64_t> samples_of(std::string_view record, bool block) const {
    if (const auto position = position_of(record); position && position_)
      return *position > *position_ ? std::optional(*position - *position_) : std::nullopt;
    const int64_t epochs = epochs_.value_or(block ? 0 : 1);
    const bool whole = epoch_samples_ && epochs > 0 && epochs < 1000;
    return whole && *epoch_samples_ < kMaxSamples / 1000 ? std::optional(epochs * *epoch_samples_) : std::nullopt;
  }

  void add_block(std::string_view record, std::string_view key, const LogLine& line, LogBuilder& rows) {
    if (!begun_) return;
    const bool blocks = key == "block_stop";
    if (!blocks && blocks_) return;  // epochs around blocks
    blocks_ |= blocks;
    const auto samples = samples_of(record, blocks);
    const int64_t iterations = samples && batch_ ? *samples / *batch_ : 0;
    auto number = integer_after(record, blocks ? "\"first_epoch_num\":" : "\"epoch_num\":");
    if (!number) number = integer_after(record, "\"step_num\":");
    const LogStep* last = rows.last(kMlperfName, line);
    const int64_t before = last != nullptr ? last->number : 0;
    const bool follows = number && (last == nullptr || *number > before);
    LogStep* step = rows.step(kMlperfName, line, iterations > 0 ? before + iterations : follows ? *number : before + 1);
    if (step != nullptr && *line.printed_ns > *begun_) set_block(*step, *line.printed_ns - *begun_, iterations, samples);
    begun_.reset();
    if (const auto position = position_of(record)) position_ = position;
  }

  void set_block(LogStep& step, int64_t block_ns, int64_t iterations, std::optional<int64_t> samples) const {
    step.iterations = std::max<int64_t>(iterations, 1);
    step.duration_ns = block_ns / step.iterations;
    step.derived = iterations > 1;
    if (samples) step.figures.samples_per_s = static_cast<double>(*samples) / (static_cast<double>(block_ns) * 1e-9);
    step.figures.samples = iterations > 0 ? batch_ : samples;   // without a count, of the whole block
  }

  static constexpr int64_t kMaxSamples = 1'000'000'000'000;
  std::optional<int64_t> batch_, epoch_samples_, position_, epochs_;
  std::optional<int64_t> begun_, eval_begun_;
  bool blocks_ = false;
};

}  // namespace

extern const LogFamily kMlperf = {kMlperfName,
                                  "MLPerf: :::MLLOG records; a step is a block or an epoch",
                                  {":::MLLOG"},
                                  [] { return std::unique_ptr<LogReading>(new Mlperf); }};

}  // namespace profgpu
