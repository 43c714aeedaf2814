// ESPnet's trainer: means over the batches since the line before.
//
//   [gpu01:0/2] 2024-05-01 12:05:00,080 (trainer:464) INFO: 1epoch:train:1-682batch: iter_time=2.9e-04,
//   forward_time=0.134, loss=123.9, backward_time=0.111, optim_step_time=0.030, lr_0=3.5e-06, train_time=1.816
//
// train_time is of an update, which may take several batches: the clock tells how many.
#include <algorithm>
#include <cmath>
#include <map>

#include "base/statistics.h"
#include "base/text.h"
#include "trace/import/log/log_family.h"

namespace profgpu {
namespace {

constexpr std::string_view kEspnetName = "espnet";

class Espnet : public LogReading {
 public:
  bool read(const LogLine& line, LogBuilder& rows) override {
    const std::string_view text = line.message;
    const size_t mark = place_of(text, kEpochOfTraining);
    if (mark == text.npos) return false;
    const size_t digits = text.substr(0, mark).find_last_not_of("0123456789");
    const auto epoch = leading_integer(text.substr(digits == text.npos ? 0 : digits + 1));
    std::string_view rest;
    const auto first = leading_integer(text.substr(mark + kEpochOfTraining.size()), &rest);
    const auto last = first && rest.starts_with('-') ? leading_integer(rest.substr(1), &rest) : std::nullopt;
    const auto update = keyed_value(text, {"train_time"});
    const auto update_ns = update ? leading_seconds(*update) : std::nullopt;
    if (!epoch || !last || !rest.starts_with("batch") || *first < 1 || *last < *first || *last > kMostBatches ||
        !update_ns || *update_ns <= 0 || *update_ns > LogStep::kLongest_ns)
      return false;
    LogStep* step = rows.step(kEspnetName, line, numbers_(*epoch, *last));
    if (step == nullptr) return true;
    step->begins_epoch = numbers_.begins_anew();
    step->iterations = *last - *first + 1;
    set_parts(text, *step);
    updates_[&rows.series(kEspnetName, line)][line.number] = {*update_ns, optimizer_ns_of(text)};
    return true;
  }

  void end(LogBuilder&) override {
    for (auto& [series, updates] : updates_) set_durations(series->steps, updates);
    updates_.clear();
  }

 private:
  static constexpr std::string_view kEpochOfTraining = "epoch:train:";
  static constexpr int64_t kMostBatches = 1'000'000'000;
  struct Update {
    int64_t whole_ns = 0, optimizer_ns = 0;
  };

  static int64_t ns_of(std::string_view text, std::string_view key) {
    const auto value = keyed_value(text, {key});
    return value ? std::clamp<int64_t>(leading_seconds(*value).value_or(0), 0, LogStep::kLongest_ns) : 0;
  }
  static int64_t optimizer_ns_of(std::string_view text) { return ns_of(text, "optim_step_time"); }
  static void set_parts(std::string_view text, LogStep& step) {
    step.phase(LogPhase::kDataLoading) = ns_of(text, "iter_time");
    step.phase(LogPhase::kForward) = ns_of(text, "forward_time");
    step.phase(LogPhase::kBackward) = ns_of(text, "backward_time");
    step.figures.loss = keyed_number(text, {"loss"});
    step.figures.learning_rate = keyed_number(text, {"lr_0", "optim0_lr0"});
    step.figures.grad_norm = keyed_number(text, {"grad_norm"});
  }

  // By how much an update is longer than what a clock has for a batch.
  static int64_t batches_of_update(const std::vector<LogStep>& steps, const std::map<int64_t, Update>& updates) {
    std::vector<double> ratios;
    for (size_t i = 1; i < steps.size(); ++i) {
      const LogStep &a = steps[i - 1], &b = steps[i];
      const auto update = updates.find(b.line);
      if (b.begins_epoch || update == updates.end() || !a.printed_ns || !b.printed_ns || *b.printed_ns <= *a.printed_ns)
        continue;
      const double each_ns = static_cast<double>(*b.printed_ns - *a.printed_ns) / static_cast<double>(b.iterations);
      ratios.push_back(static_cast<double>(update->second.whole_ns) / each_ns);
    }
    if (ratios.empty()) return 1;
    return std::clamp<int64_t>(std::llround(median_of(ratios)), 1, 10'000);
  }
  static void set_durations(std::vector<LogStep>& steps, const std::map<int64_t, Update>& updates) {
    const int64_t batches = batches_of_update(steps, updates);
    for (LogStep& s : steps) {
      const auto update = updates.find(s.line);
      if (update == updates.end()) continue;
      s.duration_ns = update->second.whole_ns / batches;
      s.phase(LogPhase::kOptimizer) = update->second.optimizer_ns / batches;
    }
  }

  EpochNumbers numbers_;
  std::map<LogSeries*, std::map<int64_t, Update>> updates_;   // by line
};

}  // namespace

extern const LogFamily kEspnet = {kEspnetName, "ESPnet's trainer: \"1epoch:train:1-682batch: iter_time=…\"",
                                  {"epoch:train:"},
                                  [] { return std::unique_ptr<LogReading>(new Espnet); }};

}  // namespace profgpu
