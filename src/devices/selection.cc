#include "devices/selection.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <optional>
#include <string_view>

#include "base/text.h"

namespace profgpu {
namespace {

using Devices = std::vector<DeviceInfo>;

std::optional<uint32_t> number(std::string_view text, int base = 10) {
  uint32_t n = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n, base);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return n;
}

std::vector<std::string> split(std::string_view text, char by) {
  std::vector<std::string> out;
  while (!text.empty()) {
    const size_t comma = std::min(text.find(by), text.size());
    std::string_view word = text.substr(0, comma);
    while (!word.empty() && word.front() == ' ') word.remove_prefix(1);
    while (!word.empty() && word.back() == ' ') word.remove_suffix(1);
    if (!word.empty()) out.emplace_back(word);
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return out;
}

// "domain:bus:device.function" as four numbers; the domain and the function may be left out.
std::optional<std::vector<uint32_t>> pci_address(std::string_view text) {
  std::vector<std::string> parts = split(text, ':');
  if (parts.size() == 2) parts.insert(parts.begin(), "0");
  if (parts.size() != 3) return std::nullopt;
  const size_t dot = parts[2].find('.');
  std::string function = dot == std::string::npos ? "0" : parts[2].substr(dot + 1);
  parts[2] = parts[2].substr(0, dot);
  parts.push_back(std::move(function));
  std::vector<uint32_t> out;
  for (const std::string& p : parts) {
    auto n = number(p, 16);
    if (!n) return std::nullopt;
    out.push_back(*n);
  }
  return out;
}

std::string list_of(const Devices& devices) {
  std::string out;
  for (const DeviceInfo& d : devices) out += fmt::format("{}{} ({})", out.empty() ? "" : ", ", d.label(), d.name);
  return out.empty() ? "there is no device" : "there are: " + out;
}

// "MIG-GPU-<UUID>/<GPU instance>/<compute instance>", as drivers before 470 named instances and CUDA still takes them.
bool has_old_name(const Devices& devices, const DeviceInfo& d, std::string_view word) {
  const std::vector<std::string> parts = split(word, '/');
  if (!d.parent || !d.gpu_instance || parts.size() != 3 || !lower_case(parts[0]).starts_with("mig-gpu-")) return false;
  return lower_case(parts[0]).substr(4) == lower_case(devices[*d.parent].uuid) && number(parts[1]) == d.gpu_instance &&
         number(parts[2]) == d.compute_instance.value_or(0);
}

bool has_uuid(const Devices& devices, const DeviceInfo& d, std::string_view word) {
  return (!d.uuid.empty() && lower_case(d.uuid).starts_with(lower_case(word))) || has_old_name(devices, d, word);
}

Result<std::vector<uint32_t>> by_uuid(const Devices& devices, const std::string& word) {
  std::vector<uint32_t> found;
  for (uint32_t i = 0; i < devices.size(); ++i)
    if (has_uuid(devices, devices[i], word)) found.push_back(i);
  if (found.size() > 1) return Error{"\"" + word + "\" is the beginning of several devices' UUIDs", list_of(devices)};
  if (found.empty()) return Error{"no device has the UUID \"" + word + "\"", list_of(devices)};
  return found;
}

// Positions that one word names, without cuda:N.
Result<std::vector<uint32_t>> positions(const Devices& devices, const std::string& word) {
  std::vector<uint32_t> found;
  if (lower_case(word) == "all") {
    for (uint32_t i = 0; i < devices.size(); ++i) found.push_back(i);
    return found;
  }
  if (word.find('-') != std::string::npos && !word.starts_with("-")) return by_uuid(devices, word);
  const auto address = pci_address(word);
  for (uint32_t i = 0; i < devices.size(); ++i) {
    const DeviceInfo& d = devices[i];
    if (d.label() == word || (address && !d.parent && pci_address(d.pci_bus_id) == address)) found.push_back(i);
  }
  // Two vendors may both have a device 0: the first is meant, as in the list that `devices` prints.
  if (found.size() > 1) found.resize(1);
  if (found.empty()) return Error{"there is no device \"" + word + "\"", list_of(devices)};
  return found;
}

// What a variable such as CUDA_VISIBLE_DEVICES leaves of one vendor's devices. Like the vendors' runtimes: what stands
// behind the first entry that names no device does not count.
std::vector<uint32_t> visible(const Devices& devices, const std::vector<uint32_t>& of_vendor, const char* value) {
  std::vector<uint32_t> out;
  for (const std::string& word : split(value, ',')) {
    std::optional<uint32_t> hit;
    if (auto n = number(word)) {
      if (*n < of_vendor.size()) hit = of_vendor[*n];
    } else {
      for (uint32_t i = 0; i < devices.size() && !hit; ++i)
        if (has_uuid(devices, devices[i], word)) hit = i;
    }
    if (!hit) break;
    if (std::find(out.begin(), out.end(), *hit) == out.end()) out.push_back(*hit);
  }
  return out;
}

struct SelectionVariable {
  std::string_view vendor;
  const char* name;
};
constexpr SelectionVariable kSelectionVariables[] = {{"NVIDIA", "CUDA_VISIBLE_DEVICES"},
                                   {"AMD", "HIP_VISIBLE_DEVICES"},
                                   {"AMD", "ROCR_VISIBLE_DEVICES"},
                                   {"Intel", "ZE_AFFINITY_MASK"}};

Selection of_environment(const Devices& devices) {
  Selection out;
  std::vector<std::string_view> vendors;
  for (const DeviceInfo& d : devices)
    if (std::find(vendors.begin(), vendors.end(), d.vendor) == vendors.end()) vendors.push_back(d.vendor);
  for (std::string_view vendor : vendors) {
    std::vector<uint32_t> all, whole;   // the runtimes' indices count whole devices only
    for (uint32_t i = 0; i < devices.size(); ++i)
      if (devices[i].vendor == vendor) {
        all.push_back(i);
        if (!devices[i].parent) whole.push_back(i);
      }
    for (const SelectionVariable& v : kSelectionVariables) {
      const char* value = v.vendor == vendor ? std::getenv(v.name) : nullptr;
      if (!value) continue;
      all = visible(devices, whole, value);
      out.note += fmt::format("{}{}={}", out.note.empty() ? "" : ", ", v.name, value);
      break;
    }
    out.devices.insert(out.devices.end(), all.begin(), all.end());
  }
  return out;
}

}  // namespace

Result<Selection> select_devices(const Devices& devices, const std::vector<std::string>& words) {
  if (words.empty()) return of_environment(devices);
  Selection out;
  for (const std::string& given : words)
    for (const std::string& word : split(given, ',')) {
      std::vector<uint32_t> found;
      if (lower_case(word).starts_with("cuda:")) {
        const Selection left = of_environment(devices);
        const auto n = number(std::string_view(word).substr(5));
        if (!n || *n >= left.devices.size())
          return Error{
              "there is no device \"" + word + "\"",
              left.note.empty() ? list_of(devices) : left.note + " leaves " + std::to_string(left.devices.size())};
        found.push_back(left.devices[*n]);
      } else {
        auto some = positions(devices, word);
        if (!some) return some.error();
        found = *some;
      }
      for (uint32_t i : found)
        if (std::find(out.devices.begin(), out.devices.end(), i) == out.devices.end()) out.devices.push_back(i);
    }
  if (out.devices.empty()) return Error{"--device names no device", list_of(devices)};
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
