// What deploy/profgpu.rules.yml has Prometheus say.
#include <cstdlib>

#include "monitor/alert_rule.h"

namespace profgpu {
namespace {

struct ShippedAlert {
  std::string_view text, advice;
};

constexpr ShippedAlert kShipped[] = {
    {"device_lost: up < 1 for 1m severity critical",
     "It is lost or hangs. `profgpu doctor` on the host says more; a reset or a reboot may be needed."},
    {"xid_critical: increase(xids_critical, 10m) > 0 severity critical",
     "`profgpu doctor` on the host says what the code means and what to do."},
    {"uncorrectable_ecc: increase(ecc_uncorrected_errors, 1h) > 0 severity critical",
     "Results may be wrong. Drain the device and reset it; if it comes again, have it replaced."},
    {"row_remap_failed: remapped_rows_failed > 0 severity critical",
     "Remapping a row failed, there are no spare ones: the device should be replaced."},
    {"throttled: mean(slowed_down_pct, 1m) > 50% until 25% for 5m severity warning",
     "Heat, the hardware or the power brake lowers its clocks. Check cooling, inlet temperature and power supply."},
    {"over_temperature: to_slowdown_c <= 3 until 8 for 2m severity warning",
     "It is close to where clocks are lowered. Check cooling and inlet temperature."},
    {"idle_while_reserved: mean(utilization_pct, 30m) < 2% until 5% and processes > 0 for 30m severity info",
     "A process has it and does nothing with it: somebody else could."},
    {"memory_nearly_full: memory_used_pct > 97% until 94% for 10m severity info",
     "The next allocation may fail. Programs that take all memory at once are full by design."},
};

std::vector<AlertRule> parsed() {
  std::vector<AlertRule> rules;
  for (const ShippedAlert& s : kShipped) {
    auto rule = parse_alert(s.text);
    if (!rule) std::abort();   // a test reads them all
    rule->advice = s.advice;
    rules.push_back(*std::move(rule));
  }
  return rules;
}

}  // namespace

const std::vector<AlertRule>& shipped_alerts() {
  static const std::vector<AlertRule> kAll = parsed();
  return kAll;
}

}  // namespace profgpu
