// Sampler: reads a backend's devices on an absolute schedule and passes every reading to one consumer.
//
// One worker thread serves all devices in turn. When a device has not answered by the deadline, the others move to a
// new worker and the old one keeps the silent device: a hung driver call never stops the rest. Ticks keep to the
// schedule start + n × interval however long a tick takes; late ones are counted, missed ones are skipped. A new
// interval counts from the last tick of the old one. Budget of a tick: the backend's calls, one clock reading and one
// wake-up for all devices; no allocation.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "devices/backend.h"
#include "trace/sample.h"

namespace profgpu {

/// How a device answers.
struct DeviceHealth {
  uint32_t device = 0;            ///< position among the backend's devices
  int64_t good_at_ns = 0;         ///< as steady_unix_ns() of the last good reading's end; 0: none yet
  int64_t errors = 0;             ///< failed readings, and how often it fell silent
  std::string trouble;            ///< "GPU is lost", "does not answer"; empty: none at the last reading

  /// Whether its last values still hold, for a device that is read each `interval_ns`.
  [[nodiscard]] bool answers(int64_t now_ns, int64_t interval_ns) const;
};

/// The reading with times as they are written and shown: those that it comes with are steady_unix_ns()'s. `room`: for a
/// copy, where the clock was set.
const Reading& as_shown(const Reading& reading, Reading& room);

/// A line for each device that got into trouble or out of it. `before`: the troubles at the previous call; empty before
/// the first.
std::vector<std::string> health_changes(const std::vector<DeviceHealth>& health, const std::vector<DeviceInfo>& devices,
                                        std::vector<std::string>& before);

/// Limits of the interval.
constexpr int64_t kShortestSampling_ns = 1'000'000;   // a driver call takes much of it
constexpr int64_t kLongestSampling_ns = 86'400'000'000'000;

struct SamplerOptions {
  int64_t interval_ns = 200'000'000;
  int64_t process_interval_ns = 1'000'000'000;  ///< between readings of processes; 0: never
  int64_t deadline_ns = 2'000'000'000;          ///< a device that takes longer does not answer
  std::vector<uint32_t> devices = {};           ///< positions; empty: all
  /// Time for the first readings of all devices together, and for the last, which may also take a hundredth of the
  /// sampled time: each device is read in full as far as time allows, most important values first. 0: in full.
  int64_t ends_ns = 0;
  MetricSet wanted = {};         ///< read at each tick, like utilization and power
  bool failures = false;         ///< the consumer also gets readings that failed before any value
};

/// Of the sampler itself.
struct SamplerStatistics {
  int64_t ticks = 0;              ///< readings taken, over all devices
  int64_t late_ticks = 0;         ///< begun over half an interval behind the schedule
  int64_t missed_ticks = 0;       ///< skipped because the previous one took too long
  int64_t calls = 0;              ///< driver calls
  int64_t cpu_ns = 0;             ///< CPU time of the workers
  int64_t busy_ns = 0;            ///< wall time inside ticks
  int64_t jitter_p50_ns = 0, jitter_p99_ns = 0, jitter_max_ns = 0;  ///< wake-up behind schedule
  int64_t first_reading_ns = 0;   ///< from start() to the first reading's end
};

/// The trouble of a device that is silent.
constexpr std::string_view kDoesNotAnswer = "does not answer";

/// A device that does not answer, or answered with an error.
struct DeviceTrouble {
  uint32_t device = 0;
  int64_t since_ns = 0;           ///< Unix time of the last good reading's end, or of the start
  std::string message;            ///< "GPU is lost"; "does not answer"
  bool over = false;              ///< it answered again later
};

class Sampler {
 public:
  /// Called for each reading, by the workers, never by two at once. Must be quick: it is part of the tick.
  using Consumer = std::function<void(const Reading&)>;

  Sampler(std::shared_ptr<Backend> backend, SamplerOptions options, Consumer consumer);
  ~Sampler();
  Sampler(const Sampler&) = delete;
  Sampler& operator=(const Sampler&) = delete;

  /// The first reading begins at once, on the worker. Once only.
  void start();
  /// Any time, by any thread. The next tick comes within the new interval.
  void set_interval(int64_t interval_ns);
  /// Takes one last reading of everything from each device that answers, then ends the workers. Idempotent.
  /// A worker that is stuck in the driver, or in the consumer, is left behind; any_stuck() is then true and the program
  /// should exit with std::_Exit, since the driver may hold a lock for ever.
  void stop();
  [[nodiscard]] bool any_stuck() const;
  [[nodiscard]] SamplerStatistics statistics() const;
  /// In order of their start; at most kMaxTroubles are kept.
  [[nodiscard]] std::vector<DeviceTrouble> troubles() const;
  /// Of every device that is sampled. Never waits for a driver.
  [[nodiscard]] std::vector<DeviceHealth> health() const;

  static constexpr size_t kMaxTroubles = 4096;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace profgpu
