// Progress bars of programs that print nothing else about their steps.
//
//   Steps:   1%|█         | 1/100 [00:00<00:49,  2.00it/s, lr=1e-5, step_loss=0.123]                     diffusers
//     1%|█         | 1/100 [00:01<01:39,  1.00s/it, loss=1.2]
//   1/300      6.5G      0.05      0.06      640:   1%|█         | 1/100 [00:00<00:24,  4.00it/s]         YOLO: epochs
//   1/300      6.5G      0.05      0.06      640: 50% ━━━━━━╸───── 50/100 4.0it/s 12.5s<12.5s           and newer ones
//
// A bar alone may be a download's: it counts if its title is of steps, or if it has a loss.
#include <map>

#include "base/text.h"
#include "trace/import/log/log_family.h"
#include "trace/import/log/progress_bar.h"

namespace profgpu {
namespace {

constexpr std::string_view kBarsName = "bars";

class Bars : public LogReading {
 public:
  bool read(const LogLine& line, LogBuilder& rows) override {
    auto bar = bar_drawing(line.message);
    if (!bar) bar = line_bar_drawing(line.message);
    if (!bar || bar->total <= 0 || bar->total > kMaxSteps || bar->done > bar->total) return false;
    const auto loss = keyed_number(bar->notes, {"loss", "step_loss", "train_loss"});
    const auto epoch = epoch_of(bar->title);
    const std::string title = lower_case(bar->title);
    if (!loss && !epoch && !has(title, "step") && !has(title, "train")) return false;
    if (total_ != 0 && bar->total != total_) return false;  // of something else
    total_ = bar->total;
    const int64_t number = epoch.value_or(0) * bar->total + bar->done;
    course_.add(*bar, number, line.number);
    if (loss) loss_at_[number] = *loss;
    const auto& families = rows.log().families;
    return families.empty() || families.front() == kBarsName;
  }

  // Only where no line says more.
  void end(LogBuilder& rows) override {
    if (rows.log().families.size() > 1) std::erase(rows.log().families, kBarsName);
    if (rows.has_steps()) return;
    LogLine none{};
    LogSeries& series = rows.series(kBarsName, none);
    series.steps = course_.steps();
    for (LogStep& s : series.steps)
      if (const auto at = loss_at_.find(s.number); at != loss_at_.end()) s.figures.loss = at->second;
  }

 private:
  static constexpr int64_t kMaxSteps = 1'000'000'000;

  // "1/300  6.5G …": the epochs before it.
  static std::optional<int64_t> epoch_of(std::string_view title) {
    std::string_view rest;
    const auto epoch = leading_integer(without_blanks(title), &rest);
    const auto all = rest.starts_with('/') ? leading_integer(rest.substr(1)) : std::nullopt;
    const bool fits = epoch && all && *epoch >= 1 && *epoch <= *all && *all <= 1'000'000;
    return fits ? std::optional(*epoch - 1) : std::nullopt;
  }

  BarCourse course_{BarCourse::Rate::kMean};
  std::map<int64_t, double> loss_at_;
  int64_t total_ = 0;
};

}  // namespace

extern const LogFamily kBars = {kBarsName, "progress bars of steps, where a program prints nothing else about them",
                                {"%|", "% \xE2\x94", "% \xE2\x95"}, [] {
                                  return std::unique_ptr<LogReading>(new Bars);
                                }};

}  // namespace profgpu
