// Progress bars of programs that print nothing else about their steps.
//
//   Steps:   1%|█         | 1/100 [00:00<00:49,  2.00it/s, lr=1e-5, step_loss=0.123]                     diffusers
//     1%|█         | 1/100 [00:01<01:39,  1.00s/it, loss=1.2]
//   1/300      6.5G      0.05      0.06      640:   1%|█         | 1/100 [00:00<00:24,  4.00it/s]         YOLO: epochs
//   1/300      6.5G      0.05      0.06      640: 50% ━━━━━━╸───── 50/100 4.0it/s 12.5s<12.5s           and newer ones
//   YOLO's second column is the memory that PyTorch has reserved: in GB, and from Ultralytics 8.3.76 on in GiB.
//
// A bar alone may be a download's: it counts if its title is of steps, or if it has a loss.
#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <tuple>
#include <utility>

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
    if (!bar && (bar = line_bar_drawing(line.message))) gib_ = true;
    if (const auto version = bar ? std::nullopt : after(line.message, "Ultralytics ")) read_version(*version);
    if (!bar || bar->total <= 0 || bar->total > kMaxSteps || bar->done > bar->total) return false;
    const auto loss = keyed_number(bar->notes, {"loss", "step_loss", "train_loss"});
    const auto epoch = epoch_of(bar->title);
    const std::string title = lower_case(bar->title);
    if (!loss && !epoch && !has(title, "step") && !has(title, "train")) return false;
    if (total_ != 0 && bar->total != total_) return false;  // of something else
    total_ = bar->total;
    const int64_t number = epoch.value_or(0) * bar->total + bar->done;
    if (course_.begins_anew(*bar, number)) begin_run(line, number);
    course_.add(*bar, number, line.number);
    if (loss) loss_at_[number] = *loss;
    if (epoch) read_memory(bar->title, number, line, rows);
    const auto& families = rows.log().families;
    return families.empty() || families.front() == kBarsName;
  }

  // Only where no line says more.
  void end(LogBuilder& rows) override {
    if (rows.log().families.size() > 1) std::erase(rows.log().families, kBarsName);
    if (rows.has_steps()) return;
    LogLine none{};
    LogSeries& series = rows.series(kBarsName, none);
    for (const auto& [line, number] : begun_) {
      LogLine first{};
      first.number = line;
      rows.begin_run(series, first, number);
    }
    end_run();
    series.steps = std::move(steps_);
  }

 private:
  static constexpr int64_t kMaxSteps = 1'000'000'000;

  void end_run() {
    std::vector<LogStep> steps = course_.steps();
    for (LogStep& s : steps)
      if (const auto at = loss_at_.find(s.number); at != loss_at_.end()) s.figures.loss = at->second;
    std::ranges::move(steps, std::back_inserter(steps_));
    loss_at_.clear();
  }
  void begin_run(const LogLine& line, int64_t number) {
    end_run();
    course_ = BarCourse(BarCourse::Rate::kMean);
    begun_.emplace_back(line.number, number);
  }

  // "8.3.223 🚀 Python-3.12.3 …"
  void read_version(std::string_view text) {
    const std::vector<std::string_view> parts = pieces_of(text.substr(0, text.find(' ')), '.');
    if (parts.size() < 3) return;
    const auto major = leading_integer(parts[0]), minor = leading_integer(parts[1]), patch = leading_integer(parts[2]);
    if (major && minor && patch) gib_ = std::tuple(*major, *minor, *patch) >= std::tuple(8, 3, 76);
  }

  // "1/300  6.5G …": each value once. A number takes its "G" as 1e9.
  void read_memory(std::string_view title, int64_t number, const LogLine& line, LogBuilder& rows) {
    std::string_view rest;
    if (!leading_integer(title, &rest) || !leading_integer(rest.substr(1), &rest)) return;
    const auto amount = printed_number(rest);
    if (!amount || *amount < 1e6 || *amount > 1e15 || amount == reserved_) return;  // 0G: on the CPU
    reserved_ = amount;
    LogMemory memory{};
    memory.step = number;
    memory.reserved_bytes = std::llround(gib_ ? *amount / 1e9 * (1 << 30) : *amount);
    rows.memory(memory, line);
  }

  // "1/300  6.5G …": the epochs before it.
  static std::optional<int64_t> epoch_of(std::string_view title) {
    std::string_view rest;
    const auto epoch = leading_integer(without_blanks(title), &rest);
    const auto all = rest.starts_with('/') ? leading_integer(rest.substr(1)) : std::nullopt;
    const bool fits = epoch && all && *epoch >= 1 && *epoch <= *all && *all <= 1'000'000;
    return fits ? std::optional(*epoch - 1) : std::nullopt;
  }

  BarCourse course_{BarCourse::Rate::kMean};
  std::vector<LogStep> steps_;                         // of runs before
  std::vector<std::pair<int64_t, int64_t>> begun_;     // other runs' first lines and numbers
  bool gib_ = false;
  std::optional<double> reserved_;
  std::map<int64_t, double> loss_at_;
  int64_t total_ = 0;
};

}  // namespace

extern const LogFamily kBars = {kBarsName, "progress bars of steps, where a program prints nothing else about them",
                                {"%|", "% \xE2\x94", "% \xE2\x95", "Ultralytics "}, [] {
                                  return std::unique_ptr<LogReading>(new Bars);
                                }};

}  // namespace profgpu
