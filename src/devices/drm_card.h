// Graphics cards as sysfs lists them.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "devices/backend.h"
#include "trace/sample.h"

namespace profgpu {

// One number in a file of sysfs, kept open: a reading is one pread, without allocation.

/// How a file says its number.
enum class FileForm : uint8_t {
  kNumber,          ///< "1234"
  kCurrentClock,    ///< pp_dpm_*: the line with a star, "1: 1200Mhz *"
  kHighestClock,    ///< pp_dpm_*: the last line
  kLinkGeneration,  ///< "16.0 GT/s PCIe"
  kUncorrected,     ///< ras/*_err_count: "ue: 0"
  kCorrected,       ///< ras/*_err_count: "ce: 0"
};

/// nullopt: it does not hold such a number.
std::optional<double> number_in_file(std::string_view text, FileForm form);

class DrmFile {
 public:
  DrmFile(Metric metric, const std::string& path, double scale, FileForm form);
  ~DrmFile();
  DrmFile(const DrmFile&) = delete;
  DrmFile& operator=(const DrmFile&) = delete;

  /// Times scale; absent if the file is not there, cannot be read or holds what the metric cannot be.
  std::optional<double> read();
  [[nodiscard]] Metric metric() const { return metric_; }
  [[nodiscard]] bool there() const { return fd_ >= 0; }
  /// Empty after a reading that gave a number.
  [[nodiscard]] std::string why_absent() const;

 private:
  Metric metric_;
  FileForm form_;
  double scale_;
  std::string name_;            ///< without its folder
  int fd_ = -1;
  std::atomic<int> problem_;    ///< 0: none; else an errno, or one of the two below
};

/// The files of one card: three a tick at most. Two fast ones are read at every tick; more fast ones take turns with
/// the slow, of which one is read at a time and at most 20 a second.
class DrmFiles {
 public:
  enum Pace { kFast, kSlow };
  /// Takes the first of `paths` that is there; the first of all if none is.
  void add(Pace pace, Metric metric, const std::vector<std::string>& paths, double scale = 1,
           FileForm form = FileForm::kNumber);
  void read(const ReadRequest& request, Reading& reading);
  /// nullopt: no file says this metric.
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

/// What a file says once; for limits.
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

/// In order of their PCI address, which is how the vendors' tools count. Partitions of a card are none of their own.
std::vector<DrmCard> drm_cards(const std::string& sys, std::string_view vendor_id,
                               const std::vector<std::string_view>& drivers);

/// What every card has: address, NUMA node, PCIe limits. `index` is its position.
DeviceInfo drm_device_info(const DrmCard& card, uint32_t index, std::string_view vendor);

/// The product's name from the list of PCI ids that most systems have; empty if it is not there.
std::string pci_product_name(std::string_view vendor_id, std::string_view device_id);

/// N of hwmon's tempN_label that says `label`; 0: none.
int hwmon_temperature(const std::string& hwmon, std::string_view label);

/// Where a library is that could be opened; empty: not in the usual folders.
std::string find_library(std::string_view name);

/// What is the same for all vendors.
std::vector<Fact> drm_facts(const DrmCard& card);
/// The number in a file, whole, or that it cannot be read.
Fact drm_number_fact(std::string id, const std::string& path, double scale = 1, FileForm form = FileForm::kNumber);

}  // namespace profgpu
