// What nvidia-smi prints with --format=csv,noheader,nounits: rows of fields between ", ", numbers, words for states,
// and several spellings of "there is no value".
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace profgpu {

struct SmiValue {
  std::optional<double> number;  ///< words for states are numbers too: "Active", "Yes", "P0", "0x1"
  std::string_view absent;       ///< why there is none; empty where there is one
  bool trouble = false;          ///< the device is in a bad state ("GPU is lost"), rather than without the value
};
/// Independent of any locale. `absent` lives as long as `field`.
SmiValue smi_value(std::string_view field);

/// The fields of a row; the last of `most` takes the rest of it, commas and all (process names are not quoted).
void split_smi_row(std::string_view row, size_t most, std::vector<std::string_view>& fields);

/// "00000000:0A:00.0" and shorter spellings as DeviceInfo::pci_bus_id has them; empty if it is none.
std::string smi_pci_bus_id(std::string_view text);

}  // namespace profgpu
