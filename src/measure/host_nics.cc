#include "measure/host_nics.h"

#include <fmt/format.h>

#include <cmath>

#include "base/decimal.h"
#include "base/environment.h"
#include "devices/system_files.h"

namespace profgpu {

HostNics host_nics() {
  // Which NICs are meant then is NCCL's to know.
  for (const char* name : {"NCCL_IB_HCA", "NCCL_IB_DISABLE", "NCCL_NET"})
    if (!environment(name).empty()) return {};
  const std::string root = SystemRoots::from_environment().sys + "/class/infiniband";
  HostNics nics;
  double fastest = 0;                     // gigabits a second
  for (const std::string& card : folder_names(root))
    for (const std::string& port : folder_names(root + "/" + card + "/ports")) {
      const std::string at = root + "/" + card + "/ports/" + port;
      if (!file_line(at + "/state").ends_with("ACTIVE")) continue;
      const std::string rate = file_line(at + "/rate");   // "400 Gb/sec (4X NDR)"
      const double gigabits = real_number(rate.substr(0, rate.find(' '))).value_or(0);
      if (!(gigabits > 0) || gigabits < fastest) continue;
      if (gigabits > fastest) fastest = gigabits, nics.count = 0;
      ++nics.count;
    }
  nics.gbps = fastest / 8 * static_cast<double>(nics.count);
  return nics;
}

std::string HostNics::word() const { return fmt::format("{}:{}", count, gbps); }

HostNics HostNics::of_word(std::string_view word) {
  const size_t colon = word.find(':');
  if (colon == word.npos) return {};
  HostNics nics{whole_number(word.substr(0, colon)).value_or(0), real_number(word.substr(colon + 1)).value_or(0)};
  return nics.count > 0 && nics.gbps > 0 && std::isfinite(nics.gbps) ? nics : HostNics{};
}

}  // namespace profgpu
