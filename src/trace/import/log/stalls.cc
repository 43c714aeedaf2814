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

  // Every rank says that it saves: lines of one step are one event, and so are the first and the last of one that is
  // written in the background while steps go on.
  void save(const LogLine& line, LogBuilder& rows, bool ends) {
    std::vector<LogEvent>& events = rows.log().events;
    const std::optional<int64_t> of = saved_step(line.message);
    Save* found = nullptr;
    for (Save& s : saves_) {
      const bool is_save = s.place < events.size() && events[s.place].kind == LogEventKind::kCheckpoint &&
                           s.run == rows.runs();
      if (is_save && (of && s.of ? of == s.of : s.at == rows.newest_step())) found = &s;
    }
    const bool same = found != nullptr;
    if (!same) found = &begin_save(line, of, rows);
    if (found->place >= events.size()) return;
    LogEvent& e = events[found->place];
    const auto stated = ends ? stated_time(line.message) : std::nullopt;
    if (stated) e.duration_ns = stated, found->stated = true;
    const bool waited = found->at == rows.newest_step();   // else steps went on meanwhile
    if (!same || !ends || found->stated || !waited || !line.printed_ns || !e.printed_ns) return;
    const int64_t since_ns = *line.printed_ns - *e.printed_ns;
    if (since_ns > 0 && since_ns < kLongestSave_ns) e.duration_ns = std::max(e.duration_ns.value_or(0), since_ns);
  }

  struct Save {
    size_t place = 0;                 // of its event
    std::optional<int64_t> of, at;    // the step that its lines name, and the last one before it
    int64_t run = 0;
    bool stated = false;
  };
  Save& begin_save(const LogLine& line, const std::optional<int64_t>& of, LogBuilder& rows) {
    constexpr size_t kOpen = 4;
    if (saves_.size() >= kOpen) saves_.erase(saves_.begin());
    const size_t place = rows.log().events.size();
    LogEvent& e = rows.event(LogEventKind::kCheckpoint, line);
    if (of) e.step = of;
    return saves_.emplace_back(Save{place, of, rows.newest_step(), rows.runs(), false});
  }

  // "at iteration 1000", "out/checkpoint-500", "global_step500"
  static std::optional<int64_t> saved_step(std::string_view text) {
    for (const std::string_view key : {"iteration", "checkpoint-", "global_step", "step-", "step_", "step "})
      for (size_t at = text.find(key); at != text.npos; at = text.find(key, at + 1))
        if (const auto step = leading_integer(text.substr(at + key.size())); step && *step >= 0) return step;
    return std::nullopt;
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

  std::vector<Save> saves_;  // the last ones
};

}  // namespace

extern const LogFamily kStalls = {"stalls", "checkpoints and evaluations", {"validation loss at", "heckpoint"}, [] {
                                    return std::unique_ptr<LogReading>(new Stalls);
                                  }};

}  // namespace profgpu
