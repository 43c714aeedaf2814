// Graphics cards as sysfs lists them.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "devices/backend.h"
#include "trace/sample.h"

namespace profgpu {

/// A file of sysfs, kept open: a reading is one pread, without allocation.
class SysfsFile {
 public:
  explicit SysfsFile(const std::string& path);
  ~SysfsFile();
  SysfsFile(const SysfsFile&) = delete;
  SysfsFile& operator=(const SysfsFile&) = delete;

  /// Its text, in `buffer`; nullopt if it cannot be read. Call settle() then.
  std::optional<std::string_view> read(std::span<char> buffer);
  /// `problem`: what is wrong with the text, a literal that follows the file's name; null: nothing.
  void settle(const char* problem) { problem_.store(problem, std::memory_order_relaxed); }
  [[nodiscard]] bool there() const { return fd_ >= 0; }
  /// Empty after a good reading.
  [[nodiscard]] std::string why_absent() const;

 private:
  std::string name_;                             ///< without its folder
  int fd_ = -1;
  std::atomic<int> error_;                       ///< an errno; 0: none; -1: not read yet
  std::atomic<const char*> problem_ = nullptr;
};

/// How a file encodes its number.
enum class FileForm : uint8_t {
  kNumber,          ///< "1234"
  kCurrentClock,    ///< pp_dpm_*: the line with a star, "1: 1200Mhz *"
  kHighestClock,    ///< pp_dpm_*: the highest of all lines
  kLinkGeneration,  ///< "16.0 GT/s PCIe"
  kUncorrected,     ///< ras/*_err_count: "ue: 0"
  kCorrected,       ///< ras/*_err_count: "ce: 0"
};

/// nullopt: it does not contain such a number.
std::optional<double> number_in_file(std::string_view text, FileForm form);
/// The PCIe generation of a speed in GT/s.
std::optional<double> link_generation(double speed);

/// One number in a file of sysfs.
class DrmFile {
 public:
  DrmFile(Metric metric, const std::string& path, double scale, FileForm form)
      : metric_(metric), form_(form), scale_(scale), file_(path) {}

  /// Times scale; absent if the file is missing, unreadable or has a value that the metric cannot have.
  std::optional<double> read();
  [[nodiscard]] Metric metric() const { return metric_; }
  [[nodiscard]] bool there() const { return file_.there(); }
  [[nodiscard]] std::string why_absent() const { return file_.why_absent(); }

 private:
  Metric metric_;
  FileForm form_;
  double scale_;
  SysfsFile file_;
};

/// The files of one card: at most three a tick. Two fast ones are read at every tick; further fast ones take turns with
/// the slow ones, of which one is read at a time and at most 20 a second.
class DrmFiles {
 public:
  enum Pace { kFast, kSlow };
  /// Takes the first of `paths` that exists, else the first.
  void add(Pace pace, Metric metric, const std::vector<std::string>& paths, double scale = 1,
           FileForm form = FileForm::kNumber);
  void read(const ReadRequest& request, Reading& reading);
  /// nullopt: no file has this metric.
  [[nodiscard]] std::optional<std::string> why_absent(Metric metric) const;
  [[nodiscard]] int64_t calls() const { return calls_.load(std::memory_order_relaxed); }

 private:
  void read_one(DrmFile& file, Reading& reading);
  void read_slow(int64_t now_ns, Reading& reading);
  std::deque<DrmFile> fast_, slow_;
  size_t next_slow_ = 0, turn_ = 0;
  int64_t last_slow_ns_ = 0;
  std::atomic<int64_t> calls_ = 0;
};

/// A number read once, as for limits.
std::optional<double> number_once(const std::string& path, double scale = 1, FileForm form = FileForm::kNumber);

struct DrmCard {
  std::string name;       ///< "card0"
  std::string folder;     ///< ".../class/drm/card0/device"
  std::string pci;        ///< "0000:03:00.0", as the kernel writes it
  std::string driver;     ///< "amdgpu"
  std::string vendor_id;  ///< "1002"
  std::string device_id;  ///< "74a1"
  std::string hwmon;      ///< the folder with the device's sensors; empty: none
};

/// By PCI address, as the vendors' tools number them. Partitions of a card do not count.
std::vector<DrmCard> drm_cards(const std::string& sys, std::string_view vendor_id,
                               const std::vector<std::string_view>& drivers);

/// What every card has: name, address, NUMA node. `index` is its position.
DeviceInfo drm_device_info(const DrmCard& card, uint32_t index, std::string_view vendor);

/// The N of hwmon's tempN_label with that label; 0: none.
int hwmon_temperature(const std::string& hwmon, std::string_view label);

/// The same for all vendors.
std::vector<Fact> drm_facts(const DrmCard& card);
/// The number in a file as a whole number, or that it cannot be read.
Fact drm_number_fact(std::string id, const std::string& path, double scale = 1, FileForm form = FileForm::kNumber);

}  // namespace profgpu
