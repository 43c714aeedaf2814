// Programs of reinforcement learning that print the parts of a step: NeMo-RL a block, slime a dict.
//
//   ========================= Step 2/100 =========================
//     • Loss: 0.1032
//     • Total step time: 66.55s
//     • policy_training: 25.05s (37.6%)
//
//   train_metric_utils.py:44 - perf 3: {'perf/rollout_time': 245.6, 'perf/train_time': 41.6, 'perf/step_time': 287.5}
#include "base/text.h"
#include "trace/import/log/log_family.h"

namespace profgpu {
namespace {

constexpr std::string_view kReinforcementName = "reinforcement";
constexpr size_t kMaxTimerName = 64;

class Reinforcement : public LogReading {
 public:
  bool read(const LogLine& line, LogBuilder& rows) override {
    if (has(line.message, "'perf/step_time'")) return read_slime(line, rows);
    if (line.message.starts_with("==") && has(line.message, "= Step ")) return begin_block(line);
    if (!expects_more()) return false;
    if (line.number > begun_ + kLines) return number_.reset(), false;
    return read_item(line, rows);
  }
  [[nodiscard]] bool expects_more() const override { return number_.has_value(); }

 private:
  static constexpr int64_t kLines = 400;

  bool begin_block(const LogLine& line) {
    const auto number = integer_after(line.message, "= Step ");
    if (!number || *number < 0 || *number > 1'000'000'000) return false;
    number_ = number, begun_ = line.number;
    loss_.reset(), timed_ = false;
    return true;
  }

  // "• Loss: 0.1", "• policy_training: 25.05s (37.6%)"
  bool read_item(const LogLine& line, LogBuilder& rows) {
    constexpr std::string_view kBullet = "\xE2\x80\xA2 ";
    const std::string_view text = without_blanks(line.message);
    if (!text.starts_with(kBullet)) return false;
    const size_t colon = text.find(": ");
    if (colon == text.npos) return false;
    const std::string_view name = text.substr(kBullet.size(), colon - kBullet.size()), value = text.substr(colon + 2);
    if (name == "Loss") return loss_ = printed_number(value), true;
    std::string_view unit;
    const auto ns = leading_seconds(value, &unit);
    if (!ns || *ns < 0 || !unit.starts_with('s')) return false;
    if (name == "Total step time") return add(*ns, line, rows);
    if (timed_ && name.find(' ') == name.npos && name.size() <= kMaxTimerName)
      LogBuilder::time(rows.series(kReinforcementName, line), {name, std::nullopt, line.number}, *ns, *ns);
    return timed_;
  }

  bool add(int64_t ns, const LogLine& line, LogBuilder& rows) {
    LogStep* step = rows.step(kReinforcementName, line, *number_);
    timed_ = step != nullptr;
    if (step == nullptr) return true;
    step->duration_ns = ns, step->iterations = 1;
    step->figures.loss = loss_;
    return true;
  }

  static bool read_slime(const LogLine& line, LogBuilder& rows) {
    const auto number = integer_after(line.message, "perf ");
    const auto whole = after(line.message, "'perf/step_time': ");
    const auto ns = whole ? leading_seconds(*whole) : std::nullopt;
    if (!number || *number < 0 || !ns || *ns <= 0) return false;
    LogStep* step = rows.step(kReinforcementName, line, *number);
    if (step == nullptr) return true;
    step->duration_ns = ns, step->iterations = 1;
    LogSeries& series = rows.series(kReinforcementName, line);
    constexpr std::string_view kItem = "'perf/";
    for (auto rest = after(line.message, kItem); rest; rest = after(*rest, kItem)) {
      const std::string_view name = rest->substr(0, std::min(rest->find('\''), rest->size()));
      if (!name.ends_with("_time") || name == "step_time" || name.starts_with("total_") || name.size() > 64) continue;
      const auto part = leading_seconds(rest->substr(std::min(name.size() + 2, rest->size())));
      if (part && *part >= 0) LogBuilder::time(series, {name, std::nullopt, line.number}, *part, *part);
    }
    return true;
  }

  std::optional<int64_t> number_;  // of the block
  std::optional<double> loss_;
  int64_t begun_ = 0;
  bool timed_ = false;  // the step is known
};

}  // namespace

extern const LogFamily kReinforcement = {kReinforcementName,
                                         "NeMo-RL's \"Total step time\" and its parts, slime's \"perf/step_time\"",
                                         {"= Step ", "'perf/step_time'"},
                                         [] { return std::unique_ptr<LogReading>(new Reinforcement); }};

}  // namespace profgpu
