// Snapshots: looks at all devices at once, for commands that show what is now.
//
// Each device is asked on a thread of its own, all at the same time, so a look takes as long as the slowest device that
// answers and never longer than the deadline. A device that has not answered is not asked again before it does.
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

/// What one device said.
struct DeviceLook {
  uint32_t device = 0;                    ///< position among the backend's devices
  DeviceState state = DeviceState::kOk;
  std::string message;                    ///< "GPU is lost"; empty if it is well
  int64_t since_ns = 0;                   ///< Unix time of the last good answer, or of the first question
  Reading reading;

  /// The newest sample of a metric.
  [[nodiscard]] std::optional<double> value(Metric metric) const;
  /// The mean of all samples that the driver had kept: steadier than the newest.
  [[nodiscard]] std::optional<double> mean(Metric metric) const;
};

struct SnapshotOptions {
  bool processes = true;
  int64_t deadline_ns = 2'000'000'000;
  bool rates = false;  ///< the first time two looks at all, so that everything that is a rate is known
  int64_t rate_window_ns = 100'000'000;   ///< between two looks
};

class Snapshots {
 public:
  /// `devices`: positions among the backend's.
  Snapshots(std::shared_ptr<Backend> backend, std::vector<uint32_t> devices, SnapshotOptions options = {});

  /// One look at each device, in the order given. The first time a second one where the first did not tell utilization
  /// or power, since those are differences of counters on AMD's and Intel's devices.
  std::vector<DeviceLook> take();
  /// Whether a driver call has not come back: then the program should leave by std::_Exit, since the driver may hold a
  /// lock for ever.
  [[nodiscard]] bool any_stuck() const;

 private:
  struct Poller;
  // Those that were asked: not the ones that still owe an answer.
  std::vector<size_t> ask(const std::vector<size_t>& which);
  void await(const std::vector<size_t>& which);
  [[nodiscard]] bool needs_second_look(const Poller& eye) const;

  std::shared_ptr<Backend> backend_;
  SnapshotOptions options_;
  std::vector<std::shared_ptr<Poller>> eyes_;
  bool first_ = true;
};

}  // namespace profgpu
