// PaddlePaddle's toolkits for vision, and PaddleNLP. Times are means over the iterations since the last line:
//
//   [2024/01/01 12:00:03] ppocr INFO: epoch: [1/500], global_step: 10, lr: 0.001, loss: 9.1, avg_reader_cost: 0.10 s,
//   avg_batch_cost: 0.50 s, avg_samples: 24.0, ips: 48.0 samples/s, eta: 1:00:00
//   [2024/01/01 12:00:03] ppcls INFO: [Train][Epoch 1/100][Iter: 10/500]lr(LinearWarmup): 0.1, loss: 7.0,
//   batch_cost: 0.50s, reader_cost: 0.10, ips: 24.0 samples/s, eta: 1:00:00
//   2024-01-01 12:00:03 [INFO] [TRAIN] epoch: 1, iter: 10/1000, loss: 0.5, lr: 0.01, batch_cost: 0.2012,
//   reader_cost: 0.00100
//   [01/01 12:00:03] ppdet.engine INFO: Epoch: [0] [ 20/1000] learning_rate: 0.1 loss: 2 eta: 0:01:00 batch_cost: 0.5
//   data_cost: 0.01 ips: 12.0 images/s
//   loss: 9.1, learning_rate: 1e-05, global_step: 10, interval_runtime: 3.21, interval_samples_per_second: 12.1,
//   interval_steps_per_second: 3.1          a rate, of PaddleNLP
#include <cmath>

#include "base/text.h"
#include "trace/import/log/log_family.h"

namespace profgpu {
namespace {

constexpr std::string_view kPaddleName = "paddle";

// Behind "key 3/100" or "key [3/100]": 3, and of how many.
struct Course {
  int64_t done = 0, all = 0;
};
std::optional<Course> course_after(std::string_view text, std::string_view key) {
  const auto begin = after(text, key);
  if (!begin) return std::nullopt;
  std::string_view rest = begin->substr(std::min(begin->find_first_not_of(" :=["), begin->size()));
  const auto done = leading_integer(rest, &rest);
  const auto all = done && rest.starts_with('/') ? leading_integer(rest.substr(1)) : std::nullopt;
  if (!done || *done < 0 || *done > 1'000'000'000 || all.value_or(0) < 0 || all.value_or(0) > 1'000'000'000)
    return std::nullopt;
  return Course{*done, all.value_or(0)};
}

std::optional<int64_t> paddle_step(std::string_view text) {
  if (const auto step = integer_after(text, "global_step:")) return step;
  if (const auto part = course_after(text, " iter")) return part->done;
  if (const auto step = integer_after(text, "train step:")) return step;
  auto part = course_after(text, "Iter:");
  if (!part) part = course_after(text, "] [");
  const auto epoch = course_after(text, "Epoch");
  if (!part || !epoch || epoch->done > 1'000'000) return std::nullopt;
  return epoch->done * part->all + part->done;
}

bool read_paddle(const LogLine& line, LogBuilder& rows) {
  const std::string_view text = line.message;
  const auto time = keyed_value(text, {"batch_cost", "avg_batch_cost"});
  const auto rate = keyed_number(text, {"interval_steps_per_second"});
  const auto number = paddle_step(text);
  if (!number || *number < 0 || (!time && rate.value_or(0) <= 1e-6)) return false;
  LogStep* step = rows.step(kPaddleName, line, *number);
  if (step == nullptr) return true;
  if (time) {
    step->duration_ns = leading_seconds(*time);
  } else {
    step->duration_ns = std::llround(1e9 / *rate);
    step->derived = true;
  }
  if (const auto data = keyed_value(text, {"reader_cost", "avg_reader_cost", "data_cost"}))
    step->phase(LogPhase::kDataLoading) = leading_seconds(*data).value_or(0);
  LogFigures& f = step->figures;
  f.loss = keyed_number(text, {"loss"});
  f.learning_rate = keyed_number(text, {"lr", "learning_rate"});
  f.samples_per_s = keyed_number(text, {"ips", "interval_samples_per_second"});
  return true;
}

}  // namespace

extern const LogFamily kPaddle = {kPaddleName,
                                  "PaddlePaddle's toolkits: \"global_step: 10, batch_cost: 0.5 s, reader_cost: 0.1 s\"",
                                  {"batch_cost", "interval_steps_per_second: "},
                                  stateless<read_paddle>};

}  // namespace profgpu
