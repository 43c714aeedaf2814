// Which alerts are raised: rules over what devices say, with hysteresis.
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

// What a number was over the last so long: its mean, or what a counter grew by. Always of one size, however many
// samples.

class AlertWindow {
 public:
  /// `longest_gap_ns`: a sample holds no longer into the past than this. `begins_at_zero`: a counter's first value is
  /// growth.
  AlertWindow(int64_t length_ns, int64_t longest_gap_ns, bool begins_at_zero)
      : length_ns_(length_ns), longest_gap_ns_(longest_gap_ns), seen_(begins_at_zero) {}

  /// In order of time; what is not newer than the last is ignored.
  void add(int64_t time_ns, double value);
  /// Nullopt until half of the time is covered.
  [[nodiscard]] std::optional<double> mean(int64_t now_ns) const;
  /// Nullopt before the first sample. A counter that begins anew grows by what it then has.
  [[nodiscard]] std::optional<double> increase(int64_t now_ns) const;

 private:
  static constexpr int64_t kSlots = 60;   // the window's end is right within a sixtieth
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
  /// `devices`: positions among `infos`; `interval_ns`: how often they will be read; `host`: of devices that do not
  /// state theirs.
  AlertWatch(std::vector<AlertRule> rules, const std::vector<DeviceInfo>& infos, const std::vector<uint32_t>& devices,
             int64_t interval_ns, std::string host);

  /// From the sampler's thread.
  void add(const Reading& reading);
  /// What was raised or cleared by now, the graver first. While a device does not answer, nothing is known of it but
  /// that, and what counters grew by before. A condition of which nothing is known neither raises an alert nor clears
  /// it.
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
  [[nodiscard]] AlertNotice notice(const AlertRule& rule, const RuleState& state, const DeviceState& device,
                                   int64_t now_ns, std::optional<double> value) const;

  const std::vector<AlertRule> rules_;
  const int64_t interval_ns_;
  std::mutex mutex_;                    // of devices_
  std::vector<DeviceState> devices_;
};

}  // namespace profgpu
