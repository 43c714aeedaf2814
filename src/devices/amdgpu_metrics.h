// amdgpu's `gpu_metrics`: a table in binary that the firmware fills, one file for most of what a device says. Its
// layout depends on the revision in its header (kgd_pp_interface.h of the Linux kernel); unknown revisions are not read
// at all.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "trace/sample.h"

namespace profgpu {

struct AmdgpuLayout;

class AmdgpuMetrics {
 public:
  explicit AmdgpuMetrics(const std::string& path);
  ~AmdgpuMetrics();
  AmdgpuMetrics(const AmdgpuMetrics&) = delete;
  AmdgpuMetrics& operator=(const AmdgpuMetrics&) = delete;

  /// Adds what the table says. False: there is none that we can read; why_absent() says why.
  bool read(Reading& reading);
  [[nodiscard]] bool there() const { return fd_ >= 0; }
  [[nodiscard]] std::string why_absent() const;
  /// "1.3"; empty before a table was read.
  [[nodiscard]] std::string revision() const;

 private:
  /// Time that clocks were held back, from the firmware's own count of its rounds.
  struct Residency {
    uint32_t rounds = 0, power = 0, thermal[3] = {}, prochot = 0;
    double power_ns = 0, thermal_ns = 0, prochot_ns = 0;
    int64_t time_ns = 0;
  };
  void add_residency(const AmdgpuLayout& layout, std::string_view table, Reading& reading);

  int fd_ = -1;
  std::atomic<int> problem_;
  std::atomic<int> revision_ = 0;
  Residency residency_;
};

}  // namespace profgpu
