// Keras, whose bar says at an epoch's end how long one of its steps took:
//
//   Epoch 1/3
//   100/100 [==============================] - 5s 50ms/step - loss: 1.2 - accuracy: 0.5
//   100/100 ━━━━━━━━━━━━━━━━━━━━ 5s 50ms/step - accuracy: 0.5 - loss: 1.2              Keras 3
//
// evaluate() draws the same bar; one of an epoch that has its line already is left out.
#include <utility>

#include "base/text.h"
#include "trace/import/log/log_family.h"

namespace profgpu {
namespace {

constexpr std::string_view kKerasName = "keras";

// "50ms" of "5s 50ms/step": milliseconds, microseconds or seconds.
std::optional<int64_t> time_per_step(std::string_view text) {
  const size_t end = text.find("/step");
  if (end == text.npos) return std::nullopt;
  const size_t blank = text.rfind(' ', end);
  const std::string_view value = text.substr(blank == text.npos ? 0 : blank + 1, end - blank - 1);
  if (value.ends_with("us")) {
    const auto thousandth = leading_ms(value);
    return thousandth ? std::optional(*thousandth / 1000) : std::nullopt;
  }
  return value.ends_with("ms") ? leading_ms(value) : value.ends_with('s') ? leading_seconds(value) : std::nullopt;
}

class Keras : public LogReading {
 public:
  bool read(const LogLine& line, LogBuilder& rows) override {
    const std::string_view text = without_blanks(line.message);
    std::string_view rest;
    if (text.starts_with("Epoch ")) {
      const auto epoch = leading_integer(text.substr(6), &rest);
      if (epoch && *epoch > 0 && *epoch < 1'000'000 && rest.starts_with('/')) begin_epoch(*epoch);
      return false;
    }
    const auto done = leading_integer(text, &rest);
    const auto all = done && rest.starts_with('/') ? leading_integer(rest.substr(1)) : std::nullopt;
    const auto duration_ns = all ? time_per_step(text) : std::nullopt;
    if (!duration_ns || *done != *all || *all <= 0 || *all > 1'000'000'000 || has(text, "ETA:")) return false;
    if (is_told_ || epoch_ == 0) return true;   // predict() and evaluate() before any epoch
    if (std::exchange(fits_again_, false)) rows.begin_run(rows.series(kKerasName, line), line, epoch_ * *all);
    LogStep* step = rows.step(kKerasName, line, epoch_ * *all);
    if (step == nullptr) return true;
    is_told_ = true;
    step->duration_ns = duration_ns, step->iterations = *all;
    step->figures.loss = keyed_number(text, {"loss"});
    return true;
  }

 private:
  // Another fit() begins with an earlier epoch.
  void begin_epoch(int64_t epoch) {
    fits_again_ = fits_again_ || (epoch < epoch_ && is_told_);
    epoch_ = epoch, is_told_ = false;
  }

  int64_t epoch_ = 0;
  bool fits_again_ = false;
  bool is_told_ = false;  // this epoch's time
};

}  // namespace

extern const LogFamily kKeras = {kKerasName, "Keras: \"100/100 [=====] - 5s 50ms/step\"", {"s/step", "Epoch "},
                                 [] { return std::unique_ptr<LogReading>(new Keras); }};

}  // namespace profgpu
