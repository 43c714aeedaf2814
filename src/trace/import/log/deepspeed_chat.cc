// DeepSpeed-Chat: a line of a step's losses, then its throughput.
//
//   Epoch: 0, Step: 1, Rank: 0, loss = 2.99
//   Model Parameters: 1.316 B, Latency: 0.84s, TFLOPs: 85.21, Samples/sec: 9.52, Time/seq 0.10s, Batch Size: 8, …
//
//   Epoch: 0 | Step: 1 | PPO Epoch: 1 | Actor Loss: -0.02 | Critic Loss: 0.03 | …
//   End-to-End => Latency: 5.30s, TFLOPs: 41.20, Samples/sec: 12.31, Time/seq 0.08s, Batch Size: 64, …
//   Generation => Latency: 3.20s, Per-token Latency 12.5 ms, TFLOPs: 10.0, BW: 100.1 GB/sec, …
//   Training   => Latency: 2.10s, TFLOPs: 88.10
#include "base/text.h"
#include "trace/import/log/log_family.h"

namespace profgpu {
namespace {

constexpr std::string_view kChatName = "deepspeed_chat";

class DeepSpeedChat : public LogReading {
 public:
  bool read(const LogLine& line, LogBuilder& rows) override {
    const std::string_view text = line.message;
    if (text.starts_with("Epoch: ") && has(text, "Step: ")) return read_losses(text), false;
    const auto time = after(text, "Latency: ");
    const auto ns = time ? leading_seconds(*time) : std::nullopt;
    if (!ns || *ns <= 0) return false;
    if (text.starts_with("Model Parameters: ") || text.starts_with("End-to-End => "))
      return read_throughput(text, *ns, line, rows);
    for (const std::string_view part : {"Generation", "Training"})
      if (text.starts_with(part) && has(text, "=> Latency")) {
        LogBuilder::time(rows.series(kChatName, line), {lower_case(part), std::nullopt, line.number}, *ns, *ns);
        return true;
      }
    return false;
  }

 private:
  void read_losses(std::string_view text) {
    const auto epoch = integer_after(text, "Epoch: "), step = integer_after(text, "Step: ");
    if (!epoch || !step || *step < 0 || *step > 1'000'000'000'000) return;
    number_ = numbers_(*epoch, *step);
    loss_ = number_after(text, "loss = ");
    if (!loss_) loss_ = number_after(text, "Actor Loss: ");
  }

  bool read_throughput(std::string_view text, int64_t ns, const LogLine& line, LogBuilder& rows) {
    const LogStep* last = rows.last(kChatName, line);
    LogStep* step = rows.step(kChatName, line, number_.value_or(last != nullptr ? last->number + 1 : 1));
    number_.reset();
    if (step == nullptr) return true;
    step->duration_ns = ns, step->iterations = 1;
    LogFigures& f = step->figures;
    f.loss = loss_;
    f.tflops = number_after(text, "TFLOPs: ");
    f.samples_per_s = number_after(text, "Samples/sec: ");
    f.samples = integer_after(text, "Batch Size: ");
    return true;
  }

  EpochNumbers numbers_;
  std::optional<int64_t> number_;
  std::optional<double> loss_;
};

}  // namespace

extern const LogFamily kDeepSpeedChat = {kChatName, "DeepSpeed-Chat: latency and rates of a step, generation and training",
                                         {"Latency: ", "Epoch: "}, [] {
                                           return std::unique_ptr<LogReading>(new DeepSpeedChat);
                                         }};

}  // namespace profgpu
