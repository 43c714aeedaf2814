#include "job/link_rates.h"

namespace profgpu {

// Half of the bidirectional figure in the vendors' data sheets: NVLink 2 to 5 for SXM modules, Infinity Fabric for
// Instinct. Names that fit both a PCIe and an SXM board are left out.
std::optional<double> link_rate_gbps(std::string_view name) {
  struct Rate {
    std::string_view part;
    double gbps;
  };
  constexpr Rate kRates[] = {
      {"GB200", 900}, {"B200", 900},           {"B100", 900},
      {"H200", 450},  {"H100 80GB HBM3", 450}, {"H100-SXM", 450}, {"H100 SXM", 450}, {"H800", 200},
      {"A100-SXM", 300}, {"A100 SXM", 300},    {"A800-SXM", 200},
      {"V100-SXM", 150}, {"V100-DGXS", 100},
      {"MI300X", 448},
  };
  for (const Rate& r : kRates)
    if (name.find(r.part) != name.npos) return r.gbps;
  return std::nullopt;
}

}  // namespace profgpu
