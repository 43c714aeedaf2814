// LeRobot: means of the steps since the line before, in seconds; large numbers are rounded for people.
//
//   INFO 2025-04-01 12:00:00 ts/train.py:232 step:200 smpl:2K ep:3 epch:0.04 loss:0.037 lr:7.9e-05 updt_s:0.098
//   data_s:0.050
#include <algorithm>

#include "base/text.h"
#include "trace/import/log/log_family.h"

namespace profgpu {
namespace {

constexpr std::string_view kLeRobotName = "lerobot";

class LeRobot : public LogReading {
 public:
  bool read(const LogLine& line, LogBuilder& rows) override {
    const std::string_view text = line.text;
    const auto stated = after(text, " step:"), update = after(text, " updt_s:"), loading = after(text, " data_s:");
    const auto update_ns = update ? leading_seconds(*update) : std::nullopt;
    const auto loading_ns = loading ? leading_seconds(*loading) : std::nullopt;
    const auto number = stated ? number_of(*stated) : std::nullopt;
    if (!number || !update_ns || *update_ns < 0 || !loading_ns || *loading_ns < 0) return false;
    LogStep* step = rows.step(kLeRobotName, line, *number);
    if (step == nullptr) return true;
    step->duration_ns = *update_ns + *loading_ns;
    step->phase(LogPhase::kDataLoading) = *loading_ns;
    LogFigures& f = step->figures;
    f.loss = number_after(text, " loss:");
    f.grad_norm = number_after(text, " grdn:");
    f.learning_rate = number_after(text, " lr:");
    return true;
  }

 private:
  // "31K" is any of a thousand: it follows the line before by as much as that one did.
  std::optional<int64_t> number_of(std::string_view text) {
    std::string_view rest;
    const auto printed = printed_number(text, &rest);
    if (!printed || *printed < 0 || *printed > kMostSteps || before_ > kMostSteps) return std::nullopt;
    const auto whole = static_cast<int64_t>(*printed);
    const std::string_view word = text.substr(0, text.find(' '));
    const bool rounded = !all_digits(word);
    // Below all that a number as great as the last one is rounded to, another run has begun.
    const int64_t unit = word.ends_with('K') ? 1'000 : word.ends_with('M') ? 1'000'000 : 1'000'000'000;
    if (rounded && whole < before_ - unit) return before_ = whole;
    const int64_t next = before_ + std::max<int64_t>(interval_, 1);
    const int64_t number = rounded && before_ > 0 && (interval_ > 0 || whole <= before_) ? next : whole;
    if (!rounded) interval_ = std::max<int64_t>(number - before_, 0);
    before_ = number;
    return number;
  }

  static constexpr int64_t kMostSteps = 1'000'000'000'000;
  int64_t before_ = 0, interval_ = 0;
};

}  // namespace

extern const LogFamily kLeRobot = {kLeRobotName, "LeRobot: \"step:200 ... updt_s:0.098 data_s:0.050\"", {" updt_s:"},
                                   [] { return std::unique_ptr<LogReading>(new LeRobot); }};

}  // namespace profgpu
