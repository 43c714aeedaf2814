// Loops that people write themselves, after nanoGPT and its like. Each line is one step's:
//
//   iter 10: loss 2.3170, time 12.34ms, mfu 12.34%
//   step    10 | loss: 4.231 | lr 6.0e-04 | norm: 1.2 | dt: 100.12ms | tok/sec: 5200.12
//   step 10/1000 | train loss 3.2 | norm 1.2 | lr 1e-4 | (100.2 ms | 5200 tok/s)
//   Epoch: [0][ 10/500]  Time  0.123 ( 0.130)  Data  0.001 ( 0.020)  Loss 6.9e+00 (6.9e+00)      PyTorch's ImageNet
//   example
#include <array>

#include "base/text.h"
#include "trace/import/log/log_family.h"

namespace profgpu {
namespace {

constexpr std::string_view kLoopName = "loop";

// Behind any of these words, a colon, an equals sign or blanks may follow.
template <size_t N>
std::optional<std::string_view> value_of_any(std::string_view text, const std::array<std::string_view, N>& keys) {
  for (const std::string_view key : keys) {
    for (size_t at = place_of(text, key); at != text.npos; at = place_of(text, key, at + 1)) {
      if (at > 0 && (is_letter(text[at - 1]) || is_digit(text[at - 1]) || text[at - 1] == '_')) continue;
      std::string_view rest = text.substr(at + key.size());
      const size_t value = rest.find_first_not_of(" :=");
      if (value == rest.npos || value == 0) continue;
      rest.remove_prefix(value);
      if (printed_number(rest)) return rest;
    }
  }
  return std::nullopt;
}

// "12.34ms", "0.123s", "0.123": seconds where no unit stands.
std::optional<int64_t> time_of(std::string_view text) {
  std::string_view rest;
  if (!printed_number(text, &rest)) return std::nullopt;
  rest = without_blanks(rest);
  if (rest.starts_with("ms")) return leading_ms(text);
  if (rest.starts_with("us") || rest.starts_with("m") || rest.starts_with("h")) return std::nullopt;
  return leading_seconds(text);
}

class Loop : public LogReading {
 public:
  bool read(const LogLine& line, LogBuilder& rows) override {
    const std::string_view text = line.message;
    if (text.starts_with("Epoch: [")) return read_imagenet(line, rows);
    std::string_view number = text;
    if (!take_word(number)) return false;
    std::string_view rest;
    const auto n = leading_integer(number, &rest);
    if (!n || *n < 0 || rest.empty() || !has(":|,/ ", rest.substr(0, 1))) return false;
    if (has(rest, "time per iteration") || has(rest, "time_per_iteration")) return false;   // Megatron's
    if (has(rest, "val loss")) {  // "step 500: train loss 2.1, val loss 2.3": an evaluation
      rows.event(LogEventKind::kEvaluation, line).step = n;
      return true;
    }
    return read_step(*n, rest, line, rows);
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

  static bool read_step(int64_t n, std::string_view rest, const LogLine& line, LogBuilder& rows) {
    constexpr std::array<std::string_view, 3> kLoss = {"loss", "train_loss", "train loss"};
    constexpr std::array<std::string_view, 7> kTime = {"time",      "dt",        "step_time", "step time",
                                                       "iter_time", "time/step", "elapsed"};
    constexpr std::array<std::string_view, 5> kTokens = {"tok/sec", "tok/s", "tokens/sec", "tokens/s",
                                                         "tokens_per_sec"};
    constexpr std::array<std::string_view, 4> kSamples = {"samples/sec", "samples/s", "img/s", "images/sec"};
    constexpr std::array<std::string_view, 2> kRate = {"lr", "learning_rate"};
    constexpr std::array<std::string_view, 3> kNorm = {"grad_norm", "norm", "grad norm"};
    constexpr std::array<std::string_view, 1> kMfu = {"mfu"};
    const auto loss = value_of_any(rest, kLoss);
    auto time = value_of_any(rest, kTime);
    if (!time && has(rest, "ms")) time = after(rest, "(");  // "(100.2 ms | 5200 tok/s)"
    const auto ns = time ? time_of(*time) : std::nullopt;
    if (!loss || (!ns && !line.printed_ns)) return false;  // a sentence that begins alike
    LogStep* step = rows.step(kLoopName, line, n);
    if (step == nullptr) return true;
    if (ns) step->duration_ns = ns, step->iterations = 1;
    const auto number = [&](const auto& keys) {
      const auto value = value_of_any(rest, keys);
      return value ? printed_number(*value) : std::nullopt;
    };
    LogFigures& f = step->figures;
    f.loss = printed_number(*loss);
    f.tokens_per_s = number(kTokens);
    f.samples_per_s = number(kSamples);
    f.learning_rate = number(kRate);
    f.grad_norm = number(kNorm);
    if (const auto mfu = number(kMfu); mfu && *mfu >= 0) f.mfu_pct = mfu;  // -100 %: not yet known
    if (!f.tokens_per_s) f.tokens_per_s = number_before(rest, " tok/s");
    return true;
  }

  // "5200 tok/s"
  static std::optional<double> number_before(std::string_view text, std::string_view unit) {
    const size_t end = text.find(unit);
    if (end == text.npos || end == 0) return std::nullopt;
    const size_t begin = text.find_last_not_of("0123456789.,", end - 1);
    return printed_number(text.substr(begin == text.npos ? 0 : begin + 1, end));
  }

  static bool read_imagenet(const LogLine& line, LogBuilder& rows) {
    const std::string_view text = line.message;
    const auto epoch = integer_after(text, "Epoch: ["), batch = integer_after(text, "][");
    const auto batches = text.find('/') != text.npos ? leading_integer(text.substr(text.find('/') + 1)) : std::nullopt;
    constexpr std::array<std::string_view, 1> kTime = {"Time"}, kData = {"Data"}, kLoss = {"Loss"};
    const auto time = value_of_any(text, kTime), data = value_of_any(text, kData), loss = value_of_any(text, kLoss);
    if (!epoch || !batch || !time || *epoch < 0 || *epoch > 1'000'000 || batches.value_or(0) > 1'000'000'000)
      return false;
    LogStep* step = rows.step(kLoopName, line, *epoch * batches.value_or(0) + *batch);
    if (step == nullptr) return true;
    step->duration_ns = leading_seconds(*time), step->iterations = 1;
    if (data) step->phase(LogPhase::kDataLoading) = leading_seconds(*data).value_or(0);
    if (loss) step->figures.loss = printed_number(*loss);
    return true;
  }
};

}  // namespace

extern const LogFamily kLoop;
const LogFamily kLoop = {kLoopName,
                         "loops after nanoGPT's or the ImageNet example's: \"iter 10: loss 2.3, time 12.3ms\"",
                         {"loss", "Epoch: ["},
                         [] { return std::unique_ptr<LogReading>(new Loop); }};

}  // namespace profgpu
