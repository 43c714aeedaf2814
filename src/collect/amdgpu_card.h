// One AMD card: which of its files say what.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "collect/amdgpu_metrics.h"
#include "collect/backend.h"
#include "collect/drm_card.h"
#include "collect/drm_file.h"

namespace profgpu {

class AmdgpuCard {
 public:
  AmdgpuCard(DrmCard card, uint32_t index);

  [[nodiscard]] const DeviceInfo& info() const { return info_; }
  [[nodiscard]] const DrmCard& card() const { return card_; }
  Status read(const ReadRequest& request, Reading& reading);
  [[nodiscard]] std::string why_absent(Metric metric) const;
  [[nodiscard]] int64_t calls() const { return files_.calls() + table_reads_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::vector<Fact> facts() const;

 private:
  void add_constants();
  void add_files();
  void add_file(DrmFiles::Pace pace, Metric metric, const std::vector<std::string>& paths, double scale = 1,
                FileForm form = FileForm::kNumber);

  const DrmCard card_;
  const std::string vendor_file_;
  DeviceInfo info_;
  AmdgpuMetrics table_;
  std::set<Metric> in_table_;            ///< what the table said when the card was opened
  bool table_each_tick_ = false;         ///< it holds what changes fast; else it takes its turn among the slow
  int64_t table_read_ns_ = 0;
  std::atomic<int64_t> table_reads_ = 0;
  DrmFiles files_;
  int core_sensor_ = 0;                  ///< N of tempN_*
};

}  // namespace profgpu
