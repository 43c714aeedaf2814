#include <fmt/format.h>

#include <cstdlib>

#include "base/text.h"
#include "trace/health.h"
#include "watch/monitor/alert_rule.h"

namespace profgpu {
namespace {

// "48|61": codes after which the device needs a reset, a reboot or a replacement.
std::string critical_codes() {
  std::string codes;
  for (const XidMeaning& x : known_xids())
    if (x.severity == Severity::kCritical) append_listed(codes, std::to_string(x.code), "|");
  return codes;
}

// "hw_slowdown|sw_thermal_slowdown"
std::string fault_reasons() {
  std::string names;
  for (const ClockReasonInfo& r : clock_reasons())
    if ((kFaultReasons & static_cast<uint32_t>(r.reason)) != 0) append_listed(names, r.name, "|");
  return names;
}

std::vector<ShippedAlert> table() {
  const std::string gpu = "GPU {{ $labels.gpu }} of {{ $labels.host }}";
  const DeviceLimit held = kHeldBackPct, left = kToSlowdown_c, idle = kIdlePct, used = kMemoryUsedPct;
  return {
      {"device_lost", Severity::kCritical, "1m", "up < 1", "profgpu_device_up == 0", gpu + " does not answer",
       "It is lost or hangs. Run `profgpu doctor` on the host; a reset or a reboot may be needed."},
      {"xid_critical", Severity::kCritical, "", "increase(xids_critical, 10m) > 0",
       fmt::format("increase(profgpu_xid_errors_total{{xid=~\"{}\"}}[10m]) > 0", critical_codes()),
       "Xid {{ $labels.xid }} on " + gpu, "Run `profgpu doctor` on the host for what the code means and what to do.",
       "Codes after which the device needs a reset, a reboot or a replacement. Others are mostly errors of the "
       "program."},
      {"uncorrectable_ecc", Severity::kCritical, "", "increase(ecc_uncorrected_errors, 1h) > 0",
       "increase(profgpu_ecc_uncorrected_errors_total[1h]) > 0", "uncorrectable memory errors on " + gpu,
       "Results may be wrong. Drain the device and reset it; replace it if the errors come back."},
      {"row_remap_failed", Severity::kCritical, "", "remapped_rows_failed > 0", "profgpu_remapped_rows_failed > 0",
       gpu + " has no spare memory rows left",
       "A row could not be remapped, since there are no spare ones. Replace the device."},
      {"throttled", held.severity, "5m",
       fmt::format("mean(slowed_down_pct, 1m) > {}% until {}%", held.raised, held.until),
       fmt::format("rate(profgpu_clock_reason_seconds_total{{reason=~\"{}\"}}[5m]) > {}", fault_reasons(),
                   held.raised / 100),
       gpu + " is slowed down ({{ $labels.reason }})",
       "Heat, the hardware or the power brake lowers its clocks. Check cooling, inlet temperature and power supply.",
       "Without the power limit, which limits most busy devices by design."},
      {"over_temperature", left.severity, "2m", fmt::format("to_slowdown_c <= {} until {}", left.raised, left.until),
       fmt::format("profgpu_temperature_celsius >= profgpu_temperature_slowdown_celsius - {}", left.raised),
       gpu + " is at {{ $value }} °C", "Clocks will soon be reduced. Check cooling and inlet temperature."},
      {"idle_while_reserved", idle.severity, "30m",
       fmt::format("mean(utilization_pct, 30m) < {}% until {}% and processes > 0", idle.raised, idle.until),
       fmt::format("rate(profgpu_busy_seconds_total[30m]) / rate(profgpu_watched_seconds_total[30m]) < {}"
                   " and on (instance, gpu, uuid, mig_instance)"
                   " (profgpu_device_processes > 0 or on (instance, gpu, uuid, mig_instance) profgpu_device_job_info)",
                   idle.raised / 100),
       gpu + " is held and idle", "A process or a job holds the device without using it."},
      {"memory_nearly_full", used.severity, "10m",
       fmt::format("memory_used_pct > {}% until {}%", used.raised, used.until),
       fmt::format("profgpu_memory_used_bytes / profgpu_memory_total_bytes > {}", used.raised / 100),
       "memory of " + gpu + " is {{ $value | humanizePercentage }} full",
       "The next allocation may fail. Programs that take all memory at once are full by design."},
      {"exporter_stale", Severity::kWarning, "2m", "",
       "rate(profgpu_exporter_readings_total[5m]) == 0 or up{job=~\".*profgpu.*\"} == 0",
       "the exporter at {{ $labels.instance }} takes no readings",
       "It is down, or every device hangs. Dashboards show old data or none for this host."},
  };
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

}  // namespace profgpu
