// amdgpu's `gpu_metrics`: a binary table filled by the firmware, one file for most of a device's values. Its layout
// depends on the revision in its header (kgd_pp_interface.h of the Linux kernel); unknown revisions are not read.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>

#include "devices/drm_card.h"
#include "trace/sample.h"

namespace profgpu {

struct AmdgpuLayout;

class AmdgpuMetrics {
 public:
  explicit AmdgpuMetrics(const std::string& path) : file_(path) {}

  /// Adds the table's values. False: there is no readable table; why_absent() has the reason.
  bool read(Reading& reading);
  [[nodiscard]] bool there() const { return file_.there(); }
  [[nodiscard]] std::string why_absent() const { return file_.why_absent(); }
  /// "1.3"; empty before a table was read.
  [[nodiscard]] std::string revision() const;

 private:
  /// Time with limited clocks, from the firmware's count of its own rounds.
  struct Residency {
    uint32_t rounds = 0, power = 0, thermal[3] = {}, prochot = 0;
    double power_ns = 0, thermal_ns = 0, prochot_ns = 0;
    int64_t time_ns = 0;
  };
  void add_residency(const AmdgpuLayout& layout, std::string_view table, Reading& reading);

  SysfsFile file_;
  std::atomic<int> revision_ = 0;
  Residency residency_;
};

}  // namespace profgpu
