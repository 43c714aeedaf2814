// The Hugging Face Trainer: dict lines between the drawings of a progress bar, and the same of trainer_state.json.
//
//   {'loss': 2.3174, 'grad_norm': 1.23, 'learning_rate': 4.5e-05, 'epoch': 0.1}        new versions quote the numbers
//   {'loss': 2.3, …, 'num_input_tokens_seen': 65536, 'train_runtime': 2.0, 'train_tokens_per_second': 32768, …}
//   {'eval_loss': 2.1, 'eval_runtime': 12.3, 'eval_samples_per_second': 81.2, …}
//   {'loss': 2.3, …, 'memory(GiB)': 63.16, 'global_step/max_steps': '78/176', 'elapsed_time': '1h 54m', …}  ms-swift
//   {'train_runtime': 919.097, 'train_samples_per_second': 1.088, 'train_steps_per_second': 0.017, 'epoch': 1.0}
//
// The lines state no time, unless a trainer adds 'step_time' (TRL). Else it is that of the bar where there is one, else
// the mean of the whole training less its evaluations. Nor do they state the step without a bar: then it follows from
// the epoch once the number of all steps is known, or from logging_steps and the order.
#include <algorithm>
#include <cmath>
#include <iterator>
#include <span>
#include <utility>

#include "base/text.h"
#include "trace/import/log/log_family.h"
#include "trace/import/log/progress_bar.h"

namespace profgpu {
namespace {

constexpr std::string_view kTrainerName = "huggingface";

// Of a Python dict or a JSON object on one line; a key with its quotes.
std::optional<double> member(std::string_view text, std::string_view key) {
  for (const char quote : {'\'', '"'}) {
    const std::string quoted = quote + std::string(key) + quote + ":";
    if (const auto value = number_after(text, quoted)) return value;
  }
  return std::nullopt;
}

// "1h 54m 53s", "2m 3s": of whole seconds.
std::optional<int64_t> spoken_ns(std::string_view text) {
  constexpr int64_t kMostSeconds = 1'000'000'000;
  int64_t seconds = 0;
  bool any = false;
  for (std::string_view rest = text; !rest.empty();) {
    const auto number = leading_integer(rest, &rest);
    if (!number || *number < 0 || *number > 1'000'000 || rest.empty()) break;
    const char letter = rest.front();
    const int64_t unit = letter == 'd' ? 86400 : letter == 'h' ? 3600 : letter == 'm' ? 60 : letter == 's' ? 1 : 0;
    if (unit == 0) return std::nullopt;
    seconds += *number * unit, any = true;
    if (seconds > kMostSeconds) return std::nullopt;
    rest.remove_prefix(1);
    if (!rest.starts_with(' ')) break;
  }
  return any ? std::optional(seconds * 1'000'000'000) : std::nullopt;
}

bool is_training_bar(const BarDrawing& bar) {
  if (bar.title.empty()) return true;
  const std::string title = lower_case(bar.title);
  if (has(title, "dataset") || has(title, "split")) return false;   // "Tokenizing train dataset"
  return has(title, "train") || has(title, "step");
}

class Trainer : public LogReading {
 public:
  bool read(const LogLine& line, LogBuilder& rows) override {
    bool known = read_bar(line, rows);
    const std::string_view text = line.message;
    if (const auto runtime = runtime_of_all(text)) {
      known = read_end(text, *runtime, line, rows);
    } else if (member(text, "eval_runtime") || member(text, "eval_loss")) {
      known = read_evaluation(text, line, rows);
    } else if (const auto resumed = integer_after(text, "Continuing training from global step ")) {
      const bool begun = run_.losses > 0 || run_.end_line > 0;
      if (*resumed > 0 && *resumed < 1'000'000'000'000) (begun ? next_resumed_ : run_.resumed) = *resumed;
    } else if (const auto every = integer_after(text, "logging_steps=")) {  // of printed TrainingArguments
      if (*every > 0 && *every < 1'000'000'000) rows.setting("log_interval", std::to_string(*every));
    } else if ((member(text, "loss") || loses_loss(text)) && (member(text, "epoch") || member(text, "learning_rate"))) {
      known = read_loss(text, line, rows);
    }
    if (known) rows.found(kTrainerName);
    return known;
  }

  void end(LogBuilder& rows) override { end_run(rows); }

 private:
  // Of the training that was read last.
  void end_run(LogBuilder& rows) {
    LogLine none{};
    LogSeries& series = rows.series(kTrainerName, none);
    number_pending(rows, series);
    // Times are of this training alone, and the rates that the Trainer states of all steps.
    const int64_t all = steps_of_all(rows), own = all - std::min(run_.resumed, all);
    if (run_.samples_per_s && own > 0) *run_.samples_per_s *= static_cast<double>(own) / static_cast<double>(all);
    if (steps_of_run(series).empty() && trains_) std::ranges::move(run_.course.steps(), std::back_inserter(series.steps));
    for (LogStep& s : steps_of_run(series))
      if (!s.figures.samples_per_s) s.figures.samples_per_s = run_.samples_per_s;   // the mean of the whole training
    const bool timed =
        std::ranges::any_of(steps_of_run(series), [](const LogStep& s) { return s.duration_ns.has_value(); });
    if (timed || !run_.runtime_s || own <= 0) return;
    const auto training_ns = std::llround(*run_.runtime_s * 1e9) - run_.evaluations_ns;
    const auto mean_ns = training_ns / own;
    if (steps_of_run(series).empty()) {
      LogStep& whole = series.steps.emplace_back();
      whole.number = all, whole.iterations = own;
      whole.line = run_.end_line;
      whole.figures.samples_per_s = run_.samples_per_s;
    }
    for (LogStep& s : steps_of_run(series))
      if (!s.duration_ns && mean_ns > 0) s.duration_ns = mean_ns, s.derived = true;
    rows.setting("step_time", "mean");
  }

  [[nodiscard]] std::span<LogStep> steps_of_run(LogSeries& series) const {
    return std::span(series.steps).subspan(std::min(run_.first, series.steps.size()));
  }

  // A bar that begins anew may be an evaluation's, too: a line on the loss shows that it is another training's.
  void begin_run(LogBuilder& rows) {
    end_run(rows);
    run_ = Run();
    run_.first = rows.series(kTrainerName, LogLine{}).steps.size();
    if (next_) run_.course = *next_, run_.bar_total = next_total_;
    next_.reset();
    run_.resumed = std::exchange(next_resumed_, 0);
    begins_ = true;
  }

  // By its title it is a training's.
  void begin_run_of_bar(const BarDrawing& bar, const LogLine& line, LogBuilder& rows) {
    begin_run(rows);
    begins_ = false;
    LogLine job = line;
    job.rank = -1, job.node = {};
    rows.begin_run(rows.series(kTrainerName, job), line, bar.done);
  }

  bool read_bar(const LogLine& line, LogBuilder& rows) {
    const auto bar = bar_drawing(line.message);
    if (!bar || bar->total <= 0 || !is_training_bar(*bar)) return false;
    const auto all = rows.setting("total_steps");
    const bool over = run_.end_line > 0;
    const bool other = all ? bar->total != *all : run_.bar_total != 0 && bar->total != run_.bar_total;
    if (!over && other) return false;
    const bool of_next = next_ && (bar->done < run_.course.number() || bar->elapsed_ns < run_.course.elapsed_ns());
    if (over || of_next || run_.course.begins_anew(*bar, bar->done)) {
      add_to_next(*bar, line);
      if (!bar->title.empty()) begin_run_of_bar(*bar, line, rows);
      return false;
    }
    next_.reset();
    trains_ |= all.has_value() || !bar->title.empty();
    run_.bar_total = bar->total;
    run_.course.add(*bar, bar->done, line.number);
    return false;  // a bar alone makes no log
  }

  // Without a line on the loss yet.
  void add_to_next(const BarDrawing& bar, const LogLine& line) {
    if (!next_ || next_total_ != bar.total || next_->begins_anew(bar, bar.done)) next_.emplace();
    next_total_ = bar.total;
    next_->add(bar, bar.done, line.number);
  }

  bool read_evaluation(std::string_view text, const LogLine& line, LogBuilder& rows) {
    next_.reset();
    LogEvent& e = rows.event(LogEventKind::kEvaluation, line);
    if (const auto time = member(text, "eval_runtime"); time && *time > 0 && *time < 1e6) {
      e.duration_ns = std::llround(*time * 1e9);
      if (trains_ && run_.end_line == 0) run_.evaluations_ns += *e.duration_ns, run_.since_line_ns += *e.duration_ns;
    }
    if (run_.course.number() >= 0) e.step = run_.course.number();
    return true;
  }

  // Lines of steps have a `train_runtime` as well if the trainer counts tokens.
  static std::optional<double> runtime_of_all(std::string_view text) {
    const auto runtime = member(text, "train_runtime");
    if (!runtime || *runtime <= 0 || has(text, "'loss'") || has(text, "\"loss\"")) return std::nullopt;
    for (const std::string_view key : {"train_samples_per_second", "train_steps_per_second", "train_loss"})
      if (member(text, key)) return runtime;
    return std::nullopt;
  }

  // Lines of which the step was not known when they were read.
  void number_pending(LogBuilder& rows, LogSeries& series) {
    const auto all = static_cast<double>(counted_steps(rows));
    const double epochs = run_.end_epoch ? *run_.end_epoch : static_cast<double>(rows.setting("epochs").value_or(0));
    const bool timed = std::ranges::all_of(run_.pending, [](const Pending& p) { return p.step.duration_ns.has_value(); });
    const int64_t every = rows.setting("log_interval").value_or(timed && all <= 0 ? 1 : 0);
    if (every <= 0 && (all <= 0 || epochs <= 0)) {
      rows.log().untimed = static_cast<int64_t>(run_.pending.size());
      return;
    }
    rows.log().untimed = 0;
    int64_t place = 0;
    for (auto& [epoch, step] : run_.pending) {
      ++place;
      step.number = all > 0 && epochs > 0 && epoch ? std::llround(*epoch / epochs * all) : place * every;
      const bool follows = steps_of_run(series).empty() || step.number > series.steps.back().number;
      if (step.number <= 0 || !follows) continue;
      if (std::exchange(begins_, false)) begin_run_at(step, rows, series);
      series.steps.push_back(step);
    }
    run_.pending.clear();
  }

  static void begin_run_at(const LogStep& first, LogBuilder& rows, LogSeries& series) {
    LogLine line{};
    line.number = first.line;
    rows.begin_run(series, line, first.number);
  }

  // Axolotl's lines have the peaks of memory, by names that changed.
  static LogMemory memory_of(std::string_view text) {
    const auto bytes = [&](std::string_view now, std::string_view then) {
      auto gib = member(text, now);
      if (!gib) gib = member(text, then);
      return gib && *gib > 0 && *gib < 1e6 ? std::optional<int64_t>(std::llround(*gib * (1 << 30))) : std::nullopt;
    };
    LogMemory row{};
    const auto mebibytes = [&](std::string_view key) {
      const auto mib = member(text, key);
      return mib && *mib > 0 && *mib < 1e9 ? std::optional<int64_t>(std::llround(*mib * (1 << 20))) : std::nullopt;
    };
    row.max_allocated_bytes = bytes("memory/max_allocated (GiB)", "memory/max_mem_allocated(gib)");
    row.reserved_bytes = bytes("memory/device_reserved (GiB)", "memory/device_mem_reserved(gib)");
    if (!row.reserved_bytes) row.reserved_bytes = bytes("memory(GiB)", "memory(gib)");  // ms-swift's
    if (!row.max_allocated_bytes) row.max_allocated_bytes = mebibytes("total_peak_memory_allocated_MB");
    if (!row.max_reserved_bytes) row.max_reserved_bytes = mebibytes("total_peak_memory_reserved_MB");
    return row;
  }

  bool read_loss(std::string_view text, const LogLine& line, LogBuilder& rows) {
    trains_ = true;
    const auto epoch = member(text, "epoch");
    const bool again = run_.end_line > 0 && epoch && *epoch < run_.epoch;   // behind the end of a training
    if (next_ || again) begin_run(rows);
    ++run_.losses, run_.epoch = std::max(run_.epoch, epoch.value_or(0));
    const std::optional<int64_t> number = step_of(text, rows);
    LogMemory memory = memory_of(text);
    memory.step = number;
    if (memory.max_allocated_bytes || memory.reserved_bytes) rows.memory(memory, line);
    if (!number) return add_pending(text, line);
    LogLine job = line;  // the job's: processes that print it as well repeat it
    job.rank = -1, job.node = {};
    if (std::exchange(begins_, false)) rows.begin_run(rows.series(kTrainerName, job), line, *number);
    LogSeries& series = rows.series(kTrainerName, job);
    LogStep* before = series.steps.size() > run_.first ? &series.steps.back() : nullptr;
    const int64_t from = before != nullptr ? before->number : 0;
    if (*number == from && (before != nullptr || run_.course.number() >= 0)) {
      if (before != nullptr && !before->figures.tokens_per_s) before->figures.tokens_per_s = tokens_per_s(text);
      return true;
    }
    LogStep* step = rows.step(kTrainerName, job, *number);
    if (step == nullptr) return true;
    const int64_t evaluated_ns = std::exchange(run_.since_line_ns, 0);
    if (run_.course.number() >= *number)
      step->duration_ns = run_.course.step_ns(from, *number, evaluated_ns), step->derived = true;
    else
      set_passed(text, from, *step);
    set_figures(text, *step);
    LogFigures& f = step->figures;
    f.allocated_bytes = memory.max_allocated_bytes, f.reserved_bytes = memory.reserved_bytes;
    return true;
  }

  // ms-swift's lines have the time since the start, in whole seconds, and the mean rate. The rate tells whether the
  // training began with step 0.
  void set_passed(std::string_view text, int64_t from, LogStep& step) {
    const auto stated = after(text, "'elapsed_time': '");
    const auto passed = stated ? spoken_ns(*stated) : std::nullopt;
    if (!passed || step.number <= from) return;
    constexpr int64_t kTelling_ns = 20'000'000'000;
    const int64_t since_ns = *passed - std::exchange(run_.passed_ns, *passed);
    if (from > 0 && since_ns >= kTelling_ns) {
      step.duration_ns = since_ns / (step.number - from), step.derived = true;
      return;
    }
    const double mean_ns = static_cast<double>(*passed) / static_cast<double>(step.number);
    const auto rate = member(text, "train_speed(iter/s)");
    if (!rate || *rate <= 0 || std::abs(mean_ns * *rate / 1e9 - 1) > 0.05) return;
    step.duration_ns = std::llround(1e9 / *rate), step.derived = true;
  }

  static void set_figures(std::string_view text, LogStep& step) {
    LogFigures& f = step.figures;
    const auto time_s = member(text, "step_time");
    if (time_s && *time_s > 0 && *time_s < 1e6) step.duration_ns = std::llround(*time_s * 1e9), step.derived = false;
    f.loss = member(text, "loss");
    f.grad_norm = member(text, "grad_norm");
    f.learning_rate = member(text, "learning_rate");
    f.device_tokens_per_s = member(text, "tokens_per_second_per_gpu");
    f.tokens_per_s = tokens_per_s(text);
  }

  // The mean since the start. "throughput": of LLaMA-Factory, in lines that repeat the Trainer's.
  static std::optional<double> tokens_per_s(std::string_view text) {
    const auto stated = member(text, "train_tokens_per_second");
    const auto rate = stated ? stated : member(text, "throughput");
    return rate && *rate > 0 ? rate : std::nullopt;
  }

  bool add_pending(std::string_view text, const LogLine& line) {
    if (run_.pending.size() >= kMaxPending) return true;
    const auto epoch = member(text, "epoch");
    LogStep step{};
    step.line = line.number;
    step.iterations = 0;
    set_figures(text, step);
    if (!step.figures.loss && loses_loss(text)) step.figures.not_finite = 1;
    const bool again = !run_.pending.empty() && run_.pending.back().epoch == epoch && epoch;   // by another process
    if (again && !run_.pending.back().step.figures.tokens_per_s)
      run_.pending.back().step.figures.tokens_per_s = step.figures.tokens_per_s;
    if (!again) run_.pending.push_back({epoch, std::move(step)});
    return true;
  }

  // Trainings of other programs print such lines, too, and may count anew in each epoch.
  int64_t counted(int64_t step, const std::optional<double>& epoch) {
    return epoch && *epoch >= 0 && *epoch < 1e9 ? numbers_(static_cast<int64_t>(*epoch), step) : step;
  }

  // As stated, else of the bar, else by the epoch.
  std::optional<int64_t> step_of(std::string_view text, const LogBuilder& rows) {
    // The second is LLaMA-Factory's, the third ms-swift's.
    for (const std::string_view key : {"step", "current_steps", "global_step/max_steps"})
      if (const auto step = member(text, key); step && *step >= 0 && *step < 1e15)
        return counted(std::llround(*step), member(text, "epoch"));
    if (run_.course.number() >= 0) return run_.course.number();
    const auto epoch = member(text, "epoch");
    const auto all = rows.setting("total_steps"), epochs = rows.setting("epochs");
    if (!epoch || !all || !epochs || *epochs <= 0 || *epoch < 0 || *epoch > 1e6) return std::nullopt;
    return std::llround(*epoch / static_cast<double>(*epochs) * static_cast<double>(*all));
  }

  bool read_end(std::string_view text, double runtime_s, const LogLine& line, LogBuilder& rows) {
    if (run_.end_line > 0) return true;  // each process says so
    run_.end_line = line.number;
    run_.runtime_s = runtime_s;
    run_.steps_per_s = member(text, "train_steps_per_second");
    run_.samples_per_s = member(text, "train_samples_per_second");
    run_.end_epoch = member(text, "epoch");
    run_.quoted_rate = has(text, "'train_steps_per_second': '");
    if (const auto step = member(text, "step")) run_.last_step = std::llround(*step);
    else if (const auto all = rows.setting("total_steps")) run_.last_step = *all;
    rows.event(LogEventKind::kFinished, line);
    return true;
  }

  int64_t steps_of_all(const LogBuilder& rows) const {
    if (run_.last_step > 0) return run_.last_step;
    if (const auto all = rows.setting("total_steps")) return *all;
    if (run_.bar_total > 0) return run_.bar_total;
    const bool known = run_.runtime_s && run_.steps_per_s && *run_.steps_per_s * *run_.runtime_s < 1e12;
    return known ? std::llround(*run_.steps_per_s * *run_.runtime_s) : 0;  // of three digits after the point
  }

  // The same, but 0 where the rate's digits leave several numbers: four of them if quoted, else three decimals.
  int64_t counted_steps(const LogBuilder& rows) const {
    const int64_t all = steps_of_all(rows);
    if (all <= 0 || run_.last_step > 0 || rows.setting("total_steps") || run_.bar_total > 0) return all;
    const double error = run_.quoted_rate ? 0.5 * std::pow(10, std::floor(std::log10(*run_.steps_per_s)) - 3) : 0.0005;
    return error * *run_.runtime_s < 0.5 ? all : 0;
  }

  static constexpr size_t kMaxPending = 200'000;
  struct Pending {
    std::optional<double> epoch;
    LogStep step;
  };
  struct Run {
    size_t first = 0;  // place of its first step
    BarCourse course;
    std::vector<Pending> pending;
    std::optional<double> end_epoch;
    bool quoted_rate = false;
    double epoch = 0;    // of the last line on a loss
    int64_t losses = 0;  // such lines
    int64_t passed_ns = 0;
    int64_t evaluations_ns = 0, since_line_ns = 0;  // of the training, and since its last line
    int64_t bar_total = 0, end_line = 0, last_step = 0, resumed = 0;
    std::optional<double> runtime_s, steps_per_s, samples_per_s;
  };
  Run run_;
  std::optional<BarCourse> next_;  // a bar that may be the next run's
  int64_t next_total_ = 0, next_resumed_ = 0;
  bool begins_ = false;            // a run, with the next line on a loss
  EpochNumbers numbers_;
  bool trains_ = false;  // what the bar counts are steps of a training
};

}  // namespace

extern const LogFamily kHuggingFace = {kTrainerName,
                                       "Hugging Face Trainer: dict lines, progress bars, trainer_state.json",
                                       {"'loss'", "\"loss\"", "eval_loss", "eval_runtime", "train_runtime", "logging_steps=", "%|",
                                        "Continuing training from"},
                                       [] { return std::unique_ptr<LogReading>(new Trainer); }};

}  // namespace profgpu
