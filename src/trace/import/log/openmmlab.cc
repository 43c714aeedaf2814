// OpenMMLab's runners, of MMEngine and before, and Detectron2. Times are means over the iterations since the last line:
//
//   2023/07/01 12:00:07 - mmengine - INFO - Epoch(train)  [1][  50/1000]  lr: 2.0e-02  eta: 0:30:11  time: 0.4112
//   data_time: 0.0112  memory: 3000  loss: 1.2
//   2021-07-01 12:00:07,123 - mmdet - INFO - Iter [50/80000]  lr: 2.000e-02, eta: 0:30:11, time: 0.411, data_time: ...
//   [07/01 12:00:07 d2.utils.events]:  eta: 0:30:11  iter: 19  total_loss: 1.2  time: 0.4112  last_time: 0.4100
//   data_time: 0.0121  last_data_time: 0.0101  lr: 0.001  max_mem: 3000M
#include "base/text.h"
#include "trace/import/log/log_family.h"

namespace profgpu {
namespace {

constexpr std::string_view kOpenMmLabName = "openmmlab";

// "[50/80000]": so many of so many.
struct Part {
  int64_t done = 0, all = 0;
};
std::optional<Part> part_of(std::string_view text) {
  std::string_view rest;
  const auto done = leading_integer(text, &rest);
  const auto all = done && rest.starts_with('/') ? leading_integer(rest.substr(1)) : std::nullopt;
  if (!all || *done < 0 || *all < *done || *all > 1'000'000'000) return std::nullopt;
  return Part{*done, *all};
}

std::optional<int64_t> openmmlab_step(std::string_view text) {
  for (const std::string_view word : {" iter: ", " iteration: "})   // of Detectron2 and LiBai, from 0
    if (const auto iteration = integer_after(text, word)) return iteration;
  const auto bracket = after(text, "[");
  if (!bracket) return std::nullopt;
  if (const auto part = part_of(*bracket)) return part->done;
  const auto epoch = leading_integer(*bracket);
  const auto second = after(*bracket, "][");
  const auto part = second ? part_of(*second) : std::nullopt;
  if (!part || !epoch || *epoch < 1 || *epoch > 1'000'000) return std::nullopt;
  return (*epoch - 1) * part->all + part->done;
}

bool read_openmmlab_step(const LogLine& line, LogBuilder& rows) {
  std::string_view text = line.message;
  for (const std::string_view begin : {"Epoch", "Iter", " eta:"})
    if (const size_t at = text.find(begin); at != text.npos) {
      text.remove_prefix(at);
      break;
    }
  const auto time = keyed_value(text, {"time"}), data = keyed_value(text, {"data_time"});
  const auto number = openmmlab_step(text);
  const auto duration_ns = time ? leading_seconds(*time) : std::nullopt;
  if (!number || *number < 0 || !data || !duration_ns) return false;
  LogStep* step = rows.step(kOpenMmLabName, line, *number);
  if (step == nullptr) return true;
  step->duration_ns = duration_ns;
  step->phase(LogPhase::kDataLoading) = leading_seconds(*data).value_or(0);
  LogFigures& f = step->figures;
  f.loss = keyed_number(text, {"loss", "total_loss"});
  f.learning_rate = keyed_number(text, {"lr"});
  f.grad_norm = keyed_number(text, {"grad_norm"});
  if (const auto bytes = keyed_mebibytes(text, {"memory", "max_mem"})) {
    LogMemory memory{};
    memory.step = *number;
    memory.max_allocated_bytes = bytes;
    rows.memory(memory, line);
  }
  return true;
}

class OpenMmLab : public LogReading {
 public:
  bool read(const LogLine& line, LogBuilder& rows) override {
    if (has(line.message, "(val)")) return read_validation(line, rows);
    if (has(line.message, "(test)")) return false;
    begun_.reset();
    return read_openmmlab_step(line, rows);
  }

 private:
  // "Epoch(val) [1][50/200]  time: 0.2000  data_time: 0.0006": the mean of the iterations since the line before.
  bool read_validation(const LogLine& line, LogBuilder& rows) {
    const auto second = after(line.message, "][");
    const auto part = second ? part_of(*second) : std::nullopt;
    const auto time = keyed_value(line.message, {"time"});
    const auto each_ns = time ? leading_seconds(*time) : std::nullopt;
    std::vector<LogEvent>& events = rows.log().events;
    if (!part || !each_ns || *each_ns < 0) return false;
    if (*each_ns > LogStep::kLongest_ns / std::max<int64_t>(part->all, 1)) return false;
    if (!begun_ || *begun_ >= events.size() || events[*begun_].kind != LogEventKind::kEvaluation) {
      begun_ = events.size(), done_ = 0;
      rows.event(LogEventKind::kEvaluation, line).duration_ns = 0;
      if (*begun_ >= events.size()) return true;   // of so many that no more are kept
    }
    LogEvent& e = events[*begun_];
    e.duration_ns = e.duration_ns.value_or(0) + std::max<int64_t>(part->done - done_, 0) * *each_ns;
    done_ = std::max(done_, part->done);
    return true;
  }

  std::optional<size_t> begun_;   // place of the event of a validation that goes on
  int64_t done_ = 0;              // of its iterations
};

}  // namespace

extern const LogFamily kOpenMmLab = {kOpenMmLabName,
                                     "OpenMMLab's runners and Detectron2: \"time: 0.41 data_time: 0.01\"",
                                     {"data_time: "},
                                     [] { return std::unique_ptr<LogReading>(new OpenMmLab); }};

}  // namespace profgpu
