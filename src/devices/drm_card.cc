#include "devices/drm_card.h"

#include <fcntl.h>
#include <unistd.h>

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>

#include "base/decimal.h"
#include "base/text.h"
#include "devices/pci_address.h"

namespace profgpu {
namespace {

/// "card12", not "card0-DP-1" (a connector) nor "renderD128".
bool is_card(std::string_view name) {
  return name.size() < 10 && name.starts_with("card") && all_digits(name.substr(4));
}

/// The device's own: i915 also has one for each GT ("i915_gt0").
std::string find_hwmon(const std::string& folder, const std::string& driver) {
  for (const std::string& name : folder_names(folder + "/hwmon"))
    if (file_line(folder + "/hwmon/" + name + "/name") == driver) return folder + "/hwmon/" + name;
  return "";
}

std::string without_0x(std::string text) { return text.starts_with("0x") ? text.substr(2) : text; }

/// The product's name from the list of PCI ids that most systems have; empty if it is not there.
std::string pci_product_name(std::string_view vendor_id, std::string_view device_id) {
  std::string text;
  for (const char* path : {"/usr/share/misc/pci.ids", "/usr/share/hwdata/pci.ids"})
    if (text.empty()) text = file_text(path, 4 << 20).value_or("");
  const size_t vendor = text.find(fmt::format("\n{}  ", vendor_id));
  if (vendor == text.npos || device_id.size() != 4) return "";
  // The vendor's devices follow it, each after one tab, up to the next vendor.
  size_t next = vendor;
  do next = text.find('\n', next + 1);
  while (next != text.npos && (text[next + 1] == '\t' || text[next + 1] == '#'));
  const size_t device = text.find(fmt::format("\n\t{}  ", device_id), vendor);
  if (device >= next) return "";
  std::string name = text.substr(device + 8, text.find('\n', device + 1) - device - 8);
  replace_invalid_utf8(name);
  return name;
}

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
    card.driver = line_value(uevent, "DRIVER", '=');
    card.pci = line_value(uevent, "PCI_SLOT_NAME", '=');
    if (card.vendor_id != vendor_id || std::find(drivers.begin(), drivers.end(), card.driver) == drivers.end())
      continue;
    card.device_id = without_0x(file_line(card.folder + "/device"));
    card.hwmon = find_hwmon(card.folder, card.driver);
    cards.push_back(std::move(card));
  }
  // With four digits of domain and fixed widths, the order of the texts is that of the addresses.
  std::sort(cards.begin(), cards.end(), [](const DrmCard& a, const DrmCard& b) { return a.pci < b.pci; });
  return cards;
}

DeviceInfo drm_device_info(const DrmCard& card, uint32_t index, std::string_view vendor) {
  DeviceInfo info;
  info.index = index;
  info.vendor = vendor;
  info.name = pci_product_name(card.vendor_id, card.device_id);
  if (info.name.empty()) info.name = fmt::format("{} GPU 0x{}", vendor, card.device_id);
  if (const auto address = pci_address(card.pci)) info.pci_bus_id = address->bus_id();
  if (const auto node = number_once(card.folder + "/numa_node"); node && *node >= 0)
    info.numa_node = static_cast<int32_t>(*node);
  return info;
}

int hwmon_temperature(const std::string& hwmon, std::string_view label) {
  for (int i = 1; i <= 8 && !hwmon.empty(); ++i)
    if (file_line(fmt::format("{}/temp{}_label", hwmon, i)) == label) return i;
  return 0;
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

namespace {

constexpr int kNotReadYet = -1;
constexpr int64_t kSlowGap_ns = 50'000'000;
constexpr size_t kEachTick = 2;

/// "1: 1200Mhz *": lines of level and clock; `current`: the one with the star, else the highest.
std::optional<double> clock_level(std::string_view text, bool current) {
  std::optional<double> found;
  for (const std::string_view line : pieces_of(text, '\n')) {
    const size_t colon = line.find(':'), unit = line.find("Mhz");
    if (colon == line.npos || unit == line.npos || unit < colon) continue;
    const auto mhz = real_number(without_blanks(line.substr(colon + 1, unit - colon - 1)));
    if (!mhz) return std::nullopt;
    if (!current) found = std::max(found.value_or(0), *mhz);
    else if (line.find('*') != line.npos) found = mhz;
  }
  return found;
}

}  // namespace

std::optional<double> link_generation(double speed) {
  constexpr double kSpeeds[] = {2.5, 5, 8, 16, 32, 64};
  for (size_t i = 0; i < std::size(kSpeeds); ++i)
    if (speed == kSpeeds[i]) return static_cast<double>(i + 1);
  return std::nullopt;
}

std::optional<double> number_in_file(std::string_view text, FileForm form) {
  switch (form) {
    case FileForm::kNumber: return real_number(without_blanks(text));
    case FileForm::kCurrentClock: return clock_level(text, true);
    case FileForm::kHighestClock: return clock_level(text, false);
    case FileForm::kUncorrected: return real_number(line_value(text, "ue"));
    case FileForm::kCorrected: return real_number(line_value(text, "ce"));
    case FileForm::kLinkGeneration: break;
  }
  const auto speed = leading_number(text);
  return speed && speed->rest.starts_with(" GT/s") ? link_generation(speed->value) : std::nullopt;
}

SysfsFile::SysfsFile(const std::string& path)
    : name_(path.substr(path.rfind('/') + 1)),
      fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)),
      error_(fd_ < 0 ? errno : kNotReadYet) {}

SysfsFile::~SysfsFile() {
  if (fd_ >= 0) ::close(fd_);
}

std::optional<std::string_view> SysfsFile::read(std::span<char> buffer) {
  if (fd_ < 0) return std::nullopt;
  const ssize_t n = ::pread(fd_, buffer.data(), buffer.size(), 0);
  error_.store(n < 0 ? errno : 0, std::memory_order_relaxed);
  return n < 0 ? std::nullopt : std::optional(std::string_view(buffer.data(), static_cast<size_t>(n)));
}

std::string SysfsFile::why_absent() const {
  const char* problem = problem_.load(std::memory_order_relaxed);
  switch (const int error = error_.load(std::memory_order_relaxed)) {
    case 0: return problem ? fmt::format("{} {}", name_, problem) : "";
    case kNotReadYet: return "not read yet";
    case ENOENT: return fmt::format("the kernel's driver has no {} for this device", name_);
    case EACCES: case EPERM: return fmt::format("no permission to read {}", name_);
    default: return fmt::format("{}: {}", name_, std::strerror(error));
  }
}

std::optional<double> DrmFile::read() {
  char buffer[4096];  // sysfs files are never longer
  const auto text = file_.read(buffer);
  if (!text) return std::nullopt;
  auto value = number_in_file(*text, form_);
  if (value) *value *= scale_;
  const std::string_view unit = metric_info(metric_).unit;
  const bool possible = value && (*value >= 0 || unit == "°C") && (*value <= 100 || unit != "%");
  file_.settle(possible ? nullptr : value ? "has an impossible value" : "does not contain a number");
  return possible ? value : std::nullopt;
}

void DrmFiles::add(Pace pace, Metric metric, const std::vector<std::string>& paths, double scale, FileForm form) {
  auto& files = pace == kFast ? fast_ : slow_;
  const auto there =
      std::find_if(paths.begin(), paths.end(), [](const auto& p) { return ::access(p.c_str(), F_OK) == 0; });
  files.emplace_back(metric, there == paths.end() ? paths.front() : *there, scale, form);
}

void DrmFiles::read_one(DrmFile& file, Reading& reading) {
  if (!file.there()) return;
  calls_.fetch_add(1, std::memory_order_relaxed);
  if (const auto value = file.read()) reading.add(file.metric(), *value);
}

void DrmFiles::read(const ReadRequest& request, Reading& reading) {
  if (request.everything) {
    for (auto* files : {&fast_, &slow_})
      for (DrmFile& f : *files) read_one(f, reading);
    return;
  }
  for (size_t i = 0; i < std::min(fast_.size(), kEachTick); ++i) read_one(fast_[i], reading);
  const size_t more = fast_.size() - std::min(fast_.size(), kEachTick);
  const size_t turn = turn_++ % (more + 1);
  if (turn < more) read_one(fast_[kEachTick + turn], reading);
  else read_slow(request.now_ns, reading);
}

void DrmFiles::read_slow(int64_t now_ns, Reading& reading) {
  if (slow_.empty() || now_ns - last_slow_ns_ < kSlowGap_ns) return;
  last_slow_ns_ = now_ns;
  // Missing files cost nothing and take no turn.
  for (size_t tried = 0; tried < slow_.size(); ++tried) {
    DrmFile& file = slow_[next_slow_++ % slow_.size()];
    if (file.there()) return read_one(file, reading);
  }
}

std::optional<std::string> DrmFiles::why_absent(Metric metric) const {
  for (const auto* files : {&fast_, &slow_})
    for (const DrmFile& f : *files)
      if (f.metric() == metric) return f.why_absent();
  return std::nullopt;
}

std::optional<double> number_once(const std::string& path, double scale, FileForm form) {
  const auto text = file_text(path, 4096);
  auto value = text ? number_in_file(*text, form) : std::nullopt;
  if (value) *value *= scale;
  return value;
}

}  // namespace profgpu
