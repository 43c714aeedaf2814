// One number in a file of sysfs, kept open: a reading is one pread, without allocation.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>

#include "collect/backend.h"
#include "trace/sample.h"

namespace profgpu {

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

}  // namespace profgpu
