// Loops that people write themselves, after nanoGPT and its like. Each line is one step's:
//
//   iter 10: loss 2.3170, time 12.34ms, mfu 12.34%
//   step    10 | loss: 4.231 | lr 6.0e-04 | norm: 1.2 | dt: 100.12ms | tok/sec: 5200.12
//   step   10/1000 | loss 7.5 (+nanz)| norm 1.2 (+nanz)| lr 1e-05 | 250.33 ms | 45.2% bf16 MFU | 20123 tok/s      llm.c
//   step 10/1000 | train loss 3.2 | norm 1.2 | lr 1e-4 | (100.2 ms | 5200 tok/s)
//   step 00010/21400 (0.05%) | loss: 9.1 | lrm: 1.00 | dt: 450.25ms | tok/sec: 1,164,000 | bf16_mfu: 47.30   nanochat
//   Epoch 1 | iter 4 step 1 | loss train: 10.123, val: n/a | iter time: 301.00 ms (step)              LitGPT
//   Step 1/100 - loss: 2.3 - step_time: 0.251s - 1234 tokens/s
//   step:10/1480 train_time:1420ms step_avg:142.00ms                   modded-nanogpt: since the start, and its mean
#include "base/text.h"
#include "trace/import/log/log_family.h"

namespace profgpu {
namespace {

constexpr std::string_view kLoopName = "loop";

// "12.34ms", "0.123s", "0.123": seconds where no unit stands.
std::optional<int64_t> time_of(std::string_view text) {
  std::string_view rest;
  if (!printed_number(text, &rest)) return std::nullopt;
  rest = without_blanks(rest);
  if (rest.starts_with("ms")) return leading_ms(text);
  if (rest.starts_with("us") || rest.starts_with("m") || rest.starts_with("h")) return std::nullopt;
  return leading_seconds(text);
}

// "5200" of "| 5200 tok/s".
std::optional<std::string_view> number_before(std::string_view text, std::string_view unit) {
  const size_t end = text.find(unit);
  if (end == text.npos || end == 0) return std::nullopt;
  const size_t begin = text.find_last_not_of("0123456789.,", end - 1);
  return text.substr(begin == text.npos ? 0 : begin + 1, end - (begin == text.npos ? 0 : begin + 1));
}

std::optional<double> figure_before(std::string_view text, std::string_view unit) {
  const auto number = number_before(text, unit);
  return number ? printed_number(*number) : std::nullopt;
}

class Loop : public LogReading {
 public:
  bool read(const LogLine& line, LogBuilder& rows) override {
    std::string_view number = line.message, rest;
    const auto epoch = take_epoch(number);
    if (!take_word(number)) return false;
    const auto n = leading_integer(number, &rest);
    if (!n || *n < 0 || *n > kMaxNumber || rest.empty() || !has(":|,/ ", rest.substr(0, 1))) return false;
    if (has(rest, "time per iteration") || has(rest, "time_per_iteration")) return false;   // Megatron's
    // "step 500: train loss 2.1, val loss 2.3": an evaluation
    if (has(rest, "val loss") || has(rest, "val_loss:")) {
      rows.event(LogEventKind::kEvaluation, line).step = n;
      return true;
    }
    if (epoch) return read_step_of_epoch(*epoch, *n, rest, line, rows);
    return has(rest, "step_avg:") ? read_course(*n, rest, line, rows) : read_step(*n, rest, line, rows);
  }

 private:
  // "iter 10", "step 10", "Step: 10", "iteration 10", "[step 10".
  static bool take_word(std::string_view& text) {
    if (text.starts_with('[')) text.remove_prefix(1);
    for (const std::string_view word : {"iteration", "iter", "step"}) {
      if (text.size() <= word.size() || lower_case(text.substr(0, word.size())) != word) continue;
      text.remove_prefix(word.size());
      const size_t value = text.find_first_not_of(" :=#");
      if (value == text.npos || value == 0) return false;
      text.remove_prefix(value);
      return true;
    }
    return false;
  }

  // "Epoch 1 | ", "epoch 1 "
  static std::optional<int64_t> take_epoch(std::string_view& text) {
    if (lower_case(text.substr(0, 6)) != "epoch ") return std::nullopt;
    std::string_view rest;
    const auto epoch = leading_integer(text.substr(6), &rest);
    if (epoch) text = rest.substr(std::min(rest.find_first_not_of(" |,:"), rest.size()));
    return epoch;
  }

  // Only lines that state a time: other programs' begin alike.
  bool read_step_of_epoch(int64_t epoch, int64_t n, std::string_view rest, const LogLine& line, LogBuilder& rows) {
    LogLine undated = line;
    undated.printed_ns.reset();
    EpochNumbers counted = numbers_;
    if (!read_step(counted(epoch, n), rest, undated, rows)) return false;
    numbers_ = counted;
    if (LogStep* step = rows.last(kLoopName, line); step != nullptr && step->line == line.number)
      step->printed_ns = line.printed_ns;
    return true;
  }

  static bool read_step(int64_t n, std::string_view rest, const LogLine& line, LogBuilder& rows) {
    const auto loss = keyed_value(rest, {"loss", "train_loss", "train loss", "loss train"});
    auto time = keyed_value(rest, {"dt"});   // before the "total time" of such lines
    if (!time) time = keyed_value(rest, {"time", "step_time", "step time", "iter_time", "iter time", "time/step", "elapsed"});
    if (!time && has(rest, "ms")) time = after(rest, "(");  // "(100.2 ms | 5200 tok/s)"
    auto ns = time ? time_of(*time) : std::nullopt;
    if (const auto number = ns ? std::nullopt : number_before(rest, " ms")) ns = leading_ms(*number);
    if (!loss || (!ns && !line.printed_ns)) return false;  // a sentence that begins alike
    LogStep* step = rows.step(kLoopName, line, n);
    if (step == nullptr) return true;
    if (ns) step->duration_ns = ns, step->iterations = 1;
    LogFigures& f = step->figures;
    f.loss = printed_number(*loss);
    f.tokens_per_s = keyed_number(rest, {"tok/sec", "tok/s", "tokens/sec", "tokens/s", "tokens_per_sec"});
    f.samples_per_s = keyed_number(rest, {"samples/sec", "samples/s", "img/s", "images/sec"});
    f.learning_rate = keyed_number(rest, {"lr", "learning_rate"});
    f.grad_norm = keyed_number(rest, {"grad_norm", "norm", "grad norm"});
    auto mfu = keyed_number(rest, {"mfu", "bf16_mfu"});
    if (!mfu) mfu = figure_before(rest, "% bf16 MFU");
    if (mfu && *mfu >= 0) f.mfu_pct = mfu;  // -100 %: not yet known
    for (const std::string_view unit : {" tok/s", " tokens/s"})
      if (!f.tokens_per_s) f.tokens_per_s = figure_before(rest, unit);
    for (const std::string_view unit : {" samples/s", " images/s", " img/s"})
      if (!f.samples_per_s) f.samples_per_s = figure_before(rest, unit);
    return true;
  }

  // A line has the time since the start; that of its steps is what has passed since the line before.
  bool read_course(int64_t n, std::string_view rest, const LogLine& line, LogBuilder& rows) {
    const auto value = keyed_value(rest, {"train_time"});
    const auto elapsed = value ? time_of(*value) : std::nullopt;
    if (!elapsed) return false;
    LogStep* step = rows.step(kLoopName, line, n);
    if (step == nullptr) return true;
    if (n > before_ && *elapsed > elapsed_ns_) {
      step->iterations = n - before_, step->duration_ns = (*elapsed - elapsed_ns_) / step->iterations;
      step->derived = true;
    }
    step->figures.loss = keyed_number(rest, {"train_loss", "loss"});
    before_ = n, elapsed_ns_ = *elapsed;
    return true;
  }

  static constexpr int64_t kMaxNumber = 1'000'000'000'000'000;
  int64_t before_ = 0, elapsed_ns_ = 0;
  EpochNumbers numbers_;
};

}  // namespace

extern const LogFamily kLoop;
const LogFamily kLoop = {kLoopName,
                         "loops after nanoGPT's, llm.c's and the like: \"iter 10: loss 2.3, time 12.3ms\"",
                         {"loss", "step_avg:"},
                         [] { return std::unique_ptr<LogReading>(new Loop); }};

}  // namespace profgpu
