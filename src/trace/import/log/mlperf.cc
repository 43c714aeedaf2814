// MLPerf's training log:
//
//   :::MLLOG {"namespace": "", "time_ms": 1592428880123, "event_type": "POINT_IN_TIME", "key": "global_batch_size",
//   "value": 256, "metadata": {…}}
//
// Blocks and epochs are what is timed: a row is a block of samples or steps. Times are Unix milliseconds.
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
    const auto value = number_after(*record, "\"value\":");
    if (key == "block_start" || key == "epoch_start") begun_ = dated.printed_ns;
    if (key == "block_stop" || key == "epoch_stop") add_block(*record, key, dated, rows);
    if (key == "eval_start") eval_begun_ = dated.printed_ns;
    if (key == "eval_stop" && eval_begun_) {
      rows.event(LogEventKind::kEvaluation, dated).duration_ns = *dated.printed_ns - *eval_begun_;
      eval_begun_.reset();
    }
    if (key == "run_stop") rows.event(LogEventKind::kFinished, dated);
    if (key == "tracked_stats" && value) add_rate(*record, rows, dated);
    return true;
  }

 private:
  // A block has a number of samples or epochs, or is one epoch; an iteration of it is not timed by itself.
  void add_block(std::string_view record, std::string_view key, const LogLine& line, LogBuilder& rows) {
    if (!begun_) return;
    const bool blocks = key == "block_stop";
    if (!blocks && blocks_) return;  // epochs around blocks
    blocks_ |= blocks;
    auto number = integer_after(record, blocks ? "\"first_epoch_num\":" : "\"epoch_num\":");
    if (!number) number = integer_after(record, "\"step_num\":");
    LogStep* last = rows.last(kMlperfName, line);
    const int64_t next = last != nullptr ? last->number + 1 : 1;
    LogStep* step =
        rows.step(kMlperfName, line, number && (last == nullptr || *number > last->number) ? *number : next);
    if (step != nullptr && *line.printed_ns > *begun_) {
      step->duration_ns = *line.printed_ns - *begun_;
      step->iterations = 1;
    }
    begun_.reset();
  }

  static void add_rate(std::string_view record, LogBuilder& rows, const LogLine& line) {
    LogStep* step = rows.last(kMlperfName, line);
    if (step != nullptr)
      if (const auto rate = number_after(record, "\"throughput\":")) step->figures.samples_per_s = rate;
  }

  std::optional<int64_t> begun_, eval_begun_;
  bool blocks_ = false;
};

}  // namespace

extern const LogFamily kMlperf;
const LogFamily kMlperf = {kMlperfName, "MLPerf: :::MLLOG records; a step is a block or an epoch", {":::MLLOG"}, [] {
                             return std::unique_ptr<LogReading>(new Mlperf);
                           }};

}  // namespace profgpu
