// Trainers that print a step's metrics in a block, one a line.
//
//   2025-05-01 12:00:00  host:0  olmo_core.train…:99  INFO  [step=10/1000,epoch=1,eta=1h]                     OLMo-core
//       train/CE loss=7.123
//       throughput/device/TPS=12,345
//       throughput/device/BPS=0.512
//   [step=10/739328,epoch=0]                                                                          OLMo, before that
//       throughput/device/batches_per_second=0.5123
//   [batch=10/100]:                                                                        Composer, and LLM Foundry
//            Train loss/train/total: 7.1234
//            Train throughput/batches_per_sec: 0.5123
//
// Their times are those of one batch by its rate: Composer's and OLMo's over the last batches, OLMo-core's of the step.
#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "base/text.h"
#include "trace/import/log/log_family.h"

namespace profgpu {
namespace {

constexpr std::string_view kBlockName = "metric_blocks";

enum class BlockMetric : uint8_t {
  kRate,
  kLoss,
  kTokens,
  kMfuPct,
  kMfu,
  kTflops,
  kFlops,
  kLoading,
  kReserved,
  kActive,
  kReservedGb,
  kAllocatedGb,
  kNorm,
  kAllSamples,
  kAllTokens,
};

std::optional<BlockMetric> block_metric(std::string_view name) {
  struct Known {
    std::string_view name;
    BlockMetric what;
  };
  static constexpr std::array kKnown = {
      Known{"throughput/device/BPS", BlockMetric::kRate},
      Known{"throughput/device/batches_per_second", BlockMetric::kRate},
      Known{"throughput/batches_per_sec", BlockMetric::kRate},
      Known{"train/CE loss", BlockMetric::kLoss},
      Known{"train/CrossEntropyLoss", BlockMetric::kLoss},
      Known{"loss/train/total", BlockMetric::kLoss},
      Known{"throughput/device/TPS", BlockMetric::kTokens},
      Known{"throughput/device/tokens_per_second", BlockMetric::kTokens},
      Known{"throughput/device/tokens_per_sec", BlockMetric::kTokens},
      Known{"throughput/device/MFU", BlockMetric::kMfuPct},
      Known{"throughput/device/mfu", BlockMetric::kMfu},
      Known{"throughput/device/TFLOPs_per_GPU", BlockMetric::kTflops},
      Known{"throughput/device/flops_per_sec", BlockMetric::kFlops},
      Known{"throughput/device/data loading (s)", BlockMetric::kLoading},
      Known{"gpu_memory/GPU reserved mem (GiB)", BlockMetric::kReserved},
      Known{"gpu_memory/GPU active mem (GiB)", BlockMetric::kActive},
      Known{"memory/peak_reserved_mem", BlockMetric::kReservedGb},
      Known{"memory/peak_allocated_mem", BlockMetric::kAllocatedGb},
      Known{"throughput/samples_per_sec", BlockMetric::kAllSamples},
      Known{"throughput/tokens_per_sec", BlockMetric::kAllTokens},
      Known{"optim/total grad norm", BlockMetric::kNorm},
      Known{"optim/total_grad_norm", BlockMetric::kNorm},
  };
  const auto known = std::ranges::find(kKnown, name, &Known::name);
  return known != kKnown.end() ? std::optional(known->what) : std::nullopt;
}

struct BlockHead {
  int64_t step = 0;
  bool composer = false;
};

// "[step=10/1000,epoch=1]"; "[batch=10/100]:", "[epoch=2][batch=10/100]:".
std::optional<BlockHead> block_head(std::string_view text) {
  std::string_view rest;
  if (const auto step = after(text, "[step="); step && has(*step, ",epoch=")) {
    const auto number = leading_integer(*step, &rest);
    return number && *number >= 0 && rest.starts_with('/') ? std::optional(BlockHead{*number, false}) : std::nullopt;
  }
  const auto batch = after(text, "[batch=");
  const auto number = batch ? leading_integer(*batch, &rest) : std::nullopt;
  if (!number || *number <= 0 || !text.ends_with("]:")) return std::nullopt;
  const auto epoch = integer_after(text, "[epoch=");
  const auto all = rest.starts_with('/') ? leading_integer(rest.substr(1)) : std::nullopt;
  if (!epoch) return BlockHead{*number, true};
  if (!all || *epoch < 1 || *epoch > 1'000'000 || *all > 1'000'000'000) return std::nullopt;
  return BlockHead{(*epoch - 1) * *all + *number, true};
}

std::optional<int64_t> ns_of_rate(double per_second) {
  const double ns = 1e9 / per_second;
  return per_second > 0 && ns > 0 && ns < static_cast<double>(LogStep::kLongest_ns) ? std::optional(std::llround(ns))
                                                                                    : std::nullopt;
}

class MetricBlocks : public LogReading {
 public:
  bool read(const LogLine& line, LogBuilder& rows) override {
    const auto head = block_head(line.text);
    if (head) {
      head_ = begun(line);
      step_ = head->step, composer_ = head->composer;
      return false;  // a block without metrics makes no log
    }
    if (!head_) return false;
    // Metrics are indented, unless a launcher's label stood before the blanks.
    const bool indented = line.text.starts_with(' ') || line.text.starts_with('\t');
    const auto [name, value] = metric_of(line.text);
    const auto metric = block_metric(name);
    if (!metric && !indented) head_.reset();
    return metric && read_metric(*metric, value, line, rows);
  }
  [[nodiscard]] bool expects_more() const override { return head_.has_value(); }

 private:
  struct Begun {
    int64_t number = 0;
    int rank = -1;
    std::string node;
    std::optional<int64_t> printed_ns;
  };
  static Begun begun(const LogLine& line) { return {line.number, line.rank, std::string(line.node), line.printed_ns}; }

  // "    throughput/device/TPS=12,345", "\t Train loss/train/total: 7.1234".
  std::pair<std::string_view, std::string_view> metric_of(std::string_view text) const {
    text = without_blanks(text);
    if (composer_) {
      if (!text.starts_with("Train ")) return {};
      text.remove_prefix(6);
    }
    const size_t joint = text.rfind(composer_ ? ": " : "=");
    if (joint == text.npos || joint == 0) return {};
    return {text.substr(0, joint), text.substr(joint + (composer_ ? 2 : 1))};
  }

  bool read_metric(BlockMetric metric, std::string_view text, const LogLine& line, LogBuilder& rows) {
    const auto value = printed_number(text);
    if (!value) return false;
    LogStep* step = step_of(line, rows);
    if (step == nullptr) return true;
    LogFigures& f = step->figures;
    switch (metric) {
      case BlockMetric::kRate:
        step->duration_ns = ns_of_rate(*value), step->derived = true;
        break;
      case BlockMetric::kLoss: f.loss = value; break;
      case BlockMetric::kTokens: f.device_tokens_per_s = value; break;
      case BlockMetric::kMfuPct: f.mfu_pct = value; break;
      case BlockMetric::kMfu: f.mfu_pct = 100 * *value; break;
      case BlockMetric::kTflops: f.tflops = value; break;
      case BlockMetric::kFlops: f.tflops = *value / 1e12; break;
      case BlockMetric::kNorm: f.grad_norm = value; break;
      case BlockMetric::kLoading: step->phase(LogPhase::kDataLoading) = leading_seconds(text).value_or(0); break;
      case BlockMetric::kAllSamples: f.samples_per_s = value; break;
      case BlockMetric::kAllTokens: f.tokens_per_s = value; break;
      case BlockMetric::kReserved: memory(*value, kGiB, &LogMemory::max_reserved_bytes, line, rows); break;
      case BlockMetric::kActive: memory(*value, kGiB, &LogMemory::max_allocated_bytes, line, rows); break;
      case BlockMetric::kReservedGb: memory(*value, kGb, &LogMemory::max_reserved_bytes, line, rows); break;
      case BlockMetric::kAllocatedGb: memory(*value, kGb, &LogMemory::max_allocated_bytes, line, rows); break;
    }
    return true;
  }

  static constexpr double kGiB = 1 << 30, kGb = 1e9;

  void memory(double value, double unit_bytes, std::optional<int64_t> LogMemory::* peak, const LogLine& line,
              LogBuilder& rows) const {
    if (value < 0 || value > 1e6) return;
    LogMemory row{};
    row.step = step_;
    row.*peak = std::llround(value * unit_bytes);
    rows.memory(row, line);
  }

  // The step is of the process that printed the head, and at its time.
  LogStep* step_of(const LogLine& line, LogBuilder& rows) const {
    LogLine at = line;
    at.number = head_->number, at.rank = head_->rank, at.node = head_->node, at.printed_ns = head_->printed_ns;
    LogStep* last = rows.last(kBlockName, at);
    if (last != nullptr && last->line == at.number && last->number == step_) return last;
    return rows.step(kBlockName, at, step_);
  }

  std::optional<Begun> head_;
  int64_t step_ = 0;
  bool composer_ = false;
};

}  // namespace

extern const LogFamily kMetricBlocks = {kBlockName,
                                        "blocks of metrics: OLMo, OLMo-core, MosaicML Composer",
                                        {"[step=", "[batch="},
                                        [] { return std::unique_ptr<LogReading>(new MetricBlocks); }};

}  // namespace profgpu
