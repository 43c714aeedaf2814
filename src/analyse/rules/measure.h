// Figures that rules share: over the measured steps, on one device of one rank.
#pragma once

#include <array>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "analyse/rank/devices.h"
#include "analyse/rank/idle.h"
#include "analyse/rank/kernels.h"
#include "analyse/rank/measured.h"
#include "analyse/rank/phases.h"
#include "analyse/rank/replay.h"
#include "analyse/rank/steps.h"
#include "analyse/report/quantity.h"
#include "analyse/rules/rule.h"
#include "base/statistics.h"
#include "base/text.h"

namespace profgpu {

/// One rank with one of its devices, as rules see it.
class Measured {
 public:
  /// `device`: index in Devices; ignored if there are no devices.
  Measured(int rank, const Facts& facts, size_t device, Thresholds thresholds = {});

  [[nodiscard]] int rank() const { return rank_; }
  /// The rule fires beyond it.
  [[nodiscard]] double threshold(const Rule& rule) const { return thresholds_.of(rule); }
  [[nodiscard]] const Facts& facts() const { return facts_; }
  [[nodiscard]] const Trace& trace() const { return facts_.trace(); }
  [[nodiscard]] const Replay& replay() const { return facts_.get<Replay>(); }
  [[nodiscard]] bool has_device() const { return !facts_.get<Devices>().devices.empty(); }
  /// Only with has_device().
  [[nodiscard]] const DeviceTime& device() const { return facts_.get<Devices>().devices[device_]; }
  [[nodiscard]] const DeviceIdle& idle() const { return facts_.get<Idle>().devices[device_]; }
  /// All gaps in the device's window, in time order.
  [[nodiscard]] const std::vector<Gap>& gaps() const { return gaps_; }
  [[nodiscard]] int64_t wall_ns() const { return wall_ns_; }
  [[nodiscard]] int64_t steps() const { return steps_; }
  /// "GPU 0"
  [[nodiscard]] std::string device_label() const;

  /// Percent of the device's window, as in the idle section; with warm-up steps or long pauses between
  /// steps, of the part within the measured steps.
  [[nodiscard]] double idle_pct(IdleCause cause) const { return percent_of(idle_ns(cause), window_ns()); }
  [[nodiscard]] int64_t idle_ns(IdleCause cause) const;
  /// Idle time of a cause within the measured steps, percent of their wall time.
  [[nodiscard]] double idle_wall_pct(IdleCause cause) const {
    return wall_pct(idle().measured_ns[static_cast<size_t>(cause)]);
  }
  /// Idle or exposed time of the measured steps: upper bound of the cost of all waiting.
  [[nodiscard]] int64_t waiting_ns() const;
  /// Time that the steps would save without the cause on this device.
  [[nodiscard]] int64_t saved_by_cause(IdleCause cause) const { return replay().saved_by_cause(cause, device_).least_ns; }
  [[nodiscard]] Saving saved_by_communication() const { return replay().saved_by_communication(device_); }
  /// The part of a kernel's time or count that averages include: all of it, or that without warm-up steps.
  [[nodiscard]] int64_t counted(int64_t all, int64_t steady) const { return all_measured_ ? all : steady; }
  /// Likewise of a median.
  [[nodiscard]] std::optional<double> counted_of(std::optional<double> all, std::optional<double> steady) const {
    return all_measured_ ? all : steady;
  }
  [[nodiscard]] IdleCause largest_idle_cause() const;
  [[nodiscard]] double utilization_pct() const { return window_pct(device().busy); }
  /// Of the window without the device's time for unrecorded work, and without that in which a server has no requests.
  [[nodiscard]] double known_utilization_pct() const;
  /// Time in which graphs are captured, on any thread.
  [[nodiscard]] int64_t capture_ns() const;
  /// Whether a graph is captured for most of the measured time: not a run to evaluate.
  [[nodiscard]] bool is_capture() const { return 2 * capture_ns() > wall_ns_; }
  [[nodiscard]] double exposed_communication_pct() const { return window_pct(device().exposed_communication); }
  /// Device time as percent of its window, both within the evaluated part.
  [[nodiscard]] double window_pct(const Intervals& time) const { return percent_of(evaluated_ns(time), window_ns()); }
  /// Percent of the measured steps' wall time.
  [[nodiscard]] double phase_pct(Phase phase) const;
  [[nodiscard]] double wall_pct(int64_t ns) const { return percent_of(ns, wall_ns_); }
  /// Without time for unrecorded work, and without requests.
  [[nodiscard]] double known_wall_pct(int64_t ns) const {
    return percent_of(ns, facts_.get<MeasuredSteps>().known_wall_ns());
  }
  /// Whether the host is in a measured step then: for launches and calls.
  [[nodiscard]] bool in_measured_step(int64_t host_time) const { return contains(measured_host_, host_time); }
  /// Whether a gap has the cause and ends within the evaluated part of the window.
  [[nodiscard]] bool counts(const Gap& gap, IdleCause cause) const {
    return gap.cause == cause && (all_measured_ || contains(measured_, gap.end_ns - 1));
  }
  [[nodiscard]] const Intervals& measured_time() const { return measured_; }
  /// By activity: kernels whose time a rule about kernels' names names already, so that others do not say it again.
  [[nodiscard]] const std::vector<bool>& named_kernels() const;
  /// Where the host is during the gaps of a cause in measured steps, until it launches; without what has a rule of its
  /// own.
  [[nodiscard]] const std::vector<Place>& places_in_gaps(IdleCause cause) const;
  /// Host time that has rules of its own, whatever idles meanwhile: the profiler's work, garbage collection, and waits
  /// of the launching thread in MPI.
  [[nodiscard]] const Intervals& host_time_of_other_rules() const;
  /// Idle time of a cause, without that time and without a cold start; percent of the device's window.
  [[nodiscard]] double own_idle_pct(IdleCause cause) const {
    return percent_of(std::max<int64_t>(0, idle_ns(cause) - not_own_ns(cause)), window_ns());
  }
  /// Likewise, what the steps would save.
  [[nodiscard]] Saving own_saved_by_cause(IdleCause cause) const {
    const int64_t others_ns = not_own_ns(cause);
    const Saving all = replay().saved_by_cause(cause, device_);
    return {std::max<int64_t>(0, all.least_ns - others_ns), std::max<int64_t>(0, all.most_ns - others_ns)};
  }

 private:
  [[nodiscard]] int64_t not_own_ns(IdleCause cause) const { return of_other_rules_ns(cause) + cold_start_ns(cause); }
  [[nodiscard]] int64_t of_other_rules_ns(IdleCause cause) const;
  /// The wait for the first activity, if the other of several steps do not wait nearly as long: only a recording
  /// begins with nothing queued.
  [[nodiscard]] int64_t cold_start_ns(IdleCause cause) const;
  [[nodiscard]] int64_t window_ns() const { return evaluated_ns(idle().window); }
  /// Length of the part within the evaluated part of the window.
  [[nodiscard]] int64_t evaluated_ns(const Intervals& time) const;
  int rank_;
  const Facts& facts_;
  size_t device_;
  Thresholds thresholds_;
  Intervals measured_, measured_host_;
  int64_t wall_ns_ = 0, steps_ = 0;
  bool all_measured_ = true;   // the whole window is evaluated
  std::vector<Gap> gaps_;
  template <class T>
  struct Once {
    std::once_flag once;
    T value;
  };
  // Filled when first needed.
  std::shared_ptr<Once<std::vector<bool>>> named_ = std::make_shared<Once<std::vector<bool>>>();
  std::shared_ptr<Once<Intervals>> other_rules_ = std::make_shared<Once<Intervals>>();
  using PlacesByCause = std::array<Once<std::vector<Place>>, kIdleCauses>;
  std::shared_ptr<PlacesByCause> places_ = std::make_shared<PlacesByCause>();
};

/// Has the timeline show exactly this.
void see(Finding& finding, const Interval& stretch);
/// Sets the cost, also as percent of `wall_ns`, the rank's measured steps.
void set_cost(Finding& finding, int64_t wall_ns, int64_t cost_ns);
/// Whether bounds of a saving are close enough to call the least of them the cost.
bool is_known_well(int64_t whole_ns, const Saving& saving);
/// Sets what the measured steps save as the cost, or gives the reason why that is not known.
void set_saving(const Measured& measured, const Saving& saving, Finding& finding);

/// Sets the cost of kernels that take `kernels_ns` together if they took `less_ns` less, and where in the rank's lane.
void set_kernel_cost(const Measured& measured, const std::vector<ActivityId>& kernels, int64_t kernels_ns,
                     int64_t less_ns, Finding& finding);
/// Has the job's replay save the finding's cost within `time`, of the busiest device. A rank alone has no such replay.
void place_in_lane(const Measured& measured, const Intervals& time, Finding& finding);

/// The framework's peak reserved memory on the device, percent of its memory.
std::optional<double> reserved_pct(const Measured& measured);
/// Of the device that is fullest, the one of Memory.
std::optional<double> fullest_reserved_pct(const Measured& measured);

/// "gfx942" is the name of an architecture.
inline bool is_amd_name(std::string_view device) {
  return contains(device, "AMD") || contains(device, "Instinct") || device.starts_with("gfx") ||
         device.starts_with("MI");
}
inline bool is_amd(const DeviceProperties& d) { return is_amd_name(d.name); }
/// Of a device of a trace: also where its name was not recorded, by who recorded it, by calls of HIP, or by kernels of
/// AMD's libraries.
bool is_amd(const Trace& trace, int32_t device);
/// What the parts of a device are called by its vendor.
struct DeviceWords {
  std::string_view multiprocessor, multiprocessors;   ///< AMD: compute units
  std::string_view blocks;                            ///< AMD: workgroups
  std::string_view tensor_cores;                      ///< AMD: matrix cores
};
const DeviceWords& device_words(const Measured& measured);
/// Who makes a device: each has tools of its own.
enum class Vendor : uint8_t { kUnknown, kNvidia, kAmd, kIntel, kGoogle, kMeta };
/// By the device's name, else by who recorded the trace, by its calls, or by names of kernels.
Vendor vendor(const Trace& trace, int32_t device);

/// Kernels matter less on a device that mostly waits.
void demote_on_idle_device(const Measured& m, Finding& f);

/// Whether there is a backward pass or an optimizer.
bool trains(const Facts& facts);
/// Operators of PyTorch are there, and none of training's.
bool infers(const Facts& facts);
/// What starts the program, for advice: "python train.py".
std::string_view program_command(const Facts& facts);

/// Users of an engine do not change its code.
inline constexpr std::string_view kEngineFix =
    "this is the engine's own code: compare another version, attention backend or quantization";

/// A call that takes long to launch.
struct LongLaunch {
  std::string_view name;
  int64_t mean_ns = 0;   ///< before the gaps
};
/// Of waits of cause dependency: the call with most of that time, if calls still ran for most of it. The device then
/// waits for the host, although the call had begun before the gap.
std::optional<LongLaunch> long_launch(const Measured& measured);
/// What most of the idle time is: "host bound".
std::string largest_idle_words(const Measured& measured);

/// Whether a copy goes from the host to the device.
bool is_upload(const Trace& trace, ActivityId copy);
/// Whether Python functions were recorded.
bool has_python_frames(const Trace& trace);
/// "compute_loss (train.py:87)"
std::string place_text(const Place& place);
/// Measured::places_in_gaps(), computed.
std::vector<Place> find_places_in_gaps(const Measured& measured, IdleCause cause);
/// Measured::host_time_of_other_rules(), computed.
Intervals find_host_time_of_other_rules(const Measured& measured);
/// What the steps save if kernels below 90 % of their operators' limit, or of what products achieve at most, reached
/// that with the grids that they have; unchanged: none, or no limit is known.
void set_cost_at_limit(const Measured& measured, const std::vector<ActivityId>& kernels, Finding& finding);

/// Of a rank without a device: time in which code is compiled again, if that has a finding of its own. The first
/// compilation is left out.
Intervals find_recompiling(const Measured& measured);

/// Measured::named_kernels(), computed.
std::vector<bool> find_named_kernels(const Measured& measured);
void name_full_precision_kernels(const Measured& measured, std::vector<bool>& named);
void name_unfused_optimizer(const Measured& measured, std::vector<bool>& named);
/// Idle time in which the launching thread is in calls of MPI, percent of the device's window.
double mpi_wait_pct(const Measured& measured);
/// That time, if it has a finding of its own.
Intervals find_mpi_wait(const Measured& measured);
/// Where kernels were launched, by their durations; and has the timeline show the longest, unless it shows something.
void show_kernels(const Measured& measured, const std::vector<ActivityId>& kernels, Finding& finding);
/// Number of measured steps that idle for the cause.
int64_t steps_with_gaps(const Measured& measured, IdleCause cause);
/// Time of calls or kernels per step: "4.20 ms per step"; without steps just the time.
std::string per_step_text(const Measured& measured, int64_t ns);

/// Which system calls keep a thread from launching, from its samples.
struct BlockedThread {
  std::string text;   ///< "meanwhile the launching thread is blocked 92 % of the time, in read (file input)"
  std::string fix;    ///< empty unless it is blocked most of the time, for a known reason
};
/// Of the threads that end the cause's gaps in measured steps, within these; nothing if samples are few or rarely
/// blocked.
std::optional<BlockedThread> blocked_thread(const Measured& measured, IdleCause cause);
/// Makes it the finding's first evidence and fix.
void add_blocked_thread(Finding& finding, const Measured& measured, IdleCause cause);

}  // namespace profgpu
