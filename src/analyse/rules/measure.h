// What rules measure, the same way in all of them: over the measured steps, on the worst device of the worst rank.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "analyse/rank/devices.h"
#include "analyse/rank/idle.h"
#include "analyse/rank/kernels.h"
#include "analyse/rank/phases.h"
#include "analyse/rank/replay.h"
#include "analyse/rank/steps.h"
#include "analyse/rules/rule.h"
#include "base/statistics.h"

namespace profgpu {

/// One rank as a rule sees it, with one of its devices.
class Measured {
 public:
  /// `place`: of the device in Devices; ignored where there is none.
  Measured(int rank, const Facts& facts, size_t place, Thresholds thresholds = {});

  [[nodiscard]] int rank() const { return rank_; }
  /// Beyond which a rule fires.
  [[nodiscard]] double threshold(const Rule& rule) const { return thresholds_.of(rule); }
  [[nodiscard]] const Facts& facts() const { return facts_; }
  [[nodiscard]] const Trace& trace() const { return facts_.trace(); }
  [[nodiscard]] const Replay& replay() const { return facts_.get<Replay>(); }
  [[nodiscard]] bool has_device() const { return !facts_.get<Devices>().devices.empty(); }
  /// The device that is looked at, and its idle time; only with has_device().
  [[nodiscard]] const DeviceTime& device() const;
  [[nodiscard]] const DeviceIdle& idle() const;
  /// All that the device idles in its window, in time order.
  [[nodiscard]] const std::vector<Gap>& gaps() const { return gaps_; }
  [[nodiscard]] int64_t wall_ns() const { return wall_ns_; }
  [[nodiscard]] int64_t steps() const { return steps_; }
  /// "GPU 0"
  [[nodiscard]] std::string device_label() const;

  /// Percent of the device's window, as the idle section shows it; where there are warm-up steps, of the part of the
  /// window within the other steps.
  [[nodiscard]] double idle_pct(IdleCause cause) const;
  [[nodiscard]] int64_t idle_ns(IdleCause cause) const;
  /// Idle time of a cause within the measured steps, of their wall time.
  [[nodiscard]] double idle_wall_pct(IdleCause cause) const;
  /// Idle or exposed time of the measured steps: what all causes of waiting together can cost.
  [[nodiscard]] int64_t waiting_ns() const;
  /// What the steps would not have taken without the cause on this device.
  [[nodiscard]] int64_t saved_by_cause(IdleCause cause) const { return replay().saved_by_cause(cause, device_); }
  [[nodiscard]] int64_t saved_by_communication() const { return replay().saved_by_communication(device_); }
  /// Of a kernel's time or count, what averages are over: all of it, or without warm-up steps.
  [[nodiscard]] int64_t counted(int64_t all, int64_t steady) const { return all_measured_ ? all : steady; }
  [[nodiscard]] double utilization_pct() const;
  /// Of the window less what the device spent on work that is not in the recording.
  [[nodiscard]] double known_utilization_pct() const;
  /// Whether a graph is captured for most of the measured time: no run to be judged.
  [[nodiscard]] bool is_capture() const;
  [[nodiscard]] double exposed_communication_pct() const;
  /// Of the device's time, percent of its window; of both the part that is judged.
  [[nodiscard]] double window_pct(const Intervals& time) const { return percent_of(judged_ns(time), window_ns()); }
  /// Percent of the measured steps' wall time.
  [[nodiscard]] double phase_pct(Phase phase) const;
  [[nodiscard]] double wall_pct(int64_t ns) const;
  [[nodiscard]] bool in_measured_step(int64_t time) const;
  [[nodiscard]] const Intervals& measured_time() const { return measured_; }

 private:
  [[nodiscard]] int64_t window_ns() const { return judged_ns(idle().window); }
  /// The part that shares of the window are of.
  [[nodiscard]] int64_t judged_ns(const Intervals& time) const;
  int rank_;
  const Facts& facts_;
  size_t device_;
  Thresholds thresholds_;
  Intervals measured_;
  int64_t wall_ns_ = 0, steps_ = 0;
  bool all_measured_ = true;   // shares of the window are of all of it
  std::vector<Gap> gaps_;
};

/// Sets the cost, and its share of the rank's measured steps: of `wall_ns`.
void set_cost(Finding& finding, int64_t wall_ns, int64_t cost_ns);

/// Memory that the framework had reserved at the peak, of the device's.
std::optional<double> reserved_pct(const Measured& measured);

/// Matrix products, convolutions and attention: work for tensor cores.
constexpr bool is_matrix_work(KernelCategory c) {
  return c == KernelCategory::kGemm || c == KernelCategory::kConvolution || c == KernelCategory::kAttention;
}
/// Whether a copy goes from the host to the device.
bool is_upload(const Trace& trace, ActivityId copy);
/// "12.3 ms", "4.5 µs".
std::string duration_text(double ns);
/// "memory allocation"
std::string idle_cause_words(IdleCause cause);
/// "39.7 %"
std::string percent_text(double pct);
/// At most `longest` bytes, cut between characters.
std::string shortened(std::string_view text, size_t longest = 72);

/// "compute_loss (train.py:87)"
std::string place_text(const Place& place);
/// What the host did within the longest gaps of a cause in measured steps, until it launched.
std::vector<Place> places_in_gaps(const Measured& measured, IdleCause cause);
/// Longest gap of a cause, within measured steps where there is one.
const Gap* longest_gap(const Measured& measured, IdleCause cause);
/// How many of the measured steps idle for the cause.
int64_t steps_with_gaps(const Measured& measured, IdleCause cause);

/// "40 %", of a finding's value in a verdict.
std::string share_text(const Finding& finding);

// What kept a thread from launching: in system calls, as samples of it say.

struct BlockedThread {
  std::string said;   ///< "meanwhile the thread that launches is blocked 92 % of the time, in read: it reads"
  std::string fix;    ///< where it is for most of the time, and known what for; else empty
};
/// Of the threads that end the cause's gaps in measured steps, within these; nothing where samples are few or show none
/// blocked for a good part.
std::optional<BlockedThread> blocked_thread(const Measured& measured, IdleCause cause);
/// Makes it the finding's first evidence and fix.
void add_blocked_thread(Finding& finding, const Measured& measured, IdleCause cause);

}  // namespace profgpu
