// torchtune: the lines of its metric loggers, and the bar of each epoch, whose title has the step.
//
//   Step 10 | loss:1.234 lr:2e-05 tokens_per_second_per_gpu:1234.5 peak_memory_alloc:12.3 peak_memory_reserved:13.4
//   1|10|Loss: 1.2345:   5%|▌         | 10/200 [00:20<06:20,  2.00s/it]
//
// No line states the time of a step; memory is in GiB.
#include <cmath>

#include "base/text.h"
#include "trace/import/log/log_family.h"
#include "trace/import/log/progress_bar.h"

namespace profgpu {
namespace {

constexpr std::string_view kTorchtuneName = "torchtune";

class Torchtune : public LogReading {
 public:
  bool read(const LogLine& line, LogBuilder& rows) override {
    std::string_view text = line.message;
    const bool bar = has(text, "|Loss: ") && read_bar(line, rows);
    if (const auto behind = bar ? after(text, "]Step ") : std::nullopt)   // the bar does not end its line
      text.remove_prefix(static_cast<size_t>(behind->data() - text.data()) - 5);
    return (text.starts_with("Step ") && read_step(text, line, rows)) || bar;
  }

  void end(LogBuilder& rows) override {
    LogLine none{};
    LogSeries& series = rows.series(kTorchtuneName, none);
    if (series.steps.empty()) series.steps = course_.steps();
    int64_t before = 0;
    for (LogStep& s : series.steps) {
      if (!s.duration_ns) s.duration_ns = course_.step_ns(before, s.number), s.derived = true;
      before = s.number;
    }
  }

 private:
  static bool read_step(std::string_view text, const LogLine& line, LogBuilder& rows) {
    std::string_view rest;
    const auto number = leading_integer(text.substr(5), &rest);
    const auto tokens = number_after(text, " tokens_per_second_per_gpu:");
    if (!number || *number < 0 || !rest.starts_with(" | ") || !tokens) return false;
    LogStep* step = rows.step(kTorchtuneName, line, *number);
    if (step != nullptr) set_figures(text, *tokens, *step, line, rows);
    return true;
  }

  // "1|10|Loss: 1.2345": of the epoch and the step.
  bool read_bar(const LogLine& line, LogBuilder& rows) {
    const auto bar = bar_drawing(line.message);
    std::string_view rest;
    const auto epoch = bar ? leading_integer(bar->title, &rest) : std::nullopt;
    if (!epoch || *epoch < 1 || !rest.starts_with('|')) return false;
    const auto step = leading_integer(rest.substr(1), &rest);
    if (!step || *step < 0 || !rest.starts_with("|Loss: ")) return false;
    course_.add(*bar, *step, line.number);
    rows.found(kTorchtuneName);
    return true;
  }

  static void set_figures(std::string_view text, double tokens, LogStep& step, const LogLine& line, LogBuilder& rows) {
    LogFigures& f = step.figures;
    f.loss = number_after(text, " loss:");
    f.learning_rate = number_after(text, " lr:");
    f.grad_norm = number_after(text, " grad_norm:");
    f.device_tokens_per_s = tokens;
    const auto bytes = [&](std::string_view key) -> std::optional<int64_t> {
      const auto gib = number_after(text, key);
      return gib && *gib >= 0 && *gib < 1e6 ? std::optional(std::llround(*gib * (1 << 30))) : std::nullopt;
    };
    LogMemory memory{};
    memory.step = step.number;
    memory.max_allocated_bytes = bytes(" peak_memory_alloc:");
    memory.max_reserved_bytes = bytes(" peak_memory_reserved:");
    if (memory.max_allocated_bytes || memory.max_reserved_bytes) rows.memory(memory, line);
  }

  BarCourse course_;
};

}  // namespace

extern const LogFamily kTorchtune = {kTorchtuneName,
                                     "torchtune: \"Step 10 | loss:1.2 ... tokens_per_second_per_gpu:1234.5\", its bars",
                                     {"tokens_per_second_per_gpu:", "|Loss: "},
                                     [] { return std::unique_ptr<LogReading>(new Torchtune); }};

}  // namespace profgpu
