#include "collect/drm_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>

#include "collect/system_files.h"

namespace profgpu {
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
