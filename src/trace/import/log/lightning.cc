// PyTorch Lightning: progress bars of epochs, and the rows of CSVLogger with ThroughputMonitor's columns.
//
//   Epoch 3:  12%|█▎   | 12/100 [00:58<07:09,  4.87s/it, v_num=0, train_loss=2.30]
//   Validation DataLoader 0:  50%|█████     | 5/10 [00:00<00:00, 47.49it/s]
//   Epoch 3/9  ━━━━━ 12/100 0:00:58 • 0:07:09 4.87s/it v_num: 0 train_loss: 2.30                 RichProgressBar
//   epoch,step,train_loss,device/batches_per_sec,device/samples_per_sec,device/mfu            then rows of values
#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <utility>

#include "base/text.h"
#include "trace/import/log/log_family.h"
#include "trace/import/log/progress_bar.h"

namespace profgpu {
namespace {

constexpr std::string_view kLightningName = "lightning";

std::optional<double> bar_loss(std::string_view notes) {
  if (const auto loss = keyed_number(notes, {"train_loss_step", "train_loss", "train/loss", "loss_step"})) return loss;
  return has(notes, "/loss") ? std::nullopt : keyed_number(notes, {"loss"});
}

// Bars of epochs, and those of evaluations between or within them.
//
// Before version 2, batches of the evaluation also counted on the epoch's bar, whose total has them: it moves while the
// evaluation's bar does.
class EpochBars {
 public:
  /// Whether `bar` is one of them. `lightnings`: with a title that only Lightning has.
  bool read(const BarDrawing& bar, bool lightnings, const LogLine& line, LogBuilder& rows) {
    if (bar.title.starts_with("Validat")) return read_evaluation(bar, line, rows);
    if (!bar.title.starts_with("Epoch ")) return false;
    std::string_view of_all;
    auto epoch = leading_integer(bar.title.substr(6), &of_all);
    // Other programs' "Epoch 1/3" counts from 1, unless there was an epoch 0.
    from_zero_ |= epoch == 0 || lightnings || !of_all.starts_with('/');
    if (epoch && !from_zero_) --*epoch;
    if (!epoch || *epoch < 0 || *epoch > 1'000'000 || bar.total > 1'000'000'000 || bar.done > kMaxSteps) return false;
    if (*epoch < epoch_ || stopped_) {
      if (!fits_again(*epoch, bar)) return true;  // drawn again when the next one begins
      begin_run(line, *epoch * std::max<int64_t>(bar.total, 0) + bar.done, rows);
    }
    if (*epoch > epoch_) begin_epoch(*epoch, bar.total);
    if (is_evaluation(bar)) return true;
    const int64_t number = begun_ + bar.done - evaluated_;
    course_.add(bar, number, line.number);
    if (const auto loss = bar_loss(bar.notes)) loss_at_[number] = *loss;
    return true;
  }

  /// fit() has ended: what is drawn behind it may be another one's.
  void stop() { stopped_ = true; }

  [[nodiscard]] std::vector<LogStep> steps() {
    add_steps();
    return std::move(steps_);
  }

 private:
  static constexpr int64_t kMaxSteps = 1'000'000'000'000;

  // The bar of an epoch that has been, and not its last drawing once more.
  bool fits_again(int64_t epoch, const BarDrawing& bar) const {
    const bool is_new = bar.total > 0 && bar.done < bar.total;
    return is_new && (stopped_ || (epoch < epoch_ && bar.done == 0 && bar.elapsed_ns == 0 && epoch + 1 < epoch_));
  }
  void begin_run(const LogLine& line, int64_t number, LogBuilder& rows) {
    add_steps();
    LogLine none = line;
    none.rank = -1, none.node = {};
    rows.begin_run(rows.series(kLightningName, none), line, number);
    course_ = BarCourse(BarCourse::Rate::kMean);
    epoch_ = -1, begun_ = done_ = evaluated_ = 0;
    evaluation_.reset();
    stopped_ = false;
  }
  void add_steps() {
    std::vector<LogStep> steps = course_.steps();
    for (LogStep& s : steps)
      if (const auto loss = loss_at_.find(s.number); loss != loss_at_.end()) s.figures.loss = loss->second;
    std::ranges::move(steps, std::back_inserter(steps_));
    loss_at_.clear();
  }

  // By the epochs before it, where their length is known and the log does not have it.
  void begin_epoch(int64_t epoch, int64_t total) {
    begun_ = epoch_ >= 0 ? std::max<int64_t>(course_.number(), 0) : epoch * total;
    epoch_ = epoch, done_ = evaluated_ = 0;
    evaluation_.reset();
  }

  bool is_evaluation(const BarDrawing& bar) {
    const int64_t before = std::exchange(done_, bar.done);
    if (!evaluation_ || bar.done <= before) return false;
    shared_ |= evaluation_->done < evaluation_->total;  // it moves before that one is done
    if (!shared_ || bar.done > evaluation_->begun + evaluation_->total) return evaluation_.reset(), false;
    evaluated_ += bar.done - before;
    return true;
  }

  bool read_evaluation(const BarDrawing& bar, const LogLine& line, LogBuilder& rows) {
    course_.interrupt();
    if (bar.total <= 0 || bar.total > kMaxSteps) return true;
    const bool new_one = !evaluation_ || bar.done < evaluation_->done;
    if (new_one) evaluation_ = Evaluation{done_, 0, bar.total};
    const bool ends = bar.done == bar.total && (new_one || evaluation_->done < bar.total);
    evaluation_->done = bar.done, evaluation_->total = bar.total;
    if (!ends) return true;
    LogEvent& e = rows.event(LogEventKind::kEvaluation, line);
    if (course_.number() >= 0) e.step = course_.number();
    if (has_mean_rate(bar)) e.duration_ns = bar.done * *bar.each_ns;
    return true;
  }

  struct Evaluation {
    int64_t begun = 0;  // on the bar of the epoch
    int64_t done = 0, total = 0;
  };
  BarCourse course_{BarCourse::Rate::kMean};
  std::vector<LogStep> steps_;          // of runs before
  bool stopped_ = false;
  std::map<int64_t, double> loss_at_;
  int64_t epoch_ = -1, begun_ = 0;      // number of the step before it
  int64_t done_ = 0, evaluated_ = 0;    // of the bar of the epoch; of these, batches of evaluations
  std::optional<Evaluation> evaluation_;
  bool shared_ = false;                 // the bar counts both
  bool from_zero_ = false;              // the numbers of epochs
};

class Lightning : public LogReading {
 public:
  bool read(const LogLine& line, LogBuilder& rows) override {
    if (!columns_.empty()) {
      if (read_row(line, rows)) return true;
      columns_.clear();
    }
    const std::string_view text = line.message;
    const bool stops = has(text, "`Trainer.fit` stopped:");   // behind a bar, if it stands still
    if (stops) rows.event(LogEventKind::kFinished, line);
    if (text.starts_with("Epoch ") || text.starts_with("Validat")) {
      const bool rich = has(text, " \xE2\x80\xA2 ");
      if (const auto bar = rich ? rich_bar_drawing(text) : bar_drawing(text)) return read_bar(*bar, stops, line, rows);
    }
    if (stops) bars_.stop();
    if (has(text, "device/") || has(text, "train_loss") || has(text, "step,")) return read_header(line.text) || stops;
    return stops;
  }
  [[nodiscard]] bool expects_more() const override { return !columns_.empty(); }

  void end(LogBuilder& rows) override {
    LogLine none{};
    LogSeries& series = rows.series(kLightningName, none);
    if (series.steps.empty()) series.steps = bars_.steps();
  }

 private:
  bool read_bar(const BarDrawing& bar, bool stops, const LogLine& line, LogBuilder& rows) {
    const bool known = bars_.read(bar, has(line.message, " \xE2\x80\xA2 "), line, rows);
    if (stops) bars_.stop();
    return known;
  }

  // A header names a step and figures of a training. The rows of others that state times are read by metric_rows.cc.
  bool read_header(std::string_view text) {
    if (!has(text, ",")) return false;
    std::vector<std::string> names;
    for (const std::string_view name : pieces_of(text, ',')) names.emplace_back(without_blanks(name));
    const bool step = std::ranges::count(names, "step") > 0;
    const bool throughput = std::ranges::any_of(names, [](const std::string& n) { return n.starts_with("device/"); });
    const bool timed = std::ranges::any_of(names, [](const std::string& n) { return has(n, "time"); });
    const bool losses = std::ranges::any_of(names, [](const std::string& n) {
      return n.starts_with("train") || (n != "loss" && has(n, "loss"));
    });
    if (!step || !(throughput || (losses && !timed)) || names.size() < 3) return false;
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

  EpochBars bars_;
  std::vector<std::string> columns_;
};

}  // namespace

extern const LogFamily kLightning = {kLightningName,
                                     "PyTorch Lightning: progress bars, CSVLogger with ThroughputMonitor",
                                     {"%|", ": |", " \xE2\x80\xA2 ", "device/", "train_loss", "step,", "`Trainer.fit`"},
                                     [] { return std::unique_ptr<LogReading>(new Lightning); }};

}  // namespace profgpu
