// Megatron-LM, Megatron-DeepSpeed and what descends from them (GPT-NeoX, BLOOM, nanotron, Pai-Megatron):
//
//    [2024-05-01 12:00:00] iteration  10/ 1000 | consumed samples: 40 | elapsed time per iteration (ms): 2152.2 | …
//   time (ms) | forward-compute: 306.62 | forward-recv: 527.58 | …                    means of the same iterations
//   (min, max) time across ranks (ms):
//       forward-backward ................................: (210.40, 221.30)
//   times across ranks (ms):
//     forward-backward:
//        rank  0: 210.40
//        rank  1: 221.30
//
// Timers lie within others; a phase is made of those that do not.
#include <algorithm>
#include <array>
#include <unordered_map>
#include <utility>
#include <variant>

#include "base/text.h"
#include "trace/import/log/log_family.h"

namespace profgpu {
namespace {

constexpr std::string_view kName = "megatron";

// What a field of the line states: a figure, or one that needs more than its number.
enum class Special : uint8_t { kTime_ms, kTime_s, kFlopsWithUnit, kMfu };
using Field = std::variant<std::optional<double> LogFigures::*, std::optional<int64_t> LogFigures::*, Special>;

// By what stands before the colon, in lower case and with blanks for underscores.
const std::unordered_map<std::string_view, Field>& fields() {
  static const std::unordered_map<std::string_view, Field> all = {
      {"elapsed time per iteration (ms)", Special::kTime_ms},
      {"elapsed time per iteration ms", Special::kTime_ms},
      {"elapsed time per iteration (s)", Special::kTime_s},
      {"learning rate", &LogFigures::learning_rate},
      {"lr", &LogFigures::learning_rate},
      {"lm loss", &LogFigures::loss},
      {"lm-loss", &LogFigures::loss},
      {"loss", &LogFigures::loss},
      {"loss scale", &LogFigures::loss_scale},
      {"grad norm", &LogFigures::grad_norm},
      {"global batch size", &LogFigures::samples},
      {"number of skipped iterations", &LogFigures::skipped},
      {"number of nan iterations", &LogFigures::not_finite},
      {"samples per second", &LogFigures::samples_per_s},
      {"samples/sec", &LogFigures::samples_per_s},
      {"tokens per sec", &LogFigures::tokens_per_s},
      {"tokens per second", &LogFigures::tokens_per_s},
      {"throughput (token/sec/gpu)", &LogFigures::device_tokens_per_s},
      {"tokens per gpu per second", &LogFigures::device_tokens_per_s},
      {"tokens per gpu per second (tgs)", &LogFigures::device_tokens_per_s},
      {"tokens per gpu per second tgs", &LogFigures::device_tokens_per_s},
      {"tokens per sec per gpu", &LogFigures::device_tokens_per_s},
      {"tgs", &LogFigures::device_tokens_per_s},
      {"throughput per gpu (tflop/s/gpu)", &LogFigures::tflops},
      {"tflops", &LogFigures::tflops},
      {"flop throughput (tflop/sec/gpu)", &LogFigures::tflops},
      {"model tflops per gpu", &LogFigures::tflops},
      {"[lm]tflops", &LogFigures::tflops},
      {"lm tflops", &LogFigures::tflops},
      {"tflops/gpu", &LogFigures::tflops},
      {"approx flops per gpu", Special::kFlopsWithUnit},
      {"mfu", Special::kMfu},
      {"model flops utilization", Special::kMfu}};
  return all;
}

void set_figure(Field field, std::string_view value, LogStep& step) {
  LogFigures& f = step.figures;
  if (const auto* real = std::get_if<std::optional<double> LogFigures::*>(&field)) {
    f.*(*real) = printed_number(value);
  } else if (const auto* whole = std::get_if<std::optional<int64_t> LogFigures::*>(&field)) {
    f.*(*whole) = leading_integer(value);
  } else if (field == Field(Special::kTime_ms)) {
    step.duration_ns = leading_ms(value);
  } else if (field == Field(Special::kTime_s)) {
    step.duration_ns = leading_seconds(value);
  } else if (field == Field(Special::kFlopsWithUnit)) {
    if (has(value, "TFLOPS")) f.tflops = printed_number(value);
  } else {
    f.mfu_pct = printed_number(value);
    if (f.mfu_pct && *f.mfu_pct <= 1 && !has(value, "%")) *f.mfu_pct *= 100;
  }
}

// "lm_loss: 8.1E+00", "lm loss=8.1", "learning rate 1.5E-04": sets what is stated.
void read_field(std::string_view piece, LogStep& step) {
  piece = without_blanks(piece);
  size_t joint = piece.find_last_of(":=");
  if (joint == piece.npos) joint = piece.rfind(' ');
  constexpr size_t kLongestKey = 48;
  if (joint == piece.npos || joint > kLongestKey) return;
  const std::string_view name = without_blanks(piece.substr(0, joint));
  std::array<char, kLongestKey> key{};
  for (size_t i = 0; i < name.size(); ++i) key[i] = name[i] == '_' ? ' ' : lower(name[i]);
  const std::string_view plain(key.data(), name.size());
  const auto field = fields().find(plain);
  if (field != fields().end())
    set_figure(field->second, piece.substr(joint + 1), step);
  else if (!step.figures.loss && plain.ends_with("loss"))
    step.figures.loss = printed_number(piece.substr(joint + 1));
}

// Timers and the phase they are part of; the time of any other lies within one of these, or is of no step.
const std::unordered_map<std::string_view, LogPhase>& timer_phases() {
  static const std::unordered_map<std::string_view, LogPhase> all = {
      {"forward", LogPhase::kForward},
      {"forward-compute", LogPhase::kForward},
      {"backward", LogPhase::kBackward},
      {"backward-compute", LogPhase::kBackward},
      {"forward-backward", LogPhase::kForwardBackward},
      {"batch-generator", LogPhase::kDataLoading},
      {"forward-recv", LogPhase::kCommunication},
      {"forward-send", LogPhase::kCommunication},
      {"backward-recv", LogPhase::kCommunication},
      {"backward-send", LogPhase::kCommunication},
      {"forward-send-forward-recv", LogPhase::kCommunication},
      {"forward-send-backward-recv", LogPhase::kCommunication},
      {"backward-send-forward-recv", LogPhase::kCommunication},
      {"backward-send-backward-recv", LogPhase::kCommunication},
      {"forward-backward-send-forward-backward-recv", LogPhase::kCommunication},
      {"backward-params-all-reduce", LogPhase::kCommunication},
      {"backward-embedding-all-reduce", LogPhase::kCommunication},
      {"backward-layernorm-all-reduce", LogPhase::kCommunication},
      {"layernorm-grads-all-reduce", LogPhase::kCommunication},
      {"non-tensor-parallel-grads-all-reduce", LogPhase::kCommunication},
      {"conditional-embedder-grads-all-reduce", LogPhase::kCommunication},
      {"embedding-grads-all-reduce", LogPhase::kCommunication},
      {"grads-all-reduce", LogPhase::kCommunication},
      {"grads-reduce-scatter", LogPhase::kCommunication},
      {"backward-reduce-model-grads", LogPhase::kCommunication},
      {"backward-gather-model-params", LogPhase::kCommunication},
      {"params-all-gather", LogPhase::kCommunication},
      {"all-grads-sync", LogPhase::kCommunication},
      {"optimizer", LogPhase::kOptimizer},
  };
  return all;
}

// A timer of all reductions of gradients, and those of its parts, which may be printed before or behind it.
bool is_grads_whole(std::string_view timer) {
  return timer == "all-grads-sync" || timer == "backward-reduce-model-grads";
}
bool is_grads_detail(std::string_view timer) {
  return timer.ends_with("grads-all-reduce") || timer == "grads-reduce-scatter" ||
         (timer.starts_with("backward-") && timer.ends_with("-all-reduce"));
}

struct Reductions {
  int64_t whole_ns = 0, details_ns = 0;
  [[nodiscard]] int64_t counted_ns() const { return whole_ns > 0 ? whole_ns : details_ns; }
};

// Between bars, without a copy.
template <class Visit>
void for_each_piece(std::string_view text, Visit&& visit) {
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('|', at), text.size());
    visit(text.substr(at, end - at));
    at = end + 1;
  }
}

class Megatron : public LogReading {
 public:
  bool read(const LogLine& line, LogBuilder& rows) override {
    if (in_block_ && read_block(line, rows)) return true;
    end_block(rows);
    const std::string_view text = line.message;
    constexpr std::string_view kTimersHead = "time (ms) |";
    if (text.starts_with(kTimersHead)) return read_timers(text.substr(kTimersHead.size()), line, rows);
    if (has(text, "elapsed time per iteration") || has(text, "elapsed_time_per_iteration"))
      return read_iteration(line, rows);
    if (const auto timers = after(text, kTimersHead)) return read_timers(*timers, line, rows);
    for (const std::string_view head : {"time across ranks (ms):", "times across ranks (ms):"}) {
      const auto behind = after(text, head);
      if (!behind) continue;
      begin_block(line, rows);
      const std::string_view rest = without_blanks(*behind);
      if (!rest.empty()) read_block_line(rest, line, rows);
      return true;
    }
    if (has(text, "Effective Tera Flops per GPU:")) return read_flops(line, rows);
    if (has(text, "GPU utilization: ")) return read_utilization(text);
    return false;
  }
  [[nodiscard]] bool expects_more() const override { return in_block_; }
  void end(LogBuilder& rows) override { give_listed(rows); }

 private:
  bool read_iteration(const LogLine& line, LogBuilder& rows) {
    const auto tflops = std::exchange(tflops_, std::nullopt);
    const std::string_view text = line.message;
    const size_t at = text.find("iteration");
    std::string_view number = text.substr(at + 9);
    number.remove_prefix(std::min(number.size(), number.find_first_not_of(" =:")));
    std::string_view rest;
    const auto n = leading_integer(number, &rest);
    if (at == text.npos || !n || *n < 0) return false;
    LogStep* step = rows.step(kName, line, *n);
    if (step == nullptr) return true;
    for_each_piece(text, [&](std::string_view piece) { read_field(piece, *step); });
    if (!step->figures.tflops) step->figures.tflops = tflops;
    return true;
  }

  // DeepSpeed's own timers look alike and are another family's.
  static bool is_deepspeed(std::string_view timers) {
    const std::string_view first = without_blanks(timers.substr(0, timers.find(':')));
    if (first.find('-') != first.npos) return false;  // DeepSpeed's have underscores
    return has(timers, "microstep") || has(timers, "fwd") || has(timers, "optimizer_") || has(timers, "| step:") ||
           without_blanks(timers).starts_with("step:");
  }

  bool read_timers(std::string_view timers, const LogLine& line, LogBuilder& rows) {
    if (is_deepspeed(timers)) return false;
    begin_block(line, rows);
    for_each_piece(timers, [&](std::string_view piece) {
      const size_t joint = piece.rfind(':');
      const auto ns = joint == piece.npos ? std::nullopt : leading_ms(piece.substr(joint + 1));
      if (ns) time(piece.substr(0, joint), *ns, *ns, line, rows);
    });
    end_block(rows);
    return true;
  }

  void begin_block(const LogLine& line, LogBuilder& rows) {
    in_block_ = true;
    head_ = line, head_node_ = line.node, head_.node = head_node_, head_.text = head_.message = {};
    heading_.clear();
    reductions_ = {}, within_forward_ns_ = 0;
    // Timers of what comes before the first iteration are not of its steps; one iteration has one set of them.
    step_ = rows.last(kName, line) != nullptr;
    fresh_ = step_ && !rows.last(kName, line)->timed();
  }

  // "    forward-backward ....................: (210.40, 221.30)", "    rank  0: 12.34", or else not of the block.
  bool read_block(const LogLine& line, LogBuilder& rows) {
    if (line.rank != head_.rank) return false;
    return read_block_line(line.text, line, rows);
  }

  bool read_block_line(std::string_view text, const LogLine& line, LogBuilder& rows) {
    const size_t joint = text.rfind(':');
    if (joint == text.npos || text.empty()) return false;
    std::string_view value = without_blanks(text.substr(joint + 1)), name = without_blanks(text.substr(0, joint));
    if (value.empty()) return heading(name, rows);
    const bool pair = value.starts_with('(');
    if (pair) value.remove_prefix(1);
    std::string_view rest;
    const auto least = leading_ms(value, &rest);
    const auto most = pair && rest.starts_with(',') ? leading_ms(rest.substr(1)) : least;
    if (!least || !most) return false;
    if (name.starts_with("rank ") && !heading_.empty()) {
      if (!listed_) listed_.emplace(*least, *most);
      else listed_ = std::pair(std::min(listed_->first, *least), std::max(listed_->second, *most));
      return true;
    }
    if (!pair && !has(name, "..")) return false;
    time(name.substr(0, name.find(" .")), *least, *most, line, rows);
    return true;
  }

  // "  forward-compute:", of `times across ranks`, before the time of each rank.
  bool heading(std::string_view name, LogBuilder& rows) {
    give_listed(rows);
    heading_ = name;
    return name.find(' ') == name.npos && name.size() < 64;
  }

  // What is listed rank by rank is one timer, with its least and its most.
  void give_listed(LogBuilder& rows) {
    const auto listed = std::exchange(listed_, std::nullopt);
    if (listed) time(heading_, listed->first, listed->second, head_, rows);
  }

  void end_block(LogBuilder& rows) {
    give_listed(rows);
    in_block_ = false;
  }

  // Known only once it is over: the line that announced it stands before. Of an evaluation, the losses follow.
  static void stop(LogEventKind kind, int64_t ns, const LogLine& line, LogBuilder& rows) {
    LogEvent* announced = kind == LogEventKind::kCheckpoint ? rows.newest_event(kind) : nullptr;
    LogEvent& e = announced != nullptr && announced->line > rows.newest_step_line() ? *announced : rows.event(kind, line);
    e.duration_ns = ns;
  }

  void time(std::string_view name, int64_t least, int64_t most, const LogLine& line, LogBuilder& rows) {
    name = without_blanks(name);
    std::string joined;  // older versions: "batch generator"
    if (name.find(' ') != name.npos) {
      joined = name;
      std::ranges::replace(joined, ' ', '-');
      name = joined;
    }
    if (name.starts_with("save-checkpoint")) return stop(LogEventKind::kCheckpoint, most, line, rows);
    if (name == "evaluate") return stop(LogEventKind::kEvaluation, most, line, rows);
    if (!step_ || name == "eval-time" || name == "interval-time") return;
    if (name.starts_with("load-checkpoint") || name.ends_with("setup")) return;
    const auto known = timer_phases().find(name);
    const auto phase = known != timer_phases().end() ? std::optional(known->second) : std::nullopt;
    LogSeries& series = rows.series(kName, line);
    LogBuilder::time(series, {name, phase, line.number}, least, most);
    // Of timers that wait for other ranks what is least over the ranks is the transfer.
    if (fresh_) add(name, phase, phase == LogPhase::kCommunication ? least : most, series.steps.back());
  }

  void add(std::string_view name, std::optional<LogPhase> phase, int64_t ns, LogStep& step) {
    if (phase == LogPhase::kCommunication && (is_grads_whole(name) || is_grads_detail(name))) {
      const int64_t before = reductions_.counted_ns();
      (is_grads_whole(name) ? reductions_.whole_ns : reductions_.details_ns) += ns;
      step.phase(LogPhase::kCommunication) += reductions_.counted_ns() - before;
      return;
    }
    if (name == "backward-allreduce") {  // of the first Megatron: within `backward`
      const int64_t within = std::min(ns, step.phase(LogPhase::kBackward));
      step.phase(LogPhase::kBackward) -= within, step.phase(LogPhase::kCommunication) += within;
    }
    if (!phase || (phase == LogPhase::kForwardBackward && step.phase(LogPhase::kForward) > 0)) return;
    if (phase == LogPhase::kForward) step.phase(LogPhase::kForwardBackward) = 0;  // told more closely
    step.phase(*phase) += ns;
    // Batches are fetched within the forward pass.
    if (phase == LogPhase::kDataLoading) within_forward_ns_ = ns;
    if (step.phase(LogPhase::kForward) < within_forward_ns_) return;
    step.phase(LogPhase::kForward) -= within_forward_ns_;
    within_forward_ns_ = 0;
  }

  // Megatron-Bridge's "Step Time : 14.26s GPU utilization: 58.2TFLOP/s/GPU", before the iteration that it is of.
  bool read_utilization(std::string_view text) {
    const auto rate = after(text, "GPU utilization: ");
    const auto tflops = rate ? printed_number(rate->substr(0, rate->find('T'))) : std::nullopt;
    if (!tflops || *tflops < 0 || !has(*rate, "TFLOP/s/GPU")) return false;
    tflops_ = tflops;
    return true;
  }

  static bool read_flops(const LogLine& line, LogBuilder& rows) {
    LogStep* step = rows.last(kName, line);
    if (step != nullptr && !step->figures.tflops)
      step->figures.tflops = number_after(line.message, "Effective Tera Flops per GPU:");
    return true;
  }

  bool in_block_ = false, step_ = false, fresh_ = false;
  LogLine head_;  // of the block, without its text
  Reductions reductions_;
  int64_t within_forward_ns_ = 0;
  std::string heading_, head_node_;
  std::optional<double> tflops_;  // of the next iteration
  std::optional<std::pair<int64_t, int64_t>> listed_;  // under the heading: the least and the most
};

}  // namespace

extern const LogFamily kMegatron = {kName,
                                    "Megatron-LM, Megatron-DeepSpeed and their descendants: iterations, timers",
                                    {"elapsed time per iteration", "elapsed_time_per_iteration", "time (ms) |",
                                     "across ranks (ms):", "Effective Tera Flops", "GPU utilization: "},
                                    [] { return std::unique_ptr<LogReading>(new Megatron); }};

}  // namespace profgpu
