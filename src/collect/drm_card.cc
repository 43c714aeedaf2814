#include "collect/drm_card.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "base/utf8.h"
#include "collect/drm_file.h"
#include "collect/system_files.h"

namespace profgpu {
namespace {

/// The value of "KEY=value" in a uevent file.
std::string uevent_value(std::string_view text, std::string_view key) {
  for (const std::string_view line : pieces_of(text, '\n'))
    if (line.size() > key.size() && line.starts_with(key) && line[key.size()] == '=')
      return std::string(without_blanks(line.substr(key.size() + 1)));
  return "";
}

/// "card12", not "card0-DP-1" (a connector) nor "renderD128".
bool is_card(std::string_view name) {
  return name.size() > 4 && name.size() < 10 && name.starts_with("card") &&
         name.find_first_not_of("0123456789", 4) == name.npos;
}

/// i915 has one for each GT beside the device's own ("i915_gt0"): only the device's counts.
std::string find_hwmon(const std::string& folder, const std::string& driver) {
  for (const std::string& name : folder_names(folder + "/hwmon"))
    if (file_line(folder + "/hwmon/" + name + "/name") == driver) return folder + "/hwmon/" + name;
  return "";
}

std::string without_0x(std::string text) { return text.starts_with("0x") ? text.substr(2) : text; }

}  // namespace

std::vector<DrmCard> drm_cards(const std::string& sys, std::string_view vendor_id,
                               const std::vector<std::string_view>& drivers) {
  std::vector<DrmCard> cards;
  for (const std::string& name : folder_names(sys + "/class/drm")) {
    if (!is_card(name)) continue;
    DrmCard card;
    card.name = name;
    card.folder = sys + "/class/drm/" + name + "/device";
    card.vendor_id = without_0x(file_line(card.folder + "/vendor"));
    const std::string uevent = file_text(card.folder + "/uevent", 4096).value_or("");
    card.driver = uevent_value(uevent, "DRIVER");
    card.pci = uevent_value(uevent, "PCI_SLOT_NAME");
    if (card.vendor_id != vendor_id || std::find(drivers.begin(), drivers.end(), card.driver) == drivers.end())
      continue;
    card.device_id = without_0x(file_line(card.folder + "/device"));
    card.hwmon = find_hwmon(card.folder, card.driver);
    cards.push_back(std::move(card));
  }
  // Four digits of domain and fixed widths: the text's order is the address's.
  std::sort(cards.begin(), cards.end(), [](const DrmCard& a, const DrmCard& b) { return a.pci < b.pci; });
  return cards;
}

DeviceInfo drm_device_info(const DrmCard& card, uint32_t index, std::string_view vendor) {
  DeviceInfo info;
  info.index = index;
  info.vendor = vendor;
  info.name = pci_product_name(card.vendor_id, card.device_id);
  if (info.name.empty()) info.name = fmt::format("{} GPU 0x{}", vendor, card.device_id);
  if (!card.pci.empty()) info.pci_bus_id = card.pci.find(':') == 4 ? "0000" + card.pci : card.pci;
  if (const auto node = number_once(card.folder + "/numa_node"); node && *node >= 0)
    info.numa_node = static_cast<int32_t>(*node);
  return info;
}

std::string pci_product_name(std::string_view vendor_id, std::string_view device_id) {
  std::string text;
  for (const char* path : {"/usr/share/misc/pci.ids", "/usr/share/hwdata/pci.ids"})
    if (text.empty()) text = file_text(path, 4 << 20).value_or("");
  const size_t vendor = text.find(fmt::format("\n{}  ", vendor_id));
  if (vendor == text.npos || device_id.size() != 4) return "";
  // A vendor's devices stand below it, after one tab each.
  const size_t device = text.find(fmt::format("\n\t{}  ", device_id), vendor);
  size_t next = vendor + 1;
  while ((next = text.find('\n', next)) != text.npos && next + 1 < text.size() &&
         (text[next + 1] == '\t' || text[next + 1] == '#'))
    ++next;
  if (device == text.npos || device > next) return "";
  std::string name = text.substr(device + 8, text.find('\n', device + 1) - device - 8);
  replace_invalid_utf8(name);
  return name;
}

int hwmon_temperature(const std::string& hwmon, std::string_view label) {
  for (int i = 1; i <= 8 && !hwmon.empty(); ++i)
    if (file_line(fmt::format("{}/temp{}_label", hwmon, i)) == label) return i;
  return 0;
}

std::string find_library(std::string_view name) {
  const char* path = std::getenv("LD_LIBRARY_PATH");
  std::vector<std::string_view> folders = pieces_of(path ? path : "", ':');
  for (const char* usual : {"/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib", "/usr/local/lib", "/opt/rocm/lib"})
    folders.emplace_back(usual);
  for (const std::string_view folder : folders) {
    const std::string file = fmt::format("{}/{}", folder, name);
    if (::access(file.c_str(), R_OK) == 0) return file;
  }
  return "";
}

std::vector<Fact> drm_facts(const DrmCard& card) {
  std::vector<Fact> facts = {{"kernel_driver", card.driver, ""}, {"card", card.name, ""}};
  const std::string state = file_line(card.folder + "/power/runtime_status");
  facts.push_back({"power_state", state, state.empty() ? "no readable power/runtime_status" : ""});
  return facts;
}

Fact drm_number_fact(std::string id, const std::string& path, double scale, FileForm form) {
  const auto number = number_once(path, scale, form);
  const std::string reason = "no readable " + path.substr(path.rfind('/') + 1);
  return {std::move(id), number ? fmt::format("{:.0f}", *number) : "", number ? "" : reason};
}

}  // namespace profgpu
