#include "devices/drm_card.h"

#include <fcntl.h>
#include <unistd.h>

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "base/text.h"
#include "devices/system_files.h"

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

namespace {

// Beyond every errno.
constexpr int kNotReadYet = 10001, kNoNumber = 10002, kOutOfRange = 10003;
constexpr int64_t kSlowGap_ns = 50'000'000;
constexpr size_t kEachTick = 2;

/// The number at the start of `text`, which a blank or a word follows.
std::optional<double> leading_number(std::string_view text) {
  text = without_blanks(text);
  double value = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || !std::isfinite(value)) return std::nullopt;
  return value;
}

std::optional<double> whole_text(std::string_view text) {
  text = without_blanks(text);
  double value = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || rest != text.data() + text.size() || !std::isfinite(value)) return std::nullopt;
  return value;
}

/// "1: 1200Mhz *": lines of level and clock; `current`: the one with the star, else the highest.
std::optional<double> clock_level(std::string_view text, bool current) {
  std::optional<double> found;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const size_t colon = line.find(':'), unit = line.find("Mhz");
    if (colon == line.npos || unit == line.npos || unit < colon) continue;
    const auto mhz = whole_text(line.substr(colon + 1, unit - colon - 1));
    if (!mhz) return std::nullopt;
    if (!current) found = std::max(found.value_or(0), *mhz);
    else if (line.find('*') != line.npos) found = mhz;
  }
  return found;
}

/// Transfers per second of a PCIe generation, in GT/s.
std::optional<double> link_generation(std::string_view text) {
  constexpr double kSpeeds[] = {2.5, 5, 8, 16, 32, 64};
  const auto speed = leading_number(text);
  for (size_t i = 0; speed && text.find("GT/s") != text.npos && i < std::size(kSpeeds); ++i)
    if (*speed == kSpeeds[i]) return static_cast<double>(i + 1);
  return std::nullopt;
}

}  // namespace

std::optional<double> number_in_file(std::string_view text, FileForm form) {
  switch (form) {
    case FileForm::kNumber: return whole_text(text);
    case FileForm::kCurrentClock: return clock_level(text, true);
    case FileForm::kHighestClock: return clock_level(text, false);
    case FileForm::kLinkGeneration: return link_generation(text);
    case FileForm::kUncorrected: return whole_text(line_value(text, "ue"));
    case FileForm::kCorrected: return whole_text(line_value(text, "ce"));
  }
  return std::nullopt;
}

DrmFile::DrmFile(Metric metric, const std::string& path, double scale, FileForm form)
    : metric_(metric), form_(form), scale_(scale), name_(path.substr(path.rfind('/') + 1)), problem_(kNotReadYet) {
  fd_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd_ < 0) problem_ = errno;
}

DrmFile::~DrmFile() {
  if (fd_ >= 0) ::close(fd_);
}

std::optional<double> DrmFile::read() {
  if (fd_ < 0) return std::nullopt;
  char text[4096];  // sysfs never gives more
  const ssize_t n = ::pread(fd_, text, sizeof text, 0);
  std::optional<double> value;
  if (n >= 0) value = number_in_file({text, static_cast<size_t>(n)}, form_);
  int problem = n < 0 ? errno : value ? 0 : kNoNumber;
  if (value) {
    *value *= scale_;
    const std::string_view unit = metric_info(metric_).unit;
    if ((*value < 0 && unit != "°C") || (unit == "%" && *value > 100)) problem = kOutOfRange;
  }
  problem_.store(problem, std::memory_order_relaxed);
  return problem == 0 ? value : std::nullopt;
}

std::string DrmFile::why_absent() const {
  const int problem = problem_.load(std::memory_order_relaxed);
  if (problem == 0) return "";
  if (problem == kNotReadYet) return "not read yet";
  if (problem == kNoNumber) return fmt::format("{} does not hold a number", name_);
  if (problem == kOutOfRange) return fmt::format("{} holds a number that cannot be", name_);
  if (problem == ENOENT) return fmt::format("the kernel's driver has no {} for this device", name_);
  if (problem == EACCES || problem == EPERM) return fmt::format("no permission to read {}", name_);
  return fmt::format("{}: {}", name_, std::strerror(problem));
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
  // Files that are not there cost nothing and take no turn.
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
