#include "watch/monitor/alert_rule.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/decimal.h"
#include "base/text.h"
#include "trace/health.h"
#include "trace/sample_file_column.h"

namespace profgpu {
namespace {

std::optional<double> critical_xids(const DeviceTally& tally) {
  if (!tally.xids()) return std::nullopt;
  int64_t count = 0;
  for (const auto& [code, times] : *tally.xids()) count += is_critical_xid(code) ? times : 0;
  return static_cast<double>(count);
}

std::optional<double> used_pct(const DeviceTally& tally, int64_t now_ns) {
  const auto used = tally.value(Metric::kMemoryUsed, now_ns), total = tally.value(Metric::kMemoryTotal, now_ns);
  if (!used || !total || *total <= 0) return std::nullopt;
  return *used / *total * 100;
}

std::optional<double> slowed_down_pct(const DeviceTally& tally, int64_t now_ns) {
  const auto reasons = reason_bits(tally.value(Metric::kClockEventReasons, now_ns));
  if (!reasons) return std::nullopt;
  return (*reasons & kFaultReasons) != 0 ? 100 : 0;
}

std::optional<double> to_slowdown(const DeviceTally& tally, int64_t now_ns) {
  return to_slowdown_c(tally.value(Metric::kTemperature, now_ns), tally.value(Metric::kTemperatureSlowdown, now_ns),
                       tally.value(Metric::kTemperatureMargin, now_ns));
}

const AlertFigureInfo& info_of(AlertFigure figure) { return alert_figures()[static_cast<size_t>(figure)]; }

}  // namespace

const std::vector<AlertFigureInfo>& alert_figures() {
  static const std::vector<AlertFigureInfo> kAll = {
      {AlertFigure::kUp, "up", "", "1 while the device answers, else 0"},
      {AlertFigure::kMemoryUsedPct, "memory_used_pct", "%", "part of the device's memory that programs hold"},
      {AlertFigure::kSlowedDownPct, "slowed_down_pct", "%",
       "100 while heat, the hardware or the power brake lowers clocks, else 0"},
      {AlertFigure::kToSlowdown, "to_slowdown_c", "°C", "degrees left before clocks are lowered"},
      {AlertFigure::kProcesses, "processes", "", "processes on the device"},
      {AlertFigure::kXidsCritical, "xids_critical", "",
       "Xid errors since we watch after which the device needs a reset or more"},
  };
  return kAll;
}

bool is_critical_xid(int64_t code) {
  return code == static_cast<int>(code) && xid_meaning(static_cast<int>(code)).severity == Severity::kCritical;
}

std::string_view AlertQuantity::name() const { return metric ? metric->name : info_of(figure).name; }
std::string_view AlertQuantity::unit() const { return metric ? metric->unit : info_of(figure).unit; }

bool AlertQuantity::begins_at_zero() const {
  return metric ? metric->metric == Metric::kXidErrors : figure == AlertFigure::kXidsCritical;
}

std::optional<double> AlertQuantity::value(const DeviceTally& tally, int64_t now_ns) const {
  if (metric) return tally.value(metric->metric, now_ns);
  switch (figure) {
    case AlertFigure::kUp: return std::nullopt;
    case AlertFigure::kMemoryUsedPct: return used_pct(tally, now_ns);
    case AlertFigure::kSlowedDownPct: return slowed_down_pct(tally, now_ns);
    case AlertFigure::kToSlowdown: return to_slowdown(tally, now_ns);
    case AlertFigure::kProcesses:
      return tally.has_processes() ? std::optional<double>(tally.processes().size()) : std::nullopt;
    case AlertFigure::kXidsCritical: return critical_xids(tally);
  }
  return std::nullopt;
}

// The words of an alert to a rule.

namespace {

constexpr size_t kLongestName = 64, kLongestText = 4096;
constexpr int64_t kSecond = 1'000'000'000, kShortestWindow_ns = kSecond, kLongestTime_ns = 30 * 86'400 * kSecond;
// An alert that comes and goes is one alert.
constexpr int64_t kMaxDefaultClear_ns = 60 * kSecond;
constexpr std::string_view kForm =
    "NAME: METRIC > LEVEL [until LEVEL] [and ...] [for 5m] [clear after 1m] [severity warning]";

using Over = AlertCondition::Over;
using Comparison = AlertCondition::Comparison;

bool is_blank(char c) { return c == ' ' || c == '\t'; }

std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> words;
  for (size_t i = 0; i < text.size();) {
    const size_t from = i;
    if (is_blank(text[i])) {
      ++i;
      continue;
    }
    if (text[i] == '(' || text[i] == ')' || text[i] == ',') {
      ++i;
    } else if (text[i] == '<' || text[i] == '>' || text[i] == '=') {
      while (i < text.size() && (text[i] == '<' || text[i] == '>' || text[i] == '=')) ++i;
    } else {
      while (i < text.size() && !is_blank(text[i]) &&
             std::string_view("(),<>=").find(text[i]) == std::string_view::npos)
        ++i;
    }
    words.push_back(text.substr(from, i - from));
  }
  return words;
}

std::optional<Comparison> comparison_of(std::string_view word) {
  if (word == ">") return Comparison::kAbove;
  if (word == ">=") return Comparison::kAtLeast;
  if (word == "<") return Comparison::kBelow;
  if (word == "<=") return Comparison::kAtMost;
  return std::nullopt;
}

std::optional<Severity> severity_of(std::string_view word) {
  for (const Severity s : {Severity::kInfo, Severity::kWarning, Severity::kCritical})
    if (word == severity_name(s)) return s;
  return std::nullopt;
}

class AlertParser {
 public:
  AlertParser(std::string_view name, std::string_view text) : words_(words_of(text)) {
    rule_.name = name;
    rule_.condition = without_blanks(text);
  }
  Result<AlertRule> parse();

 private:
  struct Named {
    AlertQuantity quantity;
    double scale = 1;         // of its levels, where they state no unit
  };

  [[nodiscard]] std::string_view peek() const { return at_ < words_.size() ? words_[at_] : std::string_view(); }
  bool take(std::string_view word) {
    const bool there = peek() == word;
    at_ += there;
    return there;
  }
  std::string_view next() { return at_ < words_.size() ? words_[at_++] : std::string_view(); }
  [[nodiscard]] Error wrong(const std::string& what, std::string_view hint = kForm) const {
    return {fmt::format("alert {}: {}", rule_.name, what), std::string(hint)};
  }
  [[nodiscard]] Error wanted(std::string_view what, std::string_view word) const {
    return wrong(fmt::format("{} is wanted, not {}", what, word.empty() ? "the end" : "\"" + std::string(word) + "\""));
  }

  Status condition();
  Status quantity(AlertCondition& c);
  Status named(std::string_view name);
  Status level(std::string_view what, double& to);
  Status time(std::string_view what, int64_t shortest_ns, int64_t& to);
  Status clause();

  AlertRule rule_;
  Named named_;
  std::vector<std::string_view> words_;
  size_t at_ = 0;
  std::vector<std::string_view> clauses_;
  bool clear_given_ = false;
};

Status AlertParser::named(std::string_view name) {
  const SampleColumn column = sample_column(name);
  if (column.kind == SampleColumn::Kind::kMetric) {
    named_ = {{column.metric, {}}, column.scale};
    return ok();
  }
  for (const AlertFigureInfo& f : alert_figures())
    if (name == f.name) {
      named_ = {{nullptr, f.figure}, 1};
      return ok();
    }
  if (name.empty() || comparison_of(name)) return wanted("a metric", name);
  return wrong(fmt::format("there is no metric \"{}\"", name),
               "`profgpu monitor --help-alerts` lists what alerts can look at");
}

Status AlertParser::quantity(AlertCondition& c) {
  const std::string_view word = next();
  const bool mean = word == "mean", function = (mean || word == "increase") && peek() == "(";
  if (Status s = named(function ? (++at_, next()) : word); !s) return s;
  c.quantity = named_.quantity;
  if (!function) return ok();
  c.over = mean ? Over::kMean : Over::kIncrease;
  if (!take(",")) return wanted(fmt::format("a comma and a time, as in {}({}, 5m),", word, c.quantity.name()), peek());
  if (Status s = time(word, kShortestWindow_ns, c.window_ns); !s) return s;
  if (!take(")")) return wanted("\")\"", peek());
  const bool up = !c.quantity.metric && c.quantity.figure == AlertFigure::kUp;
  if (up) return wrong(fmt::format("up has no {}", word), "up < 1 for 1m");
  const bool counter =
      c.quantity.metric ? c.quantity.metric->kind == MetricKind::kCounter : c.quantity.begins_at_zero();
  if (counter == mean)
    return wrong(fmt::format("{} {} a counter", c.quantity.name(), counter ? "is" : "is not"),
                 fmt::format("{}({}, TIME)", counter ? "increase" : "mean", c.quantity.name()));
  return ok();
}

Status AlertParser::level(std::string_view what, double& to) {
  const std::string_view word = next();
  std::optional<double> number;
  if (named_.quantity.metric) {
    number = word.empty()
                 ? std::nullopt
                 : sample_cell(word, {SampleColumn::Kind::kMetric, named_.quantity.metric, named_.scale}).number;
  } else {
    std::string_view bare = word;
    for (const std::string_view unit : {"%", "°C", "C"})
      if (bare.ends_with(unit) && named_.quantity.unit().ends_with(unit)) bare.remove_suffix(unit.size());
    number = real_number(bare);
  }
  if (!number) {
    const std::string unit(named_.quantity.unit());
    return wanted(fmt::format("a number{} behind \"{}\"", unit.empty() ? "" : " in " + unit, what), word);
  }
  to = *number;
  return ok();
}

Status AlertParser::time(std::string_view what, int64_t shortest_ns, int64_t& to) {
  const std::string_view word = next();
  const auto ns = word.empty() ? std::nullopt : duration_ns(word);
  if (!ns || *ns < shortest_ns || *ns > kLongestTime_ns)
    return wanted(fmt::format("a time up to 30 days behind \"{}\"{}", what, shortest_ns > 0 ? " (1s or more)" : ""),
                  word);
  to = *ns;
  return ok();
}

Status AlertParser::condition() {
  AlertCondition c;
  if (Status s = quantity(c); !s) return s;
  const auto comparison = comparison_of(peek());
  if (!comparison) return wanted(fmt::format("> >= < or <= behind {}", c.quantity.name()), peek());
  c.comparison = *comparison;
  const std::string_view word = next();
  if (Status s = level(word, c.raise); !s) return s;
  c.until = c.raise;
  if (take("until")) {
    if (Status s = level("until", c.until); !s) return s;
    const bool above = c.comparison == Comparison::kAbove || c.comparison == Comparison::kAtLeast;
    if (above ? c.until > c.raise : c.until < c.raise)
      return wrong(fmt::format("until {} is beyond {} {}: it would be cleared at once", c.until, word, c.raise));
  }
  rule_.conditions.push_back(c);
  return ok();
}

Status AlertParser::clause() {
  const std::string_view word = next();
  if (std::find(clauses_.begin(), clauses_.end(), word) != clauses_.end())
    return wrong(fmt::format("\"{}\" stands there twice", word), "");
  clauses_.push_back(word);
  if (word == "for") return time(word, 0, rule_.hold_ns);
  if (word == "clear") {
    if (!take("after")) return wanted("\"after\" behind \"clear\"", peek());
    clear_given_ = true;
    return time("clear after", 0, rule_.clear_after_ns);
  }
  if (word != "severity") return wanted("and, for, clear after or severity", word);
  const std::string_view severity = next();
  const auto s = severity_of(severity);
  if (!s) return wanted("info, warning or critical", severity);
  rule_.severity = *s;
  return ok();
}

Result<AlertRule> AlertParser::parse() {
  if (words_.size() == 1 && peek() == "off") return rule_;
  do {
    if (Status s = condition(); !s) return s.error();
  } while (take("and"));
  while (at_ < words_.size())
    if (Status s = clause(); !s) return s.error();
  if (!clear_given_) rule_.clear_after_ns = std::min(rule_.hold_ns, kMaxDefaultClear_ns);
  return rule_;
}

bool is_name(std::string_view name) {
  return !name.empty() && name.size() <= kLongestName && std::all_of(name.begin(), name.end(), [](char c) {
    return is_letter(c) || is_digit(c) || c == '_' || c == '-' || c == '.';
  });
}

}  // namespace

bool AlertCondition::holds(double value, bool raised) const {
  const double level = raised ? until : raise;
  switch (comparison) {
    case Comparison::kAbove: return value > level;
    case Comparison::kAtLeast: return value >= level;
    case Comparison::kBelow: return value < level;
    case Comparison::kAtMost: return value <= level;
  }
  return false;
}

Result<AlertRule> parse_alert(std::string_view text) {
  const size_t colon = text.find(':');
  const std::string_view name = without_blanks(text.substr(0, colon));
  if (colon == text.npos || !is_name(name) || text.size() > kLongestText)
    return Error{fmt::format("an alert begins with its name and a colon, not \"{}\"", text.substr(0, 40)),
                 std::string(kForm)};
  return AlertParser(name, text.substr(colon + 1)).parse();
}

Result<std::vector<AlertRule>> alerts_in_force(std::vector<AlertRule> rules, const std::vector<std::string>& asked) {
  for (const std::string& text : asked) {
    auto rule = parse_alert(text);
    if (!rule) return rule.error();
    const auto same =
        std::find_if(rules.begin(), rules.end(), [&](const AlertRule& r) { return r.name == rule->name; });
    if (rule->conditions.empty() && same == rules.end())
      return Error{fmt::format("there is no alert {} to be switched off", rule->name),
                   "`profgpu monitor --help-alerts` lists them"};
    if (rule->conditions.empty()) rules.erase(same);
    else if (same != rules.end()) rule->advice = same->advice, *same = *std::move(rule);
    else rules.push_back(*std::move(rule));
  }
  return rules;
}

}  // namespace profgpu
