// Backend: one way to read devices, one file per vendor or tool; no vendor library is linked.
//
// A backend opens what it needs at run time and reports in one sentence why it cannot. Values that a device cannot
// report are absent from its readings, never 0; why_absent() has the reason.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "trace/sample.h"

namespace profgpu {

/// What to read at a tick.
struct ReadRequest {
  int64_t now_ns = 0;        ///< monotonic clock, for rotations
  bool processes = false;    ///< also the processes on the device
  bool everything = false;   ///< no rotation: all that the device can report (first and last tick, one-shot commands)
  /// With `everything`, monotonic: no call is begun after this; the most important ones come first. 0: no limit.
  int64_t until_ns = 0;
  int64_t tick_ns = INT64_MAX; ///< monotonic: when the tick of all devices began; INT64_MAX: this device only
  MetricSet wanted = {};       ///< no rotation for these either
};

/// How two devices, or a device and itself, are connected.
struct Link {
  std::string kind;          ///< as nvidia-smi topo -m prints it: "X", "NV18", "PIX", "PXB", "PHB", "NODE", "SYS"
};

/// A fact about a device, the driver or the system, for `devices` and `doctor`.
struct Fact {
  std::string id;            ///< "pcie_width", "ecc_mode", "persistence_mode" ...
  std::string value;         ///< "16", "enabled"; empty: unknown
  std::string reason;        ///< why it is unknown
};

class Backend {
 public:
  virtual ~Backend() = default;
  [[nodiscard]] virtual std::string_view name() const = 0;
  [[nodiscard]] virtual const std::vector<DeviceInfo>& devices() const = 0;

  /// Adds the device's current values to `reading`, whose device and time_ns are set. Called by one thread at a time
  /// for one device, by several for different ones; may block where the driver does. An error means that the device as
  /// a whole did not answer ("GPU is lost"); values added before stay valid. Allocates nothing in the steady state.
  virtual Status read(const ReadRequest& request, Reading& reading) = 0;

  /// The interval of reads from now on. By any thread.
  virtual void set_interval(int64_t) {}
  /// Why a metric of a device is absent: "not supported by this device", "no permission"; empty if it is not.
  [[nodiscard]] virtual std::string why_absent(uint32_t device, Metric metric) const = 0;
  /// Driver calls (or files read) so far, over all devices.
  [[nodiscard]] virtual int64_t calls() const { return 0; }
  /// Driver and library versions and the like, and those of one device. Slow.
  [[nodiscard]] virtual std::vector<Fact> system_facts() { return {}; }
  [[nodiscard]] virtual std::vector<Fact> device_facts(uint32_t) { return {}; }
  /// Row i, column j: how device i reaches device j. Empty: unknown.
  [[nodiscard]] virtual std::vector<std::vector<Link>> topology() { return {}; }
  /// True once there will be no more readings (a replay that has ended).
  [[nodiscard]] virtual bool ended() const { return false; }
};

struct BackendOptions {
  int64_t interval_ns = 200'000'000;  ///< of reads, to begin with; nvidia-smi's child is started with it
  /// Limits and maxima, except the memory's size, may come in readings instead of devices() where that opens sooner.
  bool constants_later = false;
  std::string argument{};             ///< the part after the colon of `replay:FILE`
};

struct BackendKind {
  std::string_view name;       ///< for --backend
  std::string_view summary;    ///< one line: what it needs and where it works
  bool automatic = true;       ///< tried by `auto`
  /// The error: in one sentence what was tried and why it failed; its hint: what to do.
  Result<std::unique_ptr<Backend>> (*open)(const BackendOptions& options);
};

/// In the order that `auto` tries them.
const std::vector<const BackendKind*>& backend_kinds();

/// A backend that `auto` did not find, and why.
struct Tried {
  std::string_view backend;
  Error error;
};
struct Opened {
  std::shared_ptr<Backend> backend;   ///< null: none (also with --backend none)
  std::vector<Tried> tried;
};
/// An error where open_backend() does not accept `spec`.
Status check_backend(const std::string& spec);
/// `spec`: auto, none, or a backend's name with its argument ("replay:log.jsonl"). An error for a name that does not
/// exist, and for a named backend that cannot be opened. With `auto`, machines that have devices of several vendors get
/// one backend that shows them all.
Result<Opened> open_backend(const std::string& spec, BackendOptions options);

/// The devices of several backends (at least one) as one list, for machines with GPUs of several vendors.
std::shared_ptr<Backend> composite_backend(std::vector<std::unique_ptr<Backend>> parts);

/// Adds the facts that are metrics, under the metrics' names: the newest sample, else the constant, else why() as the
/// reason.
void add_metric_facts(const DeviceInfo& info, std::span<const Sample> samples,
                      const std::function<std::string(Metric)>& why, std::vector<Fact>& facts);

}  // namespace profgpu
