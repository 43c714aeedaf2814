// PyTorch Lightning: progress bars of epochs, and the rows of CSVLogger with ThroughputMonitor's columns.
//
//   Epoch 3:  12%|█▎   | 12/100 [00:58<07:09,  4.87s/it, v_num=0, train_loss=2.30]
//   epoch,step,train_loss,device/batches_per_sec,device/samples_per_sec,device/mfu            then rows of values
#include <algorithm>
#include <cmath>
#include <map>

#include "base/text.h"
#include "trace/import/log/log_family.h"
#include "trace/import/log/progress_bar.h"

namespace profgpu {
namespace {

constexpr std::string_view kLightningName = "lightning";

class Lightning : public LogReading {
 public:
  bool read(const LogLine& line, LogBuilder& rows) override {
    if (!columns_.empty()) {
      if (read_row(line, rows)) return true;
      columns_.clear();
    }
    const std::string_view text = line.message;
    if (text.starts_with("Epoch ") && has(text, "%|")) return read_bar(line, rows);
    if (has(text, "device/") || has(text, "train_loss") || has(text, "step,")) return read_header(line.text);
    if (has(text, "`Trainer.fit` stopped:")) {
      rows.event(LogEventKind::kFinished, line);
      return true;
    }
    return false;
  }
  [[nodiscard]] bool expects_more() const override { return !columns_.empty(); }

  void end(LogBuilder& rows) override {
    LogLine none{};
    LogSeries& series = rows.series(kLightningName, none);
    if (!series.steps.empty()) return;
    series.steps = course_.steps();
    for (LogStep& s : series.steps)
      if (const auto loss = loss_at_.find(s.number); loss != loss_at_.end()) s.figures.loss = loss->second;
  }

 private:
  bool read_bar(const LogLine& line, LogBuilder& rows) {
    const auto bar = bar_drawing(line.message);
    const auto epoch = leading_integer(line.message.substr(6));
    if (!bar || !epoch || *epoch < 0 || *epoch > 1'000'000 || bar->total > 1'000'000'000) return false;
    const int64_t number = *epoch * bar->total + bar->done;
    course_.add(*bar, number, line.number);
    if (const auto loss = number_after(bar->notes, "loss="))
      loss_at_[number] = *loss;
    else if (const auto step_loss = number_after(bar->notes, "loss_step="))
      loss_at_[number] = *step_loss;
    rows.found(kLightningName);
    return true;
  }

  // A header names a step and figures of a training.
  bool read_header(std::string_view text) {
    if (!has(text, ",")) return false;
    std::vector<std::string> names;
    for (const std::string_view name : pieces_of(text, ',')) names.emplace_back(without_blanks(name));
    const bool step = std::ranges::count(names, "step") > 0;
    const bool figures = std::ranges::any_of(names, [](const std::string& n) {
      return n.starts_with("device/") || n.starts_with("train") || has(n, "loss");
    });
    if (!step || !figures || names.size() < 3) return false;
    columns_ = std::move(names);
    return true;
  }

  bool read_row(const LogLine& line, LogBuilder& rows) {
    std::map<std::string_view, double> values;
    size_t column = 0;
    for (size_t at = 0; at <= line.text.size() && column < columns_.size(); ++column) {
      const size_t end = std::min(line.text.find(',', at), line.text.size());
      const std::string_view cell = line.text.substr(at, end - at);
      if (!cell.empty() && !printed_number(cell)) return false;
      if (!cell.empty()) values[columns_[column]] = *printed_number(cell);
      at = end + 1;
    }
    if (column != columns_.size() || !values.contains("step")) return false;
    add_row(values, line, rows);
    return true;
  }

  static void add_row(const std::map<std::string_view, double>& values, const LogLine& line, LogBuilder& rows) {
    const auto value = [&](std::string_view name) {
      const auto at = values.find(name);
      return at != values.end() ? std::optional(at->second) : std::nullopt;
    };
    const auto rate = value("device/batches_per_sec");
    auto loss = value("train_loss_step");
    for (const char* name : {"train_loss", "train/loss", "loss"})
      if (!loss) loss = value(name);
    const double number = *value("step");
    if ((!rate && !loss) || number < 0 || number > 1e15) return;
    const auto n = std::llround(number);
    LogStep* last = rows.last(kLightningName, line);
    LogStep* step = last != nullptr && last->number == n ? last : rows.step(kLightningName, line, n);
    if (step == nullptr) return;
    if (rate && *rate > 0) step->duration_ns = std::llround(1e9 / *rate), step->derived = true;
    if (loss) step->figures.loss = loss;
    if (const auto mfu = value("device/mfu")) step->figures.mfu_pct = 100 * *mfu;
    if (const auto flops = value("device/flops_per_sec")) step->figures.tflops = *flops / 1e12;
    if (const auto samples = value("samples_per_sec")) step->figures.samples_per_s = samples;
  }

  BarCourse course_;
  std::map<int64_t, double> loss_at_;
  std::vector<std::string> columns_;
};

}  // namespace

extern const LogFamily kLightning;
const LogFamily kLightning = {kLightningName,
                              "PyTorch Lightning: progress bars, CSVLogger with ThroughputMonitor",
                              {"%|", "device/", "train_loss", "step,", "`Trainer.fit`"},
                              [] { return std::unique_ptr<LogReading>(new Lightning); }};

}  // namespace profgpu
