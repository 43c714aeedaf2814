// Backend: one way to ask devices what they do. One file a vendor or tool; nothing of a vendor is linked.
//
// A backend opens what it needs at run time and says in one sentence why it cannot. What a device cannot say is absent
// from its readings, never 0; why_absent() tells why.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "trace/sample.h"

namespace profgpu {

/// What is asked of a backend at a tick.
struct ReadRequest {
  int64_t now_ns = 0;        ///< monotonic clock: what rotations go by
  bool processes = false;    ///< also the processes on the device
  bool everything = false;   ///< no rotation: all that the device can say (first and last tick, one-shot commands)
  /// With `everything`, monotonic: what counts most is read first, and no further call is begun after this. 0: no
  /// limit.
  int64_t until_ns = 0;
  int64_t tick_ns = INT64_MAX; ///< monotonic: when the reading of this device and others began; INT64_MAX: of it alone
  MetricSet wanted = {};       ///< no rotation for these either
};

/// How two devices, or a device and itself, are connected.
struct Link {
  std::string kind;          ///< as nvidia-smi topo -m prints it: "X", "NV18", "PIX", "PXB", "PHB", "NODE", "SYS"
};

/// A fact about a device, the driver or the system that a person may need: for `devices` and `doctor`.
struct Fact {
  std::string id;            ///< "pcie_width", "ecc_mode", "persistence_mode" ...
  std::string value;         ///< "16", "enabled"; empty: not known
  std::string reason;        ///< why it is not known
};

class Backend {
 public:
  virtual ~Backend() = default;
  [[nodiscard]] virtual std::string_view name() const = 0;
  [[nodiscard]] virtual const std::vector<DeviceInfo>& devices() const = 0;

  /// Adds what the device says now to `reading`, whose device and time_ns are set. Called by one thread at a time for
  /// one device, by several for different ones; may block where the driver does. An error means that the device as a
  /// whole did not answer ("GPU is lost"); what was added before it stays valid. Allocates nothing in the steady state.
  virtual Status read(const ReadRequest& request, Reading& reading) = 0;

  /// It will be asked so often from now on. By any thread.
  virtual void set_interval(int64_t) {}
  /// Why a metric of a device is absent: "not supported by this device", "no permission"; empty if it is not.
  [[nodiscard]] virtual std::string why_absent(uint32_t device, Metric metric) const = 0;
  /// Driver calls (or files read) so far, over all devices.
  [[nodiscard]] virtual int64_t calls() const { return 0; }
  /// Driver and library versions and the like, and what holds for one device: slow, for people.
  [[nodiscard]] virtual std::vector<Fact> system_facts() { return {}; }
  [[nodiscard]] virtual std::vector<Fact> device_facts(uint32_t) { return {}; }
  /// Row i, column j: how device i reaches device j. Empty: not known.
  [[nodiscard]] virtual std::vector<std::vector<Link>> topology() { return {}; }
  /// True once no more will come (a replay that has ended).
  [[nodiscard]] virtual bool ended() const { return false; }
};

struct BackendOptions {
  int64_t interval_ns =
      200'000'000;  ///< how often it will be asked, to begin with; nvidia-smi's child is started with it
  /// Limits and maxima, but for the memory's size, may come in readings instead of devices(), where that makes it open
  /// sooner.
  bool constants_later = false;
  std::string argument{};             ///< what stands behind the colon of `replay:FILE`
};

struct BackendKind {
  std::string_view name;       ///< for --backend
  std::string_view summary;    ///< one line: what it needs and where it works
  bool automatic = true;       ///< tried by `auto`
  /// The error says in one sentence what was tried and why it is not there; its hint what to do.
  Result<std::unique_ptr<Backend>> (*open)(const BackendOptions& options);
};

/// In the order that `auto` tries them.
const std::vector<const BackendKind*>& backend_kinds();

/// What `auto` found, or why nothing was.
struct Tried {
  std::string_view backend;
  Error error;
};
struct Opened {
  std::shared_ptr<Backend> backend;   ///< null: none (also with --backend none)
  std::vector<Tried> tried;           ///< backends that were tried before and are not there
};
/// An error where `spec` is nothing that open_backend() takes.
Status check_backend(const std::string& spec);
/// `spec`: auto, none, or a backend's name with its argument ("replay:log.jsonl"). An error for a name that does not
/// exist, and for a named backend that cannot be opened. With `auto`, machines that have devices of several vendors get
/// one backend that shows them all.
Result<Opened> open_backend(const std::string& spec, BackendOptions options);

// Composite: the devices of several backends as one list, for machines with GPUs of several vendors.

/// At least one; with one that one itself.
std::shared_ptr<Backend> composite_backend(std::vector<std::unique_ptr<Backend>> parts);

}  // namespace profgpu
