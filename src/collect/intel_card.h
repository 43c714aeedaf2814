// One Intel card under xe or i915: which of their files say what.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "collect/backend.h"
#include "collect/drm_card.h"
#include "collect/drm_clients.h"
#include "collect/drm_file.h"
#include "collect/level_zero.h"

namespace profgpu {

class IntelCard {
 public:
  IntelCard(DrmCard card, uint32_t index, const std::string& sys);

  [[nodiscard]] const DeviceInfo& info() const { return info_; }
  /// `counters`: what Level Zero says of this card; null: nothing.
  Status read(const ReadRequest& request, DrmClients& clients, LevelZeroDevice* counters, Reading& reading);
  [[nodiscard]] std::string why_absent(Metric metric) const;
  /// Some processes on the device are out of sight.
  [[nodiscard]] bool hidden() const { return use_state_ == Use::kHidden; }
  [[nodiscard]] const std::string& pci() const { return card_.pci; }
  [[nodiscard]] int64_t calls() const { return files_.calls(); }
  [[nodiscard]] std::vector<Fact> facts() const;

 private:
  void add_clock_files();
  void add_sensor_files();
  void add_power(const ReadRequest& request, size_t begin, Reading& reading);
  void add_clock_reasons(const ReadRequest& request, Reading& reading);
  void add_use(const ReadRequest& request, DrmClients& clients, const LevelZeroDevice* counters, Reading& reading);

  const DrmCard card_;
  const std::string vendor_file_;
  const bool is_xe_;
  std::string clocks_;               ///< the folder of the first GT's clocks
  DeviceInfo info_;
  DrmFiles files_;
  std::optional<DrmFile> throttled_; ///< whether any reason holds
  std::deque<DrmFile> reasons_;
  std::vector<ClockReason> reason_bits_;   ///< as many
  int64_t reasons_ns_ = 0, counters_ns_ = 0;
  double energy_j_ = 0;              ///< at energy_ns_
  int64_t energy_ns_ = 0;            ///< 0: not read yet
  DrmUse use_;
  bool new_processes_ = false;
  enum class Use : uint8_t { kOneLook, kHidden, kKnown };
  std::atomic<Use> use_state_ = Use::kOneLook;
};

}  // namespace profgpu
