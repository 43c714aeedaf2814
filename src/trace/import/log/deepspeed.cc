// DeepSpeed: wall_clock_breakdown, the throughput timer, the pipeline engine, loss scales and skipped steps.
//
//   [ts] [INFO] [logging.py:96:log_dist] [Rank 0] time (ms) | fwd: 12.3 | bwd: 23.4 | bwd_inner: … | bwd_allreduce: … |
//   step: … [ts] [INFO] [logging.py:96:log_dist] [Rank 0] step=10, skipped=0, lr=[1e-05], mom=[(0.9, 0.999)]
//   epoch=0/micro_step=20/global_step=10, RunningAvgSamplesPerSec=…, CurrSamplesPerSec=…, MemAllocated=…GB,
//   MaxMemAllocated=…GB steps: 10 loss: 7.4 iter time (s): 0.512 samples/sec: 31.2 [deepspeed] OVERFLOW! Rank 0
//   Skipping step. Attempted loss scale: 65536, reducing to 32768
//
// A step's time is the pipeline engine's, else the sum of the timers of its passes and its update; the engine measures
// nothing between its calls. A log that has timers of micro-batches only has a row for each of these. Before 2023 lines
// begin with "rank=3 time (ms)". Names before August 2023: forward, backward, step, each with _microstep too.
#include <algorithm>
#include <array>
#include <map>

#include "base/text.h"
#include "trace/import/log/log_family.h"

namespace profgpu {
namespace {

constexpr std::string_view kDeepSpeedName = "deepspeed";

struct Timers {
  std::optional<int64_t> forward, backward, inner, all_reduce, update;
  [[nodiscard]] bool step() const { return forward && backward && update; }
  /// `step`: a row without them.
  void set(LogStep& step) const {
    if (!step.duration_ns) step.duration_ns = *forward + *backward + *update;
    const int64_t reduced = std::min(all_reduce.value_or(0), *backward);
    step.phase(LogPhase::kForward) = *forward;
    step.phase(LogPhase::kBackward) = *backward - reduced;
    step.phase(LogPhase::kCommunication) = reduced;
    step.phase(LogPhase::kOptimizer) = *update;
  }
};

void set_timer(std::string_view name, int64_t ns, Timers& timers) {
  if (name == "fwd" || name == "forward")
    timers.forward = ns;
  else if (name == "bwd" || name == "backward")
    timers.backward = ns;
  else if (name == "bwd_inner" || name == "backward_inner")
    timers.inner = ns;
  else if (name == "bwd_allreduce" || name == "backward_allreduce")
    timers.all_reduce = ns;
  else if (name == "step")
    timers.update = ns;
}

// Timers that lie within the ones above, or tell of one micro-batch.
std::optional<LogPhase> phase_of_timer(std::string_view name) {
  if (name == "fwd" || name == "forward") return LogPhase::kForward;
  if (name == "bwd_inner" || name == "backward_inner") return LogPhase::kBackward;
  if (name == "bwd_allreduce" || name == "backward_allreduce") return LogPhase::kCommunication;
  if (name == "step") return LogPhase::kOptimizer;
  return std::nullopt;
}

bool is_deepspeed_timer(std::string_view name) {
  constexpr std::array<std::string_view, 6> kOwn = {"fwd", "bwd", "bwd_inner", "bwd_allreduce", "step", "batch_input"};
  return name.ends_with("microstep") || name.starts_with("optimizer_") || name.starts_with("pipe_") ||
         name.starts_with("backward_") || std::ranges::count(kOwn, name) > 0;
}

class DeepSpeed : public LogReading {
 public:
  bool read(const LogLine& line, LogBuilder& rows) override {
    const std::string_view text = line.message;
    if (const auto timers = after(text, "time (ms) |")) {
      const auto rank = line.rank < 0 && text.starts_with("rank=") ? leading_integer(text.substr(5)) : std::nullopt;
      if (!rank || *rank < 0 || *rank >= 10'000'000) return read_timers(*timers, line, rows);
      LogLine of = line;
      of.rank = static_cast<int>(*rank);
      return read_timers(*timers, of, rows);
    }
    if (has(text, "SamplesPerSec=")) return read_throughput(line, rows);
    if (has(text, "skipped=") && has(text, "lr=[")) return read_rates(line, rows);
    if (has(text, "iter time (s):")) return read_pipeline(line, rows);
    if (has(text, "OVERFLOW!")) return read_overflow(line, rows);
    return false;
  }

  void end(LogBuilder& rows) override {
    // A trainer around it prints steps of its own.
    constexpr std::array<std::string_view, 7> kStepless = {kDeepSpeedName, "setup",      "memory", "stalls",
                                                           "run_end",      "nccl_debug", "deepspeed_profile"};
    const bool alone = std::ranges::all_of(rows.log().families, [&](const std::string& f) {
      return std::ranges::count(kStepless, f) > 0;
    });
    if (!alone) micro_.clear();
    for (auto& [series, all] : micro_) {
      const bool told = std::ranges::any_of(series->steps, [](const LogStep& s) { return s.timed() || s.duration_ns; });
      if (told || rows.setting("global_batch_size")) continue;
      series->steps = std::move(all);
      rows.setting("step_time", "micro_batch");
    }
    micro_.clear();
  }

 private:
  bool read_timers(std::string_view text, const LogLine& line, LogBuilder& rows) {
    // Megatron's look alike; its names have hyphens.
    const std::string_view first = text.substr(0, text.find(':'));
    if (first.find('-') != first.npos) return false;
    std::vector<std::pair<std::string_view, int64_t>> all;
    bool own = false;
    for (const std::string_view piece : pieces_of(text, '|')) {
      const size_t joint = piece.rfind(':');
      const auto ns = joint == piece.npos ? std::nullopt : leading_ms(piece.substr(joint + 1));
      if (!ns) continue;
      all.emplace_back(without_blanks(piece.substr(0, joint)), *ns);
      own |= is_deepspeed_timer(all.back().first);
    }
    if (!own) return false;
    rows.found(kDeepSpeedName);
    Timers timers, micro;
    LogSeries& series = rows.series(kDeepSpeedName, line);
    for (const auto& [name, ns] : all) {
      set_timer(name, ns, timers);
      if (name.ends_with(kMicro)) set_timer(name.substr(0, name.size() - kMicro.size()), ns, micro);
      LogBuilder::time(series, {name, phase_of_timer(name), line.number}, ns, ns);
    }
    if (timers.step()) add_step(timers, line, rows);
    if (micro.step()) add_micro_batch(micro, line, rows);
    return true;
  }

  void add_micro_batch(const Timers& micro, const LogLine& line, LogBuilder& rows) {
    std::vector<LogStep>& all = micro_[&rows.series(kDeepSpeedName, line)];
    if (all.size() >= kMaxMicro) return;
    LogStep& s = all.emplace_back();
    s.number = static_cast<int64_t>(all.size());
    s.line = line.number;
    s.printed_ns = line.printed_ns;
    micro.set(s);
  }

  // The line of a whole step; micro-batches have lines of their own.
  void add_step(const Timers& t, const LogLine& line, LogBuilder& rows) {
    LogStep* last = rows.last(kDeepSpeedName, line);
    // The step's number may have come on a line before, else it is counted.
    const bool pending = last != nullptr && !last->timed() && line.number - last->line < kSameStep;
    LogStep* step = pending ? last : rows.step(kDeepSpeedName, line, last != nullptr ? last->number + 1 : 1);
    if (step == nullptr) return;
    if (!pending) counted_[line.rank] = step->number;
    step->iterations = 1;
    if (!step->printed_ns) step->printed_ns = line.printed_ns;
    t.set(*step);
  }

  // The row of a step that a line names: of the timers' line just before, else a new one. What a line named before is
  // another step.
  LogStep* named_step(int64_t number, const LogLine& line, LogBuilder& rows) const {
    LogStep* last = rows.last(kDeepSpeedName, line);
    if (last != nullptr && last->number == number) return last;
    const auto by_count = counted_.find(line.rank);
    const bool counted = last != nullptr && by_count != counted_.end() && by_count->second == last->number &&
                         last->timed() && line.number - last->line < kSameStep && last->number < number;
    if (counted && (rows.series(kDeepSpeedName, line).steps.size() == 1 || last->number + 1 == number)) {
      last->number = number;  // it was counted from 1; now the number is known
      return last;
    }
    return rows.step(kDeepSpeedName, line, number);
  }

  bool read_throughput(const LogLine& line, LogBuilder& rows) const {
    const std::string_view text = line.message;
    auto number = integer_after(text, "global_step=");
    if (!number) number = integer_after(text, "step=");  // 2020: "0/10, SamplesPerSec=…"
    if (!number)
      if (const size_t slash = text.find('/'); slash != text.npos) number = leading_integer(text.substr(slash + 1));
    if (!number) return false;
    LogStep* step = named_step(*number, line, rows);
    if (step == nullptr) return true;
    const auto now = number_after(text, "CurrSamplesPerSec=");
    step->figures.samples_per_s = now ? now : number_after(text, "SamplesPerSec=");
    if (const auto memory = after(text, "MemAllocated=")) {
      LogMemory row{};
      row.step = number;
      row.allocated_bytes = leading_bytes(*memory);
      if (const auto most = after(text, "MaxMemAllocated=")) row.max_allocated_bytes = leading_bytes(*most);
      step->figures.allocated_bytes = row.max_allocated_bytes;
      rows.memory(row, line);
    }
    return true;
  }

  bool read_rates(const LogLine& line, LogBuilder& rows) {
    const auto number = integer_after(line.message, "step=");
    if (!number) return false;
    rows.found(kDeepSpeedName);
    const auto skipped = integer_after(line.message, "skipped=");
    if (skipped) rows.log().settings["skipped_steps"] = std::to_string(*skipped);  // so far
    if (*number == 0) return true;                                                 // before the first step
    LogStep* step = named_step(*number, line, rows);
    if (step == nullptr) return true;
    step->figures.learning_rate = number_after(line.message, "lr=[");
    // All so far; what the lines between two such lines skipped counts for the later one.
    const auto before = skipped_.find(line.rank);
    if (skipped && (before != skipped_.end() || *number == 1))
      step->figures.skipped = std::max<int64_t>(*skipped - (before != skipped_.end() ? before->second : 0), 0);
    if (skipped) skipped_[line.rank] = *skipped;
    return true;
  }

  bool read_pipeline(const LogLine& line, LogBuilder& rows) const {
    const auto number = integer_after(line.message, "steps:");
    if (!number) return false;
    LogStep* step = named_step(*number, line, rows);
    if (step == nullptr) return true;
    step->figures.loss = number_after(line.message, " loss:");
    step->figures.samples_per_s = number_after(line.message, "samples/sec:");
    if (const auto time = after(line.message, "iter time (s):")) step->duration_ns = leading_seconds(*time);
    return true;  // the mean since the last such line
  }

  // Older versions say it on each rank: the first one that is named counts for all.
  bool read_overflow(const LogLine& line, LogBuilder& rows) {
    rows.found(kDeepSpeedName);
    const auto rank = integer_after(line.message, "Rank ");
    if (rank && !overflows_on_) overflows_on_ = rank;
    if (!rank || rank == overflows_on_) rows.event(LogEventKind::kSkipped, line);
    return true;
  }

  static constexpr std::string_view kMicro = "_microstep";
  static constexpr size_t kMaxMicro = 1'000'000;
  std::map<LogSeries*, std::vector<LogStep>> micro_;   // of logs that have no times of whole steps
  static constexpr int64_t kSameStep = 24;  // lines about one step stand together
  std::map<int, int64_t> counted_;          // by rank: the last step whose number no line named
  std::map<int, int64_t> skipped_;          // by rank: updates, so far
  std::optional<int64_t> overflows_on_;     // the rank whose lines count
};

}  // namespace

extern const LogFamily kDeepSpeed = {kDeepSpeedName,
                                     "DeepSpeed: wall_clock_breakdown, throughput, pipeline engine, skipped steps",
                                     {"time (ms) |", "SamplesPerSec=", "skipped=", "iter time (s):", "OVERFLOW!"},
                                     [] { return std::unique_ptr<LogReading>(new DeepSpeed); }};

}  // namespace profgpu
