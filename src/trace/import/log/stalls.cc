// What a training stops for, whatever the framework: checkpoints and evaluations.
//
//   saving checkpoint at iteration  1000 to /path                      Megatron; then "successfully saved checkpoint …"
//   [ts] [INFO] [logging.py:96:log_dist] [Rank 0] Saving model checkpoint: /path            DeepSpeed
//   Saving model checkpoint to output_dir/checkpoint-500               Hugging Face
//   Saving the checkpoint …; Finished saving the checkpoint … in 12.34 seconds.             torchtitan
//   validation loss at iteration 200 | lm loss value: 7.48E+00 | …     Megatron
//
// How long it took is stated, or is between the first and the last line of one, if they have clock times.

#include "base/text.h"
#include "trace/import/log/log_family.h"

namespace profgpu {
namespace {

constexpr int64_t kLongestSave_ns = int64_t{6} * 3600 * 1'000'000'000;
constexpr int64_t kTimerAbove = 4;  // lines

class Stalls : public LogReading {
 public:
  bool read(const LogLine& line, LogBuilder& rows) override {
    const std::string_view text = line.message;
    if (has(text, "validation loss at")) return evaluation(line, rows);
    const std::string plain = lower_case(text.substr(0, 160));
    if (has(plain, "not save") || has(plain, "load") || !has(plain, "checkpoint")) return false;
    const bool begins = has(plain, "saving checkpoint") || has(plain, "saving model checkpoint") ||
                        has(plain, "saving the checkpoint") || has(plain, "saving full checkpoint");
    const bool ends = has(plain, "saved checkpoint") || has(plain, "finished saving") ||
                      has(plain, "checkpoint saved") || has(plain, "saved zero checkpoint") ||
                      has(plain, "successfully saved");
    if (!begins && !ends) return false;
    save(line, rows, ends);
    return true;
  }

 private:
  // Megatron's timer of it stands right above.
  static bool evaluation(const LogLine& line, LogBuilder& rows) {
    LogEvent* timed = rows.newest_event(LogEventKind::kEvaluation);
    const bool above = timed != nullptr && timed->duration_ns && line.number - timed->line <= kTimerAbove &&
                       !has(timed->text, "validation loss");
    LogEvent& e = above ? *timed : rows.event(LogEventKind::kEvaluation, line);
    if (above) e.line = line.number, e.text = quotable(line.text);
    if (const auto step = integer_after(line.message, "at iteration")) e.step = step;
    return true;
  }

  // Every rank says that it saves: lines of one step are one event.
  void save(const LogLine& line, LogBuilder& rows, bool ends) {
    std::vector<LogEvent>& events = rows.log().events;
    const bool same = place_ < events.size() && events[place_].kind == LogEventKind::kCheckpoint &&
                      events[place_].step == rows.newest_step();
    if (!same) {
      place_ = events.size();
      rows.event(LogEventKind::kCheckpoint, line);
      if (place_ >= events.size()) return;
    }
    LogEvent& e = events[place_];
    const auto stated = ends ? stated_time(line.message) : std::nullopt;
    if (stated) e.duration_ns = stated, stated_ = true;
    if (!same) stated_ = stated.has_value();
    if (stated_ || !line.printed_ns || !e.printed_ns) return;
    const int64_t since_ns = *line.printed_ns - *e.printed_ns;
    if (since_ns > 0 && since_ns < kLongestSave_ns) e.duration_ns = std::max(e.duration_ns.value_or(0), since_ns);
  }

  // "in 12.34 seconds"
  static std::optional<int64_t> stated_time(std::string_view text) {
    for (size_t at = text.find("in "); at != text.npos; at = text.find("in ", at + 1)) {
      std::string_view rest;
      const auto ns = leading_seconds(text.substr(at + 3), &rest);
      const std::string_view unit = without_blanks(rest);
      const size_t end = std::min(unit.find_first_not_of("second"), unit.size());
      const bool is_word = end == unit.size() || !is_letter(unit[end]);   // "in 16 shards" is no time
      if (ns && is_word && (unit.starts_with("sec") || (end == 1 && unit[0] == 's'))) return ns;
    }
    return std::nullopt;
  }

  size_t place_ = SIZE_MAX;  // of the newest checkpoint
  bool stated_ = false;
};

}  // namespace

extern const LogFamily kStalls = {"stalls", "checkpoints and evaluations", {"validation loss at", "heckpoint"}, [] {
                                    return std::unique_ptr<LogReading>(new Stalls);
                                  }};

}  // namespace profgpu
