// Whose samples are whose, where there are several hosts.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "trace/sample.h"

namespace profgpu {

/// Which devices of a log can be a rank's, by the names of their hosts: those of the same host. Where one of the two is
/// not known, all devices can, but only if the ranks are of one host and the devices too.
class SampleHosts {
 public:
  /// `ranks`: their hosts; empty: unknown.
  SampleHosts(const SampleLog& log, std::span<const std::string> ranks);
  [[nodiscard]] bool fits(std::string_view rank, const DeviceInfo& device) const {
    if (rank.empty() || device.host.empty()) return one_host_;
    return rank == device.host;
  }

 private:
  bool one_host_;
};

}  // namespace profgpu
