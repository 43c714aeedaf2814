#include "watch/monitor/alert_rule.h"

#include <gtest/gtest.h>

#include <fmt/format.h>

#include <cctype>
#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>

#include "base/decimal.h"

namespace profgpu {
namespace {

constexpr int64_t kSecond = 1'000'000'000;
using Over = AlertCondition::Over;
using Comparison = AlertCondition::Comparison;

AlertRule parsed(std::string_view text) {
  auto rule = parse_alert(text);
  EXPECT_TRUE(rule) << text << ": " << rule.error().message;
  return rule ? *std::move(rule) : AlertRule{};
}

std::string error_of(std::string_view text) {
  auto rule = parse_alert(text);
  EXPECT_FALSE(rule) << text;
  return rule ? "" : rule.error().message;
}

TEST(AlertRule, AllOfItsParts) {
  const AlertRule r =
      parsed("hot: temperature_c > 85 until 80C and processes >= 1 for 2m clear after 90s severity critical");
  EXPECT_EQ(r.name, "hot");
  EXPECT_EQ(r.condition, "temperature_c > 85 until 80C and processes >= 1 for 2m clear after 90s severity critical");
  ASSERT_EQ(r.conditions.size(), 2U);
  EXPECT_EQ(r.conditions[0].quantity.metric->metric, Metric::kTemperature);
  EXPECT_EQ(r.conditions[0].raise, 85);
  EXPECT_EQ(r.conditions[0].until, 80);
  EXPECT_EQ(r.conditions[1].quantity.name(), "processes");
  EXPECT_EQ(r.conditions[1].comparison, Comparison::kAtLeast);
  EXPECT_EQ(r.hold_ns, 120 * kSecond);
  EXPECT_EQ(r.clear_after_ns, 90 * kSecond);
  EXPECT_EQ(r.severity, Severity::kCritical);
}

TEST(AlertRule, BlanksDoNotMatterAndDefaults) {
  const AlertRule r = parsed(" low :power_w<100 for 5m");
  EXPECT_EQ(r.name, "low");
  EXPECT_EQ(r.conditions[0].comparison, Comparison::kBelow);
  EXPECT_EQ(r.conditions[0].until, 100);
  EXPECT_EQ(r.severity, Severity::kWarning);
  EXPECT_EQ(r.clear_after_ns, 60 * kSecond) << "as long as it must be true, a minute at most";
  EXPECT_EQ(parsed("a: power_w < 100 for 10s").clear_after_ns, 10 * kSecond);
  EXPECT_EQ(parsed("a: power_w < 100").clear_after_ns, 0);
}

TEST(AlertRule, LevelsHaveTheMetricsUnits) {
  EXPECT_EQ(parsed("a: memory_used_bytes > 70GiB").conditions[0].raise, 70.0 * (1 << 30));
  EXPECT_EQ(parsed("a: memory.used > 1000").conditions[0].raise, 1000.0 * (1 << 20))
      << "nvidia-smi's name has its unit";
  EXPECT_EQ(parsed("a: utilization.gpu < 5%").conditions[0].raise, 5);
  EXPECT_EQ(parsed("a: memory_used_pct > 97%").conditions[0].raise, 97);
  const AlertRule r = parsed("a: increase(throttle_hw_thermal_ns, 10m) > 60s until 10s");
  EXPECT_EQ(r.conditions[0].over, Over::kIncrease);
  EXPECT_EQ(r.conditions[0].window_ns, 600 * kSecond);
  EXPECT_EQ(r.conditions[0].raise, 60e9);
}

TEST(AlertRule, Mistakes) {
  EXPECT_EQ(error_of("temperature_c > 85"), "expected an alert's name and a colon, got \"temperature_c > 85\"");
  EXPECT_EQ(error_of("a b: power_w > 1"), "expected an alert's name and a colon, got \"a b: power_w > 1\"");
  EXPECT_EQ(error_of("a:"), "alert a: expected a metric, got the end");
  EXPECT_EQ(error_of("a: heat > 1"), "alert a: no metric \"heat\"");
  EXPECT_EQ(error_of("a: power_w"), "alert a: expected > >= < or <= after power_w, got the end");
  EXPECT_EQ(error_of("a: power_w == 1"), "alert a: expected > >= < or <= after power_w, got \"==\"");
  EXPECT_EQ(error_of("a: power_w > much"), "alert a: expected a number in W after \">\", got \"much\"");
  EXPECT_EQ(error_of("a: power_w > 10GiB"), "alert a: expected a number in W after \">\", got \"10GiB\"");
  EXPECT_EQ(error_of("a: power_w > 10 until 12"), "alert a: until 12 is beyond > 10: it would clear at once");
  EXPECT_EQ(error_of("a: power_w < 10 until 8"), "alert a: until 8 is beyond < 10: it would clear at once");
  EXPECT_EQ(error_of("a: power_w > 10 for"), "alert a: expected a time up to 30 days after \"for\", got the end");
  EXPECT_EQ(error_of("a: power_w > 10 for 40h40"),
            "alert a: expected a time up to 30 days after \"for\", got \"40h40\"");
  EXPECT_EQ(error_of("a: power_w > 10 or power_w < 5"),
            "alert a: expected and, for, clear after or severity, got \"or\"");
  EXPECT_EQ(error_of("a: power_w > 10 for 1m for 2m"), "alert a: \"for\" occurs twice");
  EXPECT_EQ(error_of("a: power_w > 10 severity bad"), "alert a: expected info, warning or critical, got \"bad\"");
  EXPECT_EQ(error_of("a: mean(power_w) > 10"),
            "alert a: expected a comma and a time, as in mean(power_w, 5m), got \")\"");
  EXPECT_EQ(error_of("a: mean(energy_j, 5m) > 10"), "alert a: energy_j is a counter");
  EXPECT_EQ(error_of("a: increase(power_w, 5m) > 10"), "alert a: power_w is not a counter");
  EXPECT_EQ(error_of("a: mean(up, 5m) > 10"), "alert a: up has no mean");
  EXPECT_EQ(error_of("a: mean(power_w, 1ms) > 10"),
            "alert a: expected a time up to 30 days after \"mean\" (1s or more), got \"1ms\"");
}

TEST(AlertRule, ShippedOnesAreThoseOfPrometheus) {
  std::set<std::string> names;
  for (const AlertRule& r : shipped_alerts()) {
    names.insert(r.name);
    EXPECT_FALSE(r.conditions.empty()) << r.name;
    EXPECT_FALSE(r.advice.empty()) << r.name;
  }
  EXPECT_EQ(names,
            (std::set<std::string>{"device_lost", "xid_critical", "uncorrectable_ecc", "row_remap_failed", "throttled",
                                   "over_temperature", "idle_while_reserved", "memory_nearly_full"}));
}

// "ProfgpuDeviceLost"
std::string prometheus_name(std::string_view name) {
  std::string out = "Profgpu";
  bool first = true;
  for (const char c : name) {
    if (c != '_') out += first ? static_cast<char>(std::toupper(static_cast<unsigned char>(c))) : c;
    first = c == '_';
  }
  return out;
}

std::string prometheus_rules() {
  std::string out =
      "# Alerts for Prometheus on the metrics of `profgpu exporter`. docs/exporter.md explains them.\n"
      "groups:\n  - name: profgpu\n    rules:\n";
  for (const ShippedAlert& s : shipped_alert_table()) {
    out += &s == &shipped_alert_table().front() ? "" : "\n";
    if (!s.remark.empty()) out += fmt::format("      # {}\n", s.remark);
    out += fmt::format("      - alert: {}\n        expr: {}\n", prometheus_name(s.name), s.expr);
    if (!s.hold.empty()) out += fmt::format("        for: {}\n", s.hold);
    out += fmt::format("        labels: {{severity: {}}}\n        annotations:\n", severity_name(s.severity));
    out += fmt::format("          summary: '{}'\n          description: '{}'\n", s.summary, s.advice);
  }
  return out;
}

// PROFGPU_UPDATE_RULES=1 rewrites the file.
TEST(AlertRule, TheFileForPrometheusIsThatOfTheTable) {
  const std::string path = "deploy/profgpu.rules.yml";
  if (std::getenv("PROFGPU_UPDATE_RULES")) std::ofstream(path) << prometheus_rules();
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  EXPECT_EQ(text.str(), prometheus_rules());
}

// Prometheus scrapes once a minute unless told otherwise, and a rate takes two samples.
TEST(AlertRule, WindowsForPrometheusHoldTwoScrapes) {
  for (const ShippedAlert& s : shipped_alert_table())
    for (size_t at = s.expr.find('['); at != s.expr.npos; at = s.expr.find('[', at + 1)) {
      const auto window_ns = duration_ns(s.expr.substr(at + 1, s.expr.find(']', at) - at - 1));
      ASSERT_TRUE(window_ns) << s.expr;
      EXPECT_GE(*window_ns, 120 * kSecond) << s.expr;
    }
}

// Words of the line are quoted one by one: "hunter2" alone does not look like a password.
TEST(AlertRule, ACredentialInsteadOfAnAlertIsNotQuoted) {
  for (const char* line : {"password: hunter2", "hf_AbCdEfGhIjKlMnOpQrStUv", "export HF_TOKEN=hunter2", "a: token=hunter2"})
    EXPECT_EQ(error_of(line).find("hunter2"), std::string::npos) << error_of(line);
  EXPECT_EQ(error_of("hf_AbCdEfGhIjKlMnOpQrStUv"), "expected an alert's name and a colon, got \"***\"");
}

TEST(AlertRule, AskedOnesTakeThePlaceOfShipped) {
  auto all = alerts_in_force(
      shipped_alerts(), {"throttled: off", "mine: power_w > 1", "device_lost: up < 1 for 5s", "mine: power_w > 2"});
  ASSERT_TRUE(all);
  EXPECT_EQ(all->size(), shipped_alerts().size());
  EXPECT_EQ(all->front().hold_ns, 5 * kSecond);
  EXPECT_EQ(all->front().advice, shipped_alerts().front().advice);
  EXPECT_EQ(all->back().conditions[0].raise, 2);
  auto wrong = alerts_in_force(shipped_alerts(), {"thrttled: off"});
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().message, "no alert thrttled to switch off");
}

}  // namespace
}  // namespace profgpu
