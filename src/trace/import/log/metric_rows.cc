// Metrics that programs write for other programs: an object of JSON a line, rows of CSV, NVIDIA's DLLogger.
//
//   {"step": 1, "loss": 2.3, "step_time": 0.251, "tokens_per_sec": 1234.5}
//   {'step': 1, 'loss': 2.3, 'step_time': 0.251}                                              Python's
//   {"current_steps": 10, "loss": 1.1, "elapsed_time": "0:00:05", "throughput": 1234.5, …}              LLaMA-Factory
//   step,loss,step_time_ms,tokens_per_sec                                                     then rows of values
//   DLLL {"elapsedtime": "0.3", "type": "LOG", "step": [0, 1], "data": {"train.loss": 7.0, "train.compute_time": 0.1}}
//   DLL 2021-01-07 06:13:00.123123 - Epoch: 0 Iteration: 10  train.loss : 7.05 None train.total_ips : 2500.52 img/s
#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "base/json_reader.h"
#include "base/text.h"
#include "trace/import/log/log_family.h"

namespace profgpu {
namespace {

constexpr std::string_view kRowsName = "metric_rows";

enum class RowMetric : uint8_t {
  kStep, kEpoch, kSeconds, kMilliseconds, kCompute, kLoading, kElapsed, kLoss, kLearningRate, kNorm, kTokens, kSamples,
  kTflops,
  kMfu, kMfuPct
};

std::optional<RowMetric> row_metric(std::string_view name) {
  struct Known {
    std::string_view name;
    RowMetric what;
  };
  using enum RowMetric;
  static constexpr std::array kKnown = {
      Known{"step", kStep}, Known{"current_steps", kStep}, Known{"global_step", kStep}, Known{"iteration", kStep},
      Known{"iter", kStep}, Known{"_step", kStep}, Known{"epoch", kEpoch}, Known{"step_time", kSeconds},
      Known{"step_time_s", kSeconds}, Known{"iter_time", kSeconds}, Known{"iter_time_s", kSeconds},
      Known{"iteration_time", kSeconds}, Known{"time_per_step", kSeconds}, Known{"dt", kSeconds},
      Known{"compute_time", kCompute}, Known{"train_step_time", kSeconds}, Known{"step_time_ms", kMilliseconds},
      Known{"iter_time_ms", kMilliseconds}, Known{"dt_ms", kMilliseconds}, Known{"data_time", kLoading},
      Known{"elapsed_time", kElapsed}, Known{"_runtime", kElapsed}, Known{"loss", kLoss}, Known{"train_loss", kLoss},
      Known{"train/loss", kLoss}, Known{"step_loss", kLoss}, Known{"lr", kLearningRate},
      Known{"learning_rate", kLearningRate}, Known{"grad_norm", kNorm}, Known{"tokens_per_sec", kTokens},
      Known{"tokens_per_second", kTokens}, Known{"tokens_per_s", kTokens}, Known{"tokens/s", kTokens},
      Known{"tok_per_sec", kTokens}, Known{"samples_per_sec", kSamples}, Known{"samples_per_second", kSamples},
      Known{"samples_per_s", kSamples}, Known{"images_per_sec", kSamples}, Known{"total_ips", kSamples},
      Known{"tflops", kTflops}, Known{"tflops_per_gpu", kTflops}, Known{"mfu", kMfu}, Known{"mfu_pct", kMfuPct}};
  if (name.starts_with("train.")) name.remove_prefix(6);
  const auto known = std::ranges::find(kKnown, name, &Known::name);
  return known != kKnown.end() ? std::optional(known->what) : std::nullopt;
}

using Metrics = std::map<RowMetric, double>;  // the first value of each stays

// "12.5", "0:00:05" of a time that has passed.
std::optional<double> metric_value(RowMetric what, std::string_view text) {
  if (what != RowMetric::kElapsed || !has(text, ":")) return printed_number(text);
  double seconds = 0;
  for (const std::string_view part : pieces_of(text, ':')) {
    const auto number = printed_number(part);
    if (!number) return std::nullopt;
    seconds = seconds * 60 + *number;
  }
  return seconds;
}

void add_metric(std::string_view name, std::string_view text, Metrics& to) {
  const auto what = row_metric(name);
  const auto value = what ? metric_value(*what, text) : std::nullopt;
  if (value) to.try_emplace(*what, *value);
}

std::string_view unquoted(std::string_view raw) {
  return raw.size() >= 2 && raw.front() == '"' ? raw.substr(1, raw.size() - 2) : raw;
}

// "step": 10, or [epoch, step] as DLLogger has it.
void add_steps(std::string_view raw, Metrics& to) {
  std::vector<std::string_view> parts;
  for (std::string_view part : pieces_of(raw.substr(1, raw.size() - 2), ',')) parts.push_back(without_blanks(part));
  if (parts.size() < 2) return;
  add_metric("epoch", parts[0], to);
  add_metric("step", parts[1], to);
}

Metrics metrics_of_json(std::string_view object) {
  Metrics out;
  std::string text(object);
  JsonReader json = JsonReader::over(text);
  const auto member = [&](std::string_view key) {
    const std::string name(key);
    std::string_view raw;
    if (!json.raw_value(raw)) return false;
    if (name == "step" && raw.size() > 2 && raw.front() == '[') add_steps(raw, out);
    else add_metric(name, unquoted(raw), out);
    return true;
  };
  read_object(json, [&](std::string_view key) {
    return key == "data" && json.peek() == '{' ? read_object(json, member) : member(key);
  });
  return out;
}

// "Epoch: 0 Iteration: 10  train.loss : 7.05 None train.total_ips : 2500.52 img/s"
Metrics metrics_of_text(std::string_view text) {
  Metrics out;
  if (const auto epoch = integer_after(text, "Epoch: ")) out[RowMetric::kEpoch] = static_cast<double>(*epoch);
  if (const auto step = integer_after(text, "Iteration: ")) out[RowMetric::kStep] = static_cast<double>(*step);
  for (size_t at = text.find(" : "); at != text.npos; at = text.find(" : ", at + 3)) {
    const size_t begin = text.find_last_of(' ', at - std::min<size_t>(at, 1));
    add_metric(text.substr(begin == text.npos ? 0 : begin + 1, at - (begin == text.npos ? 0 : begin + 1)),
               text.substr(at + 3), out);
  }
  return out;
}

class MetricRows : public LogReading {
 public:
  bool read(const LogLine& line, LogBuilder& rows) override {
    const std::string_view text = line.text;
    if (line.message.starts_with("{'")) return read_dict(line, rows);
    if (!columns_.empty()) {
      if (read_row(line, rows)) return true;
      columns_.clear();
    }
    if (line.message.starts_with('{')) return read_json(line.message, line, rows);
    if (text.starts_with("DLLL {")) return add(metrics_of_json(text.substr(5)), line, rows);
    if (const size_t logged = place_of(text, "DLL 2"); logged != text.npos)   // also behind a bar
      return read_dated(text.substr(logged), line, rows);
    return read_header(text);
  }
  [[nodiscard]] bool expects_more() const override { return !columns_.empty(); }

 private:
  // Losses by epoch and no time: that is the Trainer's.
  bool read_json(std::string_view text, const LogLine& line, LogBuilder& rows) {
    const Metrics metrics = metrics_of_json(text);
    return (is_timed(metrics) || !metrics.contains(RowMetric::kEpoch)) && add(metrics, line, rows);
  }

  // The Trainer's have an epoch or a learning rate.
  bool read_dict(const LogLine& line, LogBuilder& rows) {
    if (has(line.message, "'epoch'") || has(line.message, "'learning_rate'")) return false;
    std::string json(line.message);
    std::ranges::replace(json, '\'', '"');
    const Metrics metrics = metrics_of_json(json);
    return is_timed(metrics) && add(metrics, line, rows);
  }

  bool read_dated(std::string_view text, const LogLine& line, LogBuilder& rows) {
    LogLine dated = line;
    size_t length = 0;
    dated.printed_ns = clock_time(text.substr(4), length);
    return dated.printed_ns && add(metrics_of_text(text.substr(4 + length)), dated, rows);
  }

  // A header that names a step, and a time or a rate of it. Lightning's has a family of its own.
  bool read_header(std::string_view text) {
    if (has(text, "device/")) return false;
    std::vector<std::string> names;
    Metrics known;
    for (const std::string_view name : pieces_of(text, ',')) {
      names.emplace_back(without_blanks(name));
      add_metric(names.back(), "1", known);
    }
    if (names.size() < 2 || !known.contains(RowMetric::kStep) || !is_timed(known)) return false;
    columns_ = std::move(names);
    return true;
  }
  static bool is_timed(const Metrics& m) {
    using enum RowMetric;
    return std::ranges::any_of(std::array{kSeconds, kMilliseconds, kCompute, kElapsed, kTokens, kSamples},
                               [&](RowMetric what) { return m.contains(what); });
  }

  bool read_row(const LogLine& line, LogBuilder& rows) {
    const std::vector<std::string_view> cells = pieces_of(line.text, ',');
    if (cells.size() != columns_.size()) return false;
    Metrics metrics;
    for (size_t i = 0; i < cells.size(); ++i) add_metric(columns_[i], without_blanks(cells[i]), metrics);
    return add(metrics, line, rows);
  }

  bool add(const Metrics& m, const LogLine& line, LogBuilder& rows) {
    using enum RowMetric;
    const auto value = [&](RowMetric what) {
      const auto at = m.find(what);
      return at != m.end() ? std::optional(at->second) : std::nullopt;
    };
    const auto number = value(kStep);
    const double epoch = value(kEpoch).value_or(0);
    const bool fits = number && *number >= 0 && *number <= 1e15;   // not if it is not a number
    if (!fits || (!value(kLoss) && !is_timed(m))) return false;
    const int64_t n = numbers_(epoch >= 0 ? std::llround(std::min(epoch, 1e9)) : 0, std::llround(*number));
    LogStep* step = rows.step(kRowsName, line, n);
    if (step == nullptr) return true;
    step->begins_epoch = numbers_.begins_anew();
    set_time(m, n, *step);
    LogFigures& f = step->figures;
    f.loss = value(kLoss), f.learning_rate = value(kLearningRate), f.grad_norm = value(kNorm);
    f.tokens_per_s = value(kTokens), f.samples_per_s = value(kSamples), f.tflops = value(kTflops);
    f.mfu_pct = value(kMfuPct);
    if (const auto mfu = value(kMfu)) f.mfu_pct = *mfu <= 1 ? 100 * *mfu : *mfu;
    return true;
  }

  // As stated; the wait for data comes on top of the time of the computation alone. Else what has passed since the line
  // before.
  void set_time(const Metrics& m, int64_t number, LogStep& step) {
    const auto ns = [&](RowMetric what, double unit_ns) {
      const auto at = m.find(what);
      const bool fits = at != m.end() && at->second >= 0 && at->second * unit_ns < LogStep::kLongest_ns;
      return fits ? std::llround(at->second * unit_ns) : int64_t{0};
    };
    const int64_t loading = ns(RowMetric::kLoading, 1e9);
    int64_t stated = ns(RowMetric::kMilliseconds, 1e6);
    if (stated == 0) stated = ns(RowMetric::kSeconds, 1e9);
    if (const int64_t compute = ns(RowMetric::kCompute, 1e9); stated == 0 && compute > 0) stated = compute + loading;
    if (stated > 0) {
      step.duration_ns = stated, step.iterations = 1;
      step.phase(LogPhase::kDataLoading) = loading;
      return;
    }
    const int64_t elapsed = ns(RowMetric::kElapsed, 1e9);
    if (elapsed > elapsed_ns_ && number > before_ && !step.begins_epoch) {
      step.iterations = number - before_, step.duration_ns = (elapsed - elapsed_ns_) / step.iterations;
      step.derived = true;
    }
    before_ = number, elapsed_ns_ = elapsed;
  }

  EpochNumbers numbers_;
  int64_t before_ = 0, elapsed_ns_ = 0;
  std::vector<std::string> columns_;
};

}  // namespace

extern const LogFamily kMetricRows = {kRowsName,
                                      "metrics as JSON lines or CSV: \"step\", \"loss\", \"step_time\"; NVIDIA's DLLogger",
                                      {"step\":", "steps\":", "\"iter", "step,", "iteration,", "iter,", "DLL", "step':", "'iter"},
                                      [] { return std::unique_ptr<LogReading>(new MetricRows); }};

}  // namespace profgpu
