// Which alerts are raised: rules over devices' readings, with hysteresis.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "devices/sampler.h"
#include "watch/monitor/alert_notice.h"

namespace profgpu {

/// The mean of a number, or the growth of a counter, over a sliding window. Its size does not depend on the number of
/// samples.
class AlertWindow {
 public:
  /// `longest_gap_ns`: a sample covers at most this time before it. `begins_at_zero`: a counter's first value is
  /// growth.
  AlertWindow(int64_t length_ns, int64_t longest_gap_ns, bool begins_at_zero)
      : length_ns_(length_ns), longest_gap_ns_(longest_gap_ns), seen_(begins_at_zero) {}

  /// In order of time; ignores a sample that is not newer than the last.
  void add(int64_t time_ns, double value);
  /// nullopt until half of the window is covered.
  [[nodiscard]] std::optional<double> mean(int64_t now_ns) const;
  /// nullopt before the first sample. A counter that restarts grows by its new value.
  [[nodiscard]] std::optional<double> increase(int64_t now_ns) const;

 private:
  static constexpr int64_t kSlots = 60;   // the window's length is right within a sixtieth
  struct Slot {
    int64_t number = -1;                  // time / slot's length; -1: empty
    double sum = 0, seconds = 0;          // value × seconds
    double growth = 0;
  };
  [[nodiscard]] int64_t slot_ns() const { return length_ns_ / kSlots; }
  [[nodiscard]] Slot totals(int64_t now_ns) const;

  int64_t length_ns_, longest_gap_ns_;
  bool seen_;                             // last_ is a value
  double last_ = 0;
  int64_t last_ns_ = 0;
  std::array<Slot, kSlots + 1> slots_{};
};

class AlertWatch {
 public:
  /// `devices`: indices among `infos`; `interval_ns`: between readings; `host`: of devices that do not state theirs.
  AlertWatch(std::vector<AlertRule> rules, const std::vector<DeviceInfo>& infos, const std::vector<uint32_t>& devices,
             int64_t interval_ns, std::string host);

  /// From the sampler's thread.
  void add(const Reading& reading);
  /// The alerts raised or cleared since the last call, most severe first. While a device does not answer, only that and
  /// earlier growth of counters is known. A condition whose value is unknown neither raises nor clears an alert.
  std::vector<AlertNotice> look(int64_t now_ns, const std::vector<DeviceHealth>& health);

 private:
  struct RuleState {
    std::vector<AlertWindow> windows;   // of the conditions that have one, in order
    int64_t since_ns = 0;               // when the conditions became true; 0: they are not
    int64_t untrue_since_ns = 0;        // of a raised alert
    bool raised = false;
  };
  struct DeviceState {
    uint32_t index = 0;
    AlertNotice blank;                  // what all notices of the device say
    DeviceTally tally;
    std::vector<RuleState> rules;
  };
  /// Whether all conditions are true, if known, and the first condition's value.
  struct Verdict {
    std::optional<bool> holds;
    std::optional<double> value;
  };
  static Verdict judge(const AlertRule& rule, const RuleState& state, const DeviceTally& tally, int64_t now_ns,
                       std::optional<bool> answers);
  static bool turns(const AlertRule& rule, RuleState& state, const Verdict& verdict, int64_t now_ns);
  static AlertNotice notice(const AlertRule& rule, const RuleState& state, const DeviceState& device, int64_t now_ns,
                            std::optional<double> value);

  const std::vector<AlertRule> rules_;
  const int64_t interval_ns_;
  std::mutex mutex_;                    // of devices_
  std::vector<DeviceState> devices_;
};

}  // namespace profgpu
