// Which alerts are raised: rules over what devices say, with hysteresis.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "collect/device_health.h"
#include "monitor/alert_notice.h"
#include "monitor/alert_window.h"

namespace profgpu {

class AlertWatch {
 public:
  /// `devices`: positions among `infos`; `interval_ns`: how often they will be read; `host`: of devices that do not state theirs.
  AlertWatch(std::vector<AlertRule> rules, const std::vector<DeviceInfo>& infos, const std::vector<uint32_t>& devices,
             int64_t interval_ns, std::string host);

  /// From the sampler's thread.
  void add(const Reading& reading);
  /// What was raised or cleared by now, the graver first. While a device does not answer, nothing is known of it but that, and
  /// what counters grew by before. A condition of which nothing is known neither raises an alert nor clears it.
  std::vector<AlertNotice> look(int64_t now_ns, const std::vector<DeviceHealth>& health);

 private:
  struct RuleState {
    std::vector<AlertWindow> windows;   // of the conditions that have one, in order
    int64_t since_ns = 0;               // the condition came true; 0: it is not
    int64_t untrue_since_ns = 0;        // of an alert that is raised
    bool raised = false;
  };
  struct DeviceState {
    uint32_t position = 0;
    DeviceInfo info;
    std::string word;                   // as files name it
    DeviceTally tally;
    std::vector<RuleState> rules;
  };
  /// Whether all conditions are true, where that is known, and what the first condition's value is.
  struct Verdict {
    std::optional<bool> holds;
    std::optional<double> value;
  };
  [[nodiscard]] Verdict judge(const AlertRule& rule, const RuleState& state, const DeviceTally& tally, int64_t now_ns,
                              std::optional<bool> answers) const;
  static bool turns(const AlertRule& rule, RuleState& state, const Verdict& verdict, int64_t now_ns);
  [[nodiscard]] AlertNotice notice(const AlertRule& rule, const RuleState& state, const DeviceState& device, int64_t now_ns,
                                   std::optional<double> value) const;

  const std::vector<AlertRule> rules_;
  const int64_t interval_ns_;
  std::mutex mutex_;                    // of devices_
  std::vector<DeviceState> devices_;
};

}  // namespace profgpu
