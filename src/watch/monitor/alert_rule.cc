#include "watch/monitor/alert_rule.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/decimal.h"
#include "base/secrets.h"
#include "base/text.h"
#include "trace/health.h"
#include "trace/sample_file_column.h"

namespace profgpu {
namespace {

// Xid errors after which a device needs a reset, a reboot or a replacement, by code. Others are mostly errors of
// programs.
std::map<int64_t, int64_t> critical_xids(const DeviceTally& tally) {
  auto counts = tally.xids().value_or(std::map<int64_t, int64_t>());
  std::erase_if(counts, [](const auto& counted) {
    const auto code = static_cast<int>(counted.first);
    return code != counted.first || xid_meaning(code).severity != Severity::kCritical;
  });
  return counts;
}

std::optional<double> xids_critical(const DeviceTally& tally, int64_t) {
  if (!tally.xids()) return std::nullopt;
  int64_t sum = 0;
  for (const auto& [code, count] : critical_xids(tally)) sum += count;
  return static_cast<double>(sum);
}

std::string xids_detail(const DeviceTally& tally) {
  std::string text;
  for (const auto& [code, count] : critical_xids(tally)) append_listed(text, std::to_string(code));
  return text.empty() ? text : "Xid " + text;
}

std::optional<double> processes(const DeviceTally& tally, int64_t) {
  return tally.has_processes() ? std::optional<double>(tally.processes().size()) : std::nullopt;
}

std::string processes_detail(const DeviceTally& tally) {
  constexpr size_t kMaxProcesses = 8;
  std::string text;
  for (size_t i = 0; i < std::min(tally.processes().size(), kMaxProcesses); ++i)
    append_listed(text, std::to_string(tally.processes()[i].pid));
  return text.empty() ? text : "pid " + text;
}

std::optional<double> used_pct(const DeviceTally& tally, int64_t now_ns) {
  const auto used = tally.value(Metric::kMemoryUsed, now_ns), total = tally.value(Metric::kMemoryTotal, now_ns);
  return used && total && *total > 0 ? std::optional(*used / *total * 100) : std::nullopt;
}

std::optional<double> slowed_down_pct(const DeviceTally& tally, int64_t now_ns) {
  const auto reasons = reason_bits(tally.value(Metric::kClockEventReasons, now_ns));
  return reasons ? std::optional((*reasons & kFaultReasons) != 0 ? 100.0 : 0.0) : std::nullopt;
}

std::optional<double> to_slowdown(const DeviceTally& tally, int64_t now_ns) {
  return to_slowdown_c(tally.value(Metric::kTemperature, now_ns), tally.value(Metric::kTemperatureSlowdown, now_ns),
                       tally.value(Metric::kTemperatureMargin, now_ns));
}

}  // namespace

const std::vector<AlertFigure>& alert_figures() {
  static const std::vector<AlertFigure> kAll = {
      {"up", "", "1 while the device answers, else 0"},
      {"memory_used_pct", "%", "share of the device's memory that programs hold", false, used_pct},
      {"slowed_down_pct", "%", "100 while heat, the hardware or the power brake lowers clocks, else 0", false,
       slowed_down_pct},
      {"to_slowdown_c", "°C", "degrees left before clocks are lowered", false, to_slowdown},
      {"processes", "", "processes on the device", false, processes, processes_detail},
      {"xids_critical", "", "Xid errors since the start after which the device needs a reset or more", true,
       xids_critical, xids_detail},
  };
  return kAll;
}

// Parsing.

namespace {

constexpr size_t kLongestName = 64, kLongestText = 4096;
constexpr int64_t kSecond = 1'000'000'000, kShortestWindow_ns = kSecond, kLongestTime_ns = 30 * 86'400 * kSecond;
// An alert that flickers is one alert.
constexpr int64_t kMaxDefaultClear_ns = 60 * kSecond;
constexpr std::string_view kForm =
    "NAME: METRIC > LEVEL [until LEVEL] [and ...] [for 5m] [clear after 1m] [severity warning]";

using Over = AlertCondition::Over;
using Comparison = AlertCondition::Comparison;

std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> words;
  for (size_t from = text.find_first_not_of(" \t"); from < text.size(); from = text.find_first_not_of(" \t", from)) {
    size_t end = text.find_first_of(" \t(),<>=", from);   // of a word
    if (end == from) end = std::string_view("(),").find(text[from]) != text.npos ? from + 1
                                                                                 : text.find_first_not_of("<>=", from);
    end = std::min(end, text.size());
    words.push_back(text.substr(from, end - from));
    from = end;
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
  [[nodiscard]] Error expected(std::string_view what, std::string_view word) const {
    return wrong(fmt::format("expected {}, got {}", what, word.empty() ? "the end" : "\"" + std::string(word) + "\""));
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
    named_ = {{column.metric, nullptr}, column.scale};
    return ok();
  }
  for (const AlertFigure& f : alert_figures())
    if (name == f.name) {
      named_ = {{nullptr, &f}, 1};
      return ok();
    }
  if (name.empty() || comparison_of(name)) return expected("a metric", name);
  return wrong(fmt::format("no metric \"{}\"", name),
               "`profgpu monitor --help-alerts` lists what alerts can look at");
}

Status AlertParser::quantity(AlertCondition& c) {
  const std::string_view word = next();
  const bool mean = word == "mean", function = (mean || word == "increase") && peek() == "(";
  if (Status s = named(function ? (++at_, next()) : word); !s) return s;
  c.quantity = named_.quantity;
  if (!function) return ok();
  c.over = mean ? Over::kMean : Over::kIncrease;
  if (!take(",")) return expected(fmt::format("a comma and a time, as in {}({}, 5m)", word, c.quantity.name()), peek());
  if (Status s = time(word, kShortestWindow_ns, c.window_ns); !s) return s;
  if (!take(")")) return expected("\")\"", peek());
  if (c.quantity.is_up()) return wrong(fmt::format("up has no {}", word), "up < 1 for 1m");
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
    return expected(fmt::format("a number{} after \"{}\"", unit.empty() ? "" : " in " + unit, what), word);
  }
  to = *number;
  return ok();
}

Status AlertParser::time(std::string_view what, int64_t shortest_ns, int64_t& to) {
  const std::string_view word = next();
  const auto ns = word.empty() ? std::nullopt : duration_ns(word);
  if (!ns || *ns < shortest_ns || *ns > kLongestTime_ns)
    return expected(fmt::format("a time up to 30 days after \"{}\"{}", what, shortest_ns > 0 ? " (1s or more)" : ""),
                  word);
  to = *ns;
  return ok();
}

Status AlertParser::condition() {
  AlertCondition c;
  if (Status s = quantity(c); !s) return s;
  const auto comparison = comparison_of(peek());
  if (!comparison) return expected(fmt::format("> >= < or <= after {}", c.quantity.name()), peek());
  c.comparison = *comparison;
  const std::string_view word = next();
  if (Status s = level(word, c.raise); !s) return s;
  c.until = c.raise;
  if (take("until")) {
    if (Status s = level("until", c.until); !s) return s;
    const bool above = c.comparison == Comparison::kAbove || c.comparison == Comparison::kAtLeast;
    if (above ? c.until > c.raise : c.until < c.raise)
      return wrong(fmt::format("until {} is beyond {} {}: it would clear at once", c.until, word, c.raise));
  }
  rule_.conditions.push_back(c);
  return ok();
}

Status AlertParser::clause() {
  const std::string_view word = next();
  if (std::find(clauses_.begin(), clauses_.end(), word) != clauses_.end())
    return wrong(fmt::format("\"{}\" occurs twice", word), "");
  clauses_.push_back(word);
  if (word == "for") return time(word, 0, rule_.hold_ns);
  if (word == "clear") {
    if (!take("after")) return expected("\"after\" following \"clear\"", peek());
    clear_given_ = true;
    return time("clear after", 0, rule_.clear_after_ns);
  }
  if (word != "severity") return expected("and, for, clear after or severity", word);
  const std::string_view severity = next();
  const auto s = severity_of(severity);
  if (!s) return expected("info, warning or critical", severity);
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
  const std::string safe = masked_secrets(text);
  const Error no_alert{fmt::format("expected an alert's name and a colon, got \"{}\"", safe.substr(0, 40)),
                       std::string(kForm)};
  if (colon == text.npos || !is_name(name) || text.size() > kLongestText) return no_alert;
  auto rule = AlertParser(name, text.substr(colon + 1)).parse();
  // The parser quotes single words, which no longer look like a part of a credential.
  return rule || safe == text ? std::move(rule) : Result<AlertRule>(no_alert);
}

Result<std::vector<AlertRule>> alerts_in_force(std::vector<AlertRule> rules,
                                               const std::vector<std::string>& requested) {
  for (const std::string& text : requested) {
    auto rule = parse_alert(text);
    if (!rule) return rule.error();
    const auto same =
        std::find_if(rules.begin(), rules.end(), [&](const AlertRule& r) { return r.name == rule->name; });
    if (rule->conditions.empty() && same == rules.end())
      return Error{fmt::format("no alert {} to switch off", rule->name),
                   "`profgpu monitor --help-alerts` lists them"};
    if (rule->conditions.empty()) rules.erase(same);
    else if (same != rules.end()) rule->advice = same->advice, *same = *std::move(rule);
    else rules.push_back(*std::move(rule));
  }
  return rules;
}

}  // namespace profgpu
