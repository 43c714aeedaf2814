#include "watch/monitor/shipped_alerts.h"

#include <fmt/format.h>

#include <cctype>
#include <cstdlib>

#include "trace/health.h"
#include "watch/monitor/alert_rule.h"

namespace profgpu {
namespace {

// "48|61": codes after which the device needs a reset, a reboot or a replacement.
std::string critical_codes() {
  std::string codes;
  for (const XidMeaning& x : known_xids())
    if (x.severity == Severity::kCritical) codes += (codes.empty() ? "" : "|") + std::to_string(x.code);
  return codes;
}

// "hw_slowdown|sw_thermal_slowdown"
std::string fault_reasons() {
  std::string names;
  for (const ClockReasonInfo& r : clock_reasons())
    if ((kFaultReasons & static_cast<uint32_t>(r.reason)) != 0) names.append(names.empty() ? "" : "|").append(r.name);
  return names;
}

std::vector<ShippedAlert> table() {
  const std::string gpu = "GPU {{ $labels.gpu }} of {{ $labels.host }}";
  const DeviceLimit held = kHeldBackPct, left = kToSlowdown_c, idle = kIdlePct, used = kMemoryUsedPct;
  return {
      {"device_lost", Severity::kCritical, "1m", "up < 1", "profgpu_device_up == 0", gpu + " does not answer",
       "It is lost or hangs. `profgpu doctor` on the host says more; a reset or a reboot may be needed."},
      {"xid_critical", Severity::kCritical, "", "increase(xids_critical, 10m) > 0",
       fmt::format("increase(profgpu_xid_errors_total{{xid=~\"{}\"}}[10m]) > 0", critical_codes()),
       "Xid {{ $labels.xid }} on " + gpu, "`profgpu doctor` on the host says what the code means and what to do.",
       "Codes after which the device needs a reset, a reboot or a replacement. Others are mostly errors of the "
       "program."},
      {"uncorrectable_ecc", Severity::kCritical, "", "increase(ecc_uncorrected_errors, 1h) > 0",
       "increase(profgpu_ecc_uncorrected_errors_total[1h]) > 0", "uncorrectable memory errors on " + gpu,
       "Results may be wrong. Drain the device and reset it; if it comes again, have it replaced."},
      {"row_remap_failed", Severity::kCritical, "", "remapped_rows_failed > 0", "profgpu_remapped_rows_failed > 0",
       gpu + " has no spare memory rows left",
       "Remapping a row failed, there are no spare ones: the device should be replaced."},
      {"throttled", held.severity, "5m",
       fmt::format("mean(slowed_down_pct, 1m) > {}% until {}%", held.raised, held.until),
       fmt::format("rate(profgpu_clock_reason_seconds_total{{reason=~\"{}\"}}[1m]) > {}", fault_reasons(),
                   held.raised / 100),
       gpu + " is slowed down ({{ $labels.reason }})",
       "Heat, the hardware or the power brake lowers its clocks. Check cooling, inlet temperature and power supply.",
       "The power limit holds most busy devices back, as it should: it is left out."},
      {"over_temperature", left.severity, "2m", fmt::format("to_slowdown_c <= {} until {}", left.raised, left.until),
       fmt::format("profgpu_temperature_celsius >= profgpu_temperature_slowdown_celsius - {}", left.raised),
       gpu + " is at {{ $value }} °C", "It is close to where clocks are lowered. Check cooling and inlet temperature."},
      {"idle_while_reserved", idle.severity, "30m",
       fmt::format("mean(utilization_pct, 30m) < {}% until {}% and processes > 0", idle.raised, idle.until),
       fmt::format("rate(profgpu_busy_seconds_total[30m]) / rate(profgpu_watched_seconds_total[30m]) < {}"
                   " and on (instance, gpu, uuid, mig_instance)"
                   " (profgpu_device_processes > 0 or on (instance, gpu, uuid, mig_instance) profgpu_device_job_info)",
                   idle.raised / 100),
       gpu + " is held and idle", "A process or a job has it and does nothing with it: somebody else could."},
      {"memory_nearly_full", used.severity, "10m",
       fmt::format("memory_used_pct > {}% until {}%", used.raised, used.until),
       fmt::format("profgpu_memory_used_bytes / profgpu_memory_total_bytes > {}", used.raised / 100),
       "memory of " + gpu + " is {{ $value | humanizePercentage }} full",
       "The next allocation may fail. Programs that take all memory at once are full by design."},
      {"exporter_stale", Severity::kWarning, "2m", "",
       "rate(profgpu_exporter_readings_total[5m]) == 0 or up{job=~\".*profgpu.*\"} == 0",
       "the exporter at {{ $labels.instance }} reads nothing",
       "It is down, or every device hangs: what dashboards show of this host is old or missing."},
  };
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

std::vector<AlertRule> parsed() {
  std::vector<AlertRule> rules;
  for (const ShippedAlert& s : shipped_alert_table()) {
    if (s.condition.empty()) continue;
    const std::string hold = s.hold.empty() ? "" : fmt::format(" for {}", s.hold);
    auto rule = parse_alert(fmt::format("{}: {}{} severity {}", s.name, s.condition, hold, severity_name(s.severity)));
    if (!rule) std::abort();   // a test reads them all
    rule->advice = s.advice;
    rules.push_back(*std::move(rule));
  }
  return rules;
}

}  // namespace

const std::vector<ShippedAlert>& shipped_alert_table() {
  static const std::vector<ShippedAlert> kAll = table();
  return kAll;
}

const std::vector<AlertRule>& shipped_alerts() {
  static const std::vector<AlertRule> kAll = parsed();
  return kAll;
}

std::string prometheus_rules() {
  std::string out =
      "# Alerts for Prometheus on what `profgpu exporter` says. docs/exporter.md tells what each means.\n"
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

}  // namespace profgpu
