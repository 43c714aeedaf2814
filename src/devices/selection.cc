#include "devices/selection.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <string_view>

#include "base/decimal.h"
#include "base/text.h"
#include "devices/pci_address.h"

namespace profgpu {
namespace {

using Devices = std::vector<DeviceInfo>;

std::optional<uint32_t> index_number(std::string_view text) {
  const auto n = all_digits(text) ? whole_number(text) : std::nullopt;
  return n && *n <= UINT32_MAX ? std::optional(static_cast<uint32_t>(*n)) : std::nullopt;
}

// The words of a list, without the blanks around them.
std::vector<std::string> words_between(std::string_view text, char separator) {
  std::vector<std::string> out;
  for (const std::string_view piece : pieces_of(text, separator))
    if (const std::string_view word = without_blanks(piece); !word.empty()) out.emplace_back(word);
  return out;
}

std::string available(const Devices& devices) {
  if (devices.empty()) return "no device was found";
  return "available: " +
         joined(devices, ", ", [](const DeviceInfo& d) { return fmt::format("{} ({})", d.label(), d.name); });
}

// "MIG-GPU-<UUID>/<GPU instance>/<compute instance>", as drivers before 470 named instances and CUDA still takes them.
bool has_old_name(const Devices& devices, const DeviceInfo& d, std::string_view word) {
  const std::vector<std::string> parts = words_between(word, '/');
  if (!d.parent || !d.gpu_instance || parts.size() != 3 || !lower_case(parts[0]).starts_with("mig-gpu-")) return false;
  return lower_case(parts[0]).substr(4) == lower_case(devices[*d.parent].uuid) &&
         index_number(parts[1]) == d.gpu_instance && index_number(parts[2]) == d.compute_instance.value_or(0);
}

bool has_uuid(const Devices& devices, const DeviceInfo& d, std::string_view word) {
  return (!d.uuid.empty() && lower_case(d.uuid).starts_with(lower_case(word))) || has_old_name(devices, d, word);
}

Result<std::vector<uint32_t>> by_uuid(const Devices& devices, const std::string& word) {
  std::vector<uint32_t> found;
  for (uint32_t i = 0; i < devices.size(); ++i)
    if (has_uuid(devices, devices[i], word)) found.push_back(i);
  if (found.size() > 1) return Error{"\"" + word + "\" matches the UUIDs of several devices", available(devices)};
  if (found.empty()) return Error{"no device has the UUID \"" + word + "\"", available(devices)};
  return found;
}

// The devices of `left` that a variable such as CUDA_VISIBLE_DEVICES leaves; numbers count whole devices. As in the
// vendors' runtimes, the first entry that names no device ends the list.
std::vector<uint32_t> visible(const Devices& devices, const std::vector<uint32_t>& left, const char* value) {
  std::vector<uint32_t> whole, out;
  for (const uint32_t i : left)
    if (!devices[i].parent) whole.push_back(i);
  for (const std::string& word : words_between(value, ',')) {
    std::optional<uint32_t> hit;
    if (auto n = index_number(word)) {
      if (*n < whole.size()) hit = whole[*n];
    } else {
      const auto it = std::ranges::find_if(left, [&](uint32_t i) { return has_uuid(devices, devices[i], word); });
      if (it != left.end()) hit = *it;
    }
    if (!hit) break;
    if (std::find(out.begin(), out.end(), *hit) == out.end()) out.push_back(*hit);
  }
  return out;
}

// Of a mask such as "0.1,1": the cards of these tiles. Where each tile is a device of its own (the default), more
// numbers may be in use than there are cards: which card they are on is not known, so that all are left.
std::vector<uint32_t> with_tiles(const Devices& devices, const std::vector<uint32_t>& left, const char* value) {
  std::string cards;
  for (const std::string& word : words_between(value, ',')) {
    const auto card = index_number(std::string_view(word).substr(0, word.find('.')));
    if (card && *card >= left.size()) return left;
    append_listed(cards, word.substr(0, word.find('.')), ",");
  }
  return visible(devices, left, cards.c_str());
}

/// What a vendor's runtimes leave: of each stage, the first variable that is set, among what the stage before left.
struct SelectionStage {
  std::string_view vendor;
  std::vector<const char*> variables;
  std::vector<uint32_t> (*leave)(const Devices&, const std::vector<uint32_t>&, const char*) = visible;
};
const std::vector<SelectionStage>& selection_stages() {
  static const std::vector<SelectionStage> kStages = {
      {"NVIDIA", {"CUDA_VISIBLE_DEVICES"}},
      {"AMD", {"ROCR_VISIBLE_DEVICES"}},
      {"AMD", {"HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"}},
      {"Intel", {"ZE_AFFINITY_MASK"}, with_tiles},
  };
  return kStages;
}

Selection of_environment(const Devices& devices) {
  Selection out;
  std::vector<std::string_view> vendors;
  for (const DeviceInfo& d : devices)
    if (std::find(vendors.begin(), vendors.end(), d.vendor) == vendors.end()) vendors.push_back(d.vendor);
  for (std::string_view vendor : vendors) {
    std::vector<uint32_t> left;
    for (uint32_t i = 0; i < devices.size(); ++i)
      if (devices[i].vendor == vendor) left.push_back(i);
    for (const SelectionStage& stage : selection_stages()) {
      const auto set = std::ranges::find_if(stage.variables, [](const char* name) { return std::getenv(name); });
      if (stage.vendor != vendor || set == stage.variables.end()) continue;
      left = stage.leave(devices, left, std::getenv(*set));
      const std::string said = fmt::format("{}={}", *set, std::getenv(*set));
      if (!contains(out.note, said)) append_listed(out.note, said);
    }
    out.devices.insert(out.devices.end(), left.begin(), left.end());
  }
  return out;
}

// The positions that one word names.
Result<std::vector<uint32_t>> positions(const Devices& devices, const std::string& word) {
  std::vector<uint32_t> found;
  if (lower_case(word) == "all") {
    for (uint32_t i = 0; i < devices.size(); ++i) found.push_back(i);
    return found;
  }
  if (lower_case(word).starts_with("cuda:")) {
    Selection left = of_environment(devices);
    // A program sees one vendor's.
    std::erase_if(left.devices, [&, vendor = left.devices.empty() ? "" : devices[left.devices[0]].vendor](uint32_t i) {
      return devices[i].vendor != vendor;
    });
    const auto n = index_number(std::string_view(word).substr(5));
    if (n && *n < left.devices.size()) return std::vector<uint32_t>{left.devices[*n]};
    return Error{"no device \"" + word + "\"",
                 left.note.empty() ? available(devices) : fmt::format("{} leaves {}", left.note, left.devices.size())};
  }
  if (word.find('-') != std::string::npos && !word.starts_with("-")) return by_uuid(devices, word);
  const auto address = pci_address(word);
  for (uint32_t i = 0; i < devices.size(); ++i) {
    const DeviceInfo& d = devices[i];
    if (d.label() == word || (address && !d.parent && pci_address(d.pci_bus_id) == address)) found.push_back(i);
  }
  // Devices of two vendors may both be 0: the first is meant, as in the list that `devices` prints.
  if (found.size() > 1) found.resize(1);
  if (found.empty()) return Error{"no device \"" + word + "\"", available(devices)};
  return found;
}

}  // namespace

Result<Selection> select_devices(const Devices& devices, const std::vector<std::string>& words) {
  if (words.empty()) return of_environment(devices);
  Selection out;
  for (const std::string& word : words_between(joined(words), ',')) {
    const auto found = positions(devices, word);
    if (!found) return found.error();
    for (uint32_t i : *found)
      if (std::find(out.devices.begin(), out.devices.end(), i) == out.devices.end()) out.devices.push_back(i);
  }
  if (out.devices.empty()) return Error{"--device names no device", available(devices)};
  return out;
}

std::string common_driver(const std::vector<DeviceInfo>& devices, const std::vector<uint32_t>& chosen) {
  std::string version;
  for (const uint32_t d : chosen) {
    if (d != chosen.front() && devices[d].driver_version != version) return "";
    version = devices[d].driver_version;
  }
  return version;
}

}  // namespace profgpu
