// The alerts that come with the program: for the monitor, and as rules for Prometheus (deploy/profgpu.rules.yml, which
// a test holds to this table). Levels and severities are those of trace/health.h.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/severity.h"

namespace profgpu {

struct ShippedAlert {
  std::string_view name;        ///< "device_lost"; in Prometheus ProfgpuDeviceLost
  Severity severity;
  std::string_view hold;        ///< true for so long: "5m"; empty: raised at once
  std::string condition;        ///< in the monitor's grammar; empty: for Prometheus alone
  std::string expr;             ///< in Prometheus' language
  std::string summary, advice;  ///< what is so, of Prometheus' labels, and what to do
  std::string_view remark = {}; ///< for who reads the file
};

const std::vector<ShippedAlert>& shipped_alert_table();
/// deploy/profgpu.rules.yml
std::string prometheus_rules();

}  // namespace profgpu
