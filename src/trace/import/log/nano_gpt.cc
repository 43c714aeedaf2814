// Loops that people write themselves, after nanoGPT and its like. Each line is one step's:
//
//   iter 10: loss 2.3170, time 12.34ms, mfu 12.34%
//   step    10 | loss: 4.231 | lr 6.0e-04 | norm: 1.2 | dt: 100.12ms | tok/sec: 5200.12
//   step   10/1000 | loss 7.5 (+0.43z)| norm 1.2 (+nanz)| lr 1e-05 | 250.33 ms | 45.2% bf16 MFU | 20123 tok/s     llm.c
//   step 10/1000 | train loss 3.2 | norm 1.2 | lr 1e-4 | (100.2 ms | 5200 tok/s)
//   step 00010/21400 (0.05%) | loss: 9.1 | lrm: 1.00 | dt: 450.25ms | tok/sec: 1,164,000 | bf16_mfu: 47.30   nanochat
//   Epoch 1 | iter 4 step 1 | loss train: 10.123, val: n/a | iter time: 301.00 ms (step)              LitGPT
//   Step 1/100 - loss: 2.3 - step_time: 0.251s - 1234 tokens/s
//   Step 1: loss = 2.3 (0.251 sec)
//   Epoch: 0 | Step: 1 | Loss: 2.3 | Time: 0.25s
//   Iter [1/1000]  loss: 2.3  time: 0.25
//   | epoch   1 |   200/ 2983 batches | lr 20.00 | ms/batch 32.10 | loss  7.64         PyTorch's word language model
//   12:00:00 SUCCESS Step 1 | Time: 1.35s | Loss: 12.3 | Throughput: 1507 tokens/s | MFU: 0.4%         prime-rl
//   Iter 1: Train loss 3.2, Learning Rate 0.000e+00, It/sec 0.471, Tokens/sec 90.428                     mlx-lm
//   step:10/1480 train_time:1420ms step_avg:142.00ms                   modded-nanogpt: since the start, and its mean
#include <algorithm>
#include <array>
#include <set>

#include "base/text.h"
#include "trace/import/log/log_family.h"

namespace profgpu {
namespace {

constexpr std::string_view kLoopName = "loop";

// "12.34ms", "0.123s", "0.123": seconds where no unit stands. "12:00:10" and a date are none.
std::optional<int64_t> time_of(std::string_view text) {
  std::string_view rest;
  if (!printed_number(text, &rest)) return std::nullopt;
  rest = without_blanks(rest);
  if (rest.starts_with(':') || rest.starts_with('-')) return std::nullopt;
  if (rest.starts_with("ms")) return leading_ms(text);
  if (rest.starts_with("us") || rest.starts_with("m") || rest.starts_with("h")) return std::nullopt;
  return leading_seconds(text);
}

// "5200" of "| 5200 tok/s".
std::optional<std::string_view> number_before(std::string_view text, std::string_view unit) {
  const size_t end = place_of(text, unit);
  if (end == text.npos || end == 0) return std::nullopt;
  const size_t begin = text.find_last_not_of("0123456789.,", end - 1);
  return text.substr(begin == text.npos ? 0 : begin + 1, end - (begin == text.npos ? 0 : begin + 1));
}

// "(100.2 ms | 5200 tok/s)", "(3.21 sec)": what llm.c has in parentheses is no time.
std::optional<int64_t> time_in_parentheses(std::string_view text) {
  for (size_t at = text.find('('); at != text.npos; at = text.find('(', at + 1)) {
    std::string_view rest;
    if (!printed_number(text.substr(at + 1), &rest)) continue;
    rest = without_blanks(rest);
    if (rest.starts_with("ms")) return leading_ms(text.substr(at + 1));
    if (rest.starts_with("s)") || rest.starts_with("sec")) return leading_seconds(text.substr(at + 1));
  }
  return std::nullopt;
}

// Which pairs of bytes a text has. Of many words that a line may have, nearly all lack one, and need no search.
class PairsOfText {
 public:
  explicit PairsOfText(std::string_view text) {
    for (size_t i = 1; i < text.size(); ++i) {
      const size_t at = place(text[i - 1], text[i]);
      bits_[at / 64] |= uint64_t{1} << (at % 64);
    }
  }
  /// The text is in small letters.
  [[nodiscard]] bool may_have(std::string_view word) const {
    for (size_t i = 1; i < word.size(); ++i) {
      const size_t at = place(lower(word[i - 1]), lower(word[i]));
      if ((bits_[at / 64] >> (at % 64) & 1) == 0) return false;
    }
    return true;
  }

 private:
  static constexpr size_t kPlaces = 1024;
  static size_t place(char a, char b) {
    return (static_cast<size_t>(static_cast<unsigned char>(a)) * 37 + static_cast<unsigned char>(b)) % kPlaces;
  }
  std::array<uint64_t, kPlaces / 64> bits_{};
};

bool begins_in_any_case(std::string_view text, std::string_view word) {
  const auto same = [](char a, char b) { return lower(a) == b; };
  return text.size() >= word.size() && std::ranges::equal(text.substr(0, word.size()), word, same);
}

// Keys in any case: `plain` is `text` in lower case.
struct LoopText {
  explicit LoopText(std::string_view of) : text(of), plain(lower_case(of)), pairs(plain) {}

  [[nodiscard]] std::optional<std::string_view> value(std::initializer_list<std::string_view> keys) const {
    for (const std::string_view key : keys)
      if (pairs.may_have(key))
        if (const auto found = keyed_value(text, plain, {key})) return found;
    return std::nullopt;
  }
  /// In small letters.
  [[nodiscard]] bool has_word(std::string_view word) const { return pairs.may_have(word) && has(plain, word); }
  /// "5200" of "| 5200 tok/s".
  [[nodiscard]] std::optional<std::string_view> before_unit(std::string_view unit) const {
    return pairs.may_have(unit) ? number_before(text, unit) : std::nullopt;
  }
  [[nodiscard]] std::optional<double> figure_before(std::string_view unit) const {
    const auto number = before_unit(unit);
    return number ? printed_number(*number) : std::nullopt;
  }
  [[nodiscard]] std::optional<double> number(std::initializer_list<std::string_view> keys) const {
    const auto found = value(keys);
    return found ? printed_number(*found) : std::nullopt;
  }
  // Not that since the start or to the end, nor of a part of the step.
  [[nodiscard]] std::optional<std::string_view> time() const {
    const auto of_step = value({"dt", "step_time", "step time", "step_time_sec", "step_time_s", "iter_time",
                                "iter time", "time/step", "time per step"});
    if (of_step) return of_step;
    for (const std::string_view key : {"time", "elapsed"}) {
      size_t at = pairs.may_have(key) ? place_of(plain, key) : plain.npos;
      for (; at != text.npos; at = place_of(plain, key, at + 1)) {
        const std::string_view behind = text.substr(at + key.size());
        const size_t value = behind.find_first_not_of(" :=\t");
        if (value != behind.npos && value > 0 && is_whole_key(at) && printed_number(behind.substr(value)))
          return behind.substr(value);
      }
    }
    return std::nullopt;
  }

  // Behind a separator, another key's value, or the name of what a line is of.
  [[nodiscard]] bool is_whole_key(size_t at) const {
    if (at == 0) return true;
    const std::string_view before = std::string_view(plain).substr(0, at);
    const char last = before.back();
    if (last != ' ' && last != '\t') return !is_letter(last) && !is_digit(last) && last != '_';
    const std::string_view word = last_word(without_blanks(before));
    if (word.empty() || !is_letter(word.back())) return true;
    constexpr std::array<std::string_view, 6> kOfStep = {"step", "iter", "iteration", "batch", "nan", "inf"};
    return std::ranges::count(kOfStep, word) > 0 || word.find_first_of("0123456789") != word.npos;
  }
  static std::string_view last_word(std::string_view text) { return text.substr(text.find_last_of(" \t|,;:(") + 1); }

  std::string_view text;
  std::string plain;
  PairsOfText pairs;  // of `plain`
};

class Loop : public LogReading {
 public:
  bool read(const LogLine& line, LogBuilder& rows) override {
    std::string_view number = line.message, rest;
    const auto epoch = take_epoch(number);
    const bool batch = epoch && !number.empty() && is_digit(number.front()) && has(number, "| ms/batch ");
    if (!batch && !take_word(number)) return false;
    const auto n = leading_integer(number, &rest);
    if (!n || *n < 0 || *n > kMaxNumber || rest.empty() || !has(":|,/] ", rest.substr(0, 1))) return false;
    const LoopText fields(rest);
    if (fields.has_word("time per iteration") || fields.has_word("time_per_iteration")) return false;  // Megatron's
    if (fields.has_word("] ") && fields.has_word("data_time")) return false;                           // OpenMMLab's
    // "step 500: train loss 2.1, val loss 2.3": an evaluation
    const bool validates = fields.has_word("val loss") || fields.has_word("val_loss:");
    if (validates && !is_timed_step(fields)) {
      rows.event(LogEventKind::kEvaluation, line).step = n;
      return true;
    }
    if (epoch && is_of_evaluation(*epoch, rest)) return read_evaluation(fields, line, rows);
    elapses_ = elapses_ || fields.has_word("elapsed");
    if (epoch) return read_step_of_epoch(*epoch, *n, fields, line, rows);
    return fields.has_word("step_avg:") ? read_course(*n, rest, line, rows) : read_step(*n, fields, line, rows);
  }

  void end(LogBuilder&) override {
    for (LogSeries* series : timed_) take_course(series->steps);
    timed_.clear(), latest_ = nullptr;
  }

 private:
  // "iter 10", "step 10", "Step: 10", "iteration 10", "[step 10", "Iter [10".
  static bool take_word(std::string_view& text) {
    if (text.starts_with('[')) text.remove_prefix(1);
    for (const std::string_view word : {"iteration", "iter", "step", "global_step", "global step"}) {
      if (text.size() <= word.size() || !begins_in_any_case(text, word)) continue;
      text.remove_prefix(word.size());
      const size_t value = text.find_first_not_of(" :=#[");
      if (value == text.npos || value == 0) return false;
      text.remove_prefix(value);
      return true;
    }
    return false;
  }

  // "Epoch 1 | ", "epoch 1 ", "Epoch: 1, ", "Epoch [1/10], "
  static std::optional<int64_t> take_epoch(std::string_view& text) {
    constexpr std::string_view kWord = "epoch";
    if (!begins_in_any_case(text, kWord)) return std::nullopt;
    std::string_view rest = text.substr(kWord.size());
    const size_t value = rest.find_first_not_of(" :=[");
    if (value == rest.npos || value == 0) return std::nullopt;
    const auto epoch = leading_integer(rest.substr(value), &rest);
    if (epoch && rest.starts_with('/')) leading_integer(rest.substr(1), &rest);
    if (epoch) text = rest.substr(std::min(rest.find_first_not_of(" |,:-]"), rest.size()));
    return epoch;
  }

  // "Epoch [1/3] Iter [10/50]" behind "Epoch [1/3] Iter [200/200]".
  bool is_of_evaluation(int64_t epoch, std::string_view rest) {
    const auto total = rest.starts_with('/') ? leading_integer(rest.substr(1)) : std::nullopt;
    if (!total || *total <= 0) return false;
    if (total_ > 0 && epoch == epoch_ && *total != total_) return true;
    total_ = *total, epoch_ = epoch, evaluates_ = false;
    return false;
  }
  bool read_evaluation(const LoopText& fields, const LogLine& line, LogBuilder& rows) {
    if (!is_timed_step(fields)) return false;
    if (!evaluates_) rows.event(LogEventKind::kEvaluation, line);
    evaluates_ = true;
    return true;
  }

  // Only lines that state a time: other programs' begin alike.
  bool read_step_of_epoch(int64_t epoch, int64_t n, const LoopText& fields, const LogLine& line, LogBuilder& rows) {
    LogLine undated = line;
    undated.printed_ns.reset(), undated.headed = false;
    if (!is_timed_step(fields)) return false;
    read_step(numbers_(epoch, n), fields, undated, rows);
    if (LogStep* step = rows.last(kLoopName, line); step != nullptr && step->line == line.number)
      step->printed_ns = line.printed_ns, step->begins_epoch = numbers_.begins_anew();
    return true;
  }

  bool read_step(int64_t n, const LoopText& fields, const LogLine& line, LogBuilder& rows) {
    const auto loss = fields.value({"loss", "train_loss", "train loss", "loss train"});
    bool mean = false;
    const auto ns = duration_of(fields, mean);
    const bool dated = line.printed_ns || line.headed;
    if (!loss || (!ns && !dated && !is_of_total(fields.text))) return false;  // a sentence that begins alike
    LogStep* step = rows.step(kLoopName, line, n);
    if (step == nullptr) return true;
    if (ns) step->duration_ns = ns, step->iterations = mean ? 0 : 1;
    if (ns && !mean && (timed_.empty() || latest_ != &rows.series(kLoopName, line)))
      timed_.insert(latest_ = &rows.series(kLoopName, line));
    LogFigures& f = step->figures;
    f.loss = printed_number(*loss);
    f.learning_rate = fields.number({"lr", "learning_rate"});
    f.grad_norm = fields.number({"grad_norm", "norm", "grad norm"});
    set_rates(fields, f);
    return true;
  }

  // "/1000 | …" behind the number.
  static bool is_of_total(std::string_view text) {
    std::string_view rest;
    return text.starts_with('/') && leading_integer(text.substr(1), &rest) && without_blanks(rest).starts_with('|');
  }

  // With a training's loss beside that of a validation.
  static bool is_timed_step(const LoopText& fields) {
    bool mean = false;
    return duration_of(fields, mean) && fields.value({"loss", "train_loss", "train loss", "loss train"});
  }

  // `mean`: of the steps since the line before.
  static std::optional<int64_t> duration_of(const LoopText& fields, bool& mean) {
    if (const auto ms = fields.value({"ms/batch"})) return mean = true, leading_ms(*ms);
    if (const auto time = fields.time())
      if (const auto ns = time_of(*time)) return ns;
    if (const auto rate = fields.number({"it/sec"}); rate && *rate > 1e-6)   // mlx-lm's, of its last lines
      return mean = true, static_cast<int64_t>(1e9 / *rate);
    if (const auto ns = time_in_parentheses(fields.text)) return ns;
    for (const std::string_view unit : {"ms/step", " ms"}) {
      const auto number = fields.before_unit(unit);
      const bool alone = number && (unit == "ms/step" || stands_alone(fields.text, *number));
      if (const auto ns = alone ? leading_ms(*number) : std::nullopt) return ns;
    }
    return std::nullopt;
  }

  // "| 250.33 ms |", not "latency p50 12 ms".
  static bool stands_alone(std::string_view text, std::string_view number) {
    const std::string_view before = without_blanks(text.substr(0, static_cast<size_t>(number.data() - text.data())));
    return before.empty() || has("|,;(]", before.substr(before.size() - 1)) || before.ends_with(" took");
  }

  // "45.2%", "45.2 %"; else it is a share.
  static bool is_percentage(std::string_view value) {
    std::string_view rest;
    printed_number(value, &rest);
    return without_blanks(rest.substr(0, 2)).starts_with('%');
  }

  static void set_rates(const LoopText& fields, LogFigures& f) {
    f.tokens_per_s = fields.number({"tok/sec", "tok/s", "tokens/sec", "tokens/s", "tokens_per_sec", "tokens_per_second"});
    f.samples_per_s = fields.number({"samples/sec", "samples/s", "img/s", "images/sec", "examples_per_sec", "samples_per_sec"});
    auto mfu = fields.number({"mfu", "bf16_mfu"});
    if (!mfu) mfu = fields.figure_before("% bf16 MFU");
    const auto said = fields.value({"mfu", "bf16_mfu"});
    if (mfu && *mfu <= 1 && said && !is_percentage(*said)) *mfu *= 100;
    if (mfu && *mfu >= 0) f.mfu_pct = mfu;  // -100 %: not yet known
    for (const std::string_view unit : {" tok/s", " tokens/s"})
      if (!f.tokens_per_s) f.tokens_per_s = fields.figure_before(unit);
    for (const std::string_view unit : {" samples/s", " images/s", " img/s"})
      if (!f.samples_per_s) f.samples_per_s = fields.figure_before(unit);
  }

  // Of a key such as "elapsed" only the whole log tells whether it is since the start: then it never falls while the
  // run lasts. The time of a step by another name may rise for a while, but does not grow so much without ever falling.
  void take_course(std::vector<LogStep>& steps) const {
    const size_t least = elapses_ ? 5 : 10;
    const auto is_untimed = [](const LogStep& s) { return !s.duration_ns; };
    if (steps.size() < least || std::ranges::any_of(steps, is_untimed)) return;
    size_t begins = 0;
    for (size_t i = 1; i < steps.size(); ++i) {
      const LogStep &a = steps[i - 1], &b = steps[i];
      const bool rises = *a.duration_ns < *b.duration_ns, goes_on = a.number < b.number;
      if (rises != goes_on) return;
      begins += !rises;
    }
    const auto longest = std::ranges::max_element(steps, {}, &LogStep::duration_ns);
    const bool grows = *longest->duration_ns >= 4 * *steps[0].duration_ns;
    if ((begins + 1) * least > steps.size() || (!elapses_ && !grows)) return;
    for (size_t i = steps.size(); i-- > 0;) {
      LogStep& s = steps[i];
      if (i > 0 && s.number <= steps[i - 1].number) {   // the first line of a run that went on from an earlier step
        s.duration_ns.reset();
        continue;
      }
      const int64_t before = i > 0 ? steps[i - 1].number : 0, passed = i > 0 ? *steps[i - 1].duration_ns : 0;
      s.iterations = std::max<int64_t>(s.number - before, 1), s.derived = true;
      *s.duration_ns = (*s.duration_ns - passed) / s.iterations;
    }
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
  bool elapses_ = false;
  int64_t total_ = 0, epoch_ = 0;   // iterations of the epoch that lines are of
  bool evaluates_ = false;
  std::set<LogSeries*> timed_;   // with times of lines
  LogSeries* latest_ = nullptr;  // of these
};

}  // namespace

extern const LogFamily kLoop = {kLoopName,
                                "loops after nanoGPT's, llm.c's and the like: \"iter 10: loss 2.3, time 12.3ms\"",
                                {"loss", "Loss", "step_avg:"},
                                [] { return std::unique_ptr<LogReading>(new Loop); }};

}  // namespace profgpu
