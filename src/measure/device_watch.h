// DeviceWatch: what devices say of themselves while they are measured.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "devices/sampler.h"
#include "measure/result/bench_result.h"

namespace profgpu {

/// How much counters of faults rose; all 0 where they did not, or are unknown.
struct DeviceFaults {
  int64_t ecc_corrected = 0, ecc_uncorrected = 0, xids = 0, last_xid = 0;
};

/// What devices move data to each other over. Each may have so many links that all of them, or only neighbors, reach.
struct GroupLink {
  std::string link;                ///< "NV18", "PCIe"; empty: unknown, or not the same for all
  std::optional<double> gbps;      ///< what a device moves at most in one direction to all others together
  std::optional<double> next_gbps; ///< the same to the next device alone
};

class DeviceWatch {
 public:
  /// `backend`: null gives no readings.
  explicit DeviceWatch(std::shared_ptr<Backend> backend);
  ~DeviceWatch();

  /// Position of a device among the backend's, by UUID, else by PCI address; none: the backend does not have it.
  [[nodiscard]] std::optional<uint32_t> find(const std::string& uuid, const std::string& pci_bus_id) const;
  /// From `from_ns` (Unix time) until now; of the newest reading before, where there was none since.
  [[nodiscard]] DeviceReadings since(uint32_t device, int64_t from_ns) const;
  [[nodiscard]] DeviceFaults faults_since(uint32_t device, int64_t from_ns) const;
  /// How two devices reach each other: "NV18", "SYS"; empty: unknown. And what that many NVLinks of the first move at
  /// most in one direction; none: it is no NVLink, or its speed is unknown.
  [[nodiscard]] std::string link(uint32_t from, uint32_t to);
  [[nodiscard]] std::optional<double> link_gbps(uint32_t from, std::string_view link);
  /// What of the device's memory is in use, as it says from now on; none: it does not within a second.
  [[nodiscard]] std::optional<double> memory_used_now(uint32_t device) const;
  /// What collectives of these devices have in common.
  [[nodiscard]] GroupLink link_of_group(const std::vector<uint32_t>& devices);
  /// Processes other than this one that are on the device: "python (pid 4711)". To be asked before this one is.
  [[nodiscard]] std::vector<std::string> others_at_first(uint32_t device);
  /// Those that compute there now. In a container this process has another number than it knows: one that came since
  /// then is taken for it.
  [[nodiscard]] std::vector<std::string> others(uint32_t device) const;
  /// A worker is stuck in the driver.
  [[nodiscard]] bool any_stuck() const { return sampler_ && sampler_->any_stuck(); }
  /// Adds a reading: the sampler's workers call it.
  void take(const Reading& reading);

 private:
  [[nodiscard]] std::optional<int64_t> active_links(uint32_t device);
  [[nodiscard]] std::optional<int64_t> nvlinks_to(uint32_t from, uint32_t to);

  std::shared_ptr<Backend> backend_;
  std::optional<std::vector<std::vector<Link>>> topology_;   // none: not asked yet
  mutable std::mutex mutex_;
  std::vector<std::vector<Reading>> readings_;     // by device; the first, and the newest of kMaxReadings
  std::vector<std::vector<ProcessSample>> processes_;   // by device, newest
  std::vector<int64_t> most_lanes_;                // of the PCIe link, by device; 0: unknown
  std::vector<std::set<int64_t>> at_first_;        // by device: numbers of processes
  std::unique_ptr<Sampler> sampler_;
};

}  // namespace profgpu
