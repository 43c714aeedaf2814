// MindSpore's programs: MindFormers has all of a step on one line, MindYOLO the time of a step on a line of its own.
//
//   { Epoch:[  1/  2], step:[   10/ 1000], loss: 10.6, per_step_time: 2145ms, train_throughput_per_npu: 85.2T}
//   Epoch 1/200, Step 100/3995, imgsize (640, 640), loss: 11.67, …
//   Epoch 1/200, Step 100/3995, step time: 654.40 ms
#include "base/text.h"
#include "trace/import/log/log_family.h"

namespace profgpu {
namespace {

constexpr std::string_view kMindSporeName = "mindspore";

// "[   10/ 1000]", "100/3995": the number of a step counted over epochs.
std::optional<int64_t> mindspore_step(std::string_view epoch, std::string_view step) {
  std::string_view rest;
  const auto number = leading_integer(step, &rest), of_epoch = leading_integer(epoch);
  const auto all = number && rest.starts_with('/') ? leading_integer(rest.substr(1)) : std::nullopt;
  if (!of_epoch || *of_epoch < 1 || *of_epoch > 1'000'000) return std::nullopt;
  if (!all || *number < 1 || *all < *number || *all > 1'000'000'000) return std::nullopt;
  return (*of_epoch - 1) * *all + *number;
}

class MindSpore : public LogReading {
 public:
  bool read(const LogLine& line, LogBuilder& rows) override {
    const std::string_view text = line.message;
    const auto stated = after(text, "per_step_time: ");
    const auto time = stated ? stated : after(text, ", step time: ");
    std::string_view unit;
    const auto ns = time ? leading_ms(*time, &unit) : std::nullopt;
    if (!ns || *ns <= 0 || !without_blanks(unit).starts_with("ms")) return false;
    const auto epoch = after(text, stated ? "Epoch:[" : "Epoch "), step = after(text, stated ? "step:[" : ", Step ");
    const auto number = epoch && step ? mindspore_step(*epoch, *step) : std::nullopt;
    if (!number) return false;
    LogStep* row = rows.step(kMindSporeName, line, *number);
    if (row == nullptr) return true;
    row->duration_ns = ns;
    LogFigures& f = row->figures;
    f.loss = number_after(text, " loss: ");
    f.learning_rate = number_after(text, " lr: ");
    const auto rate = after(text, "train_throughput_per_npu: ");
    if (rate && has(rate->substr(0, rate->find_first_of(",} ")), "T"))
      f.tflops = printed_number(rate->substr(0, rate->find('T')));
    return true;
  }
};

}  // namespace

extern const LogFamily kMindSpore = {kMindSporeName,
                                     "MindFormers: \"per_step_time: 2145ms\", MindYOLO: \"step time: 654.40 ms\"",
                                     {"per_step_time: ", "step time: "},
                                     [] { return std::unique_ptr<LogReading>(new MindSpore); }};

}  // namespace profgpu
