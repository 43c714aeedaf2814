// What a device and its processes did in the last minutes, for curves and means. One point a view with a new reading,
// each of which stands for the time since the one before: readings may come late, and at an interval that is changed
// meanwhile.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <optional>
#include <vector>

#include "watch/live/live_view.h"

namespace profgpu {

/// What is remembered. Percent, watts, °C, MHz, bytes a second.
enum class Track : uint8_t {
  kUtilization, kMemory, kPower, kTemperature, kSmClock, kMemoryClock,
  kPcieTx, kPcieRx, kLinkTx, kLinkRx,                   // links: NVLink or XGMI
  kHeldByPower, kHeldByHeat, kHeldByOther,              // percent of the time that clocks were held back
  kSmActive, kSmOccupancy, kTensorActive, kDramActive,
};
constexpr size_t kTrackCount = static_cast<size_t>(Track::kDramActive) + 1;

/// The last points of one thing, at most kMostPoints; NaN where it was not known.
class Curve {
 public:
  static constexpr size_t kMaxPoints = 512;
  void add(double value);
  [[nodiscard]] size_t size() const { return points_.empty() ? unknown_ : points_.size(); }
  /// The n-th point from the newest, which is 0.
  [[nodiscard]] float back(size_t n) const {
    return points_.empty() ? std::nanf("") : points_[(end_ + points_.size() - 1 - n) % points_.size()];
  }
  /// The newest that is known; nullopt if the newest point is not.
  [[nodiscard]] std::optional<double> latest() const;

 private:
  std::vector<float> points_;   // a ring once it is full; end_ is then the oldest
  size_t end_ = 0;
  size_t unknown_ = 0;          // points before the first known one: what a device never says takes no room
};

/// The newest `cells` stretches of `width_ns` each, the newest last: the mean over time of what is known of each, NaN
/// where that is less than half of it. `seconds`: how long each point of `curve` stands for.
std::vector<float> columns(const Curve& curve, const Curve& seconds, int64_t width_ns, int cells);

/// Says of each point how long it stands for: the time since the one before it, or if that is too long ago an interval.
class Pace {
 public:
  struct Step {
    double unknown_s = 0;     ///< before it, of which nobody knows anything
    double seconds = 0;
  };
  /// For the next point; `interval_ns`: how far apart points are expected from now on.
  Step step(int64_t time_ns, int64_t interval_ns);
  [[nodiscard]] int64_t newest_ns() const { return newest_ns_; }

 private:
  int64_t newest_ns_ = 0, interval_ns_ = 0;
};

class DeviceHistory {
 public:
  /// `interval_ns`: how far apart points are expected. A device that is in trouble gets gaps.
  void take(const LiveDevice& device, int64_t now_ns, int64_t interval_ns);
  [[nodiscard]] const Curve& curve(Track track) const { return curves_[static_cast<size_t>(track)]; }
  [[nodiscard]] std::optional<double> latest(Track track) const { return curve(track).latest(); }
  /// See columns(): one of the curves.
  [[nodiscard]] std::vector<float> columns(Track track, int64_t width_ns, int cells) const {
    return profgpu::columns(curve(track), seconds_, width_ns, cells);
  }
  /// Mean over the last `span_ns`, of the time of which it is known; nullopt if that is not a third of it yet.
  [[nodiscard]] std::optional<double> mean(Track track, int64_t span_ns) const;

 private:
  struct Counter {
    double value = 0;
    int64_t at_ns = 0;
    double rate = std::nan("");   // a second
  };
  double rate(const LiveDevice& device, Metric metric);
  double held(const LiveDevice& device, std::initializer_list<Metric> counters, uint32_t reasons);
  void add(Track track, double value) { curves_[static_cast<size_t>(track)].add(value); }
  void add_unknown(double seconds);

  std::array<Curve, kTrackCount> curves_;
  Curve seconds_;                 // that each point of them stands for
  Pace pace_;
  std::map<Metric, Counter> counters_;
};

/// This machine's CPUs and memory, in percent.
struct HostHistory {
  Curve cpu, memory;
  Curve seconds;                  // that each point of them stands for
  Pace pace;
  void take(const HostLoad& load, int64_t interval_ns);
};

struct ProcessHistory {
  Curve utilization;              // percent
  Curve seconds;                  // that each point of it stands for
};

/// A process on a device.
struct ProcessKey {
  size_t device = 0;              ///< position in the view
  int64_t pid = 0;                ///< as the driver numbers it
  friend auto operator<=>(const ProcessKey&, const ProcessKey&) = default;
};

class Histories {
 public:
  void take(const LiveView& view, int64_t interval_ns);
  [[nodiscard]] const DeviceHistory& device(size_t i) const { return devices_[i]; }
  /// Of the view's only host; empty if there are several.
  [[nodiscard]] const HostHistory& host() const { return host_; }
  /// Null: not seen.
  [[nodiscard]] const ProcessHistory* process(const ProcessKey& key) const;

 private:
  static constexpr size_t kMaxProcesses = 2048;
  HostHistory host_;
  std::vector<DeviceHistory> devices_;
  std::vector<Pace> paces_;         // of each device's processes
  std::map<ProcessKey, ProcessHistory> processes_;
};

}  // namespace profgpu
