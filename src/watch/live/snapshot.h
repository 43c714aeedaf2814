// Snapshots: one reading of all devices at once, for commands that show the current state.
//
// Each device is queried on a thread of its own, all at the same time, so a snapshot takes as long as the slowest
// device that answers and never longer than the deadline. A device that has not answered is not queried again until it
// does.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "devices/backend.h"

namespace profgpu {

enum class DeviceState : uint8_t { kOk, kError, kNotAnswering };
/// "ok", "error", "not_answering"
std::string_view device_state_name(DeviceState state);

/// One device's answer.
struct DeviceLook {
  uint32_t device = 0;                    ///< index among the backend's devices
  DeviceState state = DeviceState::kOk;
  std::string message = {};               ///< "GPU is lost"; empty: no problem
  int64_t since_ns = 0;                   ///< Unix time of the last good answer, or of the first query
  Reading reading = {};

  /// The newest sample of a metric.
  [[nodiscard]] std::optional<double> value(Metric metric) const;
  /// The mean of all samples that the driver had kept: steadier than the newest.
  [[nodiscard]] std::optional<double> mean(Metric metric) const;
};

struct SnapshotOptions {
  bool processes = true;
  int64_t deadline_ns = 2'000'000'000;
  bool rates = false;  ///< the first snapshot reads all devices twice, so that every rate is known
  int64_t rate_window_ns = 100'000'000;   ///< between the two readings
};

class Snapshots {
 public:
  /// `devices`: indices among the backend's.
  Snapshots(std::shared_ptr<Backend> backend, std::vector<uint32_t> devices, SnapshotOptions options = {});

  /// One reading of each device, in the order given. The first snapshot reads a device again if its utilization or
  /// power is missing: on AMD's and Intel's devices those are differences of counters.
  std::vector<DeviceLook> take();
  /// Whether a driver call has not returned: then leave the program by std::_Exit, since the driver may hold a lock for
  /// ever.
  [[nodiscard]] bool any_stuck() const;

 private:
  struct Poller;
  void query(const std::vector<size_t>& which);
  [[nodiscard]] bool needs_second_reading(const Poller& poller) const;

  std::shared_ptr<Backend> backend_;
  SnapshotOptions options_;
  std::vector<std::shared_ptr<Poller>> pollers_;
  bool first_ = true;
};

}  // namespace profgpu
