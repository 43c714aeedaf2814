// Programs that print a step's number, and its time only by a rate or a clock:
//
//   Progress on:train 120it/10.0kit rate:1.3s/it remaining:3:08:31 elapsed:02:36 postfix:loss=3.84             levanter
//   2018-10-30 10:28:28.958888: loss = 3.51, step = 5900 (145.686 sec)               TensorFlow's Estimator: since the
//                                                                                    line before
//   2022-04-29 10:31:21,003 INFO [train.py:756] Epoch 0, batch 50, loss[loss=0.47, over 2494.00 frames.],
//   tot_loss[loss=0.51, over 4913.84 frames.], batch size: 86, lr: 3.00e-03            icefall
#include "base/text.h"
#include "trace/import/log/log_family.h"

namespace profgpu {
namespace {

constexpr std::string_view kCountedName = "counted_steps";
constexpr int64_t kMostSteps = 1'000'000'000'000;

// "1.3s/it", "2.5it/s": of one.
std::optional<int64_t> ns_of_rate(std::string_view text) {
  std::string_view unit;
  const auto value = printed_number(text, &unit);
  if (!value || *value <= 0) return std::nullopt;
  const double seconds = unit.starts_with("s/it") ? *value : unit.starts_with("it/s") ? 1 / *value : 0;
  return seconds > 0 && seconds < 1e6 ? std::optional(static_cast<int64_t>(seconds * 1e9)) : std::nullopt;
}

class CountedSteps : public LogReading {
 public:
  bool read(const LogLine& line, LogBuilder& rows) override {
    if (const auto progress = after(line.message, "Progress on:train ")) return read_progress(*progress, line, rows);
    if (has(line.message, "tot_loss[")) return read_batch(line, rows);
    return read_estimator(line, rows);
  }

 private:
  static bool read_progress(std::string_view text, const LogLine& line, LogBuilder& rows) {
    std::string_view rest;
    const auto number = printed_number(text, &rest);
    const auto rate = after(text, "rate:");
    const auto ns = rate ? ns_of_rate(*rate) : std::nullopt;
    if (!number || *number < 0 || *number > 1e12 || !ns) return false;
    const double scale = rest.starts_with("kit") ? 1000 : 1;
    LogStep* step = rows.step(kCountedName, line, static_cast<int64_t>(*number * scale));
    if (step == nullptr) return true;
    step->duration_ns = ns, step->derived = true;
    step->figures.loss = number_after(text, "loss=");
    return true;
  }

  bool read_batch(const LogLine& line, LogBuilder& rows) {
    const auto epoch = integer_after(line.message, "Epoch "), batch = integer_after(line.message, ", batch ");
    if (!line.printed_ns || !epoch || *epoch < 0 || !batch || *batch < 0 || *batch > kMostSteps) return false;
    LogStep* step = rows.step(kCountedName, line, numbers_(*epoch, *batch));
    if (step == nullptr) return true;
    step->begins_epoch = numbers_.begins_anew();
    const auto mean = after(line.message, "tot_loss[");
    step->figures.loss = mean ? number_after(*mean, "loss=") : std::nullopt;
    step->figures.learning_rate = number_after(line.message, " lr: ");
    return true;
  }

  // The first line's steps are as many as the second's.
  bool read_estimator(const LogLine& line, LogBuilder& rows) {
    const auto stated = after(line.message, ", step = "), loss = after(line.message, "loss = ");
    std::string_view rest;
    const auto number = stated ? leading_integer(*stated, &rest) : std::nullopt;
    if (!number || *number < 0 || *number > kMostSteps || !loss) return false;
    const bool timed = rest.starts_with(" (") && has(rest, " sec)");
    const auto since_ns = timed ? leading_seconds(rest.substr(2)) : std::nullopt;
    if (!since_ns && *number > 0) return false;  // any program's prose
    LogStep* before = rows.last(kCountedName, line);
    const int64_t from = before != nullptr ? before->number : 0;
    const int64_t steps = before != nullptr ? *number - from : 0;
    if (before != nullptr && first_ns_ > 0 && steps > 0 && !before->duration_ns)
      before->duration_ns = first_ns_ / steps, before->iterations = steps, before->derived = true;
    first_ns_ = before == nullptr ? since_ns.value_or(0) : 0;
    LogStep* step = rows.step(kCountedName, line, *number);
    if (step == nullptr) return true;
    step->figures.loss = printed_number(*loss);
    if (since_ns && *since_ns > 0 && steps > 0)
      step->duration_ns = *since_ns / steps, step->iterations = steps, step->derived = true;
    return true;
  }

  EpochNumbers numbers_;
  int64_t first_ns_ = 0;  // of the Estimator's first line
};

}  // namespace

extern const LogFamily kCountedSteps = {kCountedName,
                                        "levanter's progress, TensorFlow's Estimator, icefall",
                                        {"Progress on:train ", "tot_loss[", "step = "},
                                        [] { return std::unique_ptr<LogReading>(new CountedSteps); }};

}  // namespace profgpu
